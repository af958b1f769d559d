#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --help, manual page, README, completions and the table of options say the same.

: "${BUILD_DIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)/build}"
: "${SOURCE_DIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
GPUFREE="${GPUFREE:-$BUILD_DIR/cli/gpufree}"

setup() {
        "$GPUFREE" --dump-options >"$BATS_TEST_TMPDIR/options"
        [ -s "$BATS_TEST_TMPDIR/options" ]
        page="$SOURCE_DIR/man/gpufree.1.scd"
}

# Every "--word" of standard input, each once.
options_in() {
        grep -oE -- '--[a-z][a-z-]+' | sort -u
}

known() {
        cut -f1 "$BATS_TEST_TMPDIR/options" | sort -u
}

@test "docs: --help names every option, and none that is not there" {
        diff <(known) <("$GPUFREE" --help | options_in)
}

@test "docs: help of a command names exactly its options" {
        for command in list kill check wait explain park unpark run help; do
                diff <(awk -F'\t' -v c="$command" '("," $4 ",") ~ ("," c ",") { print $1 }' "$BATS_TEST_TMPDIR/options" | sort -u) \
                        <("$GPUFREE" help "$command" | grep -E '^ {2}.{4}--' | cut -c1-28 | options_in)
        done
}

@test "docs: the manual page names every option, and none that is not there" {
        diff <(known) <(options_in <"$page")
}

@test "docs: the manual page has each option with its argument and letter" {
        while IFS=$'\t' read -r name letter argument _; do
                want="*$name*"
                [ "$letter" = - ] || want="*-$letter*, $want"
                [ "$argument" = - ] || want="$want _${argument}_"
                grep -qxF -- "$want" "$page" || { echo "no line \"$want\""; false; }
        done <"$BATS_TEST_TMPDIR/options"
}

@test "docs: README names no option that is not there" {
        comm -13 <(known) <(grep -E 'gpufree ' "$SOURCE_DIR/README.md" | grep -vE 'gpufree-sim|meson|docker' | options_in) >"$BATS_TEST_TMPDIR/extra"
        cat "$BATS_TEST_TMPDIR/extra"
        [ ! -s "$BATS_TEST_TMPDIR/extra" ]
}

@test "docs: exit statuses are the same in --help, manual page and README" {
        for code in 0 1 2 3 4 5 6; do
                "$GPUFREE" --help | grep -qE "^  $code  "
                grep -qxF "*$code*" "$page"
                grep -qE "^\| $code \|" "$SOURCE_DIR/README.md"
        done
        ! "$GPUFREE" --help | grep -qE '^  7  '
}

@test "docs: commands are the same in --help, manual page, completions" {
        for command in list kill check wait explain park unpark run help; do
                "$GPUFREE" --help | grep -qE "^  $command "
                grep -qE "^\*gpufree (\*\[\*)?$command|\[\*$command\*\]" "$page"
                grep -qw "$command" "$SOURCE_DIR"/completions/bash/gpufree
                grep -qw "$command" "$SOURCE_DIR"/completions/zsh/_gpufree
                grep -qw "$command" "$SOURCE_DIR"/completions/fish/gpufree.fish
        done
}

@test "docs: bash completion offers exactly the options of each command" {
        # shellcheck disable=SC1091
        source "$SOURCE_DIR/completions/bash/gpufree"
        for command in list kill check wait explain park unpark run help; do
                COMP_WORDS=(gpufree "$command" --)
                COMP_CWORD=2
                _gpufree
                diff <(awk -F'\t' -v c="$command" '("," $4 ",") ~ ("," c ",") { print $1 }' "$BATS_TEST_TMPDIR/options" | sort -u) \
                        <(printf '%s\n' "${COMPREPLY[@]}" | sort -u)
        done
}

@test "docs: zsh completion has every option and no other" {
        diff <(known) <(sed -n '/^  every=/,/^  case/p' "$SOURCE_DIR/completions/zsh/_gpufree" | options_in)
        command -v zsh >/dev/null || skip "no zsh to check the syntax with"
        zsh -n "$SOURCE_DIR/completions/zsh/_gpufree"
}

@test "docs: fish completion has every option and no other" {
        diff <(known) <(grep '^complete' "$SOURCE_DIR/completions/fish/gpufree.fish" | grep -oE -- ' -l [a-z-]+' | sed 's/ -l /--/' | sort -u)
        command -v fish >/dev/null || skip "no fish to check the syntax with"
        fish -n "$SOURCE_DIR/completions/fish/gpufree.fish"
}

@test "docs: every field of a document is in docs/json.md" {
        command -v python3 >/dev/null || skip "no python3"
        for line in "list" "check" "kill -n" "explain" "explain $$" "check --for reset"; do
                # shellcheck disable=SC2086
                "$GPUFREE" $line --json --dev-root "$BATS_TEST_TMPDIR" --scope namespace >"$BATS_TEST_TMPDIR/json" 2>/dev/null || true
                python3 - "$BATS_TEST_TMPDIR/json" "$SOURCE_DIR/docs/json.md" <<'PY'
import json, re, sys

text = open(sys.argv[2]).read()
known = set(re.findall(r'[a-z][a-z_]*', ' '.join(re.findall(r'`([^`]*)`', text))))

def fields(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)

missing = sorted(set(fields(json.load(open(sys.argv[1])))) - known)
assert not missing, missing
PY
        done
}

@test "docs: the program in README compiles, as C99 with the public header alone" {
        command -v cc >/dev/null || skip "no compiler"
        sed -n '/^```c$/,/^```$/p' "$SOURCE_DIR/README.md" | sed '/^```/d' >"$BATS_TEST_TMPDIR/who.c"
        [ -s "$BATS_TEST_TMPDIR/who.c" ]
        cc -std=c99 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I "$SOURCE_DIR/include" "$BATS_TEST_TMPDIR/who.c"
}

@test "docs: the manual pages are clean" {
        command -v scdoc >/dev/null && command -v mandoc >/dev/null || skip "no scdoc or mandoc"
        for name in gpufree gpufree-sim; do
                scdoc <"$SOURCE_DIR/man/$name.1.scd" >"$BATS_TEST_TMPDIR/$name.1"
                # scdoc's own habits: long lines, .PP before .SH, a lower-case title.
                mandoc -Tlint "$BATS_TEST_TMPDIR/$name.1" |
                        grep -vE 'longer than 80|skipping paragraph macro|lower case character in document title|unknown manual|outdated|missing date' >"$BATS_TEST_TMPDIR/lint" || true
                cat "$BATS_TEST_TMPDIR/lint"
                [ ! -s "$BATS_TEST_TMPDIR/lint" ]
        done
}

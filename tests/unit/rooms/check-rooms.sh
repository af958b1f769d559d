#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Holds the rooms to what they may do, by the symbols that their objects ask others for. A pure room (base, model,
# parse, select, the planning half of end) may use memory and text, never the system; and of gpufree itself only what
# pure rooms define.
#
# usage: check-rooms.sh NM BUILD-ROOT ROOM=ARCHIVE…      (NM may be several words)
set -u
nm=$1
build=$2
shift 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Of the C library: memory, text, sorting; and what the compiler puts in by itself.
is_plain()
{
        case $1 in
        malloc | calloc | realloc | reallocarray | free | qsort | bsearch | bcmp | abort) ;;
        mem* | str* | __mem*_chk | __str*_chk | __isoc23_strto* | __ctype_*_loc | __errno_location) ;;
        snprintf | vsnprintf | asprintf | vasprintf | __snprintf_chk | __vsnprintf_chk | __asprintf_chk | __vasprintf_chk) ;;
        sigabbrev_np) ;; # names of signals, a table
        sscanf | __isoc99_sscanf | __isoc23_sscanf) ;;
        __stack_chk_fail | __assert_fail | _GLOBAL_OFFSET_TABLE_ | __asan_* | __ubsan_* | __sanitizer_* | __tsan_* | __gcov_* | __sanitizer*) ;;
        gpufree_vendor_name | gpufree_outcome_name | gpufree_fate_name) ;; # tables of lib/names.c
        *) return 1 ;;
        esac
}

# What one room alone may use besides.
is_allowed_in()
{
        case $1:$2 in
        select/users.c:getpwnam_r | select/users.c:getuid) ;; # names of users, when a criterion is added
        select/*:regcomp | select/*:regexec | select/*:regerror | select/*:regfree) ;;
        *) return 1 ;;
        esac
}

defined() { $nm -g --defined-only "$1" 2>/dev/null | awk 'NF == 3 { print $3 }'; }

# "users.c getpwnam_r" for each symbol that an object does not have itself.
wanted()
{
        $nm -u "$1" 2>/dev/null | awk '
                /:$/ { sub(/:$/, ""); sub(/^.*\//, ""); sub(/\.o$/, ""); sub(/^.*_src_[a-z]+_/, ""); object = $0; next }
                NF == 2 && ($1 == "U" || $1 == "w") { sub(/@.*/, "", $2); print object, $2 }'
}

: >"$work/pure"
for pair; do
        defined "${pair#*=}" >>"$work/pure"
done

count=0
failed=0
echo "1..$(($# + 2))"
result() # ok|bad DESCRIPTION
{
        count=$((count + 1))
        if [ "$1" = ok ]; then
                echo "ok $count - $2"
        else
                echo "not ok $count - $2"
                failed=1
        fi
}

for pair; do
        room=${pair%%=*}
        archive=${pair#*=}
        if ! [ -s "$archive" ] || [ -z "$(wanted "$archive")" ]; then
                echo "# $archive: nothing to be read"
                result bad "room $room"
                continue
        fi
        wanted "$archive" | sort -u >"$work/wanted"
        verdict=ok
        while read -r object symbol; do
                is_plain "$symbol" && continue
                is_allowed_in "$room/$object" "$symbol" && continue
                grep -qxF -- "$symbol" "$work/pure" && continue
                echo "# $room/$object uses $symbol"
                verdict=bad
        done <"$work/wanted"
        result $verdict "room $room is pure"
done

# The check itself can fail: a room that opened a file would be found.
if is_plain open || is_plain read || is_plain time || is_plain kill || is_plain fopen || is_allowed_in select/select.c getuid; then
        result bad "system calls are told from text functions"
else
        result ok "system calls are told from text functions"
fi

# cli is a program like any other: of gpufree the public functions, and `base`.
set -- "$build"/cli/*.p/*.o
if [ -e "$1" ]; then
        for pair in "$build"/src/base/libgf_base.a; do
                defined "$pair"
        done >"$work/base"
        defined_by_cli=$(for object; do defined "$object"; done)
        verdict=ok
        for object; do
                for symbol in $($nm -u "$object" | awk '$1 == "U" { print $2 }' | grep '^gf_'); do
                        grep -qxF -- "$symbol" "$work/base" && continue
                        printf '%s\n' "$defined_by_cli" | grep -qxF -- "$symbol" && continue
                        echo "# ${object##*/} uses the hidden $symbol"
                        verdict=bad
                done
        done
        result $verdict "cli uses public functions and base alone"
else
        count=$((count + 1))
        echo "ok $count - cli uses public functions and base alone # SKIP there are no objects of cli in $build/cli"
fi
exit $failed

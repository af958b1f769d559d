#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The public header by itself: as C99, as later C, as C++; and that header, version script and library name the same
# functions.
#
# usage: check-header.sh NM INCLUDE-DIRECTORY VERSION-SCRIPT LIBRARY CC…
set -u
nm=$1
include=$2
script=$3
library=$4
shift 4
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0

result() # ok|bad DESCRIPTION
{
        count=$((count + 1))
        if [ "$1" = ok ]; then
                echo "ok $count - $2"
        else
                sed 's/^/# /' "$work/log"
                echo "not ok $count - $2"
                failed=1
        fi
}

skip() # DESCRIPTION REASON
{
        count=$((count + 1))
        echo "ok $count - $1 # SKIP $2"
}

# Used as a program would use it, so that macros and initialisers are compiled too.
cat >"$work/use.c" <<'END'
#include <gpufree.h>
#include <gpufree.h>
int use(void);
int use(void)
{
        struct gpufree_ladder ladder = GPUFREE_LADDER_INIT;
        gpufree *context = 0;

        return gpufree_new(&context) + ladder.signal + (gpufree_unref(context) != 0);
}
END
cp "$work/use.c" "$work/use.cc"

echo 1..7
for standard in c99 gnu17; do
        if "$@" -std=$standard -pedantic-errors -Wall -Wextra -Wstrict-prototypes -Werror -I"$include" -fsyntax-only \
                "$work/use.c" >"$work/log" 2>&1; then
                result ok "the header is $standard"
        else
                result bad "the header is $standard"
        fi
done
for standard in c++11 c++17; do
        if ! command -v g++ >/dev/null; then
                skip "the header is $standard" "g++ is not installed"
        elif g++ -std=$standard -pedantic-errors -Wall -Wextra -Werror -I"$include" -fsyntax-only "$work/use.cc" \
                >"$work/log" 2>&1; then
                result ok "the header is $standard"
        else
                result bad "the header is $standard"
        fi
done

# Comments out, then every name before a parenthesis. The type of the event handler is no function.
"$@" -E -P -I"$include" "$work/use.c" 2>/dev/null | tr '\n' ' ' | grep -o 'gpufree_[a-z_]*(' | tr -d '(' |
        sort -u >"$work/header"
sed -n 's/^ *\(gpufree_[a-z_]*\);$/\1/p' "$script" | sort -u >"$work/script"
diff "$work/header" "$work/script" >"$work/log"
if [ $? = 0 ] && [ -s "$work/header" ]; then
        result ok "the version script has every function of the header and no other"
else
        result bad "the version script has every function of the header and no other"
fi

if ! [ -e "$library" ]; then
        skip "the library exports nothing else" "there is no shared library in this build"
        skip "the library exports every function" "there is no shared library in this build"
        exit $failed
fi
$nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/exported"
comm -13 "$work/script" "$work/exported" | grep -v '^__\(asan\|ubsan\|odr_asan\|sanitizer\)' >"$work/log"
if [ -s "$work/log" ]; then
        result bad "the library exports nothing else"
else
        result ok "the library exports nothing else"
fi
comm -23 "$work/script" "$work/exported" >"$work/log"
if [ -s "$work/log" ]; then
        result bad "the library exports every function"
else
        result ok "the library exports every function"
fi
exit $failed

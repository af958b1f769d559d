#!/bin/bash
# SPDX-License-Identifier: MIT
# run_pairs.sh N GPUFREE DIR: N pairs of guards, each started at once, want one of the node's GPUs each (by the
# environment: GPUFREE_OPTS). No GPU may be had by two at a time; no keeper and no canary stays. Also a bench: 500 pairs.
set -u
n=$1 gpufree=$2 dir=$3
mkdir -p "$dir/claims"

# Runs under the guard: a directory can be made once only.
cat >"$dir/one.sh" <<'END'
mkdir "$1/claims/$CUDA_VISIBLE_DEVICES" || exit 99
rmdir "$1/claims/$CUDA_VISIBLE_DEVICES"
END
begin=$(date +%s%3N)
bad=0
for _ in $(seq "$n"); do
        # shellcheck disable=SC2086
        timeout -k 5 60 "$gpufree" run -q ${GPUFREE_OPTS-} --scope namespace --gpus 1 -- sh "$dir/one.sh" "$dir" 3>&- &
        a=$!
        # shellcheck disable=SC2086
        timeout -k 5 60 "$gpufree" run -q ${GPUFREE_OPTS-} --scope namespace --gpus 1 -- sh "$dir/one.sh" "$dir" 3>&- &
        b=$!
        wait "$a" || { echo "a guard of a pair ended with $?"; bad=1; }
        wait "$b" || { echo "a guard of a pair ended with $?"; bad=1; }
done
echo "$n pairs in $(($(date +%s%3N) - begin)) ms"
leftover=$(ps -e -o ppid=,comm= | awk -v me=$$ '$1 == me && ($2 ~ /gpu-keeper|gpu-canary/)')
[ -z "$leftover" ] || { echo "left: $leftover"; bad=1; }
exit $bad

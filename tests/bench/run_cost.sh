#!/bin/bash
# SPDX-License-Identifier: MIT
# What `gpufree run -- true` costs beyond the looks that it takes (one before, one after), on the node that GPUFREE_OPTS
# and the environment name, or on this machine:  tests/bench/run_cost.sh GPUFREE [TIMES]
# (500 pairs: tests/system/run_pairs.sh 500 GPUFREE DIR)
set -u
gpufree=$1 times=${2:-20}
now() { date +%s%N; }
for _ in $(seq "$times"); do
        a=$(now)
        # shellcheck disable=SC2086
        "$gpufree" run -q ${GPUFREE_OPTS-} --scope namespace -- true || exit 1
        b=$(now)
        # shellcheck disable=SC2086
        "$gpufree" check ${GPUFREE_OPTS-} --scope namespace >/dev/null || exit 1
        c=$(now)
        echo $(((b - a) / 1000)) $(((c - b) / 1000))
done | sort -n | awk '{ run[NR] = $1; one[NR] = $2 } END {
        n = NR; m = int((n + 1) / 2)
        printf "run -- true %.1f ms, check %.1f ms (medians of %d)\n", run[m] / 1000, one[m] / 1000, n }' 2>/dev/null

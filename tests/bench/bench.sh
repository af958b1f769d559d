#!/bin/sh
# SPDX-License-Identifier: MIT
# bench.sh BENCH-RUN BENCH-PICTURE DIRECTORY [OPTIONS OF BENCH-RUN]: what `ninja bench` does. BENCH_OPTIONS adds options,
# as in: BENCH_OPTIONS="--processes 200 --rounds 5" ninja -C build bench
set -eu
run=$1 picture=$2 directory=$3
shift 3
# shellcheck disable=SC2086 # several words on purpose
"$run" --slab --figures "$directory/scan.tsv" "$@" ${BENCH_OPTIONS:-} | tee "$directory/scan.txt"
"$picture" "$directory/scan.tsv" >"$directory/scan.svg"
echo "Written: $directory/scan.txt and scan.svg"

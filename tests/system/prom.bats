#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpufree list --format prom`, and the recipe that hands it to node exporter.

load helpers

GIB=$((1 << 30))

setup() {
        cli_setup
        command -v python3 >/dev/null || skip "no python3"
}

teardown() {
        cli_teardown
}

# prom ARGS…: the metrics into $metrics, the status into $status; they must be well-formed.
prom() {
        run_apart gpufree list --format prom "$@"
        metrics="$BATS_TEST_TMPDIR/out"
        cat "$metrics" "$BATS_TEST_TMPDIR/err"
        python3 "$BATS_TEST_DIRNAME/prom_check.py" <"$metrics" >/dev/null
}

# value NAME [LABEL=VALUE…]: of the samples of $metrics; empty when there is none.
value() {
        python3 "$BATS_TEST_DIRNAME/prom_check.py" "$@" <"$metrics"
}

@test "prom: figures are those of the JSON document, with the GPU in the labels" {
        sim_up --gpus 2
        add plain --gpu 1 --memory 20GiB
        prom
        [ "$status" -eq 0 ]
        run gpufree list --json
        for figure in total used reserved accounted unaccounted; do
                for n in 0 1; do
                        [ "$(json "[\"gpus\"][$n][\"memory\"][\"$figure\"]")" = "$(value gpufree_gpu_memory_${figure}_bytes gpu=$n)" ]
                done
        done
        uuid="$(json '["gpus"][1]["uuid"]' | tr -d '"')"
        pci="$(json '["gpus"][1]["pci"]' | tr -d '"')"
        [ "$(value gpufree_gpu_memory_used_bytes gpu=1 "uuid=$uuid" "pci=$pci")" = $((20 * GIB)) ]
        [ "$(value gpufree_gpu_info gpu=1 vendor=nvidia "name=$(json '["gpus"][1]["name"]' | tr -d '"')")" = 1 ]
        [ "$(value gpufree_gpu_holders gpu=0)" = 0 ]
        [ "$(value gpufree_gpu_holders gpu=1)" = 1 ]
        [ "$(value gpufree_gpu_free gpu=0)" = 1 ]
        [ "$(value gpufree_gpu_free gpu=1)" = 0 ]
        [ "$(value gpufree_gpu_error gpu=1)" = 0 ]
        [ "$(value gpufree_scan_complete)" = 1 ]
        [ "$(value gpufree_driver_up)" = 1 ]
        [ "$(value gpufree_owner_memory_bytes gpu=1 uid="$(id -u)" "user=$(id -un)")" = $((20 * GIB)) ]
        now="$(date +%s)"
        at="$(value gpufree_scan_timestamp_seconds)"
        [ "${at%.*}" -le "$now" ] && [ "${at%.*}" -gt $((now - 60)) ]
}

@test "prom: promtool finds nothing to say" {
        command -v promtool >/dev/null || skip "no promtool (Debian's package prometheus)"
        sim_up --gpus 2
        add plain --gpu 1 --memory 20GiB
        add fork-heir --gpu 0 --memory 10GiB
        prom
        run promtool check metrics <"$metrics"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
}

@test "prom: processes of one user and kind are one series, whatever their number" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB --name "python3 one.py"
        prom
        before="$(value gpufree_owner_memory_bytes | wc -l)"
        for n in 2 3 4; do
                add plain --gpu 0 --memory 1GiB --name "python3 $n.py"
        done
        prom
        [ "$(value gpufree_owner_memory_bytes | wc -l)" -eq "$before" ]
        [ "$(value gpufree_owner_memory_bytes gpu=0)" = $((4 * GIB)) ]
        [ "$(value gpufree_owner_holders gpu=0)" = 4 ]
        not grep -q "$pid\|python3" "$metrics"
}

@test "prom: what a dead process left to its fork is told" {
        sim_up --gpus 2
        add fork-heir --gpu 1 --memory 10GiB
        add plain --gpu 0 --memory 1GiB
        prom
        [ "$(value gpufree_gpu_memory_kept_of_dead_bytes gpu=1)" = $((10 * GIB)) ]
        [ "$(value gpufree_gpu_memory_kept_of_dead_bytes gpu=0)" = 0 ]
}

@test "prom: what is not known is not there, never 0" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        GPUFREE_SIM_FAULT=error=15 prom
        [ "$(value gpufree_driver_up)" = 0 ] || [ "$(value gpufree_gpu_error gpu=0)" = 1 ]
        for figure in total used reserved accounted unaccounted kept_of_dead; do
                [ "$(value gpufree_gpu_memory_${figure}_bytes gpu=0)" = "" ]
        done
        [ "$(value gpufree_owner_memory_bytes gpu=0)" = "" ]
        [ "$(value gpufree_gpu_free gpu=0)" != 1 ]
        # Without the library: nothing about memory at all.
        unset LD_LIBRARY_PATH
        prom
        ! grep -q '_bytes' "$metrics" || ldconfig -p | grep -q libnvidia-ml
        [ "$(value gpufree_gpu_holders | wc -l)" -eq 2 ]
        not grep -q '^gpufree_gpu_free{.*} 1$' "$metrics"
}

@test "prom: an incomplete look is exit 3, says so in a metric, and calls nothing free" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        command -v setpriv >/dev/null || skip "no setpriv"
        sim_up --gpus 1
        add plain --gpu 0
        # Directories of bats' own are closed to others; what is below is no secret.
        chmod a+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR" "$NODE" 2>/dev/null || :
        as_nobody test -x "$NODE/dev" || skip "the node's directory is closed to others"
        # shellcheck disable=SC2086
        run_apart as_nobody "$GPUFREE" $GPUFREE_OPTS --scope namespace --scan proc list --format prom
        metrics="$BATS_TEST_TMPDIR/out"
        cat "$metrics"
        [ "$status" -eq 3 ]
        [ "$(value gpufree_scan_complete)" = 0 ]
        [ "$(value gpufree_gpu_free gpu=0)" != 1 ]
        [ "$err" != "" ]
}

@test "prom: names made to break the format do not" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB --name $'a"} 1\ngpufree_gpu_free{gpu="0"} 1\\'
        prom
        [ "$(value gpufree_owner_holders gpu=0)" = 1 ]
        [ "$(value gpufree_gpu_free gpu=0)" = 0 ]
        [ "$(id -u)" -eq 0 ] || return 0
        # A user with such a name, in a mount namespace of our own.
        for name in 'ev"il\' $'a"} 1\\n{x="' $'\xff\xfeme' 'a b,c="d"'; do
                { printf '%s:x:0:0::/:/bin/sh\n' "$name"; cat /etc/passwd; } >"$BATS_TEST_TMPDIR/passwd"
                # shellcheck disable=SC2016
                unshare -m sh -c 'mount --bind "$1" /etc/passwd && shift && exec "$@"' x "$BATS_TEST_TMPDIR/passwd" \
                        "$GPUFREE" $GPUFREE_OPTS --scope namespace list --format prom >"$BATS_TEST_TMPDIR/hostile" ||
                        skip "no mount namespace here"
                metrics="$BATS_TEST_TMPDIR/hostile"
                cat "$metrics"
                [ "$(value gpufree_gpu_free gpu=0)" = 0 ]
                expected="$(printf '%s' "$name" | python3 -c 'import sys; print(sys.stdin.buffer.read().decode(errors="replace"))')"
                [ "$(value gpufree_owner_holders gpu=0 "user=$expected")" = 1 ]
                ! command -v promtool >/dev/null || promtool check metrics <"$metrics"
        done
}

@test "prom: --gpu and --user narrow it; a machine without a GPU has the look alone" {
        sim_up --gpus 2
        add plain --gpu 0 --memory 1GiB
        prom --gpu 1
        [ "$(value gpufree_gpu_holders gpu=0)" = "" ]
        [ "$(value gpufree_gpu_holders gpu=1)" = 0 ]
        [ "$(value gpufree_owner_holders)" = "" ]
        prom --user 65533
        [ "$(value gpufree_gpu_holders gpu=0)" = 1 ]
        [ "$(value gpufree_owner_holders)" = "" ]
        mkdir "$BATS_TEST_TMPDIR/empty"
        unset LD_LIBRARY_PATH
        ! ldconfig -p | grep -q libnvidia-ml || skip "this machine has a GPU"
        run_apart "$GPUFREE" list --format prom --dev-root "$BATS_TEST_TMPDIR/empty" --scope namespace
        [ "$status" -eq 0 ]
        metrics="$BATS_TEST_TMPDIR/out"
        [ "$(value gpufree_build_info)" = 1 ]
        [ "$(value gpufree_gpu_info)" = "" ]
}

@test "prom: --format table is the default, json is --json; bad values and combinations are exit 2" {
        sim_up --gpus 1
        # Only the GPU's own line: another test may be looking for unused nodes at this very moment.
        diff <(gpufree list | head -n 1) <(gpufree list --format table | head -n 1)
        gpufree list --format table | head -n 1 | grep -q "^GPU 0"
        run gpufree --format json
        [ "$(json '["command"]')" = '"list"' ]
        run gpufree list --json --format json
        [ "$(json '["command"]')" = '"list"' ]
        for wrong in "--format" "--format xml" "--format=" "--format prom --json" "--format table --json" "--format prom -q" \
                "--format table -q" "--format prom --by owner" "--format prom --sample 1s" "kill --format prom" "check --format json"; do
                # shellcheck disable=SC2086
                run_apart gpufree $wrong
                echo "$wrong: $status $out $err"
                [ "$status" -eq 2 ]
                [ "$out" = "" ]
                [ "$(wc -l <"$BATS_TEST_TMPDIR/err")" -eq 1 ]
        done
}

@test "prom: every metric is told of in contrib/prometheus, and no other" {
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        prom
        diff <(sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' "$metrics" | sort) \
                <(sed -n 's/^| `\([a-z_]*\)` .*/\1/p' "$SOURCE_DIR/contrib/prometheus/README.md" | sort)
}

@test "prom: the recipe writes a whole file, and takes it away when nothing is known" {
        recipe="$SOURCE_DIR/contrib/prometheus/gpufree-textfile"
        export TEXTFILE_DIR="$BATS_TEST_TMPDIR/textfile" GPUFREE_LIMIT=20
        mkdir "$TEXTFILE_DIR"
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        export GPUFREE GPUFREE_OPTIONS="$GPUFREE_OPTS --scope namespace"
        run "$recipe"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(ls -A "$TEXTFILE_DIR")" = gpufree.prom ]
        [ "$(stat -c %a "$TEXTFILE_DIR/gpufree.prom")" = 644 ]
        metrics="$TEXTFILE_DIR/gpufree.prom"
        [ "$(value gpufree_gpu_holders gpu=0)" = 1 ]
        # A reader has the old file to its end: it is replaced, not written over.
        exec 8<"$TEXTFILE_DIR/gpufree.prom"
        run "$recipe"
        [ "$(stat -L -c %i /proc/self/fd/8)" != "$(stat -c %i "$TEXTFILE_DIR/gpufree.prom")" ]
        exec 8<&-
        # A program that fails after half of its output leaves nothing.
        printf '#!/bin/sh\necho "gpufree_scan_complete 1"\nexit "$STATUS"\n' >"$BATS_TEST_TMPDIR/half"
        chmod 0755 "$BATS_TEST_TMPDIR/half"
        STATUS=3 GPUFREE="$BATS_TEST_TMPDIR/half" run "$recipe"
        [ "$status" -eq 0 ]
        [ "$(cat "$TEXTFILE_DIR/gpufree.prom")" = "gpufree_scan_complete 1" ]
        for code in 2 5 130; do
                run "$recipe"
                [ -e "$TEXTFILE_DIR/gpufree.prom" ]
                STATUS=$code GPUFREE="$BATS_TEST_TMPDIR/half" run "$recipe"
                [ "$status" -eq 1 ]
                [[ "$output" == *"status $code"* ]]
                [ "$(ls -A "$TEXTFILE_DIR")" = "" ]
        done
        # One that hangs is ended.
        printf '#!/bin/sh\nexec sleep 1000\n' >"$BATS_TEST_TMPDIR/half"
        GPUFREE_LIMIT=1 GPUFREE="$BATS_TEST_TMPDIR/half" run "$recipe"
        [ "$status" -eq 1 ]
        TEXTFILE_DIR=/nonexistent run "$recipe"
        [ "$status" -eq 1 ]
}

@test "prom: node exporter takes the file" {
        command -v prometheus-node-exporter >/dev/null || skip "no prometheus-node-exporter"
        export TEXTFILE_DIR="$BATS_TEST_TMPDIR/textfile"
        mkdir "$TEXTFILE_DIR"
        sim_up --gpus 1
        add plain --gpu 0 --memory 1GiB
        export GPUFREE GPUFREE_OPTIONS="$GPUFREE_OPTS --scope namespace"
        "$SOURCE_DIR/contrib/prometheus/gpufree-textfile"
        port=$((20000 + $$ % 20000))
        prometheus-node-exporter --web.listen-address="127.0.0.1:$port" --collector.disable-defaults --collector.textfile \
                --collector.textfile.directory="$TEXTFILE_DIR" >"$BATS_TEST_TMPDIR/exporter.log" 2>&1 3>&- &
        exporter=$!
        fetched() {
                python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())' \
                        "http://127.0.0.1:$port/metrics" >"$BATS_TEST_TMPDIR/scraped" 2>/dev/null
        }
        sim_wait_for fetched || { kill "$exporter"; cat "$BATS_TEST_TMPDIR/exporter.log"; false; }
        kill "$exporter"
        grep -q '^node_textfile_scrape_error 0' "$BATS_TEST_TMPDIR/scraped"
        grep -q '^gpufree_gpu_holders{.*} 1' "$BATS_TEST_TMPDIR/scraped"
}

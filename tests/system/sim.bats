#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The simulated node itself: do its holders hold as /proc shows, and does its driver library say what a driver would?

load sim_helpers

setup() {
        sim_setup
}

teardown() {
        sim_teardown
}

GIB=$((1 << 30))

@test "up makes the nodes and prints what points gpufree at them" {
        run "$SIM" up "$NODE" --gpus 3
        [ "$status" -eq 0 ]
        [[ "$output" == "export GPUFREE_SIM_DIR='$NODE' "* ]]
        eval "$output"
        [ "$GPUFREE_OPTS" = "--dev-root $NODE/dev" ]
        for n in nvidia0 nvidia1 nvidia2 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-modeset nvidia-caps/nvidia-cap1; do
                [ -c "$NODE/dev/$n" ]
        done
        [ ! -e "$NODE/dev/nvidia3" ]
        [ -f "$NODE/lib/libnvidia-ml.so.1" ]
}

@test "every node has a number of its own" {
        sim_up --gpus 8
        numbers="$(stat -L -c '%t:%T' "$NODE"/dev/nvidia[0-9]* "$NODE"/dev/nvidia-*[a-z] "$NODE"/dev/nvidiactl \
                "$NODE"/dev/nvidia-caps/*)"
        [ "$(sort <<<"$numbers" | uniq -d)" = "" ]
}

@test "two nodes at once have different numbers" {
        sim_up --gpus 2
        "$SIM" up "$NODE.2" --gpus 2
        a="$(stat -L -c '%t:%T' "$NODE"/dev/nvidia[0-9] "$NODE"/dev/nvidiactl "$NODE"/dev/nvidia-uvm | sort)"
        b="$(stat -L -c '%t:%T' "$NODE.2"/dev/nvidia[0-9] "$NODE.2"/dev/nvidiactl "$NODE.2"/dev/nvidia-uvm | sort)"
        "$SIM" down "$NODE.2"
        [ "$(comm -12 <(echo "$a") <(echo "$b"))" = "" ]
}

@test "a directory that has something else in it is refused and left as it is" {
        mkdir "$NODE"
        echo precious >"$NODE/file"
        run "$SIM" up "$NODE"
        [ "$status" -eq 1 ]
        [[ "$output" == *"not empty"* ]]
        [ "$(cat "$NODE/file")" = precious ]
        run "$SIM" down "$NODE"
        [ "$(cat "$NODE/file")" = precious ]
}

@test "a second up on the same directory is refused and says how to go on" {
        sim_up --gpus 1
        run "$SIM" up "$NODE"
        [ "$status" -eq 1 ]
        [[ "$output" == *"gpufree-sim down"* ]]
}

@test "a path that a shell would split is refused" {
        run "$SIM" up "$BATS_TEST_TMPDIR/two words"
        [ "$status" -eq 1 ]
        [ ! -e "$BATS_TEST_TMPDIR/two words/state" ]
}

@test "usage errors exit 2 and start nothing" {
        run "$SIM"
        [ "$status" -eq 2 ]
        run "$SIM" fly
        [ "$status" -eq 2 ]
        run "$SIM" up "$NODE" --gpus 99
        [ "$status" -eq 2 ]
        run "$SIM" up "$NODE" --gpus
        [ "$status" -eq 2 ]
        [ ! -e "$NODE" ]
        sim_up --gpus 1
        run "$SIM" add "$NODE" teapot
        [ "$status" -eq 2 ]
        run "$SIM" add "$NODE" plain --memory banana
        [ "$status" -eq 2 ]
        [[ "$output" == *'"banana" is no size'* ]]
        run "$SIM" add "$NODE" plain --gpu 7
        [ "$status" -eq 1 ]
        [[ "$output" == *"there is no GPU 7"* ]]
        [ "$("$SIM" status "$NODE" | grep -c plain)" -eq 0 ]
}

@test "down ends every process, a respawner's too, removes the files and is safe twice" {
        sim_up --gpus 4
        pids=""
        for shape in plain fork-heir zombie-leader pidns own-table ignore-term stopped respawner; do
                pids="$pids $("$SIM" add "$NODE" "$shape")"
        done
        pids="$pids $("$SIM" add "$NODE" workers) $(awk '$1 == "keeper" { print $2 }' "$NODE/state")"
        "$SIM" down "$NODE"
        for pid in $pids; do
                ! sim_runs "$pid"
        done
        [ ! -e "$NODE" ]
        "$SIM" down "$NODE"
}

@test "down spares a process that has the PID of one that has ended" {
        sim_up --gpus 1
        sleep 300 3>&- &
        bystander=$!
        # The record of a holder that ended long ago, whose PID is the bystander's now.
        printf 'shape plain\nrole holder\ngpu 0\nmemory 1\nlisted 1\nkeeper %d 1 alive\n' "$bystander" \
                >"$NODE/holders/$bystander.1"
        [ "$(sim_used 0)" -eq 0 ]
        "$SIM" down "$NODE"
        kill -0 "$bystander"
        kill "$bystander"
}

@test "status lists the holders and what they do" {
        sim_up --gpus 2
        pid="$("$SIM" add "$NODE" plain --gpu 1 --memory 3GiB)"
        run "$SIM" status "$NODE"
        [ "$status" -eq 0 ]
        [[ "$output" == *"2 GPUs"*", up"* ]]
        grep -E "^ *$pid +holder +plain +1 +3\.0 GiB +holds$" <<<"$output"
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        "$SIM" status "$NODE" | grep -E "^ *$pid .* gone$"
}

@test "a holder's command line and comm are as named" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" plain --name 'sglang::scheduler_TP1 --port 30000')"
        [ "$(cat "/proc/$pid/comm")" = "sglang::schedul" ]
        [ "$(tr '\0' ' ' <"/proc/$pid/cmdline")" = "sglang::scheduler_TP1 --port 30000 " ]
}

@test "plain: descriptors as a CUDA process has them, listed, ended by SIGTERM" {
        sim_up --gpus 2
        pid="$("$SIM" add "$NODE" plain --gpu 1 --memory 5GiB)"
        [ "$(sim_fds "$pid" nvidia1)" -eq 20 ]
        [ "$(sim_fds "$pid" nvidia0)" -eq 0 ]
        [ "$(sim_fds "$pid" nvidiactl)" -eq 1 ]
        [ "$(sim_fds "$pid" nvidia-uvm)" -eq 2 ]
        [ "$(sim_listed 1)" = "$pid" ]
        [ "$(sim_listed 0)" = "" ]
        [ "$(sim_used 1)" -eq $((5 * GIB)) ]
        kill -TERM "$pid"
        sim_wait_gone "$pid"
        [ "$(sim_used 1)" -eq 0 ]
        [ "$(sim_listed 1)" = "" ]
}

@test "plain with --all-gpus has the others open as well" {
        sim_up --gpus 3
        pid="$("$SIM" add "$NODE" plain --gpu 1 --all-gpus)"
        [ "$(sim_fds "$pid" nvidia0)" -eq 4 ]
        [ "$(sim_fds "$pid" nvidia1)" -eq 20 ]
        [ "$(sim_fds "$pid" nvidia2)" -eq 4 ]
        [ "$(sim_listed 0)" = "" ]
}

@test "open and opath: no memory, not listed" {
        sim_up --gpus 1
        open="$("$SIM" add "$NODE" open)"
        opath="$("$SIM" add "$NODE" opath)"
        [ "$(sim_fds "$open" nvidia0)" -eq 4 ]
        [ "$(sim_fds "$opath" nvidia0)" -eq 1 ]
        # O_PATH with O_CLOEXEC
        grep -q '^flags:.*012000000' /proc/"$opath"/fdinfo/*
        [ "$(sim_listed 0)" = "" ]
        [ "$(sim_used 0)" -eq 0 ]
}

@test "fork-heir: the dead parent is listed, the memory stays until the heir ends" {
        sim_up --gpus 1
        lines="$("$SIM" add "$NODE" fork-heir --memory 2GiB -l)"
        heir="$(awk '$2 == "heir" { print $1 }' <<<"$lines")"
        dead="$(awk '$2 == "dead" { print $1 }' <<<"$lines")"
        [ ! -e "/proc/$dead" ]
        [ "$(sim_fds "$heir" nvidia0)" -eq 20 ]
        [ "$(sim_listed 0)" = "$dead" ]
        [ "$(sim_used 0)" -eq $((2 * GIB)) ]
        kill -KILL "$heir"
        sim_wait_gone "$heir"
        [ "$(sim_used 0)" -eq 0 ]
        [ "$(sim_listed 0)" = "" ]
}

@test "zombie-leader: the leader has nothing, another thread has it all" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" zombie-leader)"
        grep -q '^State:.*Z' "/proc/$pid/status"
        [ "$(ls "/proc/$pid/fd" | wc -l)" -eq 0 ]
        tid="$(ls "/proc/$pid/task" | grep -v "^$pid\$")"
        [ "$(sim_fds_in "/proc/$pid/task/$tid/fd" nvidia0)" -eq 20 ]
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "own-table: a thread has the descriptors, the leader has not" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" own-table)"
        [ "$(sim_fds "$pid" nvidia0)" -eq 0 ]
        tid="$(ls "/proc/$pid/task" | grep -v "^$pid\$")"
        [ "$(sim_fds_in "/proc/$pid/task/$tid/fd" nvidia0)" -eq 20 ]
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "map: a mapping and no descriptor" {
        sim_up --gpus 2
        pid="$("$SIM" add "$NODE" map --gpu 1)" || skip "nvidia-uvm cannot be made mappable here"
        [ "$(sim_fds "$pid" nvidia-uvm)" -eq 0 ]
        [ "$(sim_fds "$pid" nvidia1)" -eq 0 ]
        grep -q "$NODE/dev/nvidia-uvm" "/proc/$pid/maps"
        [ "$(sim_listed 1)" = "$pid" ]
}

@test "map asked for when others hold already is refused, and nothing changes" {
        sim_up --gpus 1
        "$SIM" add "$NODE" plain
        before="$(stat -L -c '%t:%T' "$NODE/dev/nvidia-uvm")"
        run "$SIM" add "$NODE" map
        [ "$status" -eq 1 ]
        [[ "$output" == *"nvidia-uvm cannot be made mappable"* ]]
        [ "$(stat -L -c '%t:%T' "$NODE/dev/nvidia-uvm")" = "$before" ]
}

@test "own-node: the same number by another inode" {
        sim_up --gpus 1
        sim_ttys
        pid="$("$SIM" add "$NODE" own-node)"
        [ "$(sim_fds "$pid" nvidia0)" -eq 20 ]
        ours="$(stat -c '%d:%i' "$NODE/dev/nvidia0")"
        for f in /proc/"$pid"/fd/*; do
                [ "$(stat -L -c '%d:%i' "$f")" != "$ours" ]
        done
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "unlinked: the node of the descriptors is gone" {
        sim_up --gpus 1
        sim_ttys
        pid="$("$SIM" add "$NODE" unlinked)"
        [ "$(sim_fds "$pid" nvidia0)" -eq 20 ]
        [ "$(readlink /proc/"$pid"/fd/* | grep -c '(deleted)')" -eq 20 ]
}

@test "pidns: a PID namespace of its own, ended by SIGTERM" {
        sim_up --gpus 1
        pids="$("$SIM" add "$NODE" pidns)" || skip "PID namespaces cannot be made here"
        pid="${pids%%$'\n'*}"
        [ "$(readlink "/proc/$pid/ns/pid")" != "$(readlink /proc/self/ns/pid)" ]
        [ "$(sim_fds "$pid" nvidia0)" -eq 20 ]
        [ "$(sim_listed 0)" = "$pid" ]
        kill -TERM "$pid"
        sim_wait_gone "$pid"
        [ "$(sim_used 0)" -eq 0 ]
}

@test "scm: the descriptors wait in a socket" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" scm)"
        [ "$(sim_fds "$pid" nvidia0)" -eq 0 ]
        grep -q '^scm_fds:.*4' /proc/"$pid"/fdinfo/*
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "io_uring: the files are registered, no descriptor is left" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" io_uring)" || skip "io_uring is not permitted here"
        [ "$(sim_fds "$pid" nvidia0)" -eq 0 ]
        grep -q '^UserFiles:.*4' /proc/"$pid"/fdinfo/*
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "ctl-only: memory used that nobody is listed for" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" ctl-only --memory 1GiB)"
        [ "$(sim_fds "$pid" nvidiactl)" -eq 1 ]
        [ "$(sim_fds "$pid" nvidia0)" -eq 0 ]
        [ "$(sim_listed 0)" = "" ]
        [ "$(sim_used 0)" -eq "$GIB" ]
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        [ "$(sim_used 0)" -eq 0 ]
}

@test "stopped: is stopped when add returns" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" stopped)"
        grep -q '^State:.*T' "/proc/$pid/status"
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "ignore-term: only SIGKILL ends it" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" ignore-term)"
        # Bit 14 of the ignored signals is SIGTERM.
        ignored="$(awk '$1 == "SigIgn:" { print $2 }' "/proc/$pid/status")"
        [ $(((16#$ignored >> 14) & 1)) -eq 1 ]
        kill -TERM "$pid"
        sim_runs "$pid"
        kill -KILL "$pid"
        sim_wait_gone "$pid"
}

@test "service: a daemon by comm and executable, with every GPU open and no memory" {
        sim_up --gpus 2
        pid="$("$SIM" add "$NODE" service)"
        [ "$(cat "/proc/$pid/comm")" = "nvidia-persiste" ]
        [ "$(readlink "/proc/$pid/exe")" = "$NODE/bin/nvidia-persistenced" ]
        [ "$(sim_fds "$pid" nvidia0)" -eq 1 ]
        [ "$(sim_fds "$pid" nvidia1)" -eq 1 ]
        [ "$(sim_listed 0)" = "" ]
}

@test "workers: one on each GPU, outliving their launcher" {
        sim_up --gpus 3
        lines="$("$SIM" add "$NODE" workers -l --zombie 1)"
        [ "$(awk '$2 == "holder"' <<<"$lines" | wc -l)" -eq 3 ]
        launcher="$(awk '$2 == "launcher" { print $1 }' <<<"$lines")"
        for gpu in 0 1 2; do
                pid="$(awk -v g=$gpu '$2 == "holder" && $3 == g { print $1 }' <<<"$lines")"
                [ "$(sim_listed $gpu)" = "$pid" ]
                [ "$(cat "/proc/$pid/comm")" = "sglang::schedul" ]
        done
        grep -q '^State:.*Z' "/proc/$(sim_listed 1)/status"
        kill -KILL "$launcher"
        sim_wait_gone "$launcher"
        sim_runs "$pid"
        [ "$(sim_listed 2)" = "$pid" ]
}

@test "respawner: another holder takes the place of one that ended" {
        sim_up --gpus 1
        lines="$("$SIM" add "$NODE" respawner -l)"
        pid="$(awk '$2 == "holder" { print $1 }' <<<"$lines")"
        launcher="$(awk '$2 == "launcher" { print $1 }' <<<"$lines")"
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        another() {
                next="$(sim_listed 0)"
                [ -n "$next" ] && [ "$next" != "$pid" ]
        }
        sim_wait_for another
        [ "$(awk '{ print $4 }' "/proc/$next/stat")" = "$launcher" ]
        kill -KILL "$launcher"
        sim_wait_gone "$next"
        [ "$(sim_used 0)" -eq 0 ]
}

@test "memory falls when a holder lets go, not only when it ends" {
        sim_up --gpus 1
        mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
        exec 7<>"$BATS_TEST_TMPDIR/in" 8<>"$BATS_TEST_TMPDIR/out"
        # A process of ours that holds the node by descriptor 9, booked by hand.
        bash -c 'exec 9<>"$0" || exit 1; echo ready; read -r _; exec 9>&-; echo closed; read -r _' \
                "$NODE/dev/nvidia0" <&7 >&8 3>&- &
        pid=$!
        read -r -t 20 word <&8
        [ "$word" = ready ]
        start="$(awk '{ print $22 }' "/proc/$pid/stat")"
        rdev="$((16#$(stat -L -c %t "$NODE/dev/nvidia0"))):$((16#$(stat -L -c %T "$NODE/dev/nvidia0")))"
        printf 'shape by-hand\nrole holder\ngpu 0\nmemory 1024\nlisted 1\nkeeper %d %d fd:%s\n' \
                "$pid" "$start" "$rdev" >"$NODE/holders/$pid.$start"
        [ "$(sim_used 0)" -eq 1024 ]
        echo >&7
        read -r -t 20 word <&8
        [ "$(sim_used 0)" -eq 0 ]
        echo >&7
        wait "$pid"
        exec 7>&- 8<&-
}

@test "pseudo-terminals serve where nodes cannot be made" {
        sim_up --gpus 2 --ptys
        [ -L "$NODE/dev/nvidia0" ]
        for shape in plain fork-heir zombie-leader own-table scm workers; do
                "$SIM" add "$NODE" "$shape"
        done
        pid="$("$SIM" add "$NODE" plain --gpu 1 --memory 1GiB)"
        [ "$(sim_fds "$pid" nvidia1)" -eq 20 ]
        sim_listed 1 | grep -qx "$pid"
        run "$SIM" add "$NODE" own-node
        [ "$status" -eq 1 ]
        [[ "$output" == *"pseudo-terminals"* ]]
}

@test "an ordinary user can have a node" {
        [ "$(id -u)" -eq 0 ] || skip "this suite runs as an ordinary user already"
        command -v setpriv >/dev/null || skip "setpriv is not installed"
        dir="$(mktemp -d /tmp/gpufree-sim-user.XXXXXX)"
        cp "$BUILD_DIR/sim/gpufree-sim" "$HOLDER" "$BUILD_DIR/sim/libnvidia-ml.so.1" "$BUILD_DIR/sim/libcuda.so.1" "$dir"
        chmod -R a+rX "$dir"
        mkdir "$dir/run"
        chown 65534:65534 "$dir/run"
        as_user() {
                setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
        }
        status=0
        as_user "$dir/gpufree-sim" up "$dir/run/node" --gpus 1 --shapes plain || status=1
        as_user "$dir/gpufree-sim" status "$dir/run/node" | grep -q 'plain .* holds' || status=2
        # A node of somebody else is not ended: not even by root.
        ! "$SIM" down "$dir/run/node" || status=3
        as_user "$dir/gpufree-sim" down "$dir/run/node" || status=4
        rm -r "$dir"
        [ "$status" -eq 0 ]
}

@test "a holder can run as another user" {
        [ "$(id -u)" -eq 0 ] || skip "takes root"
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" plain --user 65534)"
        [ "$(awk '$1 == "Uid:" { print $2, $3 }' "/proc/$pid/status")" = "65534 65534" ]
        [ "$(sim_fds "$pid" nvidia0)" -eq 20 ]
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "the story has a stuck server, an heir, a free GPU and a bystander" {
        sim_up --gpus 8 --shapes story
        for gpu in 0 1 2 3 4 5 6; do
                [ "$(sim_used $gpu)" -gt 0 ]
        done
        [ "$(sim_used 7)" -eq 0 ]
        "$SIM" status "$NODE" | grep -q 'service .* runs'
}

@test "the holder program works by hand, and ends with its caller" {
        sim_up --gpus 1
        mkfifo "$BATS_TEST_TMPDIR/out"
        exec 8<>"$BATS_TEST_TMPDIR/out"
        "$HOLDER" plain --memory 1GiB >&8 3>&- &
        caller=$!
        read -r -t 20 pid <&8
        exec 8<&-
        [ "$(sim_listed 0)" = "$pid" ]
        kill -KILL "$caller"
        sim_wait_gone "$pid"
        wait "$caller" || true
}

@test "library: what it says of the GPUs" {
        sim_up --gpus 2 --shuffle
        run "$PROBE"
        [ "$status" -eq 0 ]
        [[ "$output" == *"init 0 Success"* ]]
        [[ "$output" == *"driver 0 580.159.04"* ]]
        [[ "$output" == *"count 0 2"* ]]
        [[ "$output" == *"gpu 0 0 Success"*"minor 0 1"*"gpu 1 0 Success"*"minor 0 0"* ]]
        [[ "$output" == *"pci 0 00000000:18:00.0"* ]]
        [[ "$output" == *"pci 0 00000000:3A:00.0"* ]]
        [[ "$output" == *"name 0 NVIDIA H200"* ]]
        [[ "$output" == *"memory_v1 0 total 150754820096 used 644874240"* ]]
        [[ "$output" == *"memory_v2 0 total 150754820096 used 0 reserved 644874240"* ]]
        [ "$(grep -c 'uuid 0 GPU-' <<<"$output")" -eq 2 ]
        [ "$(grep 'uuid' <<<"$output" | sort | uniq -d)" = "" ]
        [[ "$output" == *"shutdown 0"* ]]
}

@test "library: with --shuffle a holder of GPU 0 has the node of its minor" {
        sim_up --gpus 2 --shuffle
        pid="$("$SIM" add "$NODE" plain --gpu 0)"
        [ "$(sim_fds "$pid" nvidia1)" -eq 20 ]
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "library: a list that does not fit says so and how long it is" {
        sim_up --gpus 1
        "$SIM" add "$NODE" plain
        "$SIM" add "$NODE" plain
        "$PROBE" | grep 'nvmlDeviceGetComputeRunningProcesses_v3 asked for the number: 7 count 2'
}

@test "library: the layouts of its three list functions" {
        sim_up --gpus 1
        "$SIM" add "$NODE" plain
        "$SIM" add "$NODE" plain
        run "$PROBE"
        [[ "$output" == *"RunningProcesses 0 count 2 stride 16"* ]]
        [[ "$output" == *"RunningProcesses_v2 0 count 2 stride 24"* ]]
        [[ "$output" == *"RunningProcesses_v3 0 count 2 stride 24"* ]]
        GPUFREE_SIM_FAULT=stride32 run "$PROBE"
        [[ "$output" == *"RunningProcesses_v3 0 count 2 stride 32"* ]]
        [[ "$output" == *"RunningProcesses_v2 0 count 2 stride 24"* ]]
}

@test "library: without a node there is no driver" {
        sim_up --gpus 1
        GPUFREE_SIM_DIR=/nonexistent run "$PROBE"
        [[ "$output" == *"init 9 Driver Not Loaded"* ]]
        unset GPUFREE_SIM_DIR
        run "$PROBE"
        [[ "$output" == *"init 9 Driver Not Loaded"* ]]
}

@test "fault: hide-pids lists nobody and keeps the memory" {
        sim_up --gpus 1
        "$SIM" add "$NODE" plain --memory 1GiB
        export GPUFREE_SIM_FAULT=hide-pids
        [ "$(sim_listed 0)" = "" ]
        [ "$(sim_used 0)" -eq "$GIB" ]
}

@test "fault: dead-pids lists who has ended" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" plain --memory 1GiB)"
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        export GPUFREE_SIM_FAULT=dead-pids
        [ "$(sim_listed 0)" = "$pid" ]
        [ "$(sim_used 0)" -eq 0 ]
}

@test "fault: never keeps the memory of who has ended" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" plain --memory 1GiB)"
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        export GPUFREE_SIM_FAULT=never
        [ "$(sim_listed 0)" = "" ]
        [ "$(sim_used 0)" -eq "$GIB" ]
        GPUFREE_SIM_FAULT=never,dead-pids
        [ "$(sim_listed 0)" = "$pid" ]
}

@test "fault: late gives the memory back later, whoever asks" {
        sim_up --gpus 1
        pid="$("$SIM" add "$NODE" plain --memory 1GiB)"
        kill -KILL "$pid"
        sim_wait_gone "$pid"
        export GPUFREE_SIM_FAULT=late=3600000
        [ "$(sim_used 0)" -eq "$GIB" ]
        # As if it had been missed an hour ago.
        for f in "$NODE"/gone/*; do
                printf 0 >"$f"
        done
        GPUFREE_SIM_FAULT=late=1
        [ "$(sim_used 0)" -eq 0 ]
        GPUFREE_SIM_FAULT=late=300
        rm "$NODE"/gone/*
        [ "$(sim_used 0)" -eq "$GIB" ]
        free() {
                [ "$(sim_used 0)" -eq 0 ]
        }
        sim_wait_for free
}

@test "fault: error from every call it can come from" {
        sim_up --gpus 2
        GPUFREE_SIM_FAULT=error=18 run "$PROBE"
        [[ "$output" == *"init 18 Driver/library version mismatch"* ]]
        GPUFREE_SIM_FAULT=error=15:1 run "$PROBE"
        [[ "$output" == *"gpu 0 0 Success"*"gpu 1 15 GPU is lost"* ]]
        GPUFREE_SIM_FAULT=error=4:0:list run "$PROBE"
        [[ "$output" == *"gpu 0 0 "*"RunningProcesses_v3 4 "*"gpu 1 0 "*"RunningProcesses_v3 0 "* ]]
        GPUFREE_SIM_FAULT=error=999:all:memory run "$PROBE"
        [ "$(grep -c 'memory_v2 999' <<<"$output")" -eq 2 ]
}

@test "fault: hang never answers, in the call that was said" {
        sim_up --gpus 1
        GPUFREE_SIM_FAULT=hang run timeout -s KILL 1 "$PROBE"
        [ "$status" -eq 137 ]
        [[ "$output" != *"init"* ]]
        GPUFREE_SIM_FAULT=hang=list run timeout -s KILL 1 "$PROBE"
        [ "$status" -eq 137 ]
        [[ "$output" == *"memory_v2 0"* ]]
        GPUFREE_SIM_FAULT=hang=memory run timeout -s KILL 1 "$PROBE"
        [ "$status" -eq 137 ]
        [[ "$output" == *"init 0"* ]]
        [[ "$output" != *"memory_v2"* ]]
}

@test "fault: crash ends whoever called" {
        sim_up --gpus 1
        GPUFREE_SIM_FAULT=crash=list run "$PROBE"
        [ "$status" -ne 0 ]
        [[ "$output" == *"memory_v2 0"* ]]
        [[ "$output" != *"shutdown"* ]]
}

@test "fault: no-v3 and no-v2 take the functions away" {
        sim_up --gpus 1
        GPUFREE_SIM_FAULT=no-v3 run "$PROBE"
        [[ "$output" == *"ComputeRunningProcesses_v3 missing"* ]]
        [[ "$output" == *"ComputeRunningProcesses_v2 0 "* ]]
        [[ "$output" == *"memory_v2 0"* ]]
        GPUFREE_SIM_FAULT=no-v2 run "$PROBE"
        [[ "$output" == *"ComputeRunningProcesses_v3 missing"* ]]
        [[ "$output" == *"ComputeRunningProcesses_v2 missing"* ]]
        [[ "$output" == *"ComputeRunningProcesses 0 "* ]]
        [[ "$output" == *"memory_v2 missing"* ]]
}

@test "fault: one that is mistyped is an error, not no fault" {
        sim_up --gpus 1
        GPUFREE_SIM_FAULT=hide-pdis run "$PROBE"
        [[ "$output" == *"not understood"* ]]
        [[ "$output" == *"init 999"* ]]
}

@test "busy: a GPU computes, another does not; what is no GPU or no share is refused" {
        sim_up --gpus 2
        "$SIM" busy "$NODE" 1 37
        [ "$(cat "$NODE/busy/1")" = 37 ]
        for wrong in "2 10" "0 101" "x 1" "0 -1" "0"; do
                # shellcheck disable=SC2086
                run "$SIM" busy "$NODE" $wrong
                [ "$status" -eq 2 ]
        done
        [ ! -e "$NODE/busy/0" ]
        "$SIM" down "$NODE"
        [ ! -e "$NODE" ]
}

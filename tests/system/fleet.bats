#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Other machines: -H and --hosts over a stand-in ssh that runs the line here, each host a simulated node of its own.

load helpers
load fleet

setup() {
        export LC_ALL=C.UTF-8
        unset NO_COLOR COLUMNS
        fleet_setup
}

teardown() {
        fleet_teardown
}

@test "fleet: list and check over two hosts, a table by host" {
        fleet_host gpu01 --gpus 2
        add plain --gpu 0 --memory 20GiB
        first=$pid
        fleet_host gpu02 --gpus 1
        run_apart away list -H 'gpu[01-02]'
        echo "$out"
        [ "$status" -eq 0 ]
        grep -qE '^gpu01 +held +1 of 2 held' <<<"$out"
        grep -qE '^gpu02 +free +0 of 1 held' <<<"$out"
        grep -qE "^gpu01 +0 +20.0 GiB +$first " <<<"$out"
        grep -qF '2 of 2 hosts answered, 1 GPU held.' <<<"$out"
        run_apart away check -H gpu01,gpu02
        [ "$status" -eq 1 ]
        run_apart away check -H gpu02
        echo "$out"
        [ "$status" -eq 0 ]
        grep -qE '^gpu02 +free ' <<<"$out"
        printf '# ours\ngpu01\n\n  gpu02\n' >"$FLEET/list"
        run_apart away list --hosts "$FLEET/list" --gpu 0 --json
        [ "$status" -eq 0 ]
        output=$out
        [ "$(json '["hosts"][0]["host"]')" = '"gpu01"' ]
        [ "$(json '["hosts"][0]["result"]["holders"][0]["pid"]')" = "$first" ]
        [ "$(json '["hosts"][1]["outcome"]')" = '"ok"' ]
        [ "$(json '["schema"]')" = 1 ]
        [ "$(json '["exit"]["code"]')" = 0 ]
}

@test "fleet: a host that cannot be reached is a result with its reason" {
        fleet_host gpu01 --gpus 1
        run_apart timeout 60 "$GPUFREE" check -H gpu01,refuse1,denied1,hang1,garbage1,huge1,bare1,newer1 --host-timeout 5s --json
        [ "$status" -eq 3 ]
        output=$out
        [ "$(json '["hosts"][0]["outcome"]')" = '"ok"' ]
        n=1
        for reason in refused denied no-answer no-json too-large not-installed no-json; do
                [ "$(json "[\"hosts\"][$n][\"reason\"]")" = "\"$reason\"" ]
                [ "$(json "[\"hosts\"][$n][\"outcome\"]")" = '"unreachable"' ]
                [ "$(json "[\"hosts\"][$n][\"result\"]")" = null ]
                n=$((n + 1))
        done
        run_apart away list -H newer1 --json
        output=$out
        [ "$(json '["hosts"][0]["reason"]')" = '"schema"' ]
        run_apart away check -H gpu01,refuse1,bare1,garbage1
        echo "$out"
        [ "$status" -eq 3 ]
        grep -qE '^gpu01 +free' <<<"$out"
        grep -qE '^refuse1 +not reached .*connection refused' <<<"$out"
        grep -qE '^bare1 +not reached .*gpufree is not installed there' <<<"$out"
        ! grep -q $'\033' <<<"$out"
        grep -qF 'No answer of refuse1, bare1, garbage1.' <<<"$out"
        # What hung is gone with its children.
        while read -r sleeper; do sim_wait_gone "$sleeper"; done <"$FLEET/sleepers"
}

@test "fleet: held counts more than not reached, not reached more than free" {
        fleet_host gpu01 --gpus 1
        add plain --gpu 0
        run_apart away check -H refuse1,gpu01
        [ "$status" -eq 1 ]
        run_apart away list -H refuse1,gpu01
        [ "$status" -eq 3 ]
}

@test "fleet: bad lists are bad usage, nothing is started" {
        fleet_host gpu01 --gpus 1
        for wrong in '-oProxyCommand=x' 'a;b' 'gpu[1-' 'a,,b' 'a/vm:1' 'a/pct:x' 'a/docker:-x' '$(id)'; do
                run_apart away list -H "$wrong"
                [ "$status" -eq 2 ]
                [ -z "$out" ]
                [ "$(wc -l <<<"$err")" -eq 1 ]
        done
        for wrong in "--fanout 0" "--fanout x" "--host-timeout 0" "-q"; do
                # shellcheck disable=SC2086
                run_apart away list -H gpu01 $wrong
                [ "$status" -eq 2 ]
        done
        run_apart away list --hosts "$FLEET/none"
        [ "$status" -eq 2 ]
        run_apart away list --fanout 3
        [ "$status" -eq 2 ]
        [ ! -e "$FLEET/log" ]
}

@test "fleet: names do nothing but name, through every hop" {
        mkdir -p "$FLEET/hosts/hv"
        for tool in lxc-attach docker podman systemd-run pct gpufree; do
                printf '#!/bin/sh\nfor a; do printf "%%s\\0" "$a"; done >"$FLEET/argv.%s"\n' "$tool" >"$FLEET/hosts/hv/$tool"
                chmod +x "$FLEET/hosts/hv/$tool"
        done
        name=$'a b\'"$(touch '"$FLEET"$'/pwned)`touch x`;&|\\!*\nnew'
        name=${name//"$FLEET"/pwned}
        name=${name//\//_}
        for hop in lxc:lxc-attach docker:docker podman:podman nspawn:systemd-run; do
                run_apart away list -H "hv/${hop%%:*}:$name" --match "$name"
                [ "$status" -eq 3 ]
                tr '\0' '\001' <"$FLEET/argv.${hop#*:}" >"$FLEET/argv"
                grep -qF "${name%%$'\n'*}" "$FLEET/argv"
                python3 - "$FLEET/argv.${hop#*:}" "$name" <<'PY'
import sys
argv = open(sys.argv[1], 'rb').read().split(b'\0')[:-1]
name = sys.argv[2].encode()
assert sum(a in (name, b'--machine=' + name) for a in argv) == 1, argv
assert b'--match=' + name in argv, argv
assert b'gpufree' in argv, argv
PY
        done
        run_apart away list -H hv --match "$name" --user "$name" "./$name"
        python3 - "$FLEET/argv.gpufree" "$name" <<'PY'
import sys
argv = open(sys.argv[1], 'rb').read().split(b'\0')[:-1]
name = sys.argv[2].encode()
assert argv == [b'list', b'--json', b'--tether', b'--match=' + name, b'--user=' + name, b'--', b'./' + name], argv
PY
        [ -z "$(find "$FLEET" . -maxdepth 1 -name 'pwned*' -o -maxdepth 1 -name x)" ]
}

@test "fleet: kill shows one plan, ends what it shows, and nobody else" {
        fleet_host gpu01 --gpus 1
        add plain --gpu 0 --memory 20GiB
        first=$pid
        fleet_host gpu02 --gpus 2
        add plain --gpu 0 --memory 10GiB
        second=$pid
        add plain --gpu 1
        bystander=$pid
        run_apart away kill -H gpu01,gpu02,refuse1 --gpu 0 </dev/null
        [ "$status" -eq 4 ]
        alive "$first"
        run_apart away kill -n -H gpu01,gpu02 --gpu 0
        [ "$status" -eq 0 ]
        alive "$first"
        run_apart away kill -y -H gpu01,gpu02,refuse1 --gpu 0 --grace 2s
        echo "$out"
        [ "$status" -eq 3 ]
        grep -qF 'Will end 2 processes on 2 hosts:' <<<"$out"
        grep -qE "^ +gpu02 +0 +10.0 GiB +$second " <<<"$out"
        grep -qE '^gpu01 +verified free' <<<"$out"
        grep -qE '^gpu02 +verified free' <<<"$out"
        grep -qE '^refuse1 +not reached' <<<"$out"
        sim_wait_gone "$first"
        sim_wait_gone "$second"
        alive "$bystander"
        run_apart away kill -y -H gpu01 --json
        output=$out
        [ "$status" -eq 0 ]
        [ "$(json '["hosts"][0]["result"]["plan"]["targets"]')" = '[]' ]
}

@test "fleet: kill there ends no other process than the one shown" {
        fleet_host gpu01 --gpus 1
        add plain --gpu 0
        start=$(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f20)
        run_apart "$FLEET/hosts/gpu01/gpufree" kill -y --json --pid "$pid" --shown "$pid@$((start - 1))"
        [ "$status" -eq 4 ]
        output=$out
        [ "$(json '["reason"]')" = '"changed"' ]
        alive "$pid"
        run_apart "$FLEET/hosts/gpu01/gpufree" kill -y --json --pid "$pid" --shown "1@1,$pid@$start"
        [ "$status" -eq 0 ]
        sim_wait_gone "$pid"
}

@test "fleet: wait returns when the last host is free; Ctrl-C ends the remote ones" {
        fleet_host gpu01 --gpus 1
        add plain --gpu 0
        fleet_host gpu02 --gpus 1
        run_apart away wait -H gpu01,gpu02 --timeout 1s
        [ "$status" -eq 6 ]
        run_apart away check -H gpu01
        [ "$status" -eq 1 ]
        "$GPUFREE" wait -H gpu01,gpu02 --json >"$FLEET/out" 2>"$FLEET/err" 3>&- &
        waiting=$!
        sim_wait_for pgrep -f -- "gpufree.*--dev-root $FLEET/node-gpu01/dev.* wait"
        remote=$(pgrep -f -- "gpufree.*--dev-root $FLEET/node-gpu01/dev.* wait")
        kill -TERM "$waiting"
        status=0
        wait "$waiting" || status=$?
        [ "$status" -eq 143 ]
        for p in $remote; do sim_wait_gone "$p"; done
        output=$(cat "$FLEET/out")
        [ "$(json '["hosts"][0]["outcome"]')" = '"interrupted"' ]
        [ "$(json '["reason"]')" = '"interrupted"' ]
        # Killed hard, the remote ones end by themselves.
        "$GPUFREE" wait -H gpu01 >"$FLEET/out" 2>"$FLEET/err" 3>&- &
        waiting=$!
        sim_wait_for pgrep -f -- "gpufree.*--dev-root $FLEET/node-gpu01/dev.* wait"
        remote=$(pgrep -f -- "gpufree.*--dev-root $FLEET/node-gpu01/dev.* wait")
        kill -KILL "$waiting"
        for p in $remote; do sim_wait_gone "$p"; done
}

@test "fleet: explain and check --for, by host" {
        fleet_host gpu01 --gpus 1
        add plain --gpu 0 --memory 20GiB
        run_apart away explain -H gpu01,refuse1
        echo "$out"
        [ "$status" -eq 3 ]
        grep -qE '^gpu01 +explained' <<<"$out"
        grep -q "20.0 GiB .*$pid" <<<"$out"
        run_apart away check --for reset -H gpu01
        echo "$out"
        [ "$status" -eq 1 ]
        grep -q 'gpufree kill' <<<"$out"
}

@test "fleet: 500 hosts: all are answered for, no more at once than the fan-out" {
        mkdir -p "$FLEET/busy"
        cat >"$FLEET/bin/ssh" <<'STUB'
#!/bin/sh
: >"$FLEET/busy/$$"
set -- "$FLEET"/busy/*
echo $# >>"$FLEET/width"
cat <<'JSON'
{"schema": 1, "command": "list", "outcome": "ok", "exit": {"code": 0, "name": "ok"}, "gpus": [], "holders": []}
JSON
rm -f "$FLEET/busy/$$"
STUB
        run_apart away list -H 'n[001-500]' --fanout 8 --json
        [ "$status" -eq 0 ]
        output=$out
        [ "$(json '["hosts"].__len__()')" = 500 ]
        [ "$(json '["hosts"][499]["host"]')" = '"n500"' ]
        [ "$(wc -l <"$FLEET/width")" -eq 500 ]
        [ "$(sort -n "$FLEET/width" | tail -1)" -le 8 ]
}

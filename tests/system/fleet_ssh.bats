#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The same over real sshd's on the loopback, with keys and configuration of their own: 32 hosts, each with a simulated
# node, three of them dead in different ways.

load helpers
load fleet

HOSTS=32

setup_file() {
        [ -x /usr/sbin/sshd ] && command -v ssh >/dev/null || skip "no sshd here (openssh-server)"
        [ "$(id -u)" -eq 0 ] || skip "starts sshd as root"
}

setup() {
        export LC_ALL=C.UTF-8
        unset NO_COLOR COLUMNS
        real_ssh=$(command -v ssh)
        fleet_setup
        mkdir -p /run/sshd "$FLEET/etc"
        ssh-keygen -q -t ed25519 -N '' -f "$FLEET/etc/host"
        ssh-keygen -q -t ed25519 -N '' -f "$FLEET/etc/user"
        printf '#!/bin/sh\nexec %s -F %s/etc/config "$@"\n' "$real_ssh" "$FLEET" >"$FLEET/bin/ssh"
        {
                echo "IdentityFile $FLEET/etc/user"
                echo "IdentitiesOnly yes"
                echo "UserKnownHostsFile $FLEET/etc/known"
                echo "User root"
        } >"$FLEET/etc/config"
        : >"$FLEET/etc/pids"
}

teardown() {
        local pid
        while read -r pid; do kill "$pid" 2>/dev/null || true; done <"$FLEET/etc/pids"
        fleet_teardown
}

# name_host HOST PORT: how ssh gets there.
name_host() {
        printf 'Host %s\n  HostName 127.0.0.1\n  Port %d\n  HostKeyAlias %s\n' "$1" "$2" "$1" >>"$FLEET/etc/config"
        printf '%s %s\n' "$1" "$(cut -d' ' -f1,2 "$FLEET/etc/host.pub")" >>"$FLEET/etc/known"
}

# free_ports N: numbers that nobody listens on.
free_ports() {
        python3 - "$1" <<'PY'
import socket, sys
s = [socket.socket() for _ in range(int(sys.argv[1]))]
for x in s:
    x.bind(('127.0.0.1', 0))
    print(x.getsockname()[1])
PY
}

# serve HOST PORT: an sshd whose logins find this host's gpufree first.
serve() {
        name_host "$1" "$2"
        cat >"$FLEET/etc/sshd.$1" <<CONFIG
ListenAddress 127.0.0.1:$2
HostKey $FLEET/etc/host
AuthorizedKeysFile $FLEET/etc/user.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
SetEnv PATH=$FLEET/hosts/$1:/usr/bin:/bin
CONFIG
        /usr/sbin/sshd -D -f "$FLEET/etc/sshd.$1" -E "$FLEET/etc/log.$1" 3>&- &
        echo $! >>"$FLEET/etc/pids"
        disown
}

answers() {
        ssh -oBatchMode=yes "$1" true
}

@test "fleet over sshd: 32 hosts, three dead in different ways" {
        mapfile -t ports < <(free_ports "$HOSTS")
        for ((i = 1; i <= HOSTS - 2; i++)); do
                host=$(printf 'gpu%02d' "$i")
                fleet_host "$host" --gpus 1 --ptys
                [ "$i" -ne 3 ] || { add plain --gpu 0 --memory 20GiB; held=$pid; }
                [ "$i" -ne 4 ] || { add plain --gpu 0; bystander=$pid; }
                serve "$host" "${ports[i - 1]}"
        done
        sim_wait_for answers gpu01 || skip "root cannot log in over a loopback sshd here: $(tail -1 "$FLEET/etc/log.gpu01")"
        sim_wait_for answers gpu30
        # gpu30's disk is full: what gpufree says there cannot be written. gpu31 refuses, gpu32 accepts and says nothing.
        sed -i 's/"\$@"$/"$@" >\/dev\/full/' "$FLEET/hosts/gpu30/gpufree"
        name_host gpu31 "${ports[30]}"
        name_host gpu32 "${ports[31]}"
        python3 -c 'import socket, signal, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(9); open(sys.argv[2], "w"); signal.pause()' "${ports[31]}" "$FLEET/listens" 3>&- &
        echo $! >>"$FLEET/etc/pids"
        disown
        sim_wait_for test -e "$FLEET/listens"

        begin=$(date +%s%N)
        run_apart timeout 120 "$GPUFREE" check -H 'gpu[01-32]' --json --host-timeout 20s
        took=$((($(date +%s%N) - begin) / 1000000))
        [ "$status" -eq 1 ]
        [ "$took" -lt 30000 ]
        python3 - "$BATS_TEST_TMPDIR/out" <<'PY'
import json, sys
hosts = json.load(open(sys.argv[1]))['hosts']
got = [(h['outcome'], h['reason']) for h in hosts]
want = [('ok', None)] * 32
want[2] = want[3] = ('held', None)
want[29] = ('unreachable', 'usage')
want[30] = ('unreachable', 'refused')
want[31] = ('unreachable', 'no-answer')
assert got == want, [(h['host'], h['outcome'], h['reason'], h['sentence']) for h, w in zip(hosts, want) if (h['outcome'], h['reason']) != w]
assert 'No space left' in hosts[29]['sentence'], hosts[29]['sentence']
PY
        run_apart timeout 120 "$GPUFREE" kill -y -H 'gpu[01-03]'
        echo "$out"
        [ "$status" -eq 0 ]
        sim_wait_gone "$held"
        alive "$bystander"

        # What it costs beside plain ssh, told and not judged: the machine that the tests run on has other things to do.
        begin=$(date +%s%N)
        printf 'gpu%02d\n' $(seq 29) | xargs -P 64 -I{} ssh -oBatchMode=yes {} true
        plain=$((($(date +%s%N) - begin) / 1000000))
        begin=$(date +%s%N)
        "$GPUFREE" list -H 'gpu[01-29]' >/dev/null
        ours=$((($(date +%s%N) - begin) / 1000000))
        echo "# 29 hosts: ssh HOST true ${plain} ms, gpufree list ${ours} ms, ratio $((ours * 100 / plain)) %" >&3
}

@test "fleet over sshd: a host key that is not the known one is refused" {
        mapfile -t ports < <(free_ports 1)
        fleet_host gpu01 --gpus 1
        serve gpu01 "${ports[0]}"
        sim_wait_for answers gpu01 || skip "root cannot log in over a loopback sshd here"
        ssh-keygen -q -t ed25519 -N '' -f "$FLEET/etc/other"
        printf 'gpu01 %s\n' "$(cut -d' ' -f1,2 "$FLEET/etc/other.pub")" >"$FLEET/etc/known"
        run_apart timeout 60 "$GPUFREE" list -H gpu01 --json
        [ "$status" -eq 3 ]
        output=$out
        [ "$(json '["hosts"][0]["reason"]')" = '"host-key"' ]
        : >"$FLEET/etc/known"
        run_apart timeout 60 "$GPUFREE" list -H gpu01 --json </dev/null
        output=$out
        [ "$(json '["hosts"][0]["reason"]')" = '"host-key"' ]
}

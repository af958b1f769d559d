#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The fleet tools that people have, over a real sshd: Ansible, clush, pdsh, and what their recipes promise.

load helpers
load sshd

setup() {
        cli_setup
        ANSIBLE="$SOURCE_DIR/contrib/ansible"
}

teardown() {
        sshd_down
        cli_teardown
}

# fleet: a node with a holder (its PID is $pid) and a bystander, behind an sshd; $THERE is gpufree as it is called there.
fleet() {
        sim_up --gpus 2
        add open --gpu 1
        bystander=$pid
        add plain --gpu 0 --memory 20GiB --name "python3 train.py"
        sshd_up "$BATS_TEST_TMPDIR/sshd"
        THERE="$BATS_TEST_TMPDIR/gpufree"
        {
                echo '#!/bin/sh'
                echo "export GPUFREE_SIM_DIR='$NODE' LD_LIBRARY_PATH='${LD_LIBRARY_PATH-}'"
                # shellcheck disable=SC2016
                echo 'command=$1; shift'
                echo "exec '$GPUFREE' \"\$command\" ${GPUFREE_OPTS-} --scope namespace \"\$@\""
        } >"$THERE"
        chmod 0755 "$THERE"
}

ansible_ready() {
        command -v ansible-playbook >/dev/null || skip "no Ansible (Debian's ansible-core)"
        fleet
        export ANSIBLE_CONFIG="$BATS_TEST_TMPDIR/ansible.cfg" ANSIBLE_NOCOLOR=1 ANSIBLE_HOME="$BATS_TEST_TMPDIR/ansible"
        cat >"$ANSIBLE_CONFIG" <<-CONFIG
		[defaults]
		roles_path = $ANSIBLE/roles
		remote_tmp = $BATS_TEST_TMPDIR/remote
		host_key_checking = true
		interpreter_python = $(command -v python3)
		[ssh_connection]
		ssh_args = -F $SSH_CONFIG
	CONFIG
        printf 'node1\n' >"$BATS_TEST_TMPDIR/hosts"
}

ad_hoc() {
        run timeout 120 ansible all -i "$BATS_TEST_TMPDIR/hosts" -m ansible.builtin.command -a "$*"
        echo "$output"
}

# playbook JSON [OPTIONS…]: the variables of the role, as JSON.
playbook() {
        local variables=$1
        shift
        run timeout 200 ansible-playbook -i "$BATS_TEST_TMPDIR/hosts" "$ANSIBLE/gpus-free.yml" -e gpufree_become=false \
                -e "{\"gpufree_program\": \"$THERE\"}" -e "$variables" "$@"
        echo "$output"
}

@test "fleet tools: Ansible, one line: a held GPU fails the host, a free one does not, an unreachable host is told" {
        ansible_ready
        echo gone >>"$BATS_TEST_TMPDIR/hosts"
        ad_hoc "$THERE check --gpu 0"
        [ "$status" -ne 0 ]
        [[ "$output" == *"node1 | FAILED | rc=1"* ]]
        [[ "$output" == *"gone | UNREACHABLE"* ]]
        sed -i /gone/d "$BATS_TEST_TMPDIR/hosts"
        ad_hoc "$THERE check --gpu 1"
        [ "$status" -eq 0 ]
        [[ "$output" == *"node1 | CHANGED | rc=0"* ]]
        ad_hoc "$THERE kill --yes --match train.py"
        [ "$status" -eq 0 ]
        not alive "$pid"
        alive "$bystander"
}

@test "fleet tools: Ansible's role: looks, plans, ends, verifies, and changes nothing the second time" {
        ansible_ready
        playbook '{}'
        [ "$status" -ne 0 ]
        [[ "$output" == *"exit 1"* ]]
        [[ "$output" == *"failed=1"* ]]
        alive "$pid"
        # What would be.
        playbook '{"gpufree_end": true}' --check
        [ "$status" -eq 0 ]
        [[ "$output" == *"changed=1"*"failed=0"* ]]
        alive "$pid"
        # Somebody else's selection ends nobody, and nothing of it holds.
        playbook '{"gpufree_end": true, "gpufree_selection": ["--match", "somebody else"]}'
        [ "$status" -eq 0 ]
        [[ "$output" == *"changed=0"*"failed=0"* ]]
        alive "$pid"
        playbook '{"gpufree_end": true, "gpufree_grace": "5s"}'
        [ "$status" -eq 0 ]
        [[ "$output" == *"changed=1"*"failed=0"* ]]
        not alive "$pid"
        alive "$bystander"
        playbook '{"gpufree_end": true}'
        [ "$status" -eq 0 ]
        [[ "$output" == *"changed=0"*"failed=0"* ]]
}

@test "fleet tools: Ansible's role: mistakes end nobody, and words are words" {
        ansible_ready
        for wrong in '{"gpufree_selection": "--gpu 0"}' '{"gpufree_end": "yes please"}' \
                '{"gpufree_end": true, "gpufree_selection": ["--gpu", "7"]}' '{"gpufree_end": true, "gpufree_grace": "banana"}'; do
                playbook "$wrong"
                [ "$status" -ne 0 ]
                [[ "$output" == *"failed=1"* ]]
                alive "$pid"
        done
        playbook "{\"gpufree_end\": true, \"gpufree_selection\": [\"--match\", \"\$(touch $BATS_TEST_TMPDIR/ran) ' ; touch $BATS_TEST_TMPDIR/ran #\"]}"
        [ ! -e "$BATS_TEST_TMPDIR/ran" ]
        alive "$pid"
}

@test "fleet tools: clush -S: the worst exit status of the hosts, 255 for one that cannot be reached" {
        command -v clush >/dev/null || skip "no clush (Debian's clustershell)"
        fleet
        each() {
                run timeout 120 clush -S -b -o "-F $SSH_CONFIG" "$@"
                echo "$output"
        }
        each -w 'node[1-3]' "$THERE check --gpu 1"
        [ "$status" -eq 0 ]
        [[ "$output" == *"node[1-3]"* ]]
        each -w 'node[1-3]' "$THERE check --gpu 0"
        [ "$status" -eq 1 ]
        each -w node1 "$THERE check --gpu 7"
        [ "$status" -eq 2 ]
        each -w node1,gone "$THERE check --gpu 1"
        [ "$status" -eq 255 ]
        each -w node1 "$THERE kill --yes --match train.py"
        [ "$status" -eq 0 ]
        not alive "$pid"
        alive "$bystander"
        each -w 'node[1-3]' "$THERE check"
        [ "$status" -eq 0 ]
}

@test "fleet tools: pdsh -S: the worst exit status of the hosts" {
        command -v pdsh >/dev/null || skip "no pdsh"
        pdsh -L 2>/dev/null | grep -q 'rcmd/ssh' || skip "this pdsh has no ssh"
        fleet
        export PDSH_SSH_ARGS="-2 -F $SSH_CONFIG -l%u %h"
        run timeout 120 pdsh -S -R ssh -w 'root@node[1-2]' "$THERE check --gpu 1"
        echo "$output"
        [ "$status" -eq 0 ]
        run timeout 120 pdsh -S -R ssh -w 'root@node[1-2]' "$THERE check --gpu 0"
        echo "$output"
        [ "$status" -eq 1 ]
        run timeout 120 pdsh -S -R ssh -w 'root@node1' "$THERE list -q"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *"node1: $pid"* ]]
}

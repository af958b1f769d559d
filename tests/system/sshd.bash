# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# An sshd of our own on a loopback port, for the tests of fleet tools: own keys, own settings, ended by its PID.

# sshd_up DIR: $SSH_CONFIG (for ssh -F) then names it as node1, node2, … and as "gone", which nobody serves.
sshd_up() {
        local dir=$1 port
        SSHD=$(command -v sshd || echo /usr/sbin/sshd)
        [ -x "$SSHD" ] && command -v ssh >/dev/null && command -v ssh-keygen >/dev/null || skip "no sshd (Debian's openssh-server)"
        [ "$(id -u)" -eq 0 ] || skip "needs root to run an sshd"
        mkdir -p "$dir" /run/sshd
        chmod 0700 "$dir"
        ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key"
        ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
        cp "$dir/key.pub" "$dir/authorized"
        for port in $(shuf -i 20000-29999 -n 20); do
                cat >"$dir/sshd_config" <<-CONFIG
			ListenAddress 127.0.0.1
			Port $port
			HostKey $dir/host_key
			AuthorizedKeysFile $dir/authorized
			StrictModes no
			UsePAM no
			PasswordAuthentication no
			KbdInteractiveAuthentication no
			PermitRootLogin prohibit-password
			MaxStartups 100:30:200
			PidFile none
			Subsystem sftp internal-sftp
		CONFIG
                "$SSHD" -D -e -f "$dir/sshd_config" >"$dir/log" 2>&1 </dev/null 3>&- &
                SSHD_PID=$!
                if sshd_listens "$dir"; then
                        sshd_client "$dir" "$port"
                        return 0
                fi
                kill "$SSHD_PID" 2>/dev/null || :
        done
        SSHD_PID=
        skip "no sshd can be run here: $(tail -n 1 "$dir/log")"
}

sshd_listens() {
        local n
        for n in $(seq 200); do
                grep -q 'Server listening' "$1/log" && return 0
                kill -0 "$SSHD_PID" 2>/dev/null || return 1
                sleep 0.05
        done
        return 1
}

# The host's key is known and checked: as it should be anywhere.
sshd_client() {
        local dir=$1 port=$2
        printf '[127.0.0.1]:%s %s\n' "$port" "$(cut -d' ' -f1,2 "$dir/host_key.pub")" >"$dir/known_hosts"
        cat >"$dir/ssh_config" <<-CONFIG
		Host node*
		    HostName 127.0.0.1
		    Port $port
		Host gone
		    HostName 127.0.0.1
		    Port 1
		Host *
		    User root
		    IdentityFile $dir/key
		    IdentitiesOnly yes
		    IdentityAgent none
		    UserKnownHostsFile $dir/known_hosts
		    StrictHostKeyChecking yes
		    BatchMode yes
		    ConnectTimeout 30
	CONFIG
        SSH_CONFIG=$dir/ssh_config
        ssh -F "$SSH_CONFIG" node1 true || skip "no login by the sshd started here: $(tail -n 1 "$dir/log")"
}

sshd_down() {
        [ -z "${SSHD_PID-}" ] || { kill "$SSHD_PID"; wait "$SSHD_PID" 2>/dev/null; SSHD_PID=; } || :
}

# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A Slurm of the test's own on the loopback: munged, slurmctld, slurmd, the two GPUs of a simulated node in $NODE. Needs owner.bash.

# slurm_up EPILOG: starts it, EPILOG may be empty.
slurm_up() {
	need munged slurmctld slurmd srun sbatch scontrol
	local host port=$((20000 + RANDOM % 20000))
	host=$(hostname -s)
	S=$T/slurm
	mkdir -p "$S"/{state,spool,log,munge}
	dd if=/dev/urandom of="$S/munge/key" bs=128 count=1 status=none
	chmod 0400 "$S/munge/key"
	chmod 0755 "$S/munge"
	cat >"$S/slurm.conf" <<-END
		ClusterName=gpufreetest
		SlurmctldHost=$host(127.0.0.1)
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		AuthInfo=socket=$S/munge/socket
		CredType=cred/munge
		SlurmctldPort=$port
		SlurmdPort=$((port + 1))
		StateSaveLocation=$S/state
		SlurmdSpoolDir=$S/spool
		SlurmctldPidFile=$S/slurmctld.pid
		SlurmdPidFile=$S/slurmd.pid
		SlurmctldLogFile=$S/log/slurmctld
		SlurmdLogFile=$S/log/slurmd
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SwitchType=switch/none
		MpiDefault=none
		ReturnToService=2
		SchedulerType=sched/builtin
		SchedulerParameters=default_queue_depth=100,sched_interval=1
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		GresTypes=gpu
		KillWait=2
		InactiveLimit=0
		MinJobAge=300
		JobRequeue=0
		PrologEpilogTimeout=90
		${1:+Epilog=$1}
		NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) Gres=gpu:2 State=UNKNOWN
		PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	END
	cat >"$S/gres.conf" <<-END
		Name=gpu File=$NODE/dev/nvidia0
		Name=gpu File=$NODE/dev/nvidia1
	END
	printf 'CgroupAutomount=no\n' >"$S/cgroup.conf"
	export SLURM_CONF=$S/slurm.conf
	munged --force --key-file "$S/munge/key" --socket "$S/munge/socket" --pid-file "$S/munge/pid" \
		--log-file "$S/log/munged" --seed-file "$S/munge/seed" 3>&- || skip "munged does not start here"
	slurmctld -c -f "$S/slurm.conf" 3>&- || skip "slurmctld does not start here"
	slurmd -f "$S/slurm.conf" 3>&- || skip "slurmd does not start here"
	until_true 60 slurm_idle || {
		tail -n 20 "$S/log/slurmctld" "$S/log/slurmd" >&2
		skip "Slurm's node does not become idle here"
	}
}

slurm_idle() {
	[ "$(sinfo -h -o %t 2>/dev/null)" = idle ]
}

slurm_state() {
	sinfo -h -o %t
}

# A pid file of a daemon started above; ended by its own number, then waited for.
slurm_end() {
	local pid
	pid=$(cat "$1" 2>/dev/null) || return 0
	[ -n "$pid" ] || return 0
	kill -TERM "$pid" 2>/dev/null || return 0
	until_true 15 gone "$pid" || kill -KILL "$pid" 2>/dev/null || :
}

slurm_down() {
	[ -n "${S:-}" ] || return 0
	scancel --state=RUNNING --quiet 2>/dev/null || :
	slurm_end "$S/slurmd.pid"
	slurm_end "$S/slurmctld.pid"
	slurm_end "$S/munge/pid"
	unset SLURM_CONF
}

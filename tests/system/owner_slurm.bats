#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A real Slurm with two stand-in GPUs: what a job leaves behind, with and without the epilog.

load owner
load slurm

JOB_UID=65534
OTHER_UID=$(id -u mail 2>/dev/null || echo 8)

setup() {
	owner_setup
	need_root
	need_gpufree
	SIM=${BUILD_DIR:-$BATS_TEST_DIRNAME/../../build}/sim/gpufree-sim
	[ -x "$SIM" ] || skip "gpufree-sim is not built"
	NODE=$T/node
	settings=$("$SIM" up "$NODE" --gpus 2 3>&-)
	eval "$settings"
	# jobs start real holders of the node as their own user
	chmod 1777 "$NODE/holders"
	mkdir -m 1777 "$T/out"
	S=
	FROZEN=
	# leaves a holder behind that has left the job's process group and session; stay: the same, not left
	cat >"$T/hold" <<-END
		#!/bin/sh
		# GPU FILE: holds 20 GiB of it; the holder's PID into FILE
		$SIM-holder plain --dir "$NODE" --gpu "\$1" --memory 20GiB --name "python train.py" >"\$2.new" 2>"\$2.err" </dev/null &
		n=0
		until [ -s "\$2.new" ]; do sleep 0.1; n=\$((n + 1)); [ \$n -lt 300 ] || exit 1; done
		mv "\$2.new" "\$2"
		wait
	END
	cat >"$T/leave" <<-END
		#!/bin/sh
		(setsid "$T/hold" "\$1" "\$2" </dev/null >/dev/null 2>&1 &)
		n=0
		while [ ! -e "\$2" ]; do sleep 0.1; n=\$((n + 1)); [ \$n -lt 300 ] || exit 1; done
	END
	chmod 0755 "$T/hold" "$T/leave"
}

teardown() {
	[ -z "$FROZEN" ] || thaw
	slurm_down
	[ ! -e "${NODE:-}" ] || "$SIM" down "$NODE"
	local file
	for file in "$T"/out/*; do
		[ -s "$file" ] && kill -KILL "$(cat "$file")" 2>/dev/null
	done
	owner_teardown
}

# epilog_with SETTINGS…: this project's epilog, with its settings, logging to $T/epilog.log.
epilog_with() {
	cat >"$T/epilog" <<-END
		#!/bin/sh
		$settings
		export GPUFREE=$GPUFREE GPUFREE_OPTIONS="--dev-root $NODE/dev --scope namespace" GPUFREE_LOG=$T/epilog.log
		export $* GPUFREE_SHARED=no
		exec $(cd "$BATS_TEST_DIRNAME/../../contrib/slurm" && pwd)/epilog-gpufree
	END
	chmod 0755 "$T/epilog"
}

# holding PID GPU: is it listed as a holder of that GPU?
holding() {
	"$GPUFREE" list -q --dev-root "$NODE/dev" --scope namespace --gpu "$2" | grep -qx "$1"
}

job_done() {
	[ -z "$(squeue -h -j "$1" -o %i 2>/dev/null)" ] || [ "$(squeue -h -j "$1" -o %t 2>/dev/null)" = CD ]
}

thaw() {
	echo THAWED >"$FROZEN/freezer.state" 2>/dev/null || :
	until_true 20 rmdir "$FROZEN" 2>/dev/null || :
}

@test "what a job left is known as that job's, by its environment alone" {
	need_probe
	slurm_up ""
	srun --uid="$JOB_UID" --gres=gpu:1 -D /tmp "$T/leave" 0 "$T/out/left" 3>&-
	LEFT=$(cat "$T/out/left")
	holding "$LEFT" 0
	run "$OWNER_PROBE" "$LEFT"
	[ "$status" -eq 0 ]
	[ "$(probe_value label)" = "job 1.0 (slurm)" ]
	# a job is selected with all of its steps, or one
	for id in 1 1.0; do
		[ "$("$GPUFREE" list -q --dev-root "$NODE/dev" --scope namespace --job "$id")" = "$LEFT" ]
	done
	for id in 2 1.1 11; do
		[ -z "$("$GPUFREE" list -q --dev-root "$NODE/dev" --scope namespace --job "$id")" ]
	done
	# only as its own user: the number is what the process says
	[[ "$(probe_value stop)" == "scancel --user=nobody 1.0" || -n "$(probe_value refusal)" ]]
}

@test "without the epilog the next job finds its GPU held" {
	slurm_up ""
	srun --uid="$JOB_UID" --gres=gpu:1 -D /tmp "$T/leave" 0 "$T/out/left" 3>&-
	LEFT=$(cat "$T/out/left")
	until_true 30 slurm_idle
	holding "$LEFT" 0
	run "$GPUFREE" check --dev-root "$NODE/dev" --scope namespace --gpu 0
	[ "$status" -eq 1 ]
}

@test "with the epilog the next job finds its GPU free, and another user's job on the other GPU lives on" {
	epilog_with GPUFREE_GRACE=2s GPUFREE_TIMEOUT=30s
	slurm_up "$T/epilog"
	# GPU 0 goes to the job that leaves something, GPU 1 to another user's job that runs on
	srun --uid="$JOB_UID" --gres=gpu:1 -n 1 -D /tmp sh -c "touch '$T/out/.first'; while [ ! -e '$T/go' ]; do sleep 0.1; done
		exec '$T/leave' 0 '$T/out/left'" >/dev/null 3>&- &
	first=$!
	until_true 30 test -e "$T/out/.first"
	srun --uid="$OTHER_UID" --gres=gpu:1 -n 1 -D /tmp "$T/hold" 1 "$T/out/other" >/dev/null 3>&- &
	second=$!
	until_true 30 test -s "$T/out/other"
	OTHER=$(cat "$T/out/other")
	touch "$T/go"
	wait "$first"
	LEFT=$(cat "$T/out/left")
	until_true 60 test -s "$T/epilog.log"
	until_true 60 gone "$LEFT"
	lives "$OTHER"
	holding "$OTHER" 1
	[ "$(slurm_state)" = mix ] || [ "$(slurm_state)" = alloc ]
	# the next job on GPU 0: nobody holds it
	run srun --uid="$JOB_UID" --gres=gpu:1 -n 1 -D /tmp true 3>&-
	[ "$status" -eq 0 ]
	lives "$OTHER"
	kill -TERM "$OTHER"
	wait "$second" || :
}

@test "a leftover that cannot be killed drains the node, when asked" {
	local freezer=/sys/fs/cgroup/freezer
	[ -w "$freezer/tasks" ] || skip "no freezer of cgroup v1: nothing makes a process unkillable here"
	epilog_with GPUFREE_GRACE=1s GPUFREE_TIMEOUT=5s GPUFREE_DRAIN=yes
	slurm_up "$T/epilog"
	mkdir "$freezer/gpufree-test-$$" || skip "the freezer cannot be used here"
	FROZEN=$freezer/gpufree-test-$$
	srun --uid="$JOB_UID" --gres=gpu:1 -D /tmp sh -c "'$T/leave' 0 '$T/out/left'
		while [ ! -e '$T/go' ]; do sleep 0.1; done" >/dev/null 3>&- &
	until_true 30 test -s "$T/out/left"
	LEFT=$(cat "$T/out/left")
	echo "$LEFT" >"$FROZEN/tasks"
	echo FROZEN >"$FROZEN/freezer.state"
	until_true 20 grep -q FROZEN "$FROZEN/freezer.state"
	touch "$T/go"
	wait $! || :
	until_true 60 drained
	lives "$LEFT"
	[ -n "$(sinfo -h -R -o %E)" ]
	grep -q 'draining the node' "$T/epilog.log"
}

drained() {
	[[ "$(slurm_state)" == drain* || "$(slurm_state)" == drng* ]]
}

@test "srun's recipes: between two steps of a job what the first left is ended, by its own user; the worst status comes back" {
	slurm_up ""
	mkdir -m 1777 "$T/said"
	OTHER=$("$SIM" add "$NODE" plain --gpu 1 --memory 20GiB --user "$OTHER_UID" 3>&-)
	cat >"$T/job" <<-END
		#!/bin/sh
		options="--dev-root $NODE/dev --scope namespace"
		export GPUFREE="$GPUFREE" options
		srun --ntasks-per-node=1 "$T/leave" 0 "$T/out/left"
		srun --ntasks-per-node=1 sh -c '"\$GPUFREE" list -q \$options --gpu "\$CUDA_VISIBLE_DEVICES"' >"$T/said/listed"
		srun --ntasks-per-node=1 sh -c '"\$GPUFREE" check \$options --gpu "\$CUDA_VISIBLE_DEVICES"' >"$T/said/held"
		echo \$? >"$T/said/held.status"
		srun --ntasks-per-node=1 sh -c '"\$GPUFREE" kill --yes \$options --user me --job "\$SLURM_JOB_ID" --gpu "\$CUDA_VISIBLE_DEVICES"' \
			>"$T/said/ended" 2>&1
		echo \$? >"$T/said/ended.status"
	END
	run timeout 120 sbatch --wait --uid="$JOB_UID" --gres=gpu:1 -n 1 -D /tmp -o "$T/said/job" "$T/job" 3>&-
	tail -n 20 "$T"/said/*
	[ "$status" -eq 0 ]
	LEFT=$(cat "$T/out/left")
	grep -qx "$LEFT" "$T/said/listed"
	# Whoever holds it is seen by its own user, but not that nobody else does.
	[ "$(cat "$T/said/held.status")" = 1 ]
	[ "$(cat "$T/said/ended.status")" = 0 ]
	gone "$LEFT"
	lives "$OTHER"
	# Of two tasks, one on the free GPU and one on the other user's: the worse status is srun's.
	run srun --gres=gpu:2 -n 2 -D /tmp sh -c "'$GPUFREE' check --dev-root '$NODE/dev' --scope namespace --gpu \$SLURM_PROCID" 3>&-
	[ "$status" -eq 1 ]
	run srun --gres=gpu:2 -n 2 -D /tmp "$GPUFREE" check --dev-root "$NODE/dev" --scope namespace --gpu 0 3>&-
	[ "$status" -eq 0 ]
	lives "$OTHER"
}

@test "the epilog passes on the job's GPUs and user, and drains only when asked" {
	local epilog=$BATS_TEST_DIRNAME/../../contrib/slurm/epilog-gpufree
	printf '#!/bin/sh\necho "$@" >"%s/asked"\nexit "$(cat "%s/code")"\n' "$T" "$T" >"$T/gpufree"
	chmod 0755 "$T/gpufree"
	export SLURM_JOB_ID=7 SLURM_JOB_UID=1000 SLURM_JOB_GPUS=0,1 GPUFREE=$T/gpufree
	echo 0 >"$T/code"
	run "$epilog"
	[ "$status" -eq 0 ]
	[ "$(cat "$T/asked")" = "kill --yes --gpu 0,1 --user 1000 --grace 5s --timeout 50s" ]
	SLURM_JOB_SHARDS=1 run "$epilog"
	[ "$(cat "$T/asked")" = "kill --yes --gpu 0,1 --user 1000 --grace 5s --timeout 50s --job 7" ]
	# with MIG the numbers are no GPUs: the job alone
	GPUFREE_MIG=yes run "$epilog"
	[ "$(cat "$T/asked")" = "kill --yes --user 1000 --grace 5s --timeout 50s --job 7" ]
	for code in 1 3 4 5 6; do
		echo "$code" >"$T/code"
		run "$epilog"
		[ "$status" -eq 0 ]
		GPUFREE_DRAIN=yes run "$epilog"
		case $code in
		1 | 5 | 6) [ "$status" -eq 1 ] ;;
		*) [ "$status" -eq 0 ] ;;
		esac
	done
	# nothing is done for a job without GPUs, for root's, and for what is no number
	rm "$T/asked"
	SLURM_JOB_GPUS='' run "$epilog"
	[ "$status" -eq 0 ]
	SLURM_JOB_UID=0 run "$epilog"
	[ "$status" -eq 0 ]
	SLURM_JOB_UID='1 --pid 1' run "$epilog"
	[ "$status" -eq 0 ]
	SLURM_JOB_GPUS='all' run "$epilog"
	[ "$status" -eq 0 ]
	[ ! -e "$T/asked" ]
}

@test "the prolog frees what the job's user left on its GPUs, and tells when somebody else is on them" {
	local prolog=$BATS_TEST_DIRNAME/../../contrib/slurm/prolog-gpufree
	export GPUFREE_OPTIONS="--dev-root $NODE/dev --scope namespace" GPUFREE_LOG=$T/prolog.log GPUFREE_GRACE=2s
	export SLURM_JOB_ID=9 SLURM_JOB_UID=$JOB_UID SLURM_JOB_GPUS=0 GPUFREE_DRAIN=yes GPUFREE
	LEFT=$("$SIM" add "$NODE" plain --gpu 0 --memory 20GiB --user "$JOB_UID" 3>&-)
	OTHER=$("$SIM" add "$NODE" plain --gpu 1 --memory 20GiB --user "$OTHER_UID" 3>&-)
	run "$prolog"
	[ "$status" -eq 0 ]
	gone "$LEFT"
	lives "$OTHER"
	GPUFREE_MIG=yes SLURM_JOB_GPUS=0,1 run "$prolog"
	[ "$status" -eq 0 ]
	SLURM_JOB_GPUS=0,1 run "$prolog"
	[ "$status" -eq 1 ]
	lives "$OTHER"
	grep -q "held by $OTHER" "$T/prolog.log"
	SLURM_JOB_GPUS=0,1 GPUFREE_DRAIN=no run "$prolog"
	[ "$status" -eq 0 ]
	lives "$OTHER"
}

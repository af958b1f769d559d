/* SPDX-License-Identifier: MIT */
#include "options.h"

#define LIST (1u << CLI_LIST)
#define KILL (1u << CLI_KILL)
#define CHECK (1u << CLI_CHECK)
#define WAIT (1u << CLI_WAIT)
#define PARK (1u << CLI_PARK)
#define UNPARK (1u << CLI_UNPARK)
#define RUN (1u << CLI_RUN)
#define EXPLAIN (1u << CLI_EXPLAIN)
#define SELECTING (LIST | KILL | CHECK | WAIT | PARK | EXPLAIN)
#define SCAN (SELECTING | UNPARK)                    /* the commands that look at the machine */
#define REACH (LIST | KILL | CHECK | WAIT | EXPLAIN) /* also on other machines */
#define EVERY (SCAN | RUN | (1u << CLI_HELP))

const struct cli_command_info cli_commands[CLI_COMMANDS] = {
        [CLI_LIST] = { "list", "who holds each GPU (also without a command)", "[list] [OPTION...] [DEVICE...]",
                       "Shows every GPU and every process that holds one: memory, since when, how it is held, whose\n"
                       "it is. Processes are found by the device they keep open, never by name.\n" },
        [CLI_KILL] = { "kill", "end the selected holders, and prove that the memory came back",
                       "kill [OPTION...] [DEVICE...]",
                       "Shows what would be ended, asks, ends just that (TERM, after a grace KILL), waits until the\n"
                       "processes are gone, looks again until nothing selected is left, and compares the memory.\n"
                       "Without a selection every holder of a GPU is meant. Services and this login are left "
                       "alone.\n" },
        [CLI_CHECK] = { "check", "exit status: free or not", "check [OPTION...] [DEVICE...]",
                        "Says whether the selected GPUs are free, on what evidence, and exits 0 (free) or 1 (held).\n"
                        "With --for reset, mig, unload or unbind: what stands in the way of that, in the order to\n"
                        "clear it, with commands (exit 1), or that nothing does (exit 0). It does none of it.\n" },
        [CLI_WAIT] = { "wait", "wait until the selected GPUs are free", "wait [OPTION...] [DEVICE...]",
                       "Blocks until the selected GPUs are free, or until --timeout (exit 6).\n" },
        [CLI_EXPLAIN] = { "explain", "every MiB of a GPU, or why a process does not let go",
                          "explain [OPTION...] [PID...|DEVICE...]",
                          "Without a PID: the account of each selected GPU: what is reserved, what each process has, "
                          "what\nis kept of dead processes and by whom, what is unaccounted and why; and what to type "
                          "next.\nWith PIDs, or with options that select processes: what each holds and how, what its "
                          "threads wait\nfor, its signals, who would start it again, errors in the kernel log.\n" },
        [CLI_PARK] = { "park", "take their memory off the GPU without ending them", "park OPTION... [DEVICE...]",
                       "Stops the selected CUDA processes, copies their GPU memory to host memory, and verifies that "
                       "it\n"
                       "is free: they hold no device then. \"gpufree unpark\" brings them back. Needs a selection and\n"
                       "NVIDIA's driver 570 or later.\n" },
        [CLI_UNPARK] = { "unpark", "bring parked processes back", "unpark PID... | --all [OPTION...]",
                         "Copies the memory of parked processes back to their GPU, or to another one, and lets them "
                         "go\n"
                         "on. One that was left locked goes on, too.\n" },
        [CLI_RUN] = { "run", "run a command on free GPUs, leave them verified free",
                      "run [OPTION...] [DEVICE...] -- COMMAND...",
                      "Claims GPUs that are really free (or refuses, exit 121), starts the command on them, passes\n"
                      "signals on, notices when it never becomes ready (exit 122), ends whatever remains of it, and\n"
                      "verifies that the GPUs came back (else exit 123). Without --gpu or --gpus it takes those of\n"
                      "CUDA_VISIBLE_DEVICES, or all.\n" },
        [CLI_HELP] = { "help", "this overview, or the help of one command", "help [COMMAND]",
                       "Shows the overview, or what one command takes.\n" },
};

#define SELECT(name, argument, criterion, help)                                                                        \
        {                                                                                                              \
                name, '\0', argument, SELECTING, CLI_GROUP_SELECT, CLI_OPT_CRITERION, criterion, help                  \
        }
#define OPTION(name, letter, argument, commands, group, id, help)                                                      \
        {                                                                                                              \
                name, letter, argument, commands, group, id, GPUFREE_BY_GPU, help                                      \
        }

const struct cli_option cli_options[] = {
        { "gpu", '\0', "LIST", SELECTING | RUN, CLI_GROUP_SELECT, CLI_OPT_CRITERION, GPUFREE_BY_GPU,
          "GPUs: index as nvidia-smi counts, UUID, PCI address, MIG UUID, all" },
        SELECT("pid", "LIST", GPUFREE_BY_PID, "these processes"),
        SELECT("user", "LIST", GPUFREE_BY_USER, "processes of these users (name, number, me)"),
        SELECT("container", "NAME", GPUFREE_BY_CONTAINER, "in this container (id, start of the id, name)"),
        SELECT("unit", "NAME", GPUFREE_BY_UNIT, "of this systemd unit"),
        SELECT("job", "ID", GPUFREE_BY_JOB, "of this batch job"),
        SELECT("session", "ID", GPUFREE_BY_SESSION, "of this login session"),
        SELECT("match", "REGEX", GPUFREE_BY_MATCH, "command line matches (extended regular expression)"),
        SELECT("older-than", "DURATION", GPUFREE_BY_OLDER_THAN, "started longer ago than this (10s, 2m, 8h)"),
        SELECT("vendor", "NAME", GPUFREE_BY_VENDOR, "holders of this vendor's GPUs (nvidia, amd, intel, ...)"),
        SELECT("orphans", NULL, GPUFREE_ORPHANS, "whose parent is gone"),
        SELECT("stopped", NULL, GPUFREE_STOPPED, "that are stopped (Ctrl-Z, SIGSTOP)"),
        SELECT("any-open", NULL, GPUFREE_ANY_OPEN, "also those that merely have a GPU device open"),
        OPTION("dev-root", '\0', "DIR", SCAN | RUN, CLI_GROUP_LOOK, CLI_OPT_DEV_ROOT,
               "look for device nodes in DIR, not /dev"),
        OPTION("config", '\0', "FILE", SCAN | RUN, CLI_GROUP_LOOK, CLI_OPT_CONFIG, "protections (/etc/gpufree.conf)"),
        OPTION("scan", '\0', "HOW", SCAN | RUN, CLI_GROUP_LOOK, CLI_OPT_SCAN, "auto (default), bpf or proc"),
        OPTION("scope", '\0', "WHAT", SCAN | RUN, CLI_GROUP_LOOK, CLI_OPT_SCOPE,
               "free for the whole machine (default) or for this PID namespace: machine, namespace"),
        OPTION("sample", '\0', "DURATION", LIST, CLI_GROUP_LOOK, CLI_OPT_SAMPLE,
               "watch so long how busy each holder keeps its GPU"),
        OPTION("dry-run", 'n', NULL, KILL | PARK, CLI_GROUP_KILL, CLI_OPT_DRY_RUN, "show the plan, end (park) nothing"),
        OPTION("yes", 'y', NULL, KILL, CLI_GROUP_KILL, CLI_OPT_YES,
               "do not ask; needed when standard input is no terminal"),
        OPTION("signal", '\0', "SIGNAL", KILL | RUN, CLI_GROUP_KILL, CLI_OPT_SIGNAL, "the first signal (TERM)"),
        OPTION("grace", '\0', "DURATION", KILL | RUN, CLI_GROUP_KILL, CLI_OPT_GRACE, "from it to SIGKILL (10s)"),
        OPTION("force", '9', NULL, KILL, CLI_GROUP_KILL, CLI_OPT_FORCE, "SIGKILL at once"),
        { "include", '\0', "NAME", KILL | PARK, CLI_GROUP_KILL, CLI_OPT_CRITERION, GPUFREE_INCLUDE,
          "lift the protection of this one: a PID, a process name, a unit" },
        OPTION("stop-owner", '\0', NULL, KILL, CLI_GROUP_KILL, CLI_OPT_STOP_OWNER,
               "first the owner's own command, so that nothing starts it again"),
        OPTION("park-first", '\0', NULL, KILL, CLI_GROUP_KILL, CLI_OPT_PARK_FIRST,
               "park those that the driver can park, and end only the rest"),
        OPTION("continue", '\0', NULL, PARK | UNPARK, CLI_GROUP_PARK, CLI_OPT_CONTINUE,
               "let a stopped process go on first (SIGCONT)"),
        OPTION("all", '\0', NULL, UNPARK, CLI_GROUP_PARK, CLI_OPT_ALL, "every parked process that a record tells of"),
        OPTION("to", '\0', "GPU", UNPARK, CLI_GROUP_PARK, CLI_OPT_TO,
               "to this GPU, or each to another: 0:2,1:3 (driver 580)"),
        OPTION("timeout", '\0', "DURATION", KILL | WAIT | PARK | UNPARK, CLI_GROUP_WAIT, CLI_OPT_TIMEOUT,
               "for the whole (kill: 60s; wait: none; park: 10m)"),
        OPTION("settle", '\0', "DURATION", KILL | WAIT | PARK | UNPARK | RUN, CLI_GROUP_WAIT, CLI_OPT_SETTLE,
               "how long memory may take to come back (5s)"),
        OPTION("for", '\0', "PURPOSE", CHECK, CLI_GROUP_WAIT, CLI_OPT_FOR,
               "free for what: run (default), reset, mig, unload, unbind"),
        OPTION("free-memory", '\0', "SIZE", CHECK | WAIT, CLI_GROUP_WAIT, CLI_OPT_FREE_MEMORY,
               "so much is free on each GPU, whoever holds the rest (60GiB)"),
        OPTION("quiet-for", '\0', "DURATION", WAIT, CLI_GROUP_WAIT, CLI_OPT_QUIET_FOR,
               "and it stays so, and nothing computes, for this long"),
        OPTION("gpus", '\0', "N", RUN, CLI_GROUP_RUN, CLI_OPT_GPUS, "so many of them, free ones, close together"),
        OPTION("clean", '\0', NULL, RUN, CLI_GROUP_RUN, CLI_OPT_CLEAN, "first end what this user left on them"),
        OPTION("claim", '\0', "DIR", RUN, CLI_GROUP_RUN, CLI_OPT_CLAIM,
               "claim in this directory too, that containers share"),
        OPTION("ready-url", '\0', "URL", RUN, CLI_GROUP_RUN, CLI_OPT_READY_URL, "ready once this answers with 2xx"),
        OPTION("ready-tcp", '\0', "HOST:PORT", RUN, CLI_GROUP_RUN, CLI_OPT_READY_TCP, "ready once this accepts"),
        OPTION("ready-log", '\0', "REGEX", RUN, CLI_GROUP_RUN, CLI_OPT_READY_LOG, "ready once a line of --log matches"),
        OPTION("ready-fd", '\0', NULL, RUN, CLI_GROUP_RUN, CLI_OPT_READY_FD,
               "ready once a byte is written to descriptor $GPUFREE_READY_FD"),
        OPTION("ready-timeout", '\0', "DURATION", RUN, CLI_GROUP_RUN, CLI_OPT_READY_TIMEOUT,
               "not ready by then: explain, end, exit 122"),
        OPTION("stall-timeout", '\0', "DURATION", RUN, CLI_GROUP_RUN, CLI_OPT_STALL_TIMEOUT,
               "memory, processors and log at a standstill for so long: the same"),
        OPTION("on-ready", '\0', "COMMAND", RUN, CLI_GROUP_RUN, CLI_OPT_ON_READY, "for /bin/sh -c, once it is ready"),
        OPTION("log", '\0', "FILE", RUN, CLI_GROUP_RUN, CLI_OPT_LOG, "add the command's output to this file"),
        OPTION("restart", '\0', "WHEN", RUN, CLI_GROUP_RUN, CLI_OPT_RESTART,
               "no (default), on-failure or on-failure:N (5 times)"),
        OPTION("park-on", '\0', "SIGNAL", RUN, CLI_GROUP_RUN, CLI_OPT_PARK_ON,
               "on USR1 (or USR2) to gpufree, park the command's CUDA processes"),
        OPTION("unpark-on", '\0', "SIGNAL", RUN, CLI_GROUP_RUN, CLI_OPT_UNPARK_ON,
               "bring them back on this one (the other of the two)"),
        OPTION("preempt", '\0', NULL, RUN, CLI_GROUP_RUN, CLI_OPT_PREEMPT,
               "have this user's guards of lower priority park (--park-on) meanwhile"),
        OPTION("priority", '\0', "N", RUN, CLI_GROUP_RUN, CLI_OPT_PRIORITY, "for --preempt, higher is more (0)"),
        OPTION("host", 'H', "TARGET", REACH, CLI_GROUP_REACH, CLI_OPT_HOST,
               "there, by ssh: gpu[01-64], or further: root@hv/pct:129, /lxc: /docker: /podman: /nspawn:"),
        OPTION("hosts", '\0', "FILE", REACH, CLI_GROUP_REACH, CLI_OPT_HOSTS, "the same, a target a line"),
        OPTION("fanout", '\0', "N", REACH, CLI_GROUP_REACH, CLI_OPT_FANOUT, "so many at a time (64)"),
        OPTION("host-timeout", '\0', "DURATION", REACH, CLI_GROUP_REACH, CLI_OPT_HOST_TIMEOUT,
               "a host that has not answered by then counts as not reached (30s)"),
        OPTION("tether", '\0', NULL, REACH, CLI_GROUPS, CLI_OPT_TETHER, ""),
        OPTION("shown", '\0', "LIST", KILL, CLI_GROUPS, CLI_OPT_SHOWN, ""),
        OPTION("by", '\0', "WHAT", LIST, CLI_GROUP_OUTPUT, CLI_OPT_BY, "a line for each owner: owner"),
        OPTION("format", '\0', "FORMAT", LIST, CLI_GROUP_OUTPUT, CLI_OPT_FORMAT,
               "table (default), json, or prom (Prometheus)"),
        OPTION("json", '\0', NULL, SCAN | RUN, CLI_GROUP_OUTPUT, CLI_OPT_JSON, "one JSON document (run: with --log)"),
        OPTION("json-file", '\0', "FILE", RUN, CLI_GROUP_OUTPUT, CLI_OPT_JSON_FILE,
               "the JSON document of the run, at its end"),
        OPTION("quiet", 'q', NULL, SCAN | RUN, CLI_GROUP_OUTPUT, CLI_OPT_QUIET,
               "PIDs alone, one a line (run: nothing but failures)"),
        OPTION("color", '\0', "WHEN", EVERY, CLI_GROUP_OUTPUT, CLI_OPT_COLOR, "auto (default), always, never"),
        OPTION("help", 'h', NULL, EVERY, CLI_GROUP_OUTPUT, CLI_OPT_HELP, "help, also for one command"),
        OPTION("version", 'V', NULL, EVERY, CLI_GROUP_OUTPUT, CLI_OPT_VERSION, "the version"),
        OPTION("dump-options", '\0', NULL, EVERY, CLI_GROUPS, CLI_OPT_DUMP, ""),
};
const size_t cli_option_count = ELEMENTSOF(cli_options);

/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/vec.h"
#include "gpufree.h"

/* One table of commands and one of options: parsing, --help, the completions and the manual page follow them. */
enum cli_command {
        CLI_LIST,
        CLI_KILL,
        CLI_CHECK,
        CLI_WAIT,
        CLI_EXPLAIN,
        CLI_PARK,
        CLI_UNPARK,
        CLI_RUN,
        CLI_HELP,
        CLI_COMMANDS, /* how many */
};

struct cli_command_info {
        const char *name;
        const char *summary; /* one line */
        const char *usage;   /* behind "gpufree " */
        const char *text;    /* for `help COMMAND` */
};
extern const struct cli_command_info cli_commands[CLI_COMMANDS];

enum cli_group {
        CLI_GROUP_SELECT,
        CLI_GROUP_LOOK,
        CLI_GROUP_KILL,
        CLI_GROUP_PARK,
        CLI_GROUP_WAIT,
        CLI_GROUP_RUN,
        CLI_GROUP_REACH,
        CLI_GROUP_OUTPUT,
        CLI_GROUPS, /* how many; also: hidden */
};

enum cli_opt {
        CLI_OPT_CRITERION, /* the option's `criterion` says which */
        CLI_OPT_DEV_ROOT,
        CLI_OPT_CONFIG,
        CLI_OPT_SCAN,
        CLI_OPT_SCOPE,
        CLI_OPT_BY,
        CLI_OPT_DRY_RUN,
        CLI_OPT_YES,
        CLI_OPT_SIGNAL,
        CLI_OPT_GRACE,
        CLI_OPT_FORCE,
        CLI_OPT_STOP_OWNER,
        CLI_OPT_PARK_FIRST,
        CLI_OPT_CONTINUE,
        CLI_OPT_ALL,
        CLI_OPT_TO,
        CLI_OPT_TIMEOUT,
        CLI_OPT_SETTLE,
        CLI_OPT_FOR,
        CLI_OPT_SAMPLE,
        CLI_OPT_FREE_MEMORY,
        CLI_OPT_QUIET_FOR,
        CLI_OPT_GPUS,
        CLI_OPT_CLEAN,
        CLI_OPT_CLAIM,
        CLI_OPT_READY_URL,
        CLI_OPT_READY_TCP,
        CLI_OPT_READY_LOG,
        CLI_OPT_READY_FD,
        CLI_OPT_READY_TIMEOUT,
        CLI_OPT_STALL_TIMEOUT,
        CLI_OPT_ON_READY,
        CLI_OPT_LOG,
        CLI_OPT_JSON_FILE,
        CLI_OPT_RESTART,
        CLI_OPT_FORMAT,
        CLI_OPT_HOST,
        CLI_OPT_HOSTS,
        CLI_OPT_FANOUT,
        CLI_OPT_HOST_TIMEOUT,
        CLI_OPT_TETHER,
        CLI_OPT_SHOWN,
        CLI_OPT_PARK_ON,
        CLI_OPT_UNPARK_ON,
        CLI_OPT_PREEMPT,
        CLI_OPT_PRIORITY,
        CLI_OPT_JSON,
        CLI_OPT_QUIET,
        CLI_OPT_COLOR,
        CLI_OPT_HELP,
        CLI_OPT_VERSION,
        CLI_OPT_DUMP,
};

struct cli_option {
        const char *name;
        char letter;          /* '\0' none */
        const char *argument; /* NULL: takes none */
        unsigned commands;    /* bits 1 << cli_command */
        enum cli_group group;
        enum cli_opt id;
        enum gpufree_criterion criterion;
        const char *help;
};
extern const struct cli_option cli_options[];
extern const size_t cli_option_count;

enum cli_color {
        CLI_COLOR_AUTO,
        CLI_COLOR_ALWAYS,
        CLI_COLOR_NEVER,
};

/* Of list; --json is the same as --format json. */
enum cli_format {
        CLI_FORMAT_TABLE,
        CLI_FORMAT_JSON,
        CLI_FORMAT_PROM,
};

/* An option as it was given. */
struct cli_criterion {
        const struct cli_option *option;
        const char *value; /* NULL for a flag */
};

/* What the command line asks for. Texts point into argv. */
struct cli_request {
        enum cli_command command;
        bool named;        /* a command was written */
        const char *topic; /* of `help` */
        bool help, version, dump;
        GF_VEC(struct cli_criterion) criteria;
        GF_VEC(const char *) paths;
        GF_VEC(pid_t) pids; /* positional, of explain, unpark */
        bool purpose_set;   /* check --for something else than run */
        enum gpufree_purpose purpose;
        GF_VEC(struct cli_criterion) seen; /* every option, in order */
        const char *dev_root, *config;
        enum gpufree_scan_method scan;
        enum gpufree_scope scope;
        bool dry_run, yes;
        bool park_first; /* of kill */
        struct gpufree_ladder ladder;
        bool signal_set, grace_set, timeout_set;
        uint64_t timeout_ms; /* of wait: GPUFREE_UNKNOWN for ever */
        struct gpufree_park_options park;
        bool all;           /* of unpark */
        uint64_t sample_ms; /* of list; 0: none */
        bool json, quiet;
        bool format_set;
        enum cli_format format;
        GF_VEC(struct cli_criterion) hosts; /* --host and --hosts, in order; none: this machine */
        uint32_t fanout;
        uint64_t host_timeout_ms;
        bool tether;       /* the end of standard input is a request to end */
        const char *shown; /* of kill: PID@START,…: no other process may be in the plan */
        bool by_owner;
        enum cli_color color;
        struct gpufree_calm calm;           /* of check and wait */
        struct gpufree_guard_options guard; /* of run */
        const char *json_file;              /* of run */
        char *const *run;                   /* what stands behind "--"; NULL: nothing */
};

/* -EINVAL: *ret_error is one line, what is wrong and what would be right. The request is done with either way. */
int cli_request_parse(struct cli_request *request, int argc, char *const argv[], char **ret_error);
void cli_request_done(struct cli_request *request);
/* Was a criterion given that takes processes out, other than by GPU? */
bool cli_request_filters(const struct cli_request *request);
bool cli_request_any_open(const struct cli_request *request);

/* "TERM", "SIGTERM", "15". -EINVAL. */
int cli_signal_parse(const char *text, int *ret_signal);
const char *cli_signal_name(int signal); /* "TERM"; "signal 40" has no name: NULL */
/* The command with this name, or CLI_COMMANDS. */
enum cli_command cli_command_find(const char *name);
/* The candidate that is nearest to `word`, when it is near enough to be meant; else NULL. */
const char *cli_nearest(const char *word, const char *const *candidates, size_t n);

/* run_options.c */
int cli_run_option(struct cli_request *request, const struct cli_option *option, const char *value, char **ret_error);

/* fleet_options.c */
int cli_fleet_option(struct cli_request *request, const struct cli_option *option, const char *value, char **ret_error);

/* help.c */
void cli_help(struct gf_str *out);
void cli_help_command(struct gf_str *out, enum cli_command command);
void cli_dump_options(struct gf_str *out);

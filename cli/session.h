/* SPDX-License-Identifier: MIT */
#pragma once

#include <signal.h>

#include "gpufree.h"
#include "options.h"
#include "term.h"

GF_DEFINE_CLEANUP(gpufree_snapshot *, gpufree_snapshot_unref)
GF_DEFINE_CLEANUP(gpufree_plan *, gpufree_plan_unref)
GF_DEFINE_CLEANUP(gpufree_report *, gpufree_report_unref)
GF_DEFINE_CLEANUP(gpufree_parking *, gpufree_parking_unref)
#define _cleanup_parking_ _cleanup_(gpufree_parking_unrefp)
GF_DEFINE_CLEANUP(gpufree_account *, gpufree_account_unref)
GF_DEFINE_CLEANUP(gpufree_story *, gpufree_story_unref)
GF_DEFINE_CLEANUP(gpufree_blockers *, gpufree_blockers_unref)
#define _cleanup_snapshot_ _cleanup_(gpufree_snapshot_unrefp)
#define _cleanup_plan_ _cleanup_(gpufree_plan_unrefp)
#define _cleanup_report_ _cleanup_(gpufree_report_unrefp)

struct cli_session {
        struct cli_request *request;
        struct cli_term term;
        gpufree *context;
        gpufree_selection *selection;
        int cancel_fd;     /* readable once a signal asked us to stop */
        bool default_pipe; /* SIGPIPE was not ignored when the program began */
};

/* Context and selection as requested. Returns 0, or an exit code: the line about it has been written. */
int cli_session_open(struct cli_session *session, struct cli_request *request);
/* Signals and the terminal alone: for what is done elsewhere. 0, or an exit code. */
int cli_session_open_away(struct cli_session *session, struct cli_request *request);
void cli_session_close(struct cli_session *session);

/* The signal that asked us to stop, or 0. A second one ends the program at once. */
int cli_interrupted(void);
void cli_say_interrupted(struct cli_session *session);

/* One look; writes the line when it fails. Returns 0, or an exit code. */
int cli_look(struct cli_session *session, gpufree_snapshot **ret_snapshot);
/* The exit code for a failed call of the library, after writing its sentence. */
int cli_failed(struct cli_session *session, int error);
/* Nothing there that could be held: no GPU, and no device was named. */
bool cli_no_gpu(const struct cli_session *session, const gpufree_snapshot *snapshot);

/* Writes the text and empties it. 0, or 2: the line about it has been written. */
int cli_deliver(struct cli_session *session, struct gf_str *text);
/* The PIDs of the selected holders, one a line, each once. */
void cli_add_pids(struct gf_str *out, const gpufree_snapshot *snapshot);

/* "ok", "held", …, "interrupted" for 128 and more. */
const char *cli_exit_name(int code);

int cli_list(struct cli_session *session);
int cli_kill(struct cli_session *session);
int cli_check(struct cli_session *session);
int cli_wait(struct cli_session *session);
int cli_park(struct cli_session *session);
int cli_unpark(struct cli_session *session);
int cli_explain(struct cli_session *session);
int cli_check_for(struct cli_session *session); /* check --for reset, … */
int cli_run(struct cli_session *session);
int cli_fleet(struct cli_session *session); /* any of them, on other machines */

/* tether.c: from now on the end of standard input is what Ctrl-C is. 0, -errno. */
int cli_tether(void);

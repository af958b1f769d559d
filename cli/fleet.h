/* SPDX-License-Identifier: MIT */
#pragma once

#include "fleet/merge.h"
#include "fleet/target.h"
#include "session.h"
#include "table.h"

/* One host of a run over many. */
struct cli_far {
        struct fleet_target target;
        bool asked; /* is it to be run in this round? */
        char *line;
        struct fleet_answer answer;
};

struct cli_fleet {
        struct cli_session *session;
        GF_VEC(struct cli_far) hosts;
        size_t read; /* bytes of answers kept */
        /* Of a round. */
        struct cli_far **round;
        struct fleet_job *jobs;
        size_t n_jobs, done_shown;
        uint64_t timeout_ms;
        bool cancelled, failed;
};

/*
 * Runs argv, made by cli_fleet_argv(), on every host that is `asked` and has a `line`; puts the answers in their place.
 * 0, or an exit code: the line about it has been written. Interrupted: 0, and `cancelled` is set.
 */
int cli_fleet_round(struct cli_fleet *fleet, uint64_t timeout_ms);
/* The command line of the remote gpufree. `pid`: the options for that are left out. -ENOMEM. */
int cli_fleet_argv(const struct cli_request *request, bool pid, const char *const *more, gf_strv *ret_argv);
int cli_fleet_line(struct cli_far *far, const gf_strv *argv);
int cli_fleet_code(const struct cli_fleet *fleet); /* the worst */
/* The merged document, or the view for people; returns the exit code. */
int cli_fleet_finish(struct cli_fleet *fleet, int code, const char *reason);
int cli_fleet_kill(struct cli_fleet *fleet);

/* fleet_view.c: of documents that nobody vouches for; texts are escaped here. */
void cli_fleet_view(const struct cli_fleet *fleet, struct gf_str *out);
void cli_fleet_view_plan(const struct cli_fleet *fleet, const struct cli_term *term, struct gf_str *out);
/* fleet_kill.c */
bool cli_fleet_targets(const struct cli_far *far, size_t *ret_n);

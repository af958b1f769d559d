/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/vec.h"
#include "session.h"

/* What a long call tells on the way: lines on standard error, and one that changes in place on a terminal. */
struct cli_step {
        pid_t pid;
        int signal;          /* the last one sent */
        bool escalated;      /* SIGKILL after another one */
        uint64_t elapsed_ms; /* at the last signal */
};

struct cli_progress {
        struct cli_session *session;
        GF_VEC(struct cli_step) steps;
        bool stopping; /* an owner's command was run, and no signal sent since */
};

void cli_progress_event(void *userdata, const struct gpufree_event *event); /* a gpufree_event_handler */
void cli_progress_done(struct cli_progress *progress);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/str.h"
#include "session.h"

/*
 * A line in the system's log (/dev/log) for each signal and each fate: who ran what, on whom, with what result. A log
 * that is not there, or that takes nothing within a moment, is done without: it never holds up a kill.
 */
struct cli_audit {
        int fd;    /* -1: no log */
        char *who; /* "by uid 0 (login uid 1000) on /dev/pts/3: gpufree kill --gpu 0", escaped */
        int count; /* signals sent, SIGCONT left out */
};

void cli_audit_open(struct cli_audit *audit, const struct cli_session *session);
void cli_audit_event(struct cli_audit *audit, const struct gpufree_event *event);
/* What became of those that were to be parked (kill --park-first). */
void cli_audit_parking(struct cli_audit *audit, const gpufree_parking *parking);
void cli_audit_report(struct cli_audit *audit, const gpufree_report *report, int code);
void cli_audit_close(struct cli_audit *audit);

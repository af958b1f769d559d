/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* Where standard output of the command goes. */
enum run_output {
        RUN_CAPTURED,
        RUN_FULL,     /* /dev/full */
        RUN_CLOSED,   /* not open at all */
        RUN_NO_READER /* a pipe that nobody reads */
};

/* One run of the command behind GPUFREE_FAKE_COMMAND. */
struct run {
        const char *args;   /* divided by blanks */
        const char *env[4]; /* "NAME=value" */
        enum run_output output;
        /* On a terminal of its own: in, out and error; all of it lands in `out`. Once `until` was read … */
        bool terminal;
        unsigned columns;
        const char *until;
        const char *answer; /* … this is typed, */
        int signal;         /* or this is sent. */
        /* results */
        int code; /* exit status, or 1000 and the signal that ended it */
        char *out, *err;
};

void run_command(struct run *run); /* fails the test when it does not end in time */
void run_done(struct run *run);

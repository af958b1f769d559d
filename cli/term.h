/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "options.h"

/* The only place that knows a terminal: standard input, output, error; width; colours; the progress line. */
struct cli_term {
        bool in_tty, err_tty;
        size_t width;     /* of standard output; 0: no limit */
        size_t err_width; /* of the progress line */
        bool color, utf8;
        bool line_shown; /* a progress line stands on standard error */
};

/* Makes sure that 0, 1 and 2 are open, so that no other file gets these numbers; writing to a closed one still fails.
 */
void cli_term_guard(void);
void cli_term_init(struct cli_term *term, enum cli_color color);

/* All of it to standard output, or a negative errno. */
int cli_term_out(struct cli_term *term, const char *text, size_t n);
/* Text made ready by the view, to standard error. */
void cli_term_raw(struct cli_term *term, const char *text, size_t n);
/* A line on standard error; process-controlled text in it is escaped here. */
_printf_(2, 3) void cli_term_say(struct cli_term *term, const char *format, ...);
/* The same, headed "gpufree: ". */
_printf_(2, 3) void cli_term_error(struct cli_term *term, const char *format, ...);
/* Replaces the progress line; nothing where standard error is no terminal. NULL takes it away. */
void cli_term_progress(struct cli_term *term, const char *text);
/* Asks on the terminal. 1 yes, 0 anything else, -EINTR by a signal, -ENOTTY nobody to ask. */
int cli_term_ask(struct cli_term *term, const char *question, int cancel_fd);

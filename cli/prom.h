/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "gpufree.h"
#include "session.h"

/*
 * One look as Prometheus' text exposition format (version 0.0.4), for node exporter's textfile collector. A figure that
 * is not known is a sample that is not there, never 0. `at`: when the look began, seconds since 1970. `report` may be
 * NULL: then no GPU is called free.
 */
void cli_prom(struct cli_session *session, gpufree_snapshot *snapshot, const gpufree_report *report, double at,
              struct gf_str *out);

/* The inside of a label value: valid UTF-8, with backslash, quote and newline escaped. */
void cli_prom_escape(struct gf_str *out, const char *text);

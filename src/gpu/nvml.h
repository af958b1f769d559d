/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/driver.h"
#include "model/env.h"
#include "model/ident.h"
#include "sys/child.h"

/*
 * NVML behind one door: a child process loads libnvidia-ml.so.1 and answers questions, each with a deadline
 * (env->driver_deadline_ms). The child stays, so that only the first question pays for initialisation.
 */
struct gf_nvml;

/* Starts the child; it begins to initialise at once, in parallel with what the caller does next. */
int gf_nvml_start(struct gf_env *env, struct gf_nvml **ret_nvml);
struct gf_nvml *gf_nvml_stop(struct gf_nvml *nvml); /* NULL-safe, returns NULL */
/*
 * The child, so that a scan can pass it over; pid 0 none. One that is stuck in the driver after a time-out is still
 * there, and still named here.
 */
struct gf_ident gf_nvml_child(const struct gf_nvml *nvml);

enum gf_nvml_question {
        GF_NVML_ALL,     /* GPUs, memory, process lists */
        GF_NVML_MEMORY,  /* GPUs and memory only */
        GF_NVML_BUSY,    /* GPUs, memory, and how busy each GPU is as a whole */
        GF_NVML_SAMPLES, /* GPUs, and the shares of processes since the last time this was asked */
};
/* Sends a question; the answer is fetched later with gf_nvml_answer(). */
int gf_nvml_ask(struct gf_nvml *nvml, enum gf_nvml_question question);
/*
 * Fetches the answer to the last question. The deadline is for each GPU's part of it: without persistence the driver
 * wakes them one by one, for seconds each. 0 also when the library is missing or failed: the report says so in words.
 * -ECANCELED, -ENOMEM. After a time-out the child is gone; the next question starts another only if `nvml` was told to
 * (it is not: the report says that the driver did not answer, and stays so).
 */
int gf_nvml_answer(struct gf_nvml *nvml, struct gf_driver_report *ret_report);

GF_DEFINE_CLEANUP(struct gf_nvml *, gf_nvml_stop)
#define _cleanup_nvml_ _cleanup_(gf_nvml_stopp)

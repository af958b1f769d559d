/* SPDX-License-Identifier: MIT */
#pragma once

#include "spawn.h"

/* The options that describe a holder. */
struct sim_args {
        char dir[4096];
        struct sim_params params;
        bool detailed; /* -l: roles and GPUs too, the dead as well */
};

/*
 * "DIR SHAPE [OPTIONS]" (of `gpufree-sim add`) or, for gpufree-sim-holder, "SHAPE [--dir DIR] [OPTIONS]".
 * 0; 1: help was printed; -EINVAL: what is wrong was printed, in one line.
 */
int sim_args_parse(int argc, char **argv, const char *program, bool dir_first, struct sim_args *ret_args);
void sim_args_print_shapes(void);

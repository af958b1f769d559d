/* SPDX-License-Identifier: MIT */
#pragma once

int sim_cmd_up(int argc, char **argv);

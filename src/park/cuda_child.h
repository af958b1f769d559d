/* SPDX-License-Identifier: MIT */
#pragma once

int gf_cuda_child_main(int socket, void *userdata);

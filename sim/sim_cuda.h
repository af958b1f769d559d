/* SPDX-License-Identifier: MIT */
#pragma once

/* Numbers of the driver's interface that the stand-in libcuda.so.1 and its holders use. */
enum sim_cuda_state {
        SIM_CUDA_RUNNING,
        SIM_CUDA_LOCKED,
        SIM_CUDA_CHECKPOINTED,
        SIM_CUDA_FAILED,
};
enum sim_cuda_result {
        SIM_CUDA_SUCCESS = 0,
        SIM_CUDA_INVALID_VALUE = 1,
        SIM_CUDA_INVALID_DEVICE = 101,
        SIM_CUDA_ILLEGAL_STATE = 401,
        SIM_CUDA_NOT_PERMITTED = 800,
        SIM_CUDA_UNKNOWN = 999,
};

/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Leaves a test that cannot be done here, with the reason said. Not cmocka's skip(): its "not ok # SKIP" is a failure
 * to readers of TAP, and it leaves by longjmp(), past what should be freed.
 */
#define skip_because(...)                                                                                              \
        do {                                                                                                           \
                print_message("# skipped: " __VA_ARGS__);                                                              \
                print_message("\n");                                                                                   \
                return;                                                                                                \
        } while (0)

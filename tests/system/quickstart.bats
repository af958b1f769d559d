#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# quickstart's manners; what it does is tried by running it (.ci/run, tests/system/debootstrap.sh).

load sim_helpers

@test "quickstart says how it is used" {
        run "$SOURCE_DIR/quickstart" --help
        [ "$status" -eq 0 ]
        [[ "$output" == *"quickstart test"* ]]
}

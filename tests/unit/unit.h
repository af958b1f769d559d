/* SPDX-License-Identifier: MIT */
#pragma once

/* cmocka wants these first, in this order. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

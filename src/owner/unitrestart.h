/* SPDX-License-Identifier: MIT */
#pragma once

#include "owner/places.h"

/*
 * Restart= of a service from its unit file and drop-ins, as systemd would read them: `manager` UINT32_MAX for the
 * machine's manager, else that user's. `home`: also below the user's home, which may be on a network and
 * hang: for the user itself. -ENOENT: no unit file. `ret_again` and the value ("always", "no", …).
 */
int gf_unit_restart(const struct gf_places *places, const char *unit, uint32_t manager, bool home,
                    enum gf_again *ret_again, char *buf, size_t size);
/* "x.socket", "x.timer", "x.path": a unit that starts `unit` again after a stop, in a fresh buffer; NULL none. */
int gf_unit_trigger(const struct gf_places *places, const char *unit, char **ret_trigger);

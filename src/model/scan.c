/* SPDX-License-Identifier: MIT */
#include "model/scan.h"

void gf_scan_done(struct gf_scan *scan)
{
        free(scan->method_reason);
        gf_vec_done(&scan->hits);
        gf_vec_done(&scan->refused);
        gf_vec_done(&scan->opaque);
        gf_vec_done(&scan->missed);
        *scan = (struct gf_scan){ 0 };
}

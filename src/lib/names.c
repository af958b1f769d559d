/* SPDX-License-Identifier: MIT */
#include "gpufree.h"

const char *gpufree_outcome_name(enum gpufree_outcome outcome)
{
        switch (outcome) {
        case GPUFREE_OK:
                return "ok";
        case GPUFREE_HELD:
                return "held";
        case GPUFREE_USAGE:
                return "usage";
        case GPUFREE_INCOMPLETE:
                return "incomplete";
        case GPUFREE_REFUSED:
                return "refused";
        case GPUFREE_RESIDUE:
                return "residue";
        case GPUFREE_TIMEOUT:
                return "timeout";
        }
        return NULL;
}

const char *gpufree_vendor_name(enum gpufree_vendor vendor)
{
        switch (vendor) {
        case GPUFREE_VENDOR_NONE:
                return "none";
        case GPUFREE_VENDOR_NVIDIA:
                return "nvidia";
        case GPUFREE_VENDOR_AMD:
                return "amd";
        case GPUFREE_VENDOR_INTEL:
                return "intel";
        case GPUFREE_VENDOR_HABANA:
                return "habana";
        case GPUFREE_VENDOR_GOOGLE:
                return "google";
        case GPUFREE_VENDOR_AWS:
                return "aws";
        case GPUFREE_VENDOR_HUAWEI:
                return "huawei";
        case GPUFREE_VENDOR_MICROSOFT:
                return "microsoft";
        case GPUFREE_VENDOR_OTHER:
                return "other";
        }
        return NULL;
}

const char *gpufree_fate_name(enum gpufree_fate fate)
{
        switch (fate) {
        case GPUFREE_FATE_ENDED_BY_SIGNAL:
                return "ended";
        case GPUFREE_FATE_KILLED:
                return "killed";
        case GPUFREE_FATE_ALREADY_GONE:
                return "already-gone";
        case GPUFREE_FATE_LET_GO:
                return "let-go";
        case GPUFREE_FATE_REFUSED:
                return "refused";
        case GPUFREE_FATE_SURVIVED:
                return "survived";
        case GPUFREE_FATE_NOT_IN_PLAN:
                return "not-in-plan";
        case GPUFREE_FATE_BY_OWNER:
                return "ended-by-owner";
        }
        return NULL;
}

const char *gpufree_restart_name(enum gpufree_restart restart)
{
        switch (restart) {
        case GPUFREE_RESTART_NO:
                return "no";
        case GPUFREE_RESTART_AFTER_KILL:
                return "after-kill";
        case GPUFREE_RESTART_YES:
                return "yes";
        case GPUFREE_RESTART_UNKNOWN:
        default:
                return "unknown";
        }
}

const char *gpufree_stop_outcome_name(enum gpufree_stop_outcome outcome)
{
        switch (outcome) {
        case GPUFREE_STOP_DONE:
                return "done";
        case GPUFREE_STOP_FAILED:
                return "failed";
        case GPUFREE_STOP_REFUSED:
                return "refused";
        case GPUFREE_STOP_TIMED_OUT:
                return "timed-out";
        case GPUFREE_STOP_CANCELLED:
                return "cancelled";
        default:
                return "unknown";
        }
}

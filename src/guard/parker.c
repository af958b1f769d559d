/* SPDX-License-Identifier: MIT */
/* The child that parks the command's processes, or brings them back, by the same checked path as `gpufree park`. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "guard/choose.h"
#include "guard/own.h"
#include "guard/park.h"
#include "model/report.h"
#include "park/park.h"
#include "select/criteria.h"

static void tell(int socket, struct gf_parker_said said, const char *text)
{
        (void)snprintf(said.text, sizeof(said.text), "%s", text ? text : "");
        (void)send(socket, &said, sizeof(said), MSG_NOSIGNAL);
}

static void tell_failure(int socket, const struct gpufree *context, int error)
{
        tell(socket, (struct gf_parker_said){ .what = GF_PARKER_SENTENCE, .outcome = GPUFREE_HELD },
             context->env.error ? context->env.error : strerror(-error));
        tell(socket, (struct gf_parker_said){ .what = GF_PARKER_DONE, .outcome = GPUFREE_HELD }, NULL);
}

static void tell_result(int socket, const struct gpufree_parking *parking)
{
        for (size_t i = 0; i < parking->sentences.n; i++)
                tell(socket, (struct gf_parker_said){ .what = GF_PARKER_SENTENCE, .outcome = parking->outcome },
                     parking->sentences.v[i]);
        for (size_t i = 0; i < parking->items.n; i++) {
                const struct gf_parked *item = &parking->items.v[i];

                tell(socket,
                     (struct gf_parker_said){ .what = GF_PARKER_PROCESS,
                                              .pid = item->id.pid,
                                              .state = (int32_t)item->state,
                                              .outcome = item->outcome },
                     item->sentence);
        }
        tell(socket, (struct gf_parker_said){ .what = GF_PARKER_DONE, .outcome = parking->outcome }, NULL);
}

/* The command's own that hold the claimed GPUs; whoever merely has one open is none of them. */
static int select_own(const struct gf_parker_order *order, struct gpufree_selection **ret_selection)
{
        const struct gpufree_guard *guard = order->guard;
        _cleanup_selection_ struct gpufree_selection *selection = NULL;
        _cleanup_(gf_owns_done) gf_owns owns = { 0 };
        _cleanup_(gf_str_done) struct gf_str pids = { 0 };
        int r = gf_own_list(&guard->context->env, order->root, &owns);

        if (r < 0)
                return r;
        for (size_t i = 0; i < owns.n; i++)
                gf_str_addf(&pids, "%s%d", i > 0 ? "," : "", (int)owns.v[i].id.pid);
        if (pids.failed)
                return -ENOMEM;
        if (owns.n == 0)
                return -ESRCH;
        r = gf_choose_selection(guard->snapshot, guard->gpus.v, guard->gpus.n, &selection);
        if (r >= 0)
                r = gpufree_selection_add(selection, GPUFREE_BY_PID, pids.s, NULL);
        if (r >= 0)
                *ret_selection = TAKE(selection);
        return r;
}

static int park(int socket, const struct gf_parker_order *order)
{
        struct gpufree *context = order->guard->context;
        _cleanup_selection_ struct gpufree_selection *selection = NULL;
        _cleanup_snapshot_ struct gpufree_snapshot *snapshot = NULL;
        _cleanup_parking_ struct gpufree_parking *parking = NULL;
        _cleanup_plan_ struct gpufree_plan *plan = NULL;
        int r = select_own(order, &selection);

        if (r >= 0)
                r = gpufree_look(context, selection, &snapshot);
        if (r >= 0)
                r = gpufree_plan_new(context, snapshot, &plan);
        if (r < 0)
                return r;
        for (size_t i = 0; i < plan->targets.n; i++)
                tell(socket, (struct gf_parker_said){ .what = GF_PARKER_TARGET, .pid = plan->targets.v[i]->id.pid },
                     NULL);
        r = gpufree_park(context, NULL, plan, NULL, &parking);
        if (r >= 0)
                tell_result(socket, parking);
        return r;
}

static int parker_main(int socket, void *userdata)
{
        const struct gf_parker_order *order = userdata;
        struct gpufree *context = order->guard->context;
        _cleanup_parking_ struct gpufree_parking *parking = NULL;
        int r;

        /* The driver's child and every descriptor are the guard's; this process begins anew. */
        context->nvml = NULL;
        context->on_event = NULL;
        context->env.cancel_fd = -1;
        if (!order->pids) {
                r = park(socket, order);
        } else {
                r = gpufree_unpark(context, order->pids, order->n, NULL, &parking);
                if (r >= 0)
                        tell_result(socket, parking);
        }
        if (r < 0)
                tell_failure(socket, context, r);
        return 0;
}

int gf_parker_start(struct gf_parker_order *order, struct gf_child *ret_child)
{
        return gf_child_start(parker_main, order, ret_child);
}

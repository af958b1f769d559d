/* SPDX-License-Identifier: MIT */
#include "model/holder.h"

void gf_facts_done(struct gf_facts *facts)
{
        free(facts->comm);
        free(facts->cmdline);
        free(facts->exe);
        free(facts->user);
        free(facts->cgroup);
        gf_strv_done(&facts->cgroups);
        *facts = (struct gf_facts){ 0 };
}

void gf_holder_done(struct gpufree_holder *holder)
{
        gf_facts_done(&holder->facts);
        gf_vec_done(&holder->devices);
        gf_vec_done(&holder->gpus);
        for (size_t i = 0; i < holder->owners.n; i++) {
                free(holder->owners.v[i].kind);
                free(holder->owners.v[i].runtime);
                free(holder->owners.v[i].id);
                free(holder->owners.v[i].name);
        }
        gf_vec_done(&holder->owners);
        free(holder->owner_label);
        free(holder->protected_why);
        gf_strv_done(&holder->notes);
        *holder = (struct gpufree_holder){ 0 };
}

gpufree_snapshot *gpufree_snapshot_ref(gpufree_snapshot *snapshot)
{
        if (snapshot)
                snapshot->refs++;
        return snapshot;
}

gpufree_snapshot *gpufree_snapshot_unref(gpufree_snapshot *snapshot)
{
        if (!snapshot || --snapshot->refs > 0)
                return NULL;
        gf_inventory_done(&snapshot->inventory);
        gf_driver_report_done(&snapshot->driver);
        gf_scan_done(&snapshot->scan);
        gf_witness_done(&snapshot->witness);
        for (size_t i = 0; i < snapshot->holders.n; i++)
                gf_holder_done(&snapshot->holders.v[i]);
        gf_vec_done(&snapshot->holders);
        gf_vec_done(&snapshot->dead);
        gf_vec_done(&snapshot->dmabufs);
        gf_strv_done(&snapshot->gaps);
        free(snapshot);
        return NULL;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "json.h"
#include "session.h"
#include "text.h"
#include "view.h"

#define LEFT_WIDTH 10
#define MOST_OPENERS 4
#define MOST_STORIES 32
#define SAMPLE_MS 1000 /* the least from which "idle" is said */

/* "  20.5 GiB  booked to process 511, …", broken at the width under the sentence. */
static void add_entry(const struct cli_term *term, struct gf_str *out, const char *size, const char *sentence)
{
        _cleanup_free_ char *text = cli_view_text(term, sentence);

        if (!text) {
                out->failed = true;
                return;
        }
        gf_str_addf(out, "%*s  ", LEFT_WIDTH, size);
        cli_text_wrap(out, text, term->width, LEFT_WIDTH + 2, LEFT_WIDTH + 2);
}

static void add_entries(const struct cli_session *session, const gpufree_account *account, struct gf_str *out)
{
        size_t openers = 0, more = 0;

        for (size_t i = 0; i < gpufree_account_entry_count(account); i++) {
                enum gpufree_entry kind = GPUFREE_ENTRY_PROCESS;
                uint64_t bytes = GPUFREE_UNKNOWN;
                const char *sentence = NULL;
                char buf[GF_TEXT_MAX];

                if (gpufree_account_entry(account, i, &kind, &bytes, NULL, NULL, &sentence) < 0)
                        continue;
                if (kind == GPUFREE_ENTRY_OPEN && openers++ >= MOST_OPENERS) {
                        more++;
                        continue;
                }
                if (more > 0 && kind != GPUFREE_ENTRY_OPEN) {
                        _cleanup_free_ char *text = gf_asprintf("and %zu more merely have it open", more);

                        add_entry(&session->term, out, "-", text ? text : "");
                        more = 0;
                }
                if (kind == GPUFREE_ENTRY_OPEN)
                        add_entry(&session->term, out, "-", sentence);
                else
                        add_entry(&session->term, out, bytes == GPUFREE_UNKNOWN ? "?" : gf_format_size(bytes, buf),
                                  sentence);
        }
}

static void add_xids(const struct cli_session *session, const gpufree_account *account, struct gf_str *out)
{
        unsigned number;
        uint64_t age;
        const char *meaning, *line;

        for (size_t i = 0; gpufree_account_xid(account, i, &number, &age, NULL, &meaning, &line) == 0; i++) {
                char buf[GF_TEXT_MAX];
                _cleanup_free_ char *text = gf_asprintf("  Xid %u, %s ago: %s", number, gf_format_duration(age, buf),
                                                        meaning);

                cli_view_sentence(&session->term, out, text ? text : "");
        }
}

/* "GPU 2: 20.5 GiB of 139.8 GiB used" */
static void add_head(const struct cli_session *session, const gpufree_snapshot *snapshot, size_t position,
                     struct gf_str *out)
{
        const gpufree_gpu *gpu = gpufree_snapshot_gpu(snapshot, position);
        _cleanup_free_ char *name = cli_view_gpu(snapshot, (int)position),
                            *used = cli_view_size(gpufree_gpu_memory_used(gpu)),
                            *total = cli_view_size(gpufree_gpu_memory_total(gpu)),
                            *model = cli_view_text(&session->term, gpufree_gpu_name(gpu));

        if (!name || !used || !total || !model) {
                out->failed = true;
                return;
        }
        gf_str_addf(out, "%sGPU %s%s", session->term.color ? cli_style_code(CLI_BOLD) : "", name,
                    session->term.color ? CLI_STYLE_END : "");
        if (model[0])
                gf_str_addf(out, " (%s)", model);
        if (gpufree_gpu_memory_used(gpu) == GPUFREE_UNKNOWN)
                gf_str_add(out, ": its driver gave no figure of what is used\n");
        else
                gf_str_addf(out, ": %s of %s used\n", used, total);
}

static void add_account(const struct cli_session *session, const gpufree_snapshot *snapshot, size_t position,
                        const gpufree_account *account, struct gf_str *out)
{
        const char *text;

        add_head(session, snapshot, position, out);
        add_entries(session, account, out);
        for (size_t i = 0; (text = gpufree_account_reason(account, i)) != NULL; i++) {
                _cleanup_free_ char *line = gf_asprintf("  %zu. %s", i + 1, text);

                if (i == 0)
                        gf_str_add(out, "Why memory is unaccounted for, the likeliest first:\n");
                cli_view_sentence(&session->term, out, line ? line : "");
        }
        if (gpufree_gpu_error(gpufree_snapshot_gpu(snapshot, position)))
                cli_view_sentence(&session->term, out, gpufree_gpu_error(gpufree_snapshot_gpu(snapshot, position)));
        if (gpufree_account_xid(account, 0, NULL, NULL, NULL, NULL, NULL) == 0) {
                gf_str_add(out, "In the kernel log, of this GPU:\n");
                add_xids(session, account, out);
        }
        for (size_t i = 0; (text = gpufree_account_command(account, i)) != NULL; i++)
                gf_str_addf(out, "%s  %s\n", i == 0 ? "What you can do:" : "                ", text);
}

/* One call of the library for each selected GPU. 0, or an exit code. */
static int explain_gpus(struct cli_session *session, gpufree_snapshot *snapshot, json_t *document, struct gf_str *out)
{
        json_t *accounts = document ? json_array() : NULL;
        _cleanup_free_ char *log_error = NULL;
        bool any = false;

        for (size_t i = 0; i < gpufree_snapshot_gpu_count(snapshot); i++) {
                _cleanup_(gpufree_account_unrefp) gpufree_account *account = NULL;
                int r;

                if (!gpufree_gpu_selected(gpufree_snapshot_gpu(snapshot, i)))
                        continue;
                r = gpufree_account_new(session->context, snapshot, i, &account);
                if (r < 0) {
                        json_decref(accounts);
                        return cli_failed(session, r);
                }
                if (document) {
                        (void)json_array_append_new(accounts, cli_json_account(account));
                        continue;
                }
                if (any)
                        gf_str_addc(out, '\n');
                any = true;
                add_account(session, snapshot, i, account, out);
                if (gpufree_account_log_error(account) && gf_strset(&log_error, gpufree_account_log_error(account)) < 0)
                        out->failed = true;
        }
        if (document)
                cli_json_set(document, "accounts", accounts);
        if (log_error) {
                gf_str_addc(out, '\n');
                cli_view_sentence(&session->term, out, log_error);
        }
        return 0;
}

static void add_story(const struct cli_session *session, const gpufree_story *story, struct gf_str *out)
{
        const gpufree_holder *holder = gpufree_story_process(story);
        _cleanup_free_ char *command = cli_view_command(&session->term, holder),
                            *user = cli_view_user(&session->term, holder);
        const char *topic, *sentence, *last = "";

        gf_str_addf(out, "%s%d%s  %s  ", session->term.color ? cli_style_code(CLI_BOLD) : "",
                    (int)gpufree_holder_pid(holder), session->term.color ? CLI_STYLE_END : "", user ? user : "?");
        cli_text_wrap(out, command ? command : "?", session->term.width, 2, 0);
        for (size_t i = 0; gpufree_story_sentence(story, i, &topic, &sentence) == 0; i++) {
                _cleanup_free_ char *text = cli_view_text(&session->term, sentence);

                if (!text) {
                        out->failed = true;
                        return;
                }
                gf_str_addf(out, "%*s  ", LEFT_WIDTH, strcmp(topic, last) == 0 ? "" : topic);
                cli_text_wrap(out, text, session->term.width, LEFT_WIDTH + 2, LEFT_WIDTH + 2);
                last = topic;
        }
}

struct stories {
        struct cli_session *session;
        gpufree_snapshot *snapshot;
        json_t *array; /* NULL: for people */
        struct gf_str *out;
        size_t n;
};

static int tell(struct stories *stories, pid_t pid)
{
        _cleanup_(gpufree_story_unrefp) gpufree_story *story = NULL;
        int r = gpufree_story_new(stories->session->context, stories->snapshot, pid, &story);

        if (r < 0)
                return r;
        if (stories->array)
                (void)json_array_append_new(stories->array, cli_json_story(stories->snapshot, story));
        else {
                if (stories->n > 0)
                        gf_str_addc(stories->out, '\n');
                add_story(stories->session, story, stories->out);
        }
        stories->n++;
        return 0;
}

/* Is one of those to be told of a user of a GPU? Then it is worth the time to see how busy it is. */
static bool tells_of_a_user(const struct cli_request *request, const gpufree_snapshot *snapshot)
{
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot); i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);
                bool meant = request->pids.n == 0 && gpufree_holder_selected(holder), context = false;

                for (size_t k = 0; k < request->pids.n; k++)
                        meant = meant || request->pids.v[k] == gpufree_holder_pid(holder);
                for (size_t k = 0; meant && k < gpufree_holder_gpu_count(holder); k++)
                        if (gpufree_holder_gpu(holder, k, NULL, NULL, &context) >= 0 && context)
                                return true;
        }
        return false;
}

/* The PIDs that were given; without them the selected holders. 0, or an exit code. */
static int explain_processes(struct cli_session *session, gpufree_snapshot *snapshot, json_t *document,
                             struct gf_str *out)
{
        struct stories stories = { session, snapshot, document ? json_array() : NULL, out, 0 };
        const struct cli_request *request = session->request;
        int r = tells_of_a_user(request, snapshot) ? gpufree_sample(session->context, snapshot, SAMPLE_MS) : 0;

        for (size_t i = 0; i < request->pids.n && r >= 0; i++)
                r = tell(&stories, request->pids.v[i]);
        for (size_t i = 0; i < gpufree_snapshot_holder_count(snapshot) && r >= 0 && request->pids.n == 0; i++) {
                const gpufree_holder *holder = gpufree_snapshot_holder(snapshot, i);

                if (!gpufree_holder_selected(holder) || stories.n >= MOST_STORIES)
                        continue;
                r = tell(&stories, gpufree_holder_pid(holder));
                if (r == -ESRCH) /* it has ended since it was found */
                        r = 0;
        }
        if (document)
                cli_json_set(document, "processes", stories.array);
        if (r == -ESRCH) {
                cli_term_error(&session->term, "%s", gpufree_error(session->context));
                return GPUFREE_USAGE;
        }
        if (r < 0)
                return cli_failed(session, r);
        if (stories.n == 0 && !document)
                cli_view_sentence(&session->term, out, "No holder matches the selection.");
        return 0;
}

static int explain_all(struct cli_session *session, gpufree_snapshot *snapshot, json_t *document, struct gf_str *out)
{
        int code = 0;

        if (session->request->pids.n > 0 || cli_request_filters(session->request))
                code = explain_processes(session, snapshot, document, out);
        else if (cli_no_gpu(session, snapshot) && !document)
                cli_view_sentence(&session->term, out, "No GPU found: there is nothing to explain.");
        else
                code = explain_gpus(session, snapshot, document, out);
        return code;
}

int cli_explain(struct cli_session *session)
{
        _cleanup_snapshot_ gpufree_snapshot *snapshot = NULL;
        json_t *document = NULL;
        struct gf_str out = { 0 };
        int code, r;

        r = cli_look(session, &snapshot);
        if (r != 0)
                return r;
        code = gpufree_snapshot_complete(snapshot) || cli_no_gpu(session, snapshot) ? GPUFREE_OK : GPUFREE_INCOMPLETE;
        if (session->request->quiet) {
                cli_add_pids(&out, snapshot);
        } else {
                if (session->request->json) {
                        document = cli_json_new(session);
                        cli_json_outcome(document, code, NULL);
                        cli_json_snapshot(document, snapshot, NULL);
                }
                r = explain_all(session, snapshot, document, &out);
                if (r != 0) {
                        json_decref(document);
                        gf_str_done(&out);
                        return r;
                }
                if (document)
                        cli_json_text(&out, document, 0);
                else
                        cli_view_gaps(&session->term, snapshot, &out);
                json_decref(document);
        }
        r = cli_deliver(session, &out);
        return r != 0 ? r : code;
}

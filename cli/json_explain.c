/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "json.h"

static void add_text(json_t *array, const char *text)
{
        (void)json_array_append_new(array, cli_json_text_or_null(text));
}

static json_t *xid_object(unsigned number, uint64_t age, pid_t pid, const char *meaning, const char *line)
{
        json_t *object = json_object();

        cli_json_set(object, "number", number ? json_integer((json_int_t)number) : NULL);
        cli_json_set(object, "age_ms", cli_json_number(age));
        cli_json_set(object, "pid", pid > 0 ? json_integer(pid) : NULL);
        cli_json_set(object, "meaning", cli_json_text_or_null(meaning));
        cli_json_set(object, "line", cli_json_text_or_null(line));
        return object;
}

static json_t *entry_object(const gpufree_account *account, size_t position)
{
        enum gpufree_entry kind = GPUFREE_ENTRY_PROCESS;
        uint64_t bytes = GPUFREE_UNKNOWN;
        const char *sentence = NULL;
        bool counts = false;
        pid_t pid = 0;
        json_t *object = json_object(), *keepers = json_array();
        const gpufree_holder *keeper;

        (void)gpufree_account_entry(account, position, &kind, &bytes, &counts, &pid, &sentence);
        cli_json_set(object, "kind", json_string(gpufree_entry_name(kind)));
        cli_json_set(object, "bytes", cli_json_number(bytes));
        cli_json_set(object, "counts", json_boolean(counts));
        cli_json_set(object, "pid", pid > 0 ? json_integer(pid) : NULL);
        for (size_t i = 0; (keeper = gpufree_account_keeper(account, position, i)) != NULL; i++)
                (void)json_array_append_new(keepers, json_integer(gpufree_holder_pid(keeper)));
        cli_json_set(object, "keepers", keepers);
        cli_json_set(object, "sentence", cli_json_text_or_null(sentence));
        return object;
}

json_t *cli_json_account(const gpufree_account *account)
{
        const gpufree_gpu *gpu = gpufree_account_gpu(account);
        json_t *object = json_object(), *entries = json_array(), *reasons = json_array(), *commands = json_array(),
               *xids = json_array();
        const char *text, *meaning, *line;
        unsigned number;
        uint64_t age;
        pid_t pid;

        cli_json_set(object, "index", cli_json_index(gpufree_gpu_index(gpu)));
        cli_json_set(object, "uuid", cli_json_text_or_null(gpufree_gpu_uuid(gpu)));
        cli_json_set(object, "pci", cli_json_text_or_null(gpufree_gpu_pci(gpu)));
        cli_json_set(object, "used", cli_json_number(gpufree_gpu_memory_used(gpu)));
        cli_json_set(object, "named", cli_json_number(gpufree_account_named(account)));
        cli_json_set(object, "unaccounted", cli_json_number(gpufree_account_unaccounted(account)));
        for (size_t i = 0; i < gpufree_account_entry_count(account); i++)
                (void)json_array_append_new(entries, entry_object(account, i));
        cli_json_set(object, "entries", entries);
        for (size_t i = 0; (text = gpufree_account_reason(account, i)) != NULL; i++)
                add_text(reasons, text);
        cli_json_set(object, "reasons", reasons);
        for (size_t i = 0; (text = gpufree_account_command(account, i)) != NULL; i++)
                add_text(commands, text);
        cli_json_set(object, "commands", commands);
        for (size_t i = 0; gpufree_account_xid(account, i, &number, &age, &pid, &meaning, &line) == 0; i++)
                (void)json_array_append_new(xids, xid_object(number, age, pid, meaning, line));
        cli_json_set(object, "xids", xids);
        cli_json_set(object, "log_error", cli_json_text_or_null(gpufree_account_log_error(account)));
        return object;
}

static json_t *threads_array(const gpufree_story *story)
{
        json_t *array = json_array();
        const char *wchan, *stack;
        char state;
        pid_t tid;

        for (size_t i = 0; gpufree_story_thread(story, i, &tid, &state, &wchan, &stack) == 0; i++) {
                json_t *object = json_object();

                cli_json_set(object, "tid", json_integer(tid));
                cli_json_set(object, "state", cli_json_string(&state, 1));
                cli_json_set(object, "wchan", cli_json_text_or_null(wchan));
                cli_json_set(object, "stack", cli_json_text_or_null(stack));
                (void)json_array_append_new(array, object);
        }
        return array;
}

/* Numbers, as kill(1) takes them; null: not known. */
static json_t *pending_array(uint64_t pending)
{
        json_t *array;

        if (pending == GPUFREE_UNKNOWN)
                return NULL;
        array = json_array();
        for (int i = 1; i <= 64; i++)
                if (pending & (1ULL << (i - 1)))
                        (void)json_array_append_new(array, json_integer(i));
        return array;
}

static json_t *parking_object(const gpufree_story *story)
{
        enum gpufree_park_state state = GPUFREE_PARK_UNKNOWN;
        const char *why = NULL;
        int r = gpufree_story_parking(story, &state, &why);
        json_t *object = json_object();

        cli_json_set(object, "possible", r < 0 ? NULL : json_boolean(r > 0));
        cli_json_set(object, "state", r < 0 ? NULL : json_string(gpufree_park_state_name(state)));
        cli_json_set(object, "why_not", cli_json_text_or_null(why));
        return object;
}

json_t *cli_json_story(const gpufree_snapshot *snapshot, const gpufree_story *story)
{
        json_t *object = cli_json_holder(snapshot, gpufree_story_process(story)), *lines = json_array(),
               *children = json_array(), *xids = json_array();
        const char *topic, *sentence, *meaning, *line;
        unsigned number;
        uint64_t age;
        pid_t pid;

        for (size_t i = 0; gpufree_story_sentence(story, i, &topic, &sentence) == 0; i++) {
                json_t *one = json_object();

                cli_json_set(one, "topic", json_string(topic));
                cli_json_set(one, "sentence", cli_json_text_or_null(sentence));
                (void)json_array_append_new(lines, one);
        }
        cli_json_set(object, "story", lines);
        cli_json_set(object, "thread_count", cli_json_number(gpufree_story_threads(story)));
        cli_json_set(object, "threads", threads_array(story));
        cli_json_set(object, "pending_signals", pending_array(gpufree_story_pending(story)));
        for (size_t i = 0; (pid = gpufree_story_child(story, i)) > 0; i++)
                (void)json_array_append_new(children, json_integer(pid));
        cli_json_set(object, "children", children);
        for (size_t i = 0; gpufree_story_xid(story, i, &number, &age, &pid, &meaning, &line) == 0; i++)
                (void)json_array_append_new(xids, xid_object(number, age, pid, meaning, line));
        cli_json_set(object, "xids", xids);
        cli_json_set(object, "parking", parking_object(story));
        return object;
}

void cli_json_blockers(json_t *document, const gpufree_blockers *blockers)
{
        json_t *steps = json_array(), *notes = json_array();
        const char *kind, *sentence, *command, *note;

        for (size_t i = 0; gpufree_blockers_step(blockers, i, &kind, &sentence, &command) == 0; i++) {
                json_t *step = json_object();

                cli_json_set(step, "kind", json_string(kind));
                cli_json_set(step, "sentence", cli_json_text_or_null(sentence));
                cli_json_set(step, "command", cli_json_text_or_null(command));
                (void)json_array_append_new(steps, step);
        }
        cli_json_set(document, "steps", steps);
        for (size_t i = 0; (note = gpufree_blockers_note(blockers, i)) != NULL; i++)
                add_text(notes, note);
        cli_json_set(document, "notes", notes);
        cli_json_set(document, "goal", cli_json_text_or_null(gpufree_blockers_goal(blockers)));
}

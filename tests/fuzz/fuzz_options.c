/* SPDX-License-Identifier: MIT */
/* The command line: words separated by NUL. What is understood must be consistent; what is not has one line. */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

#define MOST_WORDS 32

static void check_error(int r, const char *error)
{
        if (r != -EINVAL && r != -ENOMEM)
                abort();
        if (r == -EINVAL && (!error || !error[0]))
                abort();
}

static void check_request(const struct cli_request *request)
{
        if (request->command > CLI_COMMANDS || request->ladder.signal < 0 || request->ladder.signal > 64)
                abort();
        if (request->json && request->quiet && !request->help && !request->version && !request->dump)
                abort();
        for (size_t i = 0; i < request->criteria.n; i++)
                if (!request->criteria.v[i].option ||
                    !request->criteria.v[i].option->argument != !request->criteria.v[i].value)
                        abort();
}

/* Each value of a criterion goes on to the selection, as the command hands it over. */
static void try_selection(const struct cli_request *request)
{
        gpufree_selection *selection = NULL;

        if (gpufree_selection_new(&selection) < 0)
                return;
        for (size_t i = 0; i < request->criteria.n; i++) {
                const struct cli_criterion *criterion = &request->criteria.v[i];
                char *error = NULL;
                int r;

                /* Names of users ask the system. */
                if (criterion->option->criterion == GPUFREE_BY_USER)
                        continue;
                r = gpufree_selection_add(selection, criterion->option->criterion, criterion->value, &error);
                if (r < 0 && r != -ENOMEM && (!error || strchr(error, '\n')) &&
                    !(criterion->value && strchr(criterion->value, '\n')))
                        abort();
                free(error);
        }
        gpufree_selection_unref(selection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1), *words[MOST_WORDS + 2] = { NULL }, *error = NULL;
        char program[] = "gpufree";
        struct cli_request request;
        int n = 0, r;

        if (!text)
                return 0;
        memcpy(text, data, size);
        text[size] = '\0';
        words[n++] = program;
        for (size_t at = 0; at < size && n <= MOST_WORDS; at += strlen(text + at) + 1)
                words[n++] = text + at;
        r = cli_request_parse(&request, n, words, &error);
        if (r < 0) {
                check_error(r, error);
        } else {
                check_request(&request);
                try_selection(&request);
        }
        free(error);
        cli_request_done(&request);
        free(text);
        return 0;
}

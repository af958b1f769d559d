/* SPDX-License-Identifier: MIT */
#include "options.h"

static const char *const group_titles[CLI_GROUPS] = {
        [CLI_GROUP_SELECT] = "Selecting (several are ANDed, several values of one are ORed):",
        [CLI_GROUP_LOOK] = "Looking:",
        [CLI_GROUP_KILL] = "Ending:",
        [CLI_GROUP_PARK] = "Parking:",
        [CLI_GROUP_WAIT] = "Waiting and judging:",
        [CLI_GROUP_RUN] = "Running a command:",
        [CLI_GROUP_REACH] = "Other machines (over ssh; gpufree has to be there):",
        [CLI_GROUP_OUTPUT] = "Output:",
};

static const char exit_status[] =
        "Exit status:\n"
        "  0  list, explain: everything was seen; check, wait: free; kill: gone, memory verified;\n"
        "     park: parked, memory verified; unpark: runs again, seen on its GPU\n"
        "  1  check, wait: held, or in the way of what it is for; kill: holders survived; park, unpark: failed\n"
        "  2  bad usage, or output could not be written\n"
        "  3  no holder found, but not everything could be seen\n"
        "  4  kill, park, unpark: refused (protected, no permission, not confirmed, no room)\n"
        "  5  memory held with no holder to be found, or it did not come back\n"
        "  6  kill, wait, park, unpark: timeout\n"
        "  run: the command's own, 128 and the signal's number; 121 GPUs not free, 122 not\n"
        "  ready in time, 123 the GPUs did not come back, 126 and 127 as in a shell\n";

static void add_option(struct gf_str *out, const struct cli_option *option)
{
        _cleanup_free_ char *left = NULL;
        char letter[5] = "    ";

        if (option->letter) {
                letter[0] = '-';
                letter[1] = option->letter;
                letter[2] = ',';
        }
        left = gf_asprintf("%s--%s%s%s", letter, option->name, option->argument ? " " : "",
                           option->argument ? option->argument : "");
        if (!left) {
                out->failed = true;
                return;
        }
        gf_str_addf(out, "  %-25s %s\n", left, option->help);
}

static void add_options(struct gf_str *out, unsigned commands)
{
        for (enum cli_group group = CLI_GROUP_SELECT; group < CLI_GROUPS; group++) {
                bool titled = false;

                for (size_t i = 0; i < cli_option_count; i++) {
                        const struct cli_option *option = &cli_options[i];

                        if (option->group != group || !(option->commands & commands))
                                continue;
                        if (!titled)
                                gf_str_addf(out, "\n%s\n", group_titles[group]);
                        titled = true;
                        add_option(out, option);
                }
        }
}

void cli_help(struct gf_str *out)
{
        gf_str_add(out, "gpufree: who holds a GPU, end just those, prove that the memory came back\n\n"
                        "Usage: gpufree [COMMAND] [OPTION...] [DEVICE...]\n\nCommands:\n");
        for (size_t i = 0; i < CLI_COMMANDS; i++)
                gf_str_addf(out, "  %-8s %s\n", cli_commands[i].name, cli_commands[i].summary);
        gf_str_add(out, "\nDEVICE is a path, as with fuser: gpufree list /dev/nvidia0 /dev/kfd\n");
        add_options(out, ~0u);
        gf_str_addf(out,
                    "\n%s\nDurations read 500ms, 10s, 2m, 8h. \"gpufree help kill\" is about one command; see "
                    "gpufree(1).\n",
                    exit_status);
}

void cli_help_command(struct gf_str *out, enum cli_command command)
{
        gf_str_addf(out, "Usage: gpufree %s\n\n%s", cli_commands[command].usage, cli_commands[command].text);
        add_options(out, 1u << command);
        if (command != CLI_HELP)
                gf_str_addf(out, "\n%s", exit_status);
}

/* name, letter, argument, commands: tab separated, "-" for none. The tests of the documents read it. */
void cli_dump_options(struct gf_str *out)
{
        for (size_t i = 0; i < cli_option_count; i++) {
                const struct cli_option *option = &cli_options[i];
                const char *comma = "";

                if (option->group == CLI_GROUPS)
                        continue;
                gf_str_addf(out, "--%s\t%c\t%s\t", option->name, option->letter ? option->letter : '-',
                            option->argument ? option->argument : "-");
                for (size_t c = 0; c < CLI_COMMANDS; c++)
                        if (option->commands & (1u << c)) {
                                gf_str_addf(out, "%s%s", comma, cli_commands[c].name);
                                comma = ",";
                        }
                gf_str_addc(out, '\n');
        }
}

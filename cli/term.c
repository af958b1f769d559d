/* SPDX-License-Identifier: MIT */
#include "term.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/num.h"
#include "text.h"

void cli_term_guard(void)
{
        for (int fd = 0; fd <= 2; fd++) {
                if (fcntl(fd, F_GETFD) >= 0)
                        continue;
                /* The other way round on purpose: a write to a closed standard output is an error, not lost. */
                (void)open("/dev/null", (fd == STDOUT_FILENO ? O_RDONLY : O_RDWR)); /* takes the lowest number: fd */
        }
}

static size_t terminal_width(int fd)
{
        struct winsize size;
        const char *columns = getenv("COLUMNS");
        uint32_t n;

        if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
                return size.ws_col;
        if (columns && gf_parse_u32(columns, &n) == 0 && n > 0)
                return n;
        return isatty(fd) ? 80 : 0;
}

static bool wants_color(enum cli_color color)
{
        const char *no_color = getenv("NO_COLOR"), *type = getenv("TERM");

        if (color != CLI_COLOR_AUTO)
                return color == CLI_COLOR_ALWAYS;
        if (no_color && no_color[0] != '\0')
                return false;
        return isatty(STDOUT_FILENO) && !(type && strcmp(type, "dumb") == 0);
}

void cli_term_init(struct cli_term *term, enum cli_color color)
{
        const char *type = getenv("TERM");

        *term = (struct cli_term){ 0 };
        term->in_tty = isatty(STDIN_FILENO);
        term->err_tty = isatty(STDERR_FILENO) && type && strcmp(type, "dumb") != 0;
        term->width = terminal_width(STDOUT_FILENO);
        term->err_width = terminal_width(STDERR_FILENO);
        term->color = wants_color(color);
        term->utf8 = setlocale(LC_CTYPE, "") && strcasecmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int write_all(int fd, const char *text, size_t n)
{
        while (n > 0) {
                ssize_t k = write(fd, text, n);

                if (k < 0 && errno == EAGAIN) {
                        struct pollfd p = { .fd = fd, .events = POLLOUT };

                        (void)poll(&p, 1, -1);
                        continue;
                }
                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                text += k;
                n -= (size_t)k;
        }
        return 0;
}

int cli_term_out(struct cli_term *term, const char *text, size_t n)
{
        cli_term_progress(term, NULL);
        return write_all(STDOUT_FILENO, text, n);
}

void cli_term_raw(struct cli_term *term, const char *text, size_t n)
{
        cli_term_progress(term, NULL);
        (void)write_all(STDERR_FILENO, text, n);
}

#define LONGEST_LINE 1000

__attribute__((format(printf, 3, 0))) static void say(struct cli_term *term, const char *head, const char *format,
                                                      va_list ap)
{
        _cleanup_free_ char *text = gf_vasprintf(format, ap);
        struct gf_str line = { 0 };

        cli_term_progress(term, NULL);
        if (!text)
                return;
        /* What was given may be as long as the system allows; a line that says what is wrong with it is not. */
        if (strlen(text) > LONGEST_LINE)
                memcpy(text + LONGEST_LINE, "...", sizeof("..."));
        gf_str_add(&line, head);
        if (term->utf8) {
                cli_text_escape(&line, text, strlen(text), true);
        } else {
                struct gf_str plain = { 0 };

                cli_text_plain(&plain, text);
                if (plain.s)
                        cli_text_escape(&line, plain.s, plain.n, false);
                gf_str_done(&plain);
        }
        gf_str_addc(&line, '\n');
        if (!line.failed)
                (void)write_all(STDERR_FILENO, line.s, line.n); /* nowhere to complain about standard error */
        gf_str_done(&line);
}

void cli_term_say(struct cli_term *term, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        say(term, "", format, ap);
        va_end(ap);
}

void cli_term_error(struct cli_term *term, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        say(term, "gpufree: ", format, ap);
        va_end(ap);
}

void cli_term_progress(struct cli_term *term, const char *text)
{
        struct gf_str line = { 0 }, safe = { 0 };

        if (!term->err_tty || (!text && !term->line_shown))
                return;
        gf_str_add(&line, "\r\033[K");
        if (text) {
                cli_text_escape(&safe, text, strlen(text), term->utf8);
                if (safe.s)
                        cli_text_fit(&line, safe.s, term->err_width > 1 ? term->err_width - 1 : 79, term->utf8);
        }
        if (!line.failed)
                (void)write_all(STDERR_FILENO, line.s, line.n);
        term->line_shown = text != NULL;
        gf_str_done(&line);
        gf_str_done(&safe);
}

/* A line from the terminal, waiting for the signal pipe too. */
static int read_answer(int cancel_fd, char *answer, size_t size)
{
        struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = cancel_fd, .events = POLLIN } };
        ssize_t n;

        for (;;) {
                if (poll(p, 2, -1) < 0 && errno != EINTR)
                        return -errno;
                if (p[1].revents)
                        return -EINTR;
                if (p[0].revents)
                        break;
        }
        n = read(STDIN_FILENO, answer, size - 1);
        if (n < 0)
                return -errno;
        answer[n] = '\0';
        answer[strcspn(answer, "\r\n")] = '\0';
        return 0;
}

int cli_term_ask(struct cli_term *term, const char *question, int cancel_fd)
{
        _cleanup_close_ int tty = -1;
        char answer[64];
        int r, to = STDERR_FILENO;

        if (!term->in_tty)
                return -ENOTTY;
        cli_term_progress(term, NULL);
        if (!isatty(STDERR_FILENO)) { /* a question that nobody sees would wait for ever */
                tty = open("/dev/tty", O_WRONLY | O_NOCTTY | O_CLOEXEC);
                if (tty < 0)
                        return -ENOTTY;
                to = tty;
        }
        /* What was typed before the plan was there is no answer to it. */
        (void)tcflush(STDIN_FILENO, TCIFLUSH);
        r = write_all(to, question, strlen(question));
        if (r < 0)
                return r;
        r = read_answer(cancel_fd, answer, sizeof(answer));
        if (r < 0) {
                (void)write_all(to, "\n", 1);
                return r;
        }
        return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}

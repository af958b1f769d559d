/* SPDX-License-Identifier: MIT */
#include "sys/aside.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define STACK_BYTES (512U * 1024)
#define TICK_MS 50U

int gf_thread_start(pthread_t *ret_thread, void *(*main)(void *), void *userdata)
{
        pthread_attr_t attr;
        sigset_t all, old;
        int r;

        r = pthread_attr_init(&attr);
        if (r != 0)
                return -r;
        (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
        sigfillset(&all);
        r = pthread_sigmask(SIG_SETMASK, &all, &old);
        if (r == 0) {
                r = pthread_create(ret_thread, &attr, main, userdata);
                (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        }
        (void)pthread_attr_destroy(&attr);
        return -r;
}

struct aside {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool done, left; /* left: nobody waits any more */
        void (*work)(void *box);
        void (*release)(void *box);
        void *box;
};

static void aside_free(struct aside *a)
{
        (void)pthread_cond_destroy(&a->changed);
        (void)pthread_mutex_destroy(&a->lock);
        free(a);
}

static void *aside_main(void *userdata)
{
        struct aside *a = userdata;
        bool left;

        a->work(a->box);
        pthread_mutex_lock(&a->lock);
        a->done = true;
        left = a->left;
        pthread_cond_signal(&a->changed);
        pthread_mutex_unlock(&a->lock);
        if (left) {
                a->release(a->box);
                aside_free(a);
        }
        return NULL;
}

/* Waits in ticks that are counted: a program that was stopped for a while must not find its deadline gone. */
static bool wait_done(struct aside *a, uint64_t ms)
{
        uint64_t ticks = ms / TICK_MS + 1;

        while (!a->done && ticks > 0) {
                struct timespec until;

                (void)clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_nsec += (long)TICK_MS * 1000000;
                if (until.tv_nsec >= 1000000000) {
                        until.tv_sec++;
                        until.tv_nsec -= 1000000000;
                }
                if (pthread_cond_clockwait(&a->changed, &a->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT)
                        ticks--;
        }
        a->left = !a->done;
        return a->done;
}

int gf_aside(void (*work)(void *box), void (*release)(void *box), void *box, uint64_t ms)
{
        struct aside *a = calloc(1, sizeof(*a));
        pthread_t thread;
        bool done;
        int r;

        if (!a)
                return -ENOMEM;
        *a = (struct aside){ .work = work, .release = release, .box = box };
        (void)pthread_mutex_init(&a->lock, NULL);
        (void)pthread_cond_init(&a->changed, NULL);
        r = gf_thread_start(&thread, aside_main, a);
        if (r < 0) {
                aside_free(a);
                return r;
        }
        pthread_mutex_lock(&a->lock);
        done = wait_done(a, ms);
        pthread_mutex_unlock(&a->lock);
        if (!done) {
                (void)pthread_detach(thread);
                return -ETIMEDOUT;
        }
        (void)pthread_join(thread, NULL);
        aside_free(a);
        return 0;
}

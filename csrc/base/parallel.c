/* parallel.c - POSIX threads: start, work, join. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/parallel.h"

struct worker {
    pthread_t thread;
    bool started;
    pf_share_fn run;
    void *context;
    size_t share;
};

static void *
work(void *argument)
{
    struct worker *worker = argument;

    worker->run(worker->context, worker->share);
    return NULL;
}

void
pf_parallel_run(size_t n_share, pf_share_fn run, void *context)
{
    struct worker *workers = NULL;
    sigset_t all, before;

    if (n_share > 1) {
        workers = calloc(n_share, sizeof *workers);
    }
    (void)sigfillset(&all); /* signals are the calling thread's business */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 1; workers != NULL && i < n_share; i++) {
        workers[i] = (struct worker){.run = run, .context = context, .share = i};
        workers[i].started =
                pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (size_t i = 0; i < n_share; i++) {
        if (workers == NULL || !workers[i].started) {
            run(context, i);
        }
    }
    for (size_t i = 1; workers != NULL && i < n_share; i++) {
        if (workers[i].started) {
            pthread_join(workers[i].thread, NULL);
        }
    }
    free(workers);
}

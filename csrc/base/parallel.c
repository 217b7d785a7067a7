/* parallel.c - POSIX threads: start, work, join. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/parallel.h"

enum { IDLE_NS = 20000000 };

/* What the threads of one call share. */
struct team {
    pthread_mutex_t lock;
    pthread_cond_t all_ended;
    size_t n_running;
};

struct worker {
    struct team *team;
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
    pthread_mutex_lock(&worker->team->lock);
    if (--worker->team->n_running == 0) {
        pthread_cond_signal(&worker->team->all_ended);
    }
    pthread_mutex_unlock(&worker->team->lock);
    return NULL;
}

static void
start(struct worker *worker)
{
    struct team *team = worker->team;

    pthread_mutex_lock(&team->lock);
    worker->started = pthread_create(&worker->thread, NULL, work, worker) == 0;
    team->n_running += worker->started;
    pthread_mutex_unlock(&team->lock);
}

static void
idle_until_all_ended(struct team *team, pf_idle_fn idle, void *context)
{
    pthread_mutex_lock(&team->lock);
    while (team->n_running > 0) {
        struct timespec until;

        (void)clock_gettime(CLOCK_REALTIME, &until); /* the one of pthread_cond_t */
        until.tv_nsec += IDLE_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&team->all_ended, &team->lock, &until);
        if (team->n_running > 0) {
            pthread_mutex_unlock(&team->lock);
            idle(context);
            pthread_mutex_lock(&team->lock);
        }
    }
    pthread_mutex_unlock(&team->lock);
}

void
pf_parallel_run(size_t n_share, pf_share_fn run, pf_idle_fn idle, void *context)
{
    struct team team = {
            .lock = PTHREAD_MUTEX_INITIALIZER, .all_ended = PTHREAD_COND_INITIALIZER};
    struct worker *workers = NULL;
    sigset_t all, before;

    if (n_share > 1) {
        workers = calloc(n_share, sizeof *workers);
    }
    (void)sigfillset(&all); /* signals are the calling thread's business */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 1; workers != NULL && i < n_share; i++) {
        workers[i] = (struct worker){
                .team = &team, .run = run, .context = context, .share = i};
        start(&workers[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (size_t i = 0; i < n_share; i++) {
        if (workers == NULL || !workers[i].started) {
            run(context, i);
        }
    }
    if (idle != NULL) {
        idle_until_all_ended(&team, idle, context);
    }
    for (size_t i = 1; workers != NULL && i < n_share; i++) {
        if (workers[i].started) {
            pthread_join(workers[i].thread, NULL);
        }
    }
    (void)pthread_cond_destroy(&team.all_ended);
    (void)pthread_mutex_destroy(&team.lock);
    free(workers);
}

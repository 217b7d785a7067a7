/* parallel.h - worker threads that never outlive the call that started them. */
#ifndef PF_PARALLEL_H
#define PF_PARALLEL_H

#include "base/pf.h"

/* One share of the work; share counts from 0. Shares must not depend on each other. */
typedef void (*pf_share_fn)(void *context, size_t share);

/* What the calling thread does while it waits for the others. */
typedef void (*pf_idle_fn)(void *context);

/* Calls run(context, i) for every i < n_share, the shares after the first on threads
 * of their own, and returns when all have ended. A share whose thread cannot be
 * started runs on the calling thread, so the call always does all the work. Share 0
 * always does. The other threads take no signals. idle, if not NULL, is called on the
 * calling thread every 20 ms from when its own shares have ended until all have. */
void pf_parallel_run(size_t n_share, pf_share_fn run, pf_idle_fn idle, void *context);

#endif /* PF_PARALLEL_H */

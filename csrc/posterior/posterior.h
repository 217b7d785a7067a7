/* posterior.h - option posteriors of single passes, and their pool over passes. */
#ifndef PF_POSTERIOR_H
#define PF_POSTERIOR_H

#include "base/pf.h"
#include "base/random.h"

typedef enum pf_pool {
    PF_POOL_LINEAR = 0, /* arithmetic mean of the posteriors */
    PF_POOL_LOGLINEAR   /* geometric mean, renormalised: -inf in one pass is a veto */
} pf_pool;

typedef enum pf_missing {
    PF_MISSING_COMPLETE = 0, /* an item that lacks a pass has no answer */
    PF_MISSING_AVAILABLE     /* the mean of the passes there are */
} pf_missing;

/* Why a pass counts as missing. -inf on some options is legal: they have no mass. */
typedef enum pf_pass_state {
    PF_PASS_VALID = 0,
    PF_PASS_NAN,      /* a NaN among its options */
    PF_PASS_INFINITE, /* a +inf among its options */
    PF_PASS_EMPTY     /* no finite option at all */
} pf_pass_state;

/*
 * Log-probabilities or logits, natural log, in content order.
 *
 * logp           (n_item, n_pass, n_option), row-major; a constant added to a pass
 *                changes nothing
 * n_option_item  (n_item,) or NULL: options of each item, in 1 .. n_option; what lies
 *                beyond is padding and is never looked at
 * tie_seed       (n_item,): see pf_tie_break
 * n_pass >= 1, n_option in 1 .. PF_OPTION_MAX
 */
typedef struct pf_pass_batch {
    const double *logp;
    const int64_t *n_option_item;
    const uint64_t *tie_seed;
    size_t n_item;
    size_t n_pass;
    size_t n_option;
} pf_pass_batch;

/*
 * Results; every array is the caller's.
 *
 * posterior         (n_item, n_option): sums to 1 over an item's options, 0 in the
 *                   padding; NaN throughout for an item without an answer
 * margin_nats       (n_item,): log of best over second best; 0 in a tie, +inf when one
 *                   option holds all the mass, NaN without an answer
 * answer            (n_item,): index of the best option; -1 without an answer
 * n_tied            (n_item,): options whose posterior is within 4 epsilon of the best,
 *                   itself included; 0 without an answer
 * n_valid           (n_item,): valid passes
 * pass_answer       (n_item, n_pass), pass_margin_nats (n_item, n_pass): the same two
 *                   for every pass alone; -1 and NaN for an invalid one. Both NULL
 *                   where they are not wanted, which is quicker
 *
 * pass_state        (n_item, n_pass): a pf_pass_state
 */
typedef struct pf_fused {
    double *posterior;
    double *margin_nats;
    int64_t *answer;
    unsigned char *n_tied;
    int64_t *n_valid;
    int64_t *pass_answer;
    double *pass_margin_nats;
    unsigned char *pass_state;
} pf_fused;

/*
 * Softmax over the options of every pass, pooled over the passes of every item
 * (arXiv:2610.08649, 3.2).
 *
 *   linear     q[k] = sum_s p[s, k] / n        p[s] = softmax(logp[s])
 *   loglinear  q    = softmax(sum_s logp[s] / n)
 *
 * over the n valid passes, in the order of the passes, in double. Ties are broken by
 * pf_tie_break. An item is without an answer when it has no valid pass, when it lacks
 * one under PF_MISSING_COMPLETE, or when the loglinear pool vetoes every option.
 * Posteriors below e^-709 are 0; margins are right nevertheless.
 *
 * Inputs and outputs must not overlap. PF_EINVAL when a count is out of range.
 */
PF_NODISCARD pf_status pf_posterior_fuse(const pf_pass_batch *batch, pf_pool pool,
        pf_missing missing, const pf_fused *fused);

#endif /* PF_POSTERIOR_H */

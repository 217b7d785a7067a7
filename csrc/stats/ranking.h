/* ranking.h - area under the ROC curve of items in the order of their scores. */
#ifndef PF_RANKING_H
#define PF_RANKING_H

#include "base/pf.h"

/*
 * Items of two classes, by ascending score.
 *
 * is_positive   (n_item,): 1 or 0
 * begins_score  (n_item,): 1 where the score is above the one before, 0 where it is the
 *               same; the first entry counts as 1
 * n_item below 2^31
 */
typedef struct pf_ranking {
    const unsigned char *is_positive;
    const unsigned char *begins_score;
    size_t n_item;
} pf_ranking;

/*
 * Twice the number of items of the other class with a lower score, equal scores counted
 * as one half.
 *
 * placement2  (n_item,), out
 *
 * The sum over the positives is 2 U of Mann and Whitney; area = U / (positives *
 * negatives). Divided by twice the size of the other class these are the placements of
 * DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988); of a negative it is the
 * share of positives below it. PF_EINVAL when n_item is out of range.
 */
PF_NODISCARD pf_status pf_ranking_placements(
        const pf_ranking *ranking, int64_t *placement2);

/*
 * The area of n_resample resamples of the items, drawn with replacement.
 *
 * area  (n_resample,), out; NaN where a resample lacks a class
 *
 * Resample r draws from pf_rng_stream(seed, r): the result does not depend on which
 * thread makes it. Counts are integers until the last division.
 * PF_EINVAL when n_item is 0 or out of range; PF_ENOMEM.
 */
PF_NODISCARD pf_status pf_ranking_bootstrap(
        const pf_ranking *ranking, uint64_t seed, size_t n_resample, double *area);

#endif /* PF_RANKING_H */

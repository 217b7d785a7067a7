/* resample.h - bootstrap of a ratio of sums over clusters. */
#ifndef PF_RESAMPLE_H
#define PF_RESAMPLE_H

#include "base/pf.h"

/*
 * Clusters in classes of equal ones.
 *
 * numerator, denominator  (n_class,): what a cluster of the class adds
 * n_cluster_class         (n_class,): clusters in the class, >= 1
 *
 * The clusters are at least 1 and fewer than 2^31 in all.
 */
typedef struct pf_cluster_classes {
    const double *numerator;
    const double *denominator;
    const int64_t *n_cluster_class;
    size_t n_class;
} pf_cluster_classes;

/*
 * Both sums over as many clusters as there are, drawn with replacement; n_resample
 * times.
 *
 * sums  (n_resample, 2), out: numerator, denominator
 *
 * Of the leading classes with 16 clusters or more the number drawn is made first: a
 * multinomial of binomials that are exact for their rational probabilities. The
 * clusters of all other classes are drawn one by one. Sums go over the classes, then
 * the draws, in order; large classes first is fastest. Resample r draws from
 * pf_rng_stream(seed, r): one seed gives one result, whatever the threads. PF_EINVAL
 * when a count is out of range; PF_ENOMEM.
 */
PF_NODISCARD pf_status pf_resample_sums(const pf_cluster_classes *classes,
        uint64_t seed, size_t n_resample, double *sums);

/*
 * Clusters drawn with replacement, n_cluster of n_cluster, n_resample times.
 *
 * index  (n_resample, n_cluster), out
 * PF_EINVAL unless n_cluster is in 1 .. 2^31 - 1.
 */
PF_NODISCARD pf_status pf_resample_indices(
        size_t n_cluster, uint64_t seed, size_t n_resample, uint32_t *index);

#endif /* PF_RESAMPLE_H */

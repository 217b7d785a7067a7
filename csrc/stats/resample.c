/* resample.c - see resample.h. */
#include "stats/resample.h"
#include "base/random.h"

#include <stdlib.h>

/* A class costs about as much as this many clusters drawn one by one. */
enum { CLUSTERS_PER_CLASS = 16 };

/* the number of ones; as in Hacker's Delight, 5-1 */
static uint64_t
count_ones(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) +
           (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return word * UINT64_C(0x0101010101010101) >> 56;
}

/* heads among n_coin fair coins */
static uint64_t
toss(pf_rng *rng, uint64_t n_coin)
{
    uint64_t n_head = 0;

    for (; n_coin >= 64; n_coin -= 64) {
        n_head += count_ones(pf_rng_next(rng));
    }
    if (n_coin > 0) {
        n_head += count_ones(pf_rng_next(rng) >> (64 - n_coin));
    }
    return n_head;
}

/*
 * Successes among n_trial with probability num / den, 0 <= num < den < 2^63.
 *
 * A trial succeeds when a uniform number in [0, 1) is below num / den. Both are
 * compared bit by bit from the top: at each bit half of the open trials stay open, and
 * the others succeed where the probability's bit is 1.
 */
static uint64_t
draw_binomial(pf_rng *rng, uint64_t n_trial, uint64_t num, uint64_t den)
{
    uint64_t n_success = 0;

    while (n_trial > 0 && num > 0) {
        const uint64_t n_open = toss(rng, n_trial);

        num *= 2;
        if (num >= den) {
            num -= den;
            n_success += n_trial - n_open;
        }
        n_trial = n_open;
    }
    return n_success;
}

static void
sum_classes(
        const pf_cluster_classes *classes, uint64_t n_cluster, pf_rng rng, double *sums)
{
    uint64_t n_left = n_cluster; /* draws, and clusters, of the classes to come */
    uint64_t n_other = n_cluster;

    sums[0] = 0.0;
    sums[1] = 0.0;
    for (size_t c = 0; c < classes->n_class && n_left > 0; c++) {
        const uint64_t n_here = (uint64_t)classes->n_cluster_class[c];
        const bool is_last = c + 1 == classes->n_class;
        const uint64_t n_drawn =
                is_last ? n_left : draw_binomial(&rng, n_left, n_here, n_other);

        sums[0] += (double)n_drawn * classes->numerator[c];
        sums[1] += (double)n_drawn * classes->denominator[c];
        n_left -= n_drawn;
        n_other -= n_here;
    }
}

/* class_of_cluster (n_cluster,) names the class of each cluster */
static void
sum_drawn(const pf_cluster_classes *classes, const uint32_t *class_of_cluster,
        uint32_t n_cluster, pf_rng rng, double *sums)
{
    enum { CHUNK = 512 };
    uint32_t index[CHUNK];

    sums[0] = 0.0;
    sums[1] = 0.0;
    for (uint32_t first = 0; first < n_cluster; first += CHUNK) {
        const uint32_t n_draw = n_cluster - first < CHUNK ? n_cluster - first : CHUNK;

        pf_rng_indices(&rng, n_cluster, n_draw, index);
        for (uint32_t i = 0; i < n_draw; i++) {
            const uint32_t c = class_of_cluster[index[i]];

            sums[0] += classes->numerator[c];
            sums[1] += classes->denominator[c];
        }
    }
}

static pf_status
count_clusters(const pf_cluster_classes *classes, uint32_t *n_cluster)
{
    uint32_t total = 0;

    for (size_t c = 0; c < classes->n_class; c++) {
        const int64_t n_here = classes->n_cluster_class[c];

        if (n_here < 1 || n_here > INT32_MAX - (int64_t)total) {
            return PF_EINVAL;
        }
        total += (uint32_t)n_here;
    }
    *n_cluster = total;
    return total == 0 ? PF_EINVAL : PF_OK;
}

static pf_status
resample_one_by_one(const pf_cluster_classes *classes, uint32_t n_cluster,
        uint64_t seed, size_t n_resample, double *sums)
{
    uint32_t *class_of_cluster = calloc(n_cluster, sizeof *class_of_cluster);
    size_t at = 0;

    if (class_of_cluster == NULL) {
        return PF_ENOMEM;
    }
    for (size_t c = 0; c < classes->n_class; c++) {
        for (int64_t i = 0; i < classes->n_cluster_class[c]; i++) {
            class_of_cluster[at++] = (uint32_t)c;
        }
    }
    for (size_t r = 0; r < n_resample; r++) {
        sum_drawn(classes, class_of_cluster, n_cluster, pf_rng_stream(seed, r),
                sums + 2 * r);
    }
    free(class_of_cluster);
    return PF_OK;
}

pf_status
pf_resample_sums(const pf_cluster_classes *classes, uint64_t seed, size_t n_resample,
        double *sums)
{
    uint32_t n_cluster;
    pf_status st = count_clusters(classes, &n_cluster);

    if (st != PF_OK) {
        return st;
    }
    if (classes->n_class > 1 + n_cluster / CLUSTERS_PER_CLASS) {
        return resample_one_by_one(classes, n_cluster, seed, n_resample, sums);
    }
    for (size_t r = 0; r < n_resample; r++) {
        sum_classes(classes, n_cluster, pf_rng_stream(seed, r), sums + 2 * r);
    }
    return PF_OK;
}

pf_status
pf_resample_indices(size_t n_cluster, uint64_t seed, size_t n_resample, uint32_t *index)
{
    if (n_cluster < 1 || n_cluster > INT32_MAX) {
        return PF_EINVAL;
    }
    for (size_t r = 0; r < n_resample; r++) {
        pf_rng rng = pf_rng_stream(seed, r);

        pf_rng_indices(&rng, (uint32_t)n_cluster, n_cluster, index + r * n_cluster);
    }
    return PF_OK;
}

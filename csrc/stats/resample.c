/* resample.c - see resample.h. */
#include "stats/resample.h"
#include "base/random.h"

#include <stdlib.h>

/* The binomial of a class costs about as much as this many clusters drawn one by one.
 */
enum { LARGE_CLASS = 16 };

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
 * Successes among n_trial <= 64, one trial a bit; as draw_binomial, but with as many
 * words as close nearly all trials at once: a loop that ends with the last open trial
 * would be a branch nobody can predict.
 */
static uint64_t
draw_few(pf_rng *rng, uint64_t n_trial, uint64_t num, uint64_t den)
{
    enum { N_WORD = 12 };
    uint64_t open = n_trial == 0 ? 0 : UINT64_MAX >> (64 - n_trial);
    uint64_t success = 0;

    while (open != 0) {
        for (int i = 0; i < N_WORD; i++) {
            const uint64_t word = pf_rng_next(rng);
            const uint64_t bit = 2 * num >= den;

            num = 2 * num - (bit ? den : 0);
            success |= bit ? open & ~word : 0;
            open &= word;
        }
    }
    return count_ones(success);
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

    while (n_trial > 64) {
        const uint64_t n_open = toss(rng, n_trial);
        const bool bit = 2 * num >= den;

        num = 2 * num - (bit ? den : 0);
        n_success += bit ? n_trial - n_open : 0;
        n_trial = n_open;
    }
    return n_success + draw_few(rng, n_trial, num, den);
}

/* What one resample is drawn from: the leading large classes, then the clusters of the
 * other classes one by one. */
typedef struct draw_plan {
    size_t n_large;
    uint32_t n_cluster;
    uint32_t n_single;         /* clusters in the other classes */
    uint32_t *class_of_single; /* (n_single,) */
} draw_plan;

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
draw_plan_init(draw_plan *plan, const pf_cluster_classes *classes)
{
    size_t at = 0;
    pf_status st;

    *plan = (draw_plan){0};
    st = count_clusters(classes, &plan->n_cluster);
    if (st != PF_OK) {
        return st;
    }
    plan->n_single = plan->n_cluster;
    while (plan->n_large < classes->n_class &&
            classes->n_cluster_class[plan->n_large] >= LARGE_CLASS) {
        plan->n_single -= (uint32_t)classes->n_cluster_class[plan->n_large++];
    }
    plan->class_of_single = calloc((size_t)plan->n_single + 1, sizeof(uint32_t));
    if (plan->class_of_single == NULL) {
        return PF_ENOMEM;
    }
    for (size_t c = plan->n_large; c < classes->n_class; c++) {
        for (int64_t i = 0; i < classes->n_cluster_class[c]; i++) {
            plan->class_of_single[at++] = (uint32_t)c;
        }
    }
    return PF_OK;
}

/* adds n_draw clusters of the small classes to the sums */
static void
add_singles(const pf_cluster_classes *classes, const draw_plan *plan, uint32_t n_draw,
        pf_rng *rng, double *sums)
{
    enum { CHUNK = 512 };
    uint32_t index[CHUNK];

    for (uint32_t first = 0; first < n_draw; first += CHUNK) {
        const uint32_t n_here = n_draw - first < CHUNK ? n_draw - first : CHUNK;

        pf_rng_indices(rng, plan->n_single, n_here, index);
        for (uint32_t i = 0; i < n_here; i++) {
            const uint32_t c = plan->class_of_single[index[i]];

            sums[0] += classes->numerator[c];
            sums[1] += classes->denominator[c];
        }
    }
}

static void
sum_resample(const pf_cluster_classes *classes, const draw_plan *plan, pf_rng rng,
        double *sums)
{
    uint64_t n_left = plan->n_cluster;  /* draws to come */
    uint64_t n_other = plan->n_cluster; /* clusters to draw them from */

    sums[0] = 0.0;
    sums[1] = 0.0;
    for (size_t c = 0; c < plan->n_large; c++) {
        const uint64_t n_here = (uint64_t)classes->n_cluster_class[c];
        const uint64_t n_drawn = n_here == n_other
                                         ? n_left
                                         : draw_binomial(&rng, n_left, n_here, n_other);

        sums[0] += (double)n_drawn * classes->numerator[c];
        sums[1] += (double)n_drawn * classes->denominator[c];
        n_left -= n_drawn;
        n_other -= n_here;
    }
    add_singles(classes, plan, (uint32_t)n_left, &rng, sums);
}

pf_status
pf_resample_sums(const pf_cluster_classes *classes, uint64_t seed, size_t n_resample,
        double *sums)
{
    draw_plan plan;
    pf_status st = draw_plan_init(&plan, classes);

    if (st != PF_OK) {
        return st;
    }
    for (size_t r = 0; r < n_resample; r++) {
        sum_resample(classes, &plan, pf_rng_stream(seed, r), sums + 2 * r);
    }
    free(plan.class_of_single);
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

/* matched.h - votes of two halves of the option orders, within and across phases. */
#ifndef PF_MATCHED_H
#define PF_MATCHED_H

#include "base/pf.h"
#include "base/random.h"

/* Different answers of one item that can share a tie in agree_within and agree_across,
 * and the least common multiple of 1 .. that many. */
enum { PF_MATCHED_ANSWER_MAX = 16, PF_MATCHED_UNIT = 720720 };

/*
 * Answers of every order in every phase of every item.
 *
 * answer         (n_item, n_phase, n_order), row-major, each below the number of the
 *                item's options; none is missing
 * n_option_item  (n_item,), each in 1 .. PF_OPTION_MAX
 * tie_seed       (n_item,) or NULL: ties go to the answer that pf_tie_break prefers;
 *                without seeds to the lowest index
 * n_phase >= 1, n_order in 1 .. 255
 */
typedef struct pf_matched_table {
    const int64_t *answer;
    const int64_t *n_option_item;
    const uint64_t *tie_seed;
    size_t n_item;
    size_t n_phase;
    size_t n_order;
} pf_matched_table;

/*
 * Which orders vote in which half.
 *
 * half  (n_split, n_order), row-major: 1 first half, 2 second half, 0 neither
 */
typedef struct pf_split_set {
    const unsigned char *half;
    size_t n_split;
} pf_split_set;

/*
 * Counts of every item, over splits.
 *
 * n_within       (n_item,): phases whose two halves vote differently, of
 *                n_split * n_phase
 * n_across       (n_item,): ordered pairs of phases s != t with the first half of s
 *                different from the second half of t, of n_split * n_phase *
 * (n_phase-1) n_tied         (n_item,): votes without a single winner, of 2 * n_split *
 * n_phase agree_within, agree_across (n_item,) or both NULL: the same two comparisons
 * with independent random tie-breaks, in expectation; sums of |T and U| / (|T| |U|)
 * over the tie sets, in units of PF_MATCHED_UNIT^-2
 */
typedef struct pf_matched_counts {
    int64_t *n_within;
    int64_t *n_across;
    int64_t *n_tied;
    int64_t *agree_within;
    int64_t *agree_across;
} pf_matched_counts;

/* PF_EINVAL when a number is out of range, a split leaves a half empty, or agreement is
 * wanted and an item has more than PF_MATCHED_ANSWER_MAX different answers; PF_ENOMEM.
 */
PF_NODISCARD pf_status pf_matched_count(const pf_matched_table *table,
        const pf_split_set *splits, const pf_matched_counts *counts);

/*
 * The answers with their phases permuted anew within every item and order, which leaves
 * no effect of the phase and everything else.
 *
 * item_seed  (n_item,): hash of the item's id; the permutations are those of
 *            pf_rng_stream(seed, item_seed[i])
 * shuffled   like answer of the table, out; must not overlap it
 * The other members of the table are not used.
 */
void pf_matched_shuffle(const pf_matched_table *table, const uint64_t *item_seed,
        uint64_t seed, int64_t *PF_RESTRICT shuffled);

#endif /* PF_MATCHED_H */

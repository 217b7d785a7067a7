/* flips.h - how often the answers of one item differ between passes. */
#ifndef PF_FLIPS_H
#define PF_FLIPS_H

#include "base/pf.h"

/* Answers are small: content indices, or labels numbered by the caller. */
enum { PF_ANSWER_MAX = 256 };

/*
 * Answers of every pass of every item.
 *
 * answer (n_item, n_pass), row-major, each in -1 .. n_answer-1, -1 = missing;
 * n_pass in 1 .. 2^31-1, n_answer in 1 .. PF_ANSWER_MAX.
 */
typedef struct pf_answer_table {
    const int64_t *answer;
    size_t n_item;
    size_t n_pass;
    size_t n_answer;
} pf_answer_table;

/*
 * What every flip rate of an item is made of, with n[k] passes that answered k.
 *
 * n_valid     (n_item,): m = sum_k n[k]
 * n_agreeing  (n_item,): sum_k n[k] (n[k] - 1), ordered pairs of passes that agree
 * n_distinct  (n_item,): answers given at least once
 * n_modal     (n_item,): max_k n[k]
 *
 * pairwise flip = 1 - n_agreeing / (m (m-1)), any-flip = n_distinct > 1; both are
 * undefined for m < 2.
 */
typedef struct pf_flip_counts {
    int64_t *n_valid;
    int64_t *n_agreeing;
    int64_t *n_distinct;
    int64_t *n_modal;
} pf_flip_counts;

/* PF_EINVAL when a count or an answer is out of range. */
PF_NODISCARD pf_status pf_flips_count(
        const pf_answer_table *table, const pf_flip_counts *counts);

/*
 * Items on which two passes differ, for every pair of passes.
 *
 * use        (n_item,) or NULL: items with use[i] == 0 are left out
 * n_differ   (n_pass, n_pass), out, symmetric: items with both answers, not equal
 * n_both     (n_pass, n_pass), out, symmetric: items with both answers; the diagonal
 *            counts the answers of each pass
 *
 * PF_EINVAL when a count or an answer is out of range; PF_ENOMEM.
 */
PF_NODISCARD pf_status pf_flips_pairs(const pf_answer_table *table,
        const unsigned char *use, int64_t *n_differ, int64_t *n_both);

/*
 * Expected any-flip of n_draw passes drawn without replacement from an item's m.
 *
 *   rate[i] = 1 - sum_k C(n[k], n_draw) / C(m, n_draw)
 *
 * n_draw = 2 is the pairwise flip, n_draw = m the any-flip (rarefaction).
 * count  (n_item, n_answer), row-major, each >= 0
 * rate   (n_item,), out; NaN where m < n_draw
 * PF_EINVAL when n_draw < 1 or a count is negative.
 */
PF_NODISCARD pf_status pf_flips_expected_any(const int64_t *count, size_t n_item,
        size_t n_answer, int64_t n_draw, double *rate);

#endif /* PF_FLIPS_H */

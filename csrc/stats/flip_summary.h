/* flip_summary.h - all flip rates of a table of few passes in one go over it. */
#ifndef PF_FLIP_SUMMARY_H
#define PF_FLIP_SUMMARY_H

#include "base/random.h"
#include "stats/flips.h"

/*
 * Flip rates of every item, and what their means are made of.
 *
 * pairwise       (n_item,): 1 - sum_k n[k] (n[k]-1) / (m (m-1)) over the m valid passes
 *                with n[k] answers k; NaN for m < 2
 * any            (n_item,): 1, 0, or -1 for m < 2
 * used           (n_item,): 1 for items behind the means
 * n_item_valid   (n_pass + 1,): used items by m
 * n_differ_valid (n_pass + 1,): sum over them of m (m-1) - sum_k n[k] (n[k]-1)
 * n_differ, n_both (n_pass, n_pass): as those of pf_flips_pairs, over the items that
 *                the rule keeps, with m < 2 too
 */
typedef struct pf_flip_summary {
    double *pairwise;
    int8_t *any;
    unsigned char *used;
    int64_t *n_item_valid;
    int64_t *n_differ_valid;
    int64_t *n_differ;
    int64_t *n_both;
    int64_t n_flipped;  /* used items with any flip */
    int64_t n_complete; /* items with as many valid passes as expected */
} pf_flip_summary;

/*
 * n_expected     (n_item,) or NULL: passes of a complete item, n_pass by default
 * only_complete  means are over complete items; else over all
 *
 * table->n_answer at most PF_OPTION_MAX, n_pass at most 255. PF_EINVAL otherwise, or
 * when an answer is out of range; PF_ENOMEM.
 */
PF_NODISCARD pf_status pf_flips_summarize(const pf_answer_table *table,
        const int64_t *n_expected, bool only_complete, pf_flip_summary *summary);

#endif /* PF_FLIP_SUMMARY_H */

/* consensus.h - plurality of votes in content space, with stated rules for ties. */
#ifndef PF_CONSENSUS_H
#define PF_CONSENSUS_H

#include "base/pf.h"
#include "base/random.h"

typedef enum pf_tie_rule {
    PF_TIE_POSTERIOR = 0, /* highest mean posterior among the tied, then priority */
    PF_TIE_PRIORITY,      /* pf_tie_break: neutral, the same for every arm */
    PF_TIE_LOWEST,        /* lowest index: leaks accuracy where gold comes first */
    PF_TIE_FIRST          /* the tied answer that was voted for first */
} pf_tie_rule;

/*
 * Votes of every item.
 *
 * vote            (n_item, n_vote), row-major, each -1 (missing) or below the number of
 *                 the item's options
 * n_option_item   (n_item,), each in 1 .. n_option
 * tie_seed        (n_item,): see pf_tie_break
 * mean_posterior  (n_item, n_option) or NULL; a row with NaN among the tied counts as
 *                 not there
 * n_option in 1 .. PF_OPTION_MAX
 */
typedef struct pf_vote_table {
    const int64_t *vote;
    const int64_t *n_option_item;
    const uint64_t *tie_seed;
    const double *mean_posterior;
    size_t n_item;
    size_t n_vote;
    size_t n_option;
} pf_vote_table;

/*
 * The answer with most votes.
 *
 * answer  (n_item,), out; -1 for an item without a vote
 * n_tied  (n_item,), out: answers that share the highest count; 0 without a vote
 * count   (n_item, n_option), out
 *
 * PF_EINVAL when a count or a vote is out of range, or for PF_TIE_POSTERIOR without a
 * mean posterior.
 */
PF_NODISCARD pf_status pf_consensus_plurality(const pf_vote_table *table,
        pf_tie_rule rule, int64_t *answer, int64_t *n_tied, int64_t *count);

#endif /* PF_CONSENSUS_H */

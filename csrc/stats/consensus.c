/* consensus.c - see consensus.h. */
#include "stats/consensus.h"

#include <float.h>
#include <math.h>

/* keeps among the tied only those with the highest mean posterior, if there is one */
static void
narrow_by_posterior(const double *mean_posterior, size_t n_option, unsigned char *tied)
{
    double top = -INFINITY;

    for (size_t k = 0; k < n_option; k++) {
        if (tied[k] && isnan(mean_posterior[k])) {
            return;
        }
        if (tied[k]) {
            top = fmax(top, mean_posterior[k]);
        }
    }
    for (size_t k = 0; k < n_option; k++) {
        tied[k] = tied[k] && mean_posterior[k] >= top - 4.0 * DBL_EPSILON * fabs(top);
    }
}

static int64_t
break_tie(
        const pf_vote_table *table, size_t item, pf_tie_rule rule, unsigned char *tied)
{
    const int64_t *vote = table->vote + item * table->n_vote;
    const size_t n_option = (size_t)table->n_option_item[item];
    size_t k = 0;

    switch (rule) {
        case PF_TIE_FIRST:
            for (k = 0; vote[k] < 0 || !tied[vote[k]];) {
                k++;
            }
            return vote[k];
        case PF_TIE_LOWEST:
            while (!tied[k]) {
                k++;
            }
            return (int64_t)k;
        case PF_TIE_POSTERIOR:
            narrow_by_posterior(
                    table->mean_posterior + item * table->n_option, n_option, tied);
            break;
        case PF_TIE_PRIORITY:
            break;
    }
    return (int64_t)pf_tie_break(table->tie_seed[item], tied, n_option);
}

/* false when a vote is out of range */
static bool
count_votes(const pf_vote_table *table, size_t item, int64_t *count)
{
    const int64_t *vote = table->vote + item * table->n_vote;

    for (size_t k = 0; k < table->n_option; k++) {
        count[k] = 0;
    }
    for (size_t s = 0; s < table->n_vote; s++) {
        if (vote[s] < -1 || vote[s] >= table->n_option_item[item]) {
            return false;
        }
        if (vote[s] >= 0) {
            count[vote[s]]++;
        }
    }
    return true;
}

pf_status
pf_consensus_plurality(const pf_vote_table *table, pf_tie_rule rule, int64_t *answer,
        int64_t *n_tied, int64_t *count)
{
    if (table->n_option < 1 || table->n_option > PF_OPTION_MAX ||
            (rule == PF_TIE_POSTERIOR && table->mean_posterior == NULL)) {
        return PF_EINVAL;
    }
    for (size_t i = 0; i < table->n_item; i++) {
        unsigned char tied[PF_OPTION_MAX] = {0};
        int64_t *n = count + i * table->n_option;
        int64_t most = 0;

        if (table->n_option_item[i] < 1 ||
                table->n_option_item[i] > (int64_t)table->n_option ||
                !count_votes(table, i, n)) {
            return PF_EINVAL;
        }
        answer[i] = -1;
        n_tied[i] = 0;
        for (size_t k = 0; k < table->n_option; k++) {
            if (n[k] > most) {
                most = n[k];
                answer[i] = (int64_t)k;
            }
        }
        for (size_t k = 0; k < table->n_option && most > 0; k++) {
            tied[k] = n[k] == most;
            n_tied[i] += tied[k];
        }
        if (n_tied[i] > 1) {
            answer[i] = break_tie(table, i, rule, tied);
        }
    }
    return PF_OK;
}

/* flips.c - see flips.h. */
#include "stats/flips.h"

#include <math.h>

static bool
table_is_sound(const pf_answer_table *table)
{
    const int64_t last = (int64_t)table->n_answer - 1;
    int64_t low = -1;
    int64_t high = -1;

    if (table->n_pass < 1 || table->n_pass > INT32_MAX || table->n_answer < 1 ||
            table->n_answer > PF_ANSWER_MAX) {
        return false;
    }
    for (size_t i = 0; i < table->n_item * table->n_pass; i++) {
        low = table->answer[i] < low ? table->answer[i] : low;
        high = table->answer[i] > high ? table->answer[i] : high;
    }
    return low >= -1 && high <= last;
}

pf_status
pf_flips_count(const pf_answer_table *table, const pf_flip_counts *counts)
{
    /* place 0 takes the missing answers, so that the loop has no branch */
    int64_t n[PF_ANSWER_MAX + 1] = {0};

    if (!table_is_sound(table)) {
        return PF_EINVAL;
    }
    for (size_t i = 0; i < table->n_item; i++) {
        const int64_t *row = table->answer + i * table->n_pass;
        int64_t agreeing = 0;
        int64_t distinct = 0;
        int64_t modal = 0;

        for (size_t s = 0; s < table->n_pass; s++) {
            n[row[s] + 1]++;
        }
        counts->n_valid[i] = (int64_t)table->n_pass - n[0];
        n[0] = 0;
        for (size_t s = 0; s < table->n_pass; s++) {
            int64_t *count = &n[row[s] + 1];

            agreeing += *count * (*count - 1); /* 0 once it has been cleared */
            distinct += *count > 0;
            modal = *count > modal ? *count : modal;
            *count = 0;
        }
        counts->n_agreeing[i] = agreeing;
        counts->n_distinct[i] = distinct;
        counts->n_modal[i] = modal;
    }
    return PF_OK;
}

pf_status
pf_flips_pairs(const pf_answer_table *table, const unsigned char *use,
        int64_t *n_differ, int64_t *n_both)
{
    const size_t n_pass = table->n_pass;

    if (!table_is_sound(table)) {
        return PF_EINVAL;
    }
    for (size_t cell = 0; cell < n_pass * n_pass; cell++) {
        n_differ[cell] = 0;
        n_both[cell] = 0;
    }
    for (size_t i = 0; i < table->n_item; i++) {
        const int64_t *row = table->answer + i * n_pass;

        if (use != NULL && use[i] == 0) {
            continue;
        }
        for (size_t s = 0; s < n_pass; s++) {
            for (size_t t = 0; t < n_pass && row[s] >= 0; t++) {
                n_both[s * n_pass + t] += row[t] >= 0;
                n_differ[s * n_pass + t] += (row[t] >= 0) & (row[t] != row[s]);
            }
        }
    }
    return PF_OK;
}

/* n (n-1) .. (n-n_draw+1), 0 for n < n_draw; exact below 2^53, where it stops growing
 */
static double
falling(int64_t n, int64_t n_draw)
{
    double product = 1.0;

    for (int64_t j = 0; j < n_draw && product > 0.0 && product < 0x1p53; j++) {
        product *= (double)(n - j);
    }
    return product;
}

/* sum_k C(n[k], n_draw) / C(m, n_draw), for n_draw <= m */
static double
expected_none(const int64_t *n, size_t n_answer, int64_t total, int64_t n_draw)
{
    double same = 0.0;

    for (size_t k = 0; k < n_answer; k++) {
        double share = n[k] >= n_draw ? 1.0 : 0.0;

        for (int64_t j = 0; j < n_draw && share > 0.0; j++) {
            share *= (double)(n[k] - j) / (double)(total - j);
        }
        same += share;
    }
    return same;
}

pf_status
pf_flips_expected_any(const int64_t *count, size_t n_item, size_t n_answer,
        int64_t n_draw, double *rate)
{
    if (n_draw < 1) {
        return PF_EINVAL;
    }
    for (size_t i = 0; i < n_item; i++) {
        const int64_t *n = count + i * n_answer;
        int64_t total = 0;
        double whole;
        double differ;

        for (size_t k = 0; k < n_answer; k++) {
            if (n[k] < 0 || n[k] > INT64_MAX - total) {
                return PF_EINVAL;
            }
            total += n[k];
        }
        whole = falling(total, n_draw);
        differ = whole;
        for (size_t k = 0; k < n_answer && whole < 0x1p53; k++) {
            differ -= falling(n[k], n_draw);
        }
        if (total < n_draw) {
            rate[i] = (double)NAN;
        }
        else if (whole < 0x1p53) {
            rate[i] = differ / whole; /* of integers: rounded once */
        }
        else {
            rate[i] = fmax(0.0, 1.0 - expected_none(n, n_answer, total, n_draw));
        }
    }
    return PF_OK;
}

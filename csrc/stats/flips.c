/* flips.c - see flips.h. */
#include "stats/flips.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 }; /* items compared at once; their count fits 16 bits */

static bool
table_is_sound(const pf_answer_table *table)
{
    const int64_t last = (int64_t)table->n_answer - 1;
    uint64_t n_wrong = 0;

    if (table->n_pass < 1 || table->n_pass > INT32_MAX || table->n_answer < 1 ||
            table->n_answer > PF_ANSWER_MAX) {
        return false;
    }
    for (size_t i = 0; i < table->n_item * table->n_pass; i++) {
        n_wrong += (table->answer[i] < -1) | (table->answer[i] > last);
    }
    return n_wrong == 0;
}

typedef struct row_counts {
    int64_t n_missing;
    int64_t n_agreeing;
    int64_t n_distinct;
    int64_t n_modal;
} row_counts;

static void
add_count(int64_t n, row_counts *counts)
{
    counts->n_agreeing += n * (n - 1);
    counts->n_distinct += n > 0;
    counts->n_modal = n > counts->n_modal ? n : counts->n_modal;
}

/* Eight counters of 8 bits in a register, the lowest for missing answers: memory would
 * be read back right after it was written, once an answer. */
static row_counts
count_packed(const int64_t *row, size_t n_pass)
{
    row_counts counts = {0};
    uint64_t packed = 0;

    for (size_t s = 0; s < n_pass; s++) {
        packed += UINT64_C(1) << (8 * (row[s] + 1));
    }
    counts.n_missing = (int64_t)(packed & 255);
    for (int shift = 8; shift < 64; shift += 8) {
        add_count((int64_t)(packed >> shift & 255), &counts);
    }
    return counts;
}

/* n holds zeros before and after */
static row_counts
count_wide(const int64_t *row, size_t n_pass, int64_t *n)
{
    row_counts counts = {0};

    for (size_t s = 0; s < n_pass; s++) {
        n[row[s] + 1]++;
    }
    counts.n_missing = n[0];
    n[0] = 0;
    for (size_t s = 0; s < n_pass; s++) {
        add_count(n[row[s] + 1], &counts);
        n[row[s] + 1] = 0; /* the second time it adds nothing */
    }
    return counts;
}

pf_status
pf_flips_count(const pf_answer_table *table, const pf_flip_counts *counts)
{
    const bool packs = table->n_answer <= 7 && table->n_pass <= 255;
    int64_t n[PF_ANSWER_MAX + 1] = {0};

    if (!table_is_sound(table)) {
        return PF_EINVAL;
    }
    for (size_t i = 0; i < table->n_item; i++) {
        const int64_t *row = table->answer + i * table->n_pass;
        const row_counts found = packs ? count_packed(row, table->n_pass)
                                       : count_wide(row, table->n_pass, n);

        counts->n_valid[i] = (int64_t)table->n_pass - found.n_missing;
        counts->n_agreeing[i] = found.n_agreeing;
        counts->n_distinct[i] = found.n_distinct;
        counts->n_modal[i] = found.n_modal;
    }
    return PF_OK;
}

/* The answers of up to BLOCK items by pass, -1 for items that are left out. */
static void
load_block(const pf_answer_table *table, const unsigned char *use, size_t first,
        int16_t *by_pass)
{
    for (size_t lane = 0; lane < BLOCK; lane++) {
        const size_t item = first + lane;
        const bool used = item < table->n_item && (use == NULL || use[item] != 0);
        const int64_t *row = table->answer + (used ? item * table->n_pass : 0);

        for (size_t s = 0; s < table->n_pass; s++) {
            by_pass[s * BLOCK + lane] = used ? (int16_t)row[s] : -1;
        }
    }
}

static void
compare_passes(const int16_t *a, const int16_t *b, int64_t *n_differ, int64_t *n_both)
{
    uint16_t differ = 0;
    uint16_t both = 0;

    for (size_t lane = 0; lane < BLOCK; lane++) {
        const uint16_t given = (a[lane] >= 0) & (b[lane] >= 0);

        both = (uint16_t)(both + given);
        differ = (uint16_t)(differ + (given & (a[lane] != b[lane])));
    }
    *n_differ += differ;
    *n_both += both;
}

pf_status
pf_flips_pairs(const pf_answer_table *table, const unsigned char *use,
        int64_t *n_differ, int64_t *n_both)
{
    const size_t n_pass = table->n_pass;
    size_t n_bytes;
    int16_t *by_pass;

    if (!table_is_sound(table)) {
        return PF_EINVAL;
    }
    if (!pf_mul_size(n_pass, BLOCK * sizeof *by_pass, &n_bytes)) {
        return PF_EOVERFLOW;
    }
    by_pass = malloc(n_bytes);
    if (by_pass == NULL) {
        return PF_ENOMEM;
    }
    memset(n_differ, 0, n_pass * n_pass * sizeof *n_differ);
    memset(n_both, 0, n_pass * n_pass * sizeof *n_both);
    for (size_t first = 0; first < table->n_item; first += BLOCK) {
        load_block(table, use, first, by_pass);
        for (size_t cell = 0; cell < n_pass * n_pass; cell++) {
            const size_t s = cell / n_pass;
            const size_t t = cell % n_pass;

            if (t >= s) {
                compare_passes(by_pass + s * BLOCK, by_pass + t * BLOCK,
                        n_differ + cell, n_both + cell);
            }
        }
    }
    for (size_t s = 0; s < n_pass; s++) {
        for (size_t t = 0; t < s; t++) {
            n_differ[s * n_pass + t] = n_differ[t * n_pass + s];
            n_both[s * n_pass + t] = n_both[t * n_pass + s];
        }
    }
    free(by_pass);
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

/* flip_summary.c - see flip_summary.h. Items travel in blocks, one item a lane of 8
 * bits: answers, their counts, and the number of lanes all fit. */
#include "stats/flip_summary.h"
#include "base/dispatch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 192, N_PASS_MAX = 255 };

typedef struct flip_block {
    size_t first_item;
    size_t n_lane;
    int8_t n_answer; /* above the greatest answer of the block */
    uint8_t valid[LANES];
    uint16_t agreeing[LANES];
    uint8_t distinct[LANES];
    uint8_t complete[LANES];
    uint8_t kept[LANES];
    int8_t *given;   /* (n_lane, n_pass), then the same by pass: */
    int8_t *by_pass; /* (n_pass, LANES), -1 in lanes without an item */
} flip_block;

/* the answers of the block as bytes; false when one is out of range */
PF_BODY bool
narrow_answers(const pf_answer_table *table, flip_block *block)
{
    const size_t n_pass = table->n_pass;
    const size_t n_cell = block->n_lane * n_pass;
    const int64_t *answer = table->answer + block->first_item * n_pass;
    const uint64_t limit = table->n_answer;
    uint64_t n_wrong = 0;
    int8_t top = -1;

    for (size_t i = 0; i < n_cell; i++) {
        n_wrong += (uint64_t)answer[i] + 1 > limit;
        block->given[i] = (int8_t)answer[i];
    }
    for (size_t i = 0; i < n_cell; i++) {
        top = block->given[i] > top ? block->given[i] : top;
    }
    block->n_answer = (int8_t)(top + 1);
    return n_wrong == 0;
}

/* Eight lanes at a time: a store for each byte would be what limits the speed. */
PF_BODY void
transpose_answers(size_t n_pass, flip_block *block)
{
    const size_t n_cell = block->n_lane * n_pass;

    memset(block->given + n_cell, -1, LANES * n_pass - n_cell);
    for (size_t lane = 0; lane < LANES; lane += 8) {
        const int8_t *row = block->given + lane * n_pass;

        for (size_t s = 0; s < n_pass; s++) {
            const int8_t eight[8] = {row[s], row[s + n_pass], row[s + 2 * n_pass],
                    row[s + 3 * n_pass], row[s + 4 * n_pass], row[s + 5 * n_pass],
                    row[s + 6 * n_pass], row[s + 7 * n_pass]};

            memcpy(block->by_pass + s * LANES + lane, eight, sizeof eight);
        }
    }
}

PF_BODY void
count_answers(size_t n_pass, flip_block *block)
{
    memset(block->valid, 0, sizeof block->valid);
    memset(block->agreeing, 0, sizeof block->agreeing);
    memset(block->distinct, 0, sizeof block->distinct);
    for (int8_t k = 0; k < block->n_answer; k++) {
        uint8_t n[LANES] = {0};

        for (size_t s = 0; s < n_pass; s++) {
            const int8_t *answer = block->by_pass + s * LANES;

            for (size_t lane = 0; lane < LANES; lane++) {
                n[lane] = (uint8_t)(n[lane] + (answer[lane] == k));
            }
        }
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint16_t wide = n[lane];

            block->valid[lane] = (uint8_t)(block->valid[lane] + n[lane]);
            block->distinct[lane] = (uint8_t)(block->distinct[lane] + (n[lane] > 0));
            /* at most 255 * 254 in all; with 0 answers 0 * 65535 */
            block->agreeing[lane] =
                    (uint16_t)(block->agreeing[lane] + wide * (uint16_t)(wide - 1));
        }
    }
}

/* pairwise, any and used of every item; complete and kept of every lane */
PF_BODY void
rate_items(flip_block *block, size_t n_pass, const int64_t *n_expected,
        bool only_complete, const pf_flip_summary *summary)
{
    double *pairwise = summary->pairwise + block->first_item;
    int8_t *any = summary->any + block->first_item;
    unsigned char *used = summary->used + block->first_item;
    const uint8_t keeps_all = !only_complete;

    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const int64_t m = block->valid[lane];

        block->complete[lane] =
                m == (n_expected == NULL ? (int64_t)n_pass
                                         : n_expected[block->first_item + lane]);
    }
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const int32_t m = block->valid[lane];
        const int32_t n_pair = m * (m - 1);
        const int32_t n_differ = n_pair - block->agreeing[lane];
        const double divisor = n_pair > 0 ? n_pair : 1.0;

        pairwise[lane] = n_pair > 0 ? n_differ / divisor : (double)NAN;
    }
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const uint8_t defined = block->valid[lane] >= 2;
        const uint8_t flipped = block->distinct[lane] > 1;

        any[lane] = (int8_t)(defined ? flipped : -1);
        block->kept[lane] = block->complete[lane] | keeps_all;
        used[lane] = block->kept[lane] & defined;
    }
}

static void
add_totals(const flip_block *block, size_t n_pass, pf_flip_summary *summary)
{
    const unsigned char *used = summary->used + block->first_item;

    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const int64_t m = block->valid[lane];
        const int64_t n_differ = m * (m - 1) - block->agreeing[lane];

        summary->n_item_valid[m] += used[lane];
        summary->n_differ_valid[m] += used[lane] ? n_differ : 0;
        summary->n_flipped += used[lane] & (block->distinct[lane] > 1);
        summary->n_complete += block->complete[lane];
        for (size_t s = 0; !block->kept[lane] && s < n_pass; s++) {
            block->by_pass[s * LANES + lane] = -1; /* not for the pairs either */
        }
    }
}

/* the same where every item has every pass and is used */
PF_BODY void
add_full_totals(const flip_block *block, size_t n_pass, pf_flip_summary *summary)
{
    const int64_t n_lane = (int64_t)block->n_lane;
    const int64_t n_pair = (int64_t)(n_pass * (n_pass - 1));
    int32_t n_agreeing = 0;
    int32_t n_flipped = 0;

    for (size_t lane = 0; lane < block->n_lane; lane++) {
        n_agreeing += block->agreeing[lane];
        n_flipped += block->distinct[lane] > 1;
    }
    summary->n_item_valid[n_pass] += n_lane;
    summary->n_differ_valid[n_pass] += n_lane * n_pair - n_agreeing;
    summary->n_flipped += n_flipped;
    summary->n_complete += n_lane;
}

PF_BODY bool
block_is_full(const flip_block *block, size_t n_pass)
{
    uint8_t n_full = 0; /* of LANES at most */

    for (size_t lane = 0; lane < block->n_lane; lane++) {
        n_full = (uint8_t)(n_full +
                           (block->complete[lane] & (block->valid[lane] == n_pass)));
    }
    return n_full == block->n_lane && n_pass >= 2;
}

PF_BODY void
compare_block(const flip_block *block, size_t n_pass, pf_flip_summary *summary)
{
    for (size_t s = 0; s < n_pass; s++) {
        const int8_t *a = block->by_pass + s * LANES;

        for (size_t t = s; t < n_pass; t++) {
            const int8_t *b = block->by_pass + t * LANES;
            uint8_t n_both = 0; /* of LANES at most */
            uint8_t n_equal = 0;

            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t both = (a[lane] >= 0) & (b[lane] >= 0);

                n_both = (uint8_t)(n_both + both);
                n_equal = (uint8_t)(n_equal + (both & (a[lane] == b[lane])));
            }
            summary->n_both[s * n_pass + t] += n_both;
            summary->n_differ[s * n_pass + t] += n_both - n_equal;
        }
    }
}

typedef bool (*block_summarizer)(const pf_answer_table *table,
        const int64_t *n_expected, bool only_complete, flip_block *block,
        pf_flip_summary *summary);

PF_BODY bool
summarize_block(const pf_answer_table *table, const int64_t *n_expected,
        bool only_complete, flip_block *block, pf_flip_summary *summary)
{
    if (!narrow_answers(table, block)) {
        return false;
    }
    transpose_answers(table->n_pass, block);
    count_answers(table->n_pass, block);
    rate_items(block, table->n_pass, n_expected, only_complete, summary);
    if (block_is_full(block, table->n_pass)) {
        add_full_totals(block, table->n_pass, summary);
    }
    else {
        add_totals(block, table->n_pass, summary);
    }
    compare_block(block, table->n_pass, summary);
    return true;
}

static bool
summarize_scalar(const pf_answer_table *table, const int64_t *n_expected,
        bool only_complete, flip_block *block, pf_flip_summary *summary)
{
    return summarize_block(table, n_expected, only_complete, block, summary);
}

#if PF_X86
PF_TARGET_AVX2 static bool
summarize_avx2(const pf_answer_table *table, const int64_t *n_expected,
        bool only_complete, flip_block *block, pf_flip_summary *summary)
{
    return summarize_block(table, n_expected, only_complete, block, summary);
}

PF_TARGET_AVX512 static bool
summarize_avx512(const pf_answer_table *table, const int64_t *n_expected,
        bool only_complete, flip_block *block, pf_flip_summary *summary)
{
    return summarize_block(table, n_expected, only_complete, block, summary);
}
#endif

static block_summarizer
choose_summarizer(void)
{
#if PF_X86
    const pf_cpu_level level = pf_cpu_best();

    if (level >= PF_CPU_AVX512) {
        return summarize_avx512;
    }
    if (level >= PF_CPU_AVX2) {
        return summarize_avx2;
    }
#endif
    return summarize_scalar;
}

static void
clear_summary(size_t n_pass, pf_flip_summary *summary)
{
    memset(summary->n_item_valid, 0, (n_pass + 1) * sizeof(int64_t));
    memset(summary->n_differ_valid, 0, (n_pass + 1) * sizeof(int64_t));
    memset(summary->n_differ, 0, n_pass * n_pass * sizeof(int64_t));
    memset(summary->n_both, 0, n_pass * n_pass * sizeof(int64_t));
    summary->n_flipped = 0;
    summary->n_complete = 0;
}

static void
mirror_pairs(size_t n_pass, int64_t *cell)
{
    for (size_t s = 0; s < n_pass; s++) {
        for (size_t t = 0; t < s; t++) {
            cell[s * n_pass + t] = cell[t * n_pass + s];
        }
    }
}

pf_status
pf_flips_summarize(const pf_answer_table *table, const int64_t *n_expected,
        bool only_complete, pf_flip_summary *summary)
{
    const block_summarizer summarize = choose_summarizer();
    flip_block block = {0};

    if (table->n_pass < 1 || table->n_pass > N_PASS_MAX || table->n_answer < 1 ||
            table->n_answer > PF_OPTION_MAX) {
        return PF_EINVAL;
    }
    block.given = calloc(table->n_pass, 2 * LANES);
    if (block.given == NULL) {
        return PF_ENOMEM;
    }
    block.by_pass = block.given + table->n_pass * LANES;
    clear_summary(table->n_pass, summary);
    for (size_t first = 0; first < table->n_item; first += LANES) {
        const size_t left = table->n_item - first;

        block.first_item = first;
        block.n_lane = left < LANES ? left : LANES;
        if (!summarize(table, n_expected, only_complete, &block, summary)) {
            free(block.given);
            return PF_EINVAL;
        }
    }
    mirror_pairs(table->n_pass, summary->n_differ);
    mirror_pairs(table->n_pass, summary->n_both);
    free(block.given);
    return PF_OK;
}

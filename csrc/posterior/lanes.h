/* lanes.h - the steps of posterior.c on a block of passes, one item a lane, each a
 * plain loop over lanes that vectorises; what a lane computes does not depend on the
 * others.
 */
#ifndef PF_LANES_H
#define PF_LANES_H

#include "base/dispatch.h"
#include "base/random.h"
#include "posterior/exponential.h"

#include <float.h>
#include <math.h>

enum { LANES = 32 }; /* a multiple of 4 */

/* Options are tied with the best whose posterior is within this share of the best one,
 * or, what is the same, whose logit is within this distance. */
static const double TIE_WIDTH = 4.0 * DBL_EPSILON;

typedef struct lane_block {
    size_t first_item;
    size_t n_lane; /* lanes in use; what the others compute is not looked at */
    size_t n_option;
    size_t ahead; /* from a value to that of the next block, 0 in the last one */
    bool is_padded;
    double score[PF_OPTION_MAX][LANES];  /* logits of a pass, or what was pooled */
    double power[PF_OPTION_MAX][LANES];  /* e^(score - top) */
    double pooled[PF_OPTION_MAX][LANES]; /* sums over the valid passes */
    double top[LANES];                   /* greatest score */
    double second[LANES];                /* second greatest, with repetitions */
    double slack[LANES];                 /* scores so close to the top are tied */
    double total[LANES];                 /* of power; NaN for an invalid pass */
    double best[LANES];                  /* index of the top */
    double n_tied[LANES];
    double margin[LANES];
    double n_valid[LANES];
    double last_margin[LANES]; /* of the last pass that was judged */
} lane_block;

/* an integer that a double holds, in a way that every instruction set has for vectors:
 * it sits in the low bits of its sum with 1.5 * 2^52 */
PF_BODY int64_t
small_integer(double value)
{
    const double magic = 6755399441055744.0;
    const double shifted = value + magic;
    int64_t bits;

    memcpy(&bits, &shifted, sizeof bits);
    return bits - INT64_C(0x4338000000000000);
}

/* Whether a flag is not 0. Sums of doubles have an order, and would not vectorise. */
PF_BODY bool
any_lane(const double *flag)
{
    uint64_t bits[LANES];
    uint64_t any = 0;

    memcpy(bits, flag, sizeof bits);
    for (size_t lane = 0; lane < LANES; lane++) {
        any |= bits[lane];
    }
    return any != 0;
}

/* A row a lane, four rows at a time, so that stores are of four lanes; with a constant
 * n_option the inner loop is gone. */
PF_BODY void
load_rows(const double *first, size_t step, size_t n_option, lane_block *block)
{
    for (size_t lane = 0; lane < LANES; lane++) {
        PF_PREFETCH(first + lane * step + block->ahead); /* rows come with a stride */
    }
    for (size_t lane = 0; lane < LANES; lane += 4) {
        const double *row = first + lane * step;

        for (size_t k = 0; k < n_option; k++) {
            block->score[k][lane] = row[k];
            block->score[k][lane + 1] = row[step + k];
            block->score[k][lane + 2] = row[2 * step + k];
            block->score[k][lane + 3] = row[3 * step + k];
        }
    }
}

PF_BODY void
load_full_block(const double *row, size_t step, size_t n_option, lane_block *block)
{
    switch (n_option) {
        case 2:
            load_rows(row, step, 2, block);
            break;
        case 3:
            load_rows(row, step, 3, block);
            break;
        case 4:
            load_rows(row, step, 4, block);
            break;
        case 5:
            load_rows(row, step, 5, block);
            break;
        default:
            load_rows(row, step, n_option, block);
            break;
    }
}

/* top and second of score, where NaN is passed over; total and best begin at 0 */
PF_BODY void
rank_lanes(lane_block *block)
{
    for (size_t lane = 0; lane < LANES; lane++) {
        block->top[lane] = -INFINITY;
        block->second[lane] = -INFINITY;
    }
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double score = block->score[k][lane];
            const double top = block->top[lane];
            const double second = block->second[lane];
            const double loser = score < top ? score : top;

            block->top[lane] = score > top ? score : top;
            block->second[lane] = loser > second ? loser : second;
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        /* 0, or NaN where there is no finite top and hence no pass */
        block->total[lane] = block->top[lane] - block->top[lane];
        block->best[lane] = block->total[lane];
    }
}

/* top of score; total begins at 0 */
PF_BODY void
top_lanes(lane_block *block)
{
    for (size_t lane = 0; lane < LANES; lane++) {
        block->top[lane] = -INFINITY;
    }
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double score = block->score[k][lane];
            const double top = block->top[lane];

            block->top[lane] = score > top ? score : top;
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        block->total[lane] = block->top[lane] - block->top[lane];
    }
}

/* power and total. A NaN, a +inf (inf - inf) and nothing but -inf make total NaN. */
PF_BODY void
exponentiate_lanes(lane_block *block)
{
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double power =
                    pf_exp_nonpositive(block->score[k][lane] - block->top[lane]);

            block->power[k][lane] = power;
            block->total[lane] += power; /* >= 1 in the end: the top adds exp(0) */
        }
    }
}

/* pooled grows by the posterior of the pass */
PF_BODY void
add_posterior(lane_block *block)
{
    double scale[LANES];

    for (size_t lane = 0; lane < LANES; lane++) {
        scale[lane] = 1.0 / block->total[lane];
    }
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double share = block->power[k][lane] * scale[lane];

            block->pooled[k][lane] += share == share ? share : 0.0;
        }
    }
}

/* pooled grows by the logits of the pass */
PF_BODY void
add_logit(lane_block *block)
{
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double logit = block->score[k][lane] - block->top[lane];
            const double total = block->total[lane];

            block->pooled[k][lane] += total == total ? logit : 0.0;
        }
    }
}

/* power becomes the posterior */
PF_BODY void
normalise_lanes(lane_block *block)
{
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            block->power[k][lane] /= block->total[lane];
        }
    }
}

/* a pass that is invalid gets no answer */
PF_BODY void
judge_lanes(lane_block *block)
{
    for (size_t lane = 0; lane < LANES; lane++) {
        const double total = block->total[lane];
        const double margin = block->margin[lane] + (total - total);
        const double best = block->best[lane];

        block->margin[lane] = margin;
        block->last_margin[lane] = margin;
        block->best[lane] = total == total ? best : -1.0;
    }
}

/* n_valid grows with the pass; whether a lane holds an invalid one */
PF_BODY bool
count_lanes(lane_block *block)
{
    double is_invalid[LANES];

    for (size_t lane = 0; lane < LANES; lane++) {
        const double total = block->total[lane];

        is_invalid[lane] = total == total ? 0.0 : 1.0;
        block->n_valid[lane] += 1.0 - is_invalid[lane];
    }
    return any_lane(is_invalid);
}

/* a row a lane; with a constant n_option the inner loop is gone */
PF_BODY void
store_rows(double (*rows)[LANES], const lane_block *block, size_t n_option, double *to)
{
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const double zero = block->total[lane] - block->total[lane]; /* or NaN */

        for (size_t k = 0; k < n_option; k++) {
            to[lane * n_option + k] = rows[k][lane] + zero;
        }
    }
}

PF_BODY void
store_posteriors(double (*rows)[LANES], const lane_block *block, double *to)
{
    switch (block->n_option) {
        case 2:
            store_rows(rows, block, 2, to);
            break;
        case 3:
            store_rows(rows, block, 3, to);
            break;
        case 4:
            store_rows(rows, block, 4, to);
            break;
        case 5:
            store_rows(rows, block, 5, to);
            break;
        default:
            store_rows(rows, block, block->n_option, to);
            break;
    }
}

#endif /* PF_LANES_H */

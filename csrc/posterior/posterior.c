/* posterior.c - see posterior.h. Items travel in blocks, one item a lane, so that every
 * step is a plain loop over lanes; what a lane computes does not depend on the others.
 */
#include "posterior/posterior.h"
#include "posterior/exponential.h"

#include <float.h>
#include <math.h>

enum { LANES = 32 };

/* below this a posterior has lost digits to underflow, and margins go through logs */
static const double SMALL = 1e-290;

typedef struct lane_block {
    size_t first_item;
    size_t n_lane; /* lanes in use; the others compute on zeros */
    size_t n_option;
    double score[PF_OPTION_MAX][LANES]; /* logits, then the posterior made of them */
    double pooled[PF_OPTION_MAX][LANES];
    double top[LANES];
    double second[LANES];
    double keep[LANES]; /* 1 where score holds a valid pass, else 0 */
    double best[LANES];
    double n_tied[LANES];
    double n_valid[LANES];
    double last_margin[LANES]; /* of the last valid pass */
} lane_block;

static void
load_pass(const pf_pass_batch *batch, size_t pass, lane_block *block)
{
    const size_t n_option = batch->n_option;

    for (size_t lane = 0; lane < LANES; lane++) {
        const bool used = lane < block->n_lane;
        const size_t item = block->first_item + (used ? lane : 0);
        const double *row = batch->logp + (item * batch->n_pass + pass) * n_option;

        for (size_t k = 0; k < n_option; k++) {
            block->score[k][lane] = used ? row[k] : 0.0;
        }
        if (batch->n_option_item != NULL) {
            for (size_t k = (size_t)batch->n_option_item[item]; k < n_option; k++) {
                block->score[k][lane] = -INFINITY;
            }
        }
    }
}

/* top, second and keep of the logits in score */
static void
rank_lanes(lane_block *block)
{
    double n_nan[LANES] = {0};

    for (size_t lane = 0; lane < LANES; lane++) {
        block->top[lane] = -INFINITY;
        block->second[lane] = -INFINITY;
    }
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double logit = block->score[k][lane];
            const double top = block->top[lane];
            const double second = block->second[lane];
            const double loser = logit < top ? logit : top;

            block->top[lane] = logit > top ? logit : top;
            block->second[lane] = loser > second ? loser : second;
            n_nan[lane] += logit != logit ? 1.0 : 0.0;
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        const double finite = block->top[lane] - block->top[lane]; /* else NaN */

        block->keep[lane] = n_nan[lane] + finite == 0.0 ? 1.0 : 0.0;
    }
}

/* Zeros for the lanes that are not kept, so that all arithmetic below is finite. */
static void
clear_invalid_lanes(lane_block *block)
{
    double n_kept = 0.0;

    for (size_t lane = 0; lane < LANES; lane++) {
        n_kept += block->keep[lane];
    }
    if (n_kept == (double)LANES) {
        return;
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        if (block->keep[lane] > 0.0) {
            continue;
        }
        block->top[lane] = 0.0;
        for (size_t k = 0; k < block->n_option; k++) {
            block->score[k][lane] = 0.0;
        }
    }
}

/* logits in score become posteriors */
static void
exponentiate_lanes(lane_block *block)
{
    double total[LANES] = {0};

    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double e =
                    pf_exp_nonpositive(block->score[k][lane] - block->top[lane]);

            block->score[k][lane] = e;
            total[lane] += e; /* >= 1 in the end: the top option adds exp(0) */
        }
    }
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            block->score[k][lane] /= total[lane];
        }
    }
}

static void
add_score(lane_block *block)
{
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            block->pooled[k][lane] += block->score[k][lane] * block->keep[lane];
        }
    }
}

static void
add_logit(lane_block *block)
{
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            block->pooled[k][lane] += block->score[k][lane] - block->top[lane];
        }
    }
}

static size_t
item_options(const pf_pass_batch *batch, size_t item)
{
    return batch->n_option_item == NULL ? batch->n_option
                                        : (size_t)batch->n_option_item[item];
}

/* best and n_tied of the posteriors in score */
static void
pick_lanes(const pf_pass_batch *batch, lane_block *block)
{
    double limit[LANES] = {0};

    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double p = block->score[k][lane];

            limit[lane] = p > limit[lane] ? p : limit[lane];
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        limit[lane] -= 4.0 * DBL_EPSILON * limit[lane];
        block->best[lane] = 0.0;
        block->n_tied[lane] = 0.0;
    }
    for (size_t k = block->n_option; k-- > 0;) {
        const double index = (double)k;

        for (size_t lane = 0; lane < LANES; lane++) {
            const double hit = block->score[k][lane] >= limit[lane] ? 1.0 : 0.0;
            const double best = block->best[lane];

            block->best[lane] = hit > 0.0 ? index : best;
            block->n_tied[lane] += hit;
        }
    }
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        if (block->n_tied[lane] > 1.0 && block->keep[lane] > 0.0) {
            const size_t item = block->first_item + lane;
            unsigned char tied[PF_OPTION_MAX];

            for (size_t k = 0; k < block->n_option; k++) {
                tied[k] = block->score[k][lane] >= limit[lane];
            }
            block->best[lane] = (double)pf_tie_break(
                    batch->tie_seed[item], tied, item_options(batch, item));
        }
    }
}

static pf_pass_state
classify_pass(const double *row, size_t n_option)
{
    pf_pass_state state = PF_PASS_EMPTY;

    for (size_t k = 0; k < n_option; k++) {
        if (isnan(row[k])) {
            return PF_PASS_NAN;
        }
        if (row[k] > DBL_MAX) {
            state = PF_PASS_INFINITE;
        }
    }
    return state;
}

static void
store_pass(const pf_pass_batch *batch, size_t pass, lane_block *block,
        const pf_fused *fused)
{
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const size_t item = block->first_item + lane;
        const size_t at = item * batch->n_pass + pass;
        const bool tied = block->n_tied[lane] > 1.0;

        if (block->keep[lane] > 0.0) {
            const double margin = tied ? 0.0 : block->top[lane] - block->second[lane];

            fused->pass_answer[at] = (int64_t)block->best[lane];
            fused->pass_margin_nats[at] = margin;
            fused->pass_state[at] = PF_PASS_VALID;
            block->n_valid[lane] += 1.0;
            block->last_margin[lane] = margin;
        }
        else {
            fused->pass_answer[at] = -1;
            fused->pass_margin_nats[at] = NAN;
            fused->pass_state[at] = (unsigned char)classify_pass(
                    batch->logp + at * batch->n_option, item_options(batch, item));
        }
    }
}

/* log(exp(a) + exp(b)), either may be -inf */
static double
log_add(double a, double b)
{
    const double high = a > b ? a : b;
    const double low = a > b ? b : a;

    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

/* margin of the linear pool of one item, by logs: right where posteriors underflow */
static double
margin_by_logs(const pf_pass_batch *batch, size_t item, const unsigned char *state)
{
    const size_t n_option = item_options(batch, item);
    double pooled[PF_OPTION_MAX];
    double top = -INFINITY;
    double second = -INFINITY;

    for (size_t k = 0; k < n_option; k++) {
        pooled[k] = -INFINITY;
    }
    for (size_t s = 0; s < batch->n_pass; s++) {
        const double *row = batch->logp + (item * batch->n_pass + s) * batch->n_option;
        double norm = -INFINITY;

        if (state[s] != PF_PASS_VALID) {
            continue;
        }
        for (size_t k = 0; k < n_option; k++) {
            norm = log_add(norm, row[k]);
        }
        for (size_t k = 0; k < n_option; k++) {
            pooled[k] = log_add(pooled[k], row[k] - norm);
        }
    }
    for (size_t k = 0; k < n_option; k++) {
        second = fmax(second, fmin(top, pooled[k]));
        top = fmax(top, pooled[k]);
    }
    return top - second;
}

/* score and keep become those of the pool; top and second too, for the loglinear one */
static void
pool_lanes(
        lane_block *block, pf_pool pool, const pf_pass_batch *batch, pf_missing missing)
{
    const double needed = missing == PF_MISSING_COMPLETE ? (double)batch->n_pass : 1.0;

    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const double n = block->n_valid[lane] > 0.0 ? block->n_valid[lane] : 1.0;

            block->score[k][lane] = block->pooled[k][lane] / n;
        }
    }
    if (pool == PF_POOL_LOGLINEAR) {
        rank_lanes(block);
        clear_invalid_lanes(block);
        exponentiate_lanes(block);
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        const double keep = pool == PF_POOL_LOGLINEAR ? block->keep[lane] : 1.0;

        block->keep[lane] = block->n_valid[lane] >= needed ? keep : 0.0;
    }
}

static double
pooled_margin(const pf_pass_batch *batch, pf_pool pool, const lane_block *block,
        size_t lane, const pf_fused *fused)
{
    const size_t item = block->first_item + lane;
    double top = 0.0;
    double second = 0.0;

    if (block->n_tied[lane] > 1.0) {
        return 0.0;
    }
    if (pool == PF_POOL_LOGLINEAR) {
        return block->top[lane] - block->second[lane];
    }
    if (block->n_valid[lane] < 2.0) {
        return block->last_margin[lane]; /* no rounding through exp and log */
    }
    for (size_t k = 0; k < block->n_option; k++) {
        const double p = block->score[k][lane];
        const double loser = p < top ? p : top;

        second = loser > second ? loser : second;
        top = p > top ? p : top;
    }
    if (second < SMALL) {
        return margin_by_logs(batch, item, fused->pass_state + item * batch->n_pass);
    }
    return log(top / second);
}

static void
store_items(const pf_pass_batch *batch, pf_pool pool, const lane_block *block,
        const pf_fused *fused)
{
    const size_t n_option = batch->n_option;

    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const size_t item = block->first_item + lane;
        const bool kept = block->keep[lane] > 0.0;

        for (size_t k = 0; k < n_option; k++) {
            fused->posterior[item * n_option + k] =
                    kept ? block->score[k][lane] : (double)NAN;
        }
        fused->n_valid[item] = (int64_t)block->n_valid[lane];
        fused->answer[item] = kept ? (int64_t)block->best[lane] : -1;
        fused->n_tied[item] = kept ? (int64_t)block->n_tied[lane] : 0;
        fused->margin_nats[item] =
                kept ? pooled_margin(batch, pool, block, lane, fused) : (double)NAN;
    }
}

static void
fuse_block(const pf_pass_batch *batch, pf_pool pool, pf_missing missing,
        lane_block *block, const pf_fused *fused)
{
    for (size_t k = 0; k < block->n_option; k++) {
        memset(block->pooled[k], 0, sizeof block->pooled[k]);
    }
    memset(block->n_valid, 0, sizeof block->n_valid);
    for (size_t s = 0; s < batch->n_pass; s++) {
        load_pass(batch, s, block);
        rank_lanes(block);
        clear_invalid_lanes(block);
        if (pool == PF_POOL_LOGLINEAR) {
            add_logit(block);
        }
        exponentiate_lanes(block);
        if (pool == PF_POOL_LINEAR) {
            add_score(block);
        }
        pick_lanes(batch, block);
        store_pass(batch, s, block, fused);
    }
    pool_lanes(block, pool, batch, missing);
    pick_lanes(batch, block);
    store_items(batch, pool, block, fused);
}

pf_status
pf_posterior_fuse(const pf_pass_batch *batch, pf_pool pool, pf_missing missing,
        const pf_fused *fused)
{
    lane_block block = {0};

    if (batch->n_pass < 1 || batch->n_option < 1 || batch->n_option > PF_OPTION_MAX) {
        return PF_EINVAL;
    }
    if (batch->n_option_item != NULL) {
        for (size_t i = 0; i < batch->n_item; i++) {
            if (batch->n_option_item[i] < 1 ||
                    batch->n_option_item[i] > (int64_t)batch->n_option) {
                return PF_EINVAL;
            }
        }
    }
    block.n_option = batch->n_option;
    for (size_t first = 0; first < batch->n_item; first += LANES) {
        const size_t left = batch->n_item - first;

        block.first_item = first;
        block.n_lane = left < LANES ? left : LANES;
        fuse_block(batch, pool, missing, &block, fused);
    }
    return PF_OK;
}

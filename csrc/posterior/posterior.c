/* posterior.c - see posterior.h. Items travel in blocks, one item a lane, so that every
 * step is a plain loop over lanes; what a lane computes does not depend on the others.
 */
#include "posterior/posterior.h"
#include "posterior/lanes.h"

#include <float.h>
#include <math.h>

/* below this a posterior has lost digits to underflow, and margins go through logs */
static const double SMALL = 1e-290;

PF_BODY void
load_pass(const pf_pass_batch *batch, size_t pass, lane_block *block)
{
    const size_t n_option = batch->n_option;
    const size_t step = batch->n_pass * n_option;
    const double *first = batch->logp + block->first_item * step + pass * n_option;

    if (block->n_lane == LANES) {
        load_full_block(first, step, n_option, block);
    }
    for (size_t lane = 0; lane < LANES && block->n_lane < LANES; lane++) {
        for (size_t k = 0; k < n_option; k++) {
            block->score[k][lane] = lane < block->n_lane ? first[lane * step + k] : 0.0;
        }
    }
    for (size_t lane = 0; lane < block->n_lane && block->is_padded; lane++) {
        const int64_t *n_own = batch->n_option_item + block->first_item + lane;

        for (size_t k = (size_t)*n_own; k < n_option; k++) {
            block->score[k][lane] = -INFINITY;
        }
    }
}

/* whether an item of the block has fewer options than the batch */
PF_BODY bool
find_padding(const pf_pass_batch *batch, const lane_block *block)
{
    bool found = false;

    for (size_t lane = 0; batch->n_option_item != NULL && lane < block->n_lane;
            lane++) {
        found |= batch->n_option_item[block->first_item + lane] <
                 (int64_t)batch->n_option;
    }
    return found;
}

PF_BODY size_t
item_options(const pf_pass_batch *batch, size_t item)
{
    return batch->n_option_item == NULL ? batch->n_option
                                        : (size_t)batch->n_option_item[item];
}

PF_BODY void
break_ties(const pf_pass_batch *batch, lane_block *block)
{
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const size_t item = block->first_item + lane;
        const double total = block->total[lane];
        unsigned char tied[PF_OPTION_MAX];
        double n_tied = 0.0;

        if (block->n_tied[lane] < 2.0 || total != total) {
            continue;
        }
        for (size_t k = 0; k < block->n_option; k++) {
            tied[k] = block->top[lane] - block->score[k][lane] <= block->slack[lane];
            n_tied += tied[k];
        }
        block->n_tied[lane] = n_tied;
        block->best[lane] = (double)pf_tie_break(
                batch->tie_seed[item], tied, item_options(batch, item));
    }
}

/* best, n_tied and margin, the difference of the two best scores */
PF_BODY void
pick_lanes(const pf_pass_batch *batch, lane_block *block)
{
    double is_tied[LANES];

    for (size_t k = 0; k < block->n_option; k++) {
        const double index = (double)k;

        for (size_t lane = 0; lane < LANES; lane++) {
            /* two equal ones are a tie, which is broken below */
            block->best[lane] +=
                    block->score[k][lane] == block->top[lane] ? index : 0.0;
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        const double lead = block->top[lane] - block->second[lane];

        is_tied[lane] = lead <= block->slack[lane] ? 1.0 : 0.0;
        block->margin[lane] = is_tied[lane] > 0.0 ? 0.0 : lead;
        block->n_tied[lane] = 1.0 + is_tied[lane]; /* or more */
    }
    if (any_lane(is_tied)) {
        break_ties(batch, block);
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

/* the reasons of the invalid passes of a block */
PF_BODY void
store_states(const pf_pass_batch *batch, size_t pass, const lane_block *block,
        unsigned char *pass_state)
{
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const size_t item = block->first_item + lane;
        const size_t at = item * batch->n_pass + pass;
        const double total = block->total[lane];

        if (total != total) {
            pass_state[at] = (unsigned char)classify_pass(
                    batch->logp + at * batch->n_option, item_options(batch, item));
        }
    }
}

PF_BODY void
store_pass(const pf_pass_batch *batch, size_t pass, const lane_block *block,
        const pf_fused *fused)
{
    const size_t first = block->first_item * batch->n_pass + pass;
    int64_t answer[LANES];

    for (size_t lane = 0; lane < LANES; lane++) {
        answer[lane] = small_integer(block->best[lane]);
    }
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const size_t at = first + lane * batch->n_pass;

        fused->pass_answer[at] = answer[lane];
        fused->pass_margin_nats[at] = block->margin[lane];
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

/* Score, top, second, slack and total become those of the pool: means of posteriors,
 * or of logits. Total is NaN where there are too few passes. */
PF_BODY void
pool_lanes(
        lane_block *block, pf_pool pool, const pf_pass_batch *batch, pf_missing missing)
{
    const double needed = missing == PF_MISSING_COMPLETE ? (double)batch->n_pass : 1.0;

    double share[LANES];

    for (size_t lane = 0; lane < LANES; lane++) {
        share[lane] = 1.0 / (block->n_valid[lane] > 1.0 ? block->n_valid[lane] : 1.0);
    }
    for (size_t k = 0; k < block->n_option; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            block->score[k][lane] = block->pooled[k][lane] * share[lane];
        }
    }
    rank_lanes(block);
    for (size_t lane = 0; lane < LANES; lane++) {
        block->slack[lane] =
                pool == PF_POOL_LINEAR ? TIE_WIDTH * block->top[lane] : TIE_WIDTH;
    }
    if (pool == PF_POOL_LOGLINEAR) {
        exponentiate_lanes(block);
        normalise_lanes(block);
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        const double total = block->total[lane];

        block->total[lane] = block->n_valid[lane] >= needed ? total : (double)NAN;
    }
}

/* margin of the only valid pass of an item: exact, not rounded through exp and log */
static double
margin_of_one(const pf_pass_batch *batch, size_t item, const unsigned char *state)
{
    const size_t n_option = item_options(batch, item);
    double top = -INFINITY;
    double second = -INFINITY;
    size_t pass = 0;

    while (pass + 1 < batch->n_pass && state[pass] != PF_PASS_VALID) {
        pass++;
    }
    for (size_t k = 0; k < n_option; k++) {
        const double logit =
                batch->logp[(item * batch->n_pass + pass) * batch->n_option + k];

        second = fmax(second, fmin(top, logit));
        top = fmax(top, logit);
    }
    return top - second;
}

/* margin of the linear pool */
PF_BODY void
take_log_ratios(const pf_pass_batch *batch, lane_block *block, const pf_fused *fused)
{
    double is_special[LANES];

    for (size_t lane = 0; lane < LANES; lane++) {
        const double second = block->second[lane];
        const double divisor = second > SMALL ? second : SMALL;
        const double ratio = block->top[lane] / divisor;
        const double log_ratio = pf_log_above_one(ratio > 1.0 ? ratio : 1.0);
        const double last = block->last_margin[lane];
        const double margin = block->n_valid[lane] < 2.0 ? last : log_ratio;

        block->margin[lane] = block->n_tied[lane] > 1.0 ? 0.0 : margin;
        is_special[lane] = second < SMALL ? 1.0 : 0.0;
        is_special[lane] += block->n_valid[lane] < 2.0 ? 1.0 : 0.0;
    }
    if (batch->n_pass < 2 || !any_lane(is_special)) {
        return;
    }
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const size_t item = block->first_item + lane;
        const unsigned char *state = fused->pass_state + item * batch->n_pass;
        const double total = block->total[lane];

        if (total != total || block->n_tied[lane] > 1.0) {
            continue;
        }
        if (block->n_valid[lane] < 2.0) {
            block->margin[lane] = margin_of_one(batch, item, state);
        }
        else if (block->second[lane] < SMALL) {
            block->margin[lane] = margin_by_logs(batch, item, state);
        }
    }
}

PF_BODY void
store_items(const lane_block *block, const pf_fused *fused)
{
    const size_t first = block->first_item;
    const size_t n_bytes = block->n_lane * sizeof(int64_t);
    int64_t answer[LANES];
    int64_t n_valid[LANES];
    double margin[LANES];

    for (size_t lane = 0; lane < LANES; lane++) {
        const double total = block->total[lane];
        const double best = block->best[lane];

        answer[lane] = small_integer(total == total ? best : -1.0);
        n_valid[lane] = small_integer(block->n_valid[lane]);
        margin[lane] = block->margin[lane] + (total - total);
    }
    memcpy(fused->answer + first, answer, n_bytes);
    memcpy(fused->n_valid + first, n_valid, n_bytes);
    memcpy(fused->margin_nats + first, margin, n_bytes);
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const bool is_kept = answer[lane] >= 0;

        fused->n_tied[first + lane] =
                (unsigned char)(is_kept ? block->n_tied[lane] : 0.0);
    }
}

/* what a pass says alone */
PF_BODY void
judge_pass(const pf_pass_batch *batch, size_t pass, lane_block *block,
        const pf_fused *fused)
{
    pick_lanes(batch, block);
    judge_lanes(block);
    if (fused->pass_answer != NULL) {
        store_pass(batch, pass, block, fused);
    }
}

PF_BODY void
fuse_passes(const pf_pass_batch *batch, pf_pool pool, lane_block *block,
        const pf_fused *fused)
{
    const bool is_judged = fused->pass_answer != NULL || batch->n_pass < 2;

    for (size_t lane = 0; lane < LANES; lane++) {
        block->slack[lane] = TIE_WIDTH;
    }
    for (size_t s = 0; s < batch->n_pass; s++) {
        load_pass(batch, s, block);
        if (is_judged) {
            rank_lanes(block);
        }
        else {
            top_lanes(block);
        }
        exponentiate_lanes(block);
        if (pool == PF_POOL_LINEAR) {
            add_posterior(block);
        }
        else {
            add_logit(block);
        }
        if (count_lanes(block)) {
            store_states(batch, s, block, fused->pass_state);
        }
        if (is_judged) {
            judge_pass(batch, s, block, fused);
        }
    }
}

PF_BODY void
fuse_block(const pf_pass_batch *batch, pf_pool pool, pf_missing missing,
        lane_block *block, const pf_fused *fused)
{
    const size_t first = block->first_item;

    memset(block->pooled, 0, block->n_option * sizeof block->pooled[0]);
    memset(block->n_valid, 0, sizeof block->n_valid);
    memset(fused->pass_state + first * batch->n_pass, PF_PASS_VALID,
            block->n_lane * batch->n_pass);
    block->is_padded = find_padding(batch, block);
    fuse_passes(batch, pool, block, fused);
    pool_lanes(block, pool, batch, missing);
    pick_lanes(batch, block);
    if (pool == PF_POOL_LINEAR) {
        take_log_ratios(batch, block, fused);
    }
    store_posteriors(pool == PF_POOL_LINEAR ? block->score : block->power, block,
            fused->posterior + first * batch->n_option);
    store_items(block, fused);
}

typedef void (*batch_fuser)(const pf_pass_batch *batch, pf_pool pool,
        pf_missing missing, const pf_fused *fused);

PF_BODY void
fuse_batch(const pf_pass_batch *batch, pf_pool pool, pf_missing missing,
        const pf_fused *fused)
{
    lane_block block = {0};

    block.n_option = batch->n_option;
    for (size_t first = 0; first < batch->n_item; first += LANES) {
        const size_t left = batch->n_item - first;

        block.first_item = first;
        block.n_lane = left < LANES ? left : LANES;
        block.ahead = left < 2 * LANES ? 0 : LANES * batch->n_pass * batch->n_option;
        fuse_block(batch, pool, missing, &block, fused);
    }
}

static void
fuse_batch_scalar(const pf_pass_batch *batch, pf_pool pool, pf_missing missing,
        const pf_fused *fused)
{
    fuse_batch(batch, pool, missing, fused);
}

#if PF_X86
PF_TARGET_AVX2 static void
fuse_batch_avx2(const pf_pass_batch *batch, pf_pool pool, pf_missing missing,
        const pf_fused *fused)
{
    fuse_batch(batch, pool, missing, fused);
}

PF_TARGET_AVX512 static void
fuse_batch_avx512(const pf_pass_batch *batch, pf_pool pool, pf_missing missing,
        const pf_fused *fused)
{
    fuse_batch(batch, pool, missing, fused);
}
#endif

static batch_fuser
choose_fuser(void)
{
#if PF_X86
    const pf_cpu_level level = pf_cpu_best();

    if (level >= PF_CPU_AVX512) {
        return fuse_batch_avx512;
    }
    if (level >= PF_CPU_AVX2) {
        return fuse_batch_avx2;
    }
#endif
    return fuse_batch_scalar;
}

pf_status
pf_posterior_fuse(const pf_pass_batch *batch, pf_pool pool, pf_missing missing,
        const pf_fused *fused)
{
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
    choose_fuser()(batch, pool, missing, fused);
    return PF_OK;
}

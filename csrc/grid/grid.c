/* grid.c - phase grids by addition alone: one carry a dense position, no division
 * and no product that could overflow. */
#include "grid/grid.h"

#include <assert.h>

/* A number whole + part / unit with 0 <= part < unit <= INT64_MAX. */
typedef struct mixed {
    uint64_t whole;
    uint64_t part;
    uint64_t unit;
} mixed;

/* value += whole + part / unit. Both parts are below 2^63, so their sum fits. */
static void
mixed_add(mixed *value, uint64_t whole, uint64_t part)
{
    value->whole += whole;
    value->part += part;
    if (value->part >= value->unit) {
        value->part -= value->unit;
        value->whole++;
    }
}

/* factor * n / unit by doubling, from the highest bit of factor down. The caller
 * guarantees factor < unit, so no intermediate whole exceeds n. */
static mixed
mixed_product(uint64_t factor, uint64_t n, uint64_t unit)
{
    mixed value = {0, 0, unit};

    for (int bit = 62; bit >= 0; bit--) {
        mixed_add(&value, value.whole, value.part);
        if ((factor >> bit) & 1U) {
            mixed_add(&value, n / unit, n % unit);
        }
    }
    return value;
}

pf_status
pf_grid_count(const pf_grid *grid, int64_t *dense_frames)
{
    int64_t n_dense;
    int64_t unit;

    if (grid->budget_frames < 1 || grid->n_phase < 1) {
        return PF_EINVAL;
    }
    if (grid->origin.den < 1 || grid->origin.num < 0 ||
            grid->origin.num >= grid->origin.den) {
        return PF_EINVAL;
    }
    if (!pf_mul_count(grid->n_phase, grid->budget_frames, &n_dense) ||
            !pf_mul_count(n_dense, grid->origin.den, &unit)) {
        return PF_EOVERFLOW;
    }
    *dense_frames = n_dense;
    return PF_OK;
}

/* The grid laid over n >= 0 ticks: with n = clip_frames the ticks are frames. */
static pf_status
lay_over(int64_t n, const pf_grid *grid, int64_t *tick)
{
    const int64_t n_phase = grid->n_phase;
    const int64_t budget = grid->budget_frames;
    int64_t n_dense;
    pf_status st = pf_grid_count(grid, &n_dense);
    uint64_t step_whole;
    uint64_t step_part;
    mixed at;

    if (st != PF_OK) {
        return st;
    }
    /* one dense step is n / n_dense; in units of 1 / (n_dense * den) its remainder
     * is (n mod n_dense) * den, below n_dense * den, which fits */
    step_whole = (uint64_t)(n / n_dense);
    step_part = (uint64_t)(n % n_dense) * (uint64_t)grid->origin.den;
    at = mixed_product((uint64_t)grid->origin.num, (uint64_t)n,
            (uint64_t)n_dense * (uint64_t)grid->origin.den);
    for (int64_t i = 0; i < budget; i++) {
        for (int64_t s = 0; s < n_phase; s++) {
            assert(n == 0 || at.whole < (uint64_t)n);
            tick[s * budget + i] = (int64_t)at.whole;
            mixed_add(&at, step_whole, step_part);
        }
    }
    return PF_OK;
}

pf_status
pf_grid_indices(int64_t clip_frames, const pf_grid *grid, int64_t *frame_index)
{
    if (clip_frames < 1) {
        return PF_EINVAL;
    }
    return lay_over(clip_frames, grid, frame_index);
}

static pf_status
check_timeline(const pf_timeline *timeline)
{
    const int64_t *pts = timeline->pts;

    if (timeline->clip_frames < 1) {
        return PF_EINVAL;
    }
    for (int64_t k = 1; k < timeline->clip_frames; k++) {
        if (pts[k] < pts[k - 1]) {
            return PF_EINVAL;
        }
    }
    if (timeline->end_pts < pts[timeline->clip_frames - 1]) {
        return PF_EINVAL;
    }
    if (pts[0] < 0 && timeline->end_pts > INT64_MAX + pts[0]) {
        return PF_EOVERFLOW;
    }
    return PF_OK;
}

pf_status
pf_grid_frames_at(const pf_timeline *timeline, const pf_grid *grid,
        int64_t *PF_RESTRICT frame_index)
{
    const int64_t *pts = timeline->pts;
    const int64_t budget = grid->budget_frames;
    int64_t k = 0;
    pf_status st = check_timeline(timeline);

    if (st != PF_OK) {
        return st;
    }
    /* pts are whole ticks, so pts[k] <= t exactly when pts[k] <= floor(t) */
    st = lay_over(timeline->end_pts - pts[0], grid, frame_index);
    if (st != PF_OK) {
        return st;
    }
    for (int64_t i = 0; i < budget; i++) {
        for (int64_t s = 0; s < grid->n_phase; s++) {
            int64_t *out = &frame_index[s * budget + i];
            const int64_t t_pts = pts[0] + *out;

            while (k + 1 < timeline->clip_frames && pts[k + 1] <= t_pts) {
                k++;
            }
            *out = k;
        }
    }
    return PF_OK;
}

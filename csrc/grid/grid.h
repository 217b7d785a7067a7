/* grid.h - which frames of a clip a phase grid shows, in exact integers. */
#ifndef PF_GRID_H
#define PF_GRID_H

#include "base/pf.h"

/* S offset grids of b frames each: the polyphase components of one dense grid of
 * S * b frames. Dense position j = i * S + s is frame i of phase s. */
typedef struct pf_grid {
    int64_t budget_frames; /* b >= 1 */
    int64_t n_phase;       /* S >= 1 */
    pf_fraction origin;    /* of the dense grid, in dense steps: 0 <= num < den */
} pf_grid;

/* S * b, the length of the output of both functions below.
 *
 * PF_EINVAL: grid breaks its contract. PF_EOVERFLOW: S * b * den does not fit. */
PF_NODISCARD pf_status pf_grid_count(const pf_grid *grid, int64_t *dense_frames);

/* Frame indices of every phase of grid over a clip of clip_frames frames:
 *
 *     frame_index[s * b + i] = ((i * S + s) * den + num) * N / (S * b * den)
 *
 * rounded down, N = clip_frames. Every index lies in [0, N); dense order is
 * non-decreasing; no index repeats when N >= S * b.
 *
 * Only S * b * den has to fit int64_t: the products with N are never formed, so any
 * N up to INT64_MAX is exact. frame_index holds S * b values.
 *
 * PF_EINVAL: clip_frames < 1, or as pf_grid_count. PF_EOVERFLOW: as pf_grid_count. */
PF_NODISCARD pf_status pf_grid_indices(
        int64_t clip_frames, const pf_grid *grid, int64_t *frame_index);

/* When each frame of a clip is shown, in ticks of one time base. */
typedef struct pf_timeline {
    const int64_t *pts;  /* clip_frames values, non-decreasing */
    int64_t clip_frames; /* >= 1 */
    int64_t end_pts;     /* when the last frame stops being shown, >= its pts */
} pf_timeline;

/* The frame on screen at each time of grid laid over [pts[0], end_pts):
 *
 *     t = pts[0] + ((i * S + s) * den + num) * (end_pts - pts[0]) / (S * b * den)
 *     frame_index[s * b + i] = the last k with pts[k] <= t
 *
 * t is an exact fraction. Of frames with equal pts only the last is ever shown. A
 * frame shown longer than a dense step repeats. frame_index holds S * b values and
 * must not overlap pts.
 *
 * PF_EINVAL: pts decreases, end_pts < the last pts, or as pf_grid_count.
 * PF_EOVERFLOW: end_pts - pts[0] does not fit, or as pf_grid_count. */
PF_NODISCARD pf_status pf_grid_frames_at(const pf_timeline *timeline,
        const pf_grid *grid, int64_t *PF_RESTRICT frame_index);

#endif /* PF_GRID_H */

/* histogram.h - colour histograms of frames, and how they change from one to the next.
 */
#ifndef PF_HISTOGRAM_H
#define PF_HISTOGRAM_H

#include "base/pf.h"

/* Values of a channel that one bin holds, and the bins of one frame. */
enum {
    PF_HISTOGRAM_WIDTH = 8,
    PF_HISTOGRAM_BINS = 256 / PF_HISTOGRAM_WIDTH,
    PF_HISTOGRAM_CELLS = 3 * PF_HISTOGRAM_BINS
};

/*
 * Pixels of a frame by their value, a channel at a time.
 *
 * rgb    (n_px, 3), interleaved
 * count  (3, PF_HISTOGRAM_BINS), out; each channel sums to n_px. Must not overlap rgb
 *
 * PF_EOVERFLOW when n_px is above 2^32 - 1.
 */
PF_NODISCARD pf_status pf_histogram_count(
        const uint8_t *rgb, size_t n_px, uint32_t *PF_RESTRICT count);

/*
 * Bhattacharyya distance of the histograms of each frame and the one before it:
 *
 *     sqrt(1 - sum_i sqrt(p_i q_i)) = sqrt(1/2 sum_i (sqrt(p_i) - sqrt(q_i))^2)
 *
 * in the second form, which is exactly 0 for equal histograms and loses no digits near
 * it. p and q are the counts over three times the pixels, so that they sum to 1 over
 * the channels; frames of different sizes compare. (The name also stands for the
 * negative logarithm of the inner sum, which is infinite when nothing is shared.)
 * Summed in double, in the order of the cells.
 *
 * count   (n_frame, 3, PF_HISTOGRAM_BINS)
 * change  (n_frame,), out, in [0, 1]; 0 for the first frame. Must not overlap count
 *
 * PF_EINVAL when a channel of a frame has no pixels.
 *
 * Kailath, The Divergence and Bhattacharyya Distance Measures in Signal Selection, IEEE
 * Transactions on Communication Technology 15, 1967.
 */
PF_NODISCARD pf_status pf_histogram_change(
        const uint32_t *count, size_t n_frame, double *PF_RESTRICT change);

#endif /* PF_HISTOGRAM_H */

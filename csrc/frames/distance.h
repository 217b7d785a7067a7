/* distance.h - how far two frames are from one another. */
#ifndef PF_DISTANCE_H
#define PF_DISTANCE_H

#include "base/pf.h"

typedef enum pf_distance {
    PF_DISTANCE_ABSOLUTE = 0, /* mean of |a - b|, over 255 */
    PF_DISTANCE_RMS,          /* root of the mean of (a - b)^2, over 255 */
    PF_DISTANCE_HISTOGRAM     /* of colours alone: where things are does not matter */
} pf_distance;

/*
 * Distances of n_pair pairs of frames, each n_px interleaved RGB pixels.
 *
 * PF_DISTANCE_HISTOGRAM is half the sum over the bins of histogram.h of the absolute
 * difference of the shares of pixels in them, mean over the channels (total variation).
 * All distances are in [0, 1], 0 for equal frames. Sums are of integers, so every
 * instruction set gives the same bits.
 *
 * a, b      (n_pair, n_px, 3), may be the same
 * distance  (n_pair,), out; must not overlap a or b
 *
 * PF_EINVAL when n_px is 0 or kind is none of the above, PF_EOVERFLOW when 3 n_px or
 * the squares' sum would not fit, or with a histogram n_px is above 2^32 - 1.
 */
PF_NODISCARD pf_status pf_distance_measure_pairs(const uint8_t *a, const uint8_t *b,
        size_t n_pair, size_t n_px, pf_distance kind, double *PF_RESTRICT distance);

#endif /* PF_DISTANCE_H */

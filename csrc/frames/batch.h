/* batch.h - one plan over many frames, on one or more threads. */
#ifndef PF_BATCH_H
#define PF_BATCH_H

#include "frames/resize.h"

/* Frames of one size; frame[i] is the first byte of the top row of frame i. */
typedef struct pf_batch_src {
    const uint8_t *const *frame;
    size_t n_frame;
    pf_size size;
    ptrdiff_t row_bytes;
} pf_batch_src;

/* Exactly one of the two outputs is set. Both are contiguous and overlap no source:
 * rgb uint8 (n_frame, height, width, 3); planes float32 (n_frame, 3, height, width),
 * made with normalise. */
typedef struct pf_batch_dst {
    uint8_t *rgb;
    float *planes;
    const pf_normalise *normalise;
} pf_batch_dst;

/* Resizes every frame. The rows of all frames are dealt out evenly to n_thread threads
 * (at least 1), which end before the call does. PF_EINVAL for a size that is not the
 * plan's, PF_EOVERFLOW, PF_ENOMEM; then the outputs are untouched. */
PF_NODISCARD pf_status pf_batch_resize(const pf_resize_plan *plan,
        const pf_batch_src *src, const pf_batch_dst *dst, size_t n_thread);

#endif /* PF_BATCH_H */

/* filter.h - how much every source pixel of one axis adds to every resized pixel. */
#ifndef PF_FILTER_H
#define PF_FILTER_H

#include "base/pf.h"

/* Weights are integers: 1.0 is 1 << PF_WEIGHT_BITS. A sum of weight times uint8 then
 * fits an int32 with a sign and an overshoot of less than 2x. */
#define PF_WEIGHT_BITS 22

/* The longest axis. Pillow keeps the source rectangle in float32, which is exact up
 * to here. */
#define PF_AXIS_MAX_PX ((int64_t)1 << 24)

typedef enum pf_filter {
    PF_FILTER_BOX = 0,
    PF_FILTER_BILINEAR,
    PF_FILTER_HAMMING,
    PF_FILTER_BICUBIC, /* a = -1/2 */
    PF_FILTER_LANCZOS  /* three lobes */
} pf_filter;

/* Resized pixel x is the sum over i < n_tap[x] of
 * source[first_px[x] + i] * weight[x * stride + i], weights past n_tap being 0. */
typedef struct pf_axis {
    int64_t src_px;
    int64_t dst_px;
    size_t stride;     /* >= the largest n_tap */
    int32_t n_tap_max; /* the largest n_tap */
    int32_t *first_px; /* (dst_px,), never decreasing, as where the taps end */
    int32_t *n_tap;    /* (dst_px,), >= 1 */
    int32_t *weight;   /* (dst_px, stride) */
} pf_axis;

/* The filter of that name ("box", "bilinear", "hamming", "bicubic", "lanczos");
 * PF_EINVAL for another one. */
PF_NODISCARD pf_status pf_filter_parse(const char *name, pf_filter *filter);

/* Weights that take src_px pixels to dst_px, the filter widened by src_px / dst_px
 * when that is above 1 (antialiasing), normalised to sum 1, rounded half away from
 * zero: the integers that Pillow's resize computes for 8-bit images. PF_EINVAL for a
 * size below 1 or an unknown filter, PF_EOVERFLOW for one above PF_AXIS_MAX_PX,
 * PF_ENOMEM. */
PF_NODISCARD pf_status pf_axis_init(
        pf_axis *axis, int64_t src_px, int64_t dst_px, pf_filter filter);

/* Safe on a zeroed, half-built or freed axis. */
void pf_axis_free(pf_axis *axis);

#endif /* PF_FILTER_H */

/* samplers.h - the arithmetic of deployed frame samplers, float quirks included.
 *
 * Each function gives what a published expression gives, bit for bit, not what it was
 * meant to give; exact grids are in grid.h. The torch_* functions follow torch 2.13 on
 * x86-64 with AVX2 or AVX-512, where both kernels are built for AVX2 and use fused
 * multiply-add; ATEN_CPU_CAPABILITY=default rounds twice and can differ by a frame.
 *
 * All need IEEE 754 arithmetic without contraction (-ffp-contract=off). index never
 * overlaps an input. Indices may lie outside the clip where the original's do. */
#ifndef PF_SAMPLERS_H
#define PF_SAMPLERS_H

#include "base/pf.h"

/* Largest magnitude of a frame number here; all fit float64 exactly. */
#define PF_SAMPLERS_FRAME_MAX INT32_MAX

typedef enum pf_samplers_rounding {
    PF_SAMPLERS_FLOOR, /* numpy.linspace(..., dtype=int) */
    PF_SAMPLERS_ROUND  /* numpy.linspace(...).round(), halves to even */
} pf_samplers_rounding;

/* numpy.linspace(first, last, n_index): first + i * ((last - first) / (n_index - 1))
 * in float64, the last value set to last, then rounded.
 *
 * PF_EINVAL: n_index < 1, or |first| or |last| > PF_SAMPLERS_FRAME_MAX. */
PF_NODISCARD pf_status pf_samplers_linspace(int64_t first, int64_t last,
        pf_samplers_rounding rounding, int64_t n_index, int64_t *index);

/* torch.linspace(0, last, n_index).round().long(): float32; i * step in the first
 * half, last - (n_index - 1 - i) * step in the second, each rounded once.
 *
 * PF_EINVAL: n_index < 1, or last outside [0, PF_SAMPLERS_FRAME_MAX]. */
PF_NODISCARD pf_status pf_samplers_torch_linspace(
        int64_t last, int64_t n_index, int64_t *index);

/* The start, stop and step of a range, as float64. */
typedef struct pf_samplers_range {
    double start_frames; /* 0 <= start <= stop */
    double stop_frames;  /* <= PF_SAMPLERS_FRAME_MAX */
    double step_frames;  /* > 0 */
} pf_samplers_range;

/* ceil((stop - start) / step), the length of torch.arange, which may be one more than
 * the caller of torch.arange had in mind.
 *
 * PF_EDOMAIN: a field is not finite. PF_EINVAL: a field breaks its contract.
 * PF_EOVERFLOW: more than PF_SAMPLERS_FRAME_MAX values. */
PF_NODISCARD pf_status pf_samplers_torch_arange_count(
        const pf_samplers_range *range, int64_t *n_index);

/* torch.arange(start, stop, step).int(): float32 values cut towards zero. While 16
 * values are left they are made in lots of eight: the first of a lot is
 * start + i * step rounded to float32, the others are that value + k * step; what is
 * left is start + i * step. n_index comes from pf_samplers_torch_arange_count.
 *
 * Errors as pf_samplers_torch_arange_count; PF_EINVAL too when n_index is another. */
PF_NODISCARD pf_status pf_samplers_torch_arange(
        const pf_samplers_range *range, int64_t n_index, int64_t *index);

/* int((first + i) * step) in float64.
 *
 * PF_EDOMAIN: step is not finite. PF_EINVAL: n_index < 1, first < 0 or step < 0.
 * PF_EOVERFLOW: the last index is above PF_SAMPLERS_FRAME_MAX. */
PF_NODISCARD pf_status pf_samplers_multiples(
        int64_t first, double step_frames, int64_t n_index, int64_t *index);

/* int(seg / 2 + round(seg * i)) with seg = last / n_index in float64, round taking
 * halves to even.
 *
 * PF_EINVAL: n_index < 1, or last outside [0, PF_SAMPLERS_FRAME_MAX]. */
PF_NODISCARD pf_status pf_samplers_segments(
        int64_t last, int64_t n_index, int64_t *index);

#endif /* PF_SAMPLERS_H */

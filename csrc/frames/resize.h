/* resize.h - resizes interleaved RGB images byte for byte as Pillow does.
 *
 * Two passes, one an axis, each a sum of uint8 times integer weights (filter.h),
 * rounded to uint8 in between; a pass whose axis keeps its size is left out. The
 * integers are exact, so every instruction set and every split over threads gives the
 * same bytes. The order of the passes matters, because of the rounding in between.
 *
 * A plan holds what depends on the sizes alone. It is not changed by a run, so any
 * number of threads may share it, each with a scratch of its own. */
#ifndef PF_RESIZE_H
#define PF_RESIZE_H

#include "base/cpu.h"
#include "base/pf.h"
#include "frames/filter.h"
#include "frames/normalise.h"
#include "frames/passes.h"

/* Row y is the 3 * width_px bytes at rgb + y * row_bytes; row_bytes may be negative
 * (bottom row first). Nothing between or after the rows is touched. */
typedef struct pf_image_src {
    const uint8_t *rgb;
    pf_size size;
    ptrdiff_t row_bytes;
} pf_image_src;

typedef struct pf_image_dst {
    uint8_t *rgb;
    pf_size size;
    ptrdiff_t row_bytes;
} pf_image_dst;

typedef struct pf_resize_options {
    pf_filter filter;
    pf_first_pass first_pass;
    pf_cpu_level level;
} pf_resize_options;

struct pf_resize_kernels;

typedef struct pf_resize_plan {
    pf_size src;
    pf_size dst;
    pf_cpu_level level;
    pf_axis x; /* zero when the width does not change */
    pf_axis y; /* zero when the height does not change */
    bool vertical_first;
    bool interleaved;     /* rows of the window, by kernels that like them so */
    int64_t window_rows;  /* that the horizontal pass, when first, keeps */
    size_t source_bytes;  /* from row to row of the scratch, source width */
    size_t resized_bytes; /* the same, resized width */
    size_t work_bytes;    /* that the horizontal pass needs for itself */
    const struct pf_resize_kernels *kernels;
    void *tables; /* of the kernels, NULL if they need none */
    pf_normalise_fn normalise;
} pf_resize_plan;

/* The rows between the two passes, finished rows, and what the horizontal pass needs;
 * each starts at a whole vector. */
typedef struct pf_resize_scratch {
    uint8_t *window;
    uint8_t *row;
    uint8_t *work;
} pf_resize_scratch;

/* PF_EINVAL for a size below 1, PF_EOVERFLOW for an axis above PF_AXIS_MAX_PX or an
 * output whose float32 planes do not fit a size_t, PF_EBACKEND for a level that this
 * processor does not have, PF_ENOMEM. */
PF_NODISCARD pf_status pf_resize_plan_init(pf_resize_plan *plan, pf_size src,
        pf_size dst, const pf_resize_options *options);

/* Safe on a zeroed, half-built or freed plan. */
void pf_resize_plan_free(pf_resize_plan *plan);

/* PF_ENOMEM */
PF_NODISCARD pf_status pf_resize_scratch_init(
        pf_resize_scratch *scratch, const pf_resize_plan *plan);

/* Safe on a zeroed or freed scratch. */
void pf_resize_scratch_free(pf_resize_scratch *scratch);

/* src and dst must have the plan's sizes (PF_EINVAL otherwise) and not overlap. */
PF_NODISCARD pf_status pf_resize_run(const pf_resize_plan *plan,
        pf_resize_scratch *scratch, const pf_image_src *src, const pf_image_dst *dst);

/* The same, then normalised: planes is float32 (3, dst.height_px, dst.width_px),
 * contiguous; it must not overlap src. */
PF_NODISCARD pf_status pf_resize_normalise_run(const pf_resize_plan *plan,
        pf_resize_scratch *scratch, const pf_image_src *src,
        const pf_normalise *normalise, float *planes);

#endif /* PF_RESIZE_H */

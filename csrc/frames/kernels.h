/* kernels.h - what the files of csrc/frames share; not for callers. Outputs must not
 * overlap inputs. */
#ifndef PF_FRAMES_KERNELS_H
#define PF_FRAMES_KERNELS_H

#include "frames/normalise.h"
#include "frames/patches.h"
#include "frames/resize.h"

/* float32 nearest to 1/255 */
#define PF_UNIT_SCALE ((float)(1.0 / 255.0))

/* Half of the last place that is kept: sums start here, then drop PF_WEIGHT_BITS. */
#define PF_WEIGHT_HALF ((int32_t)1 << (PF_WEIGHT_BITS - 1))

/* Rows that the horizontal pass makes together: enough to use each weight several
 * times, few enough for the processor to follow as streams. */
#define PF_BLOCK_ROWS 4

/* Rows that the window between the passes has beyond the taps of a row: a multiple of
 * PF_BLOCK_ROWS. The window should stay in the second-level cache. */
#define PF_WINDOW_ROWS 32

/* The pixel that a finished sum stands for. Right shift of a negative int is
 * arithmetic on every compiler that can build this. */
static inline uint8_t
pf_sum_to_u8(int32_t sum)
{
    const int32_t v = sum >> PF_WEIGHT_BITS;

    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Consecutive rows of n_bytes each, row_bytes apart. */
typedef struct pf_rows {
    const uint8_t *rgb;
    ptrdiff_t row_bytes;
    size_t n_bytes;
} pf_rows;

/* One instruction set. The sums of a pixel are exact integers, so every set gives the
 * same bytes in whatever order it adds. */
typedef struct pf_resize_kernels {
    /* Makes plan->tables, set even on failure if there is something to free.
     * PF_ENOMEM, PF_EOVERFLOW. NULL where no tables are needed. */
    pf_status (*tables_init)(pf_resize_plan *plan);
    void (*tables_free)(void *tables);

    /* n_row rows of plan->src.width_px into packed rows of plan->dst.width_px. */
    void (*horizontal)(const pf_resize_plan *plan, pf_rows src, size_t n_row,
            uint8_t *PF_RESTRICT dst);

    /* Resized row y; rows starts at its first tap, and dst takes
     * rows.n_bytes. */
    void (*vertical)(const pf_resize_plan *plan, int64_t y, pf_rows rows,
            uint8_t *PF_RESTRICT dst);
} pf_resize_kernels;

extern const pf_resize_kernels pf_resize_scalar;
#if PF_X86
extern const pf_resize_kernels pf_resize_avx2;
extern const pf_resize_kernels pf_resize_avx512;
#endif

/* The reference, for resized pixels x >= first_x alone: the end of a row that a
 * vector load would leave. */
void pf_horizontal_from(const pf_resize_plan *plan, pf_rows src, size_t n_row,
        size_t first_x, uint8_t *PF_RESTRICT dst);

/* The reference. */
void pf_vertical_scalar(
        const pf_resize_plan *plan, int64_t y, pf_rows rows, uint8_t *PF_RESTRICT dst);

/* The table of all answers, for pixels first_px <= p < n_px. */
void pf_normalise_from(const pf_normalise *normalise, const uint8_t *PF_RESTRICT rgb,
        size_t first_px, size_t n_px, float *PF_RESTRICT planes, size_t plane_px);

#if PF_X86
void pf_normalise_avx2(const pf_normalise *normalise, const uint8_t *PF_RESTRICT rgb,
        size_t n_px, float *PF_RESTRICT planes, size_t plane_px);
void pf_normalise_avx512(const pf_normalise *normalise, const uint8_t *PF_RESTRICT rgb,
        size_t n_px, float *PF_RESTRICT planes, size_t plane_px);
#endif

/* One channel of some lines of pixels into contiguous floats; size is that of the
 * lines. */
typedef void (*pf_lines_fn)(const pf_values *values, size_t c, pf_rows src,
        pf_size size, float *PF_RESTRICT out);

#if PF_X86
/* Pixels made at a time; for affine values and lines of no fewer. */
#define PF_LINE_MIN_PX 8
void pf_convert_lines_avx2(const pf_values *values, size_t c, pf_rows src, pf_size size,
        float *PF_RESTRICT out);
#endif

/* Where finished rows go: an image, or normalised planes. */
typedef struct pf_resize_sink {
    const pf_image_dst *image;
    const pf_normalise *normalise;
    float *planes;
} pf_resize_sink;

/* Resized rows first_row <= y < end_row of one image. Sizes are not checked. */
void pf_resize_rows(const pf_resize_plan *plan, pf_resize_scratch *scratch,
        const pf_image_src *src, const pf_resize_sink *sink, int64_t first_row,
        int64_t end_row);

#endif /* PF_FRAMES_KERNELS_H */

/* kernels.h - what the files of csrc/frames share; not for callers. Outputs must not
 * overlap inputs. */
#ifndef PF_FRAMES_KERNELS_H
#define PF_FRAMES_KERNELS_H

#include "base/dispatch.h"
#include "frames/normalise.h"
#include "frames/patches.h"
#include "frames/resize.h"

/* float32 nearest to 1/255 */
#define PF_UNIT_SCALE ((float)(1.0 / 255.0))

/* Half of the last place that is kept: sums start here, then drop PF_WEIGHT_BITS. */
#define PF_WEIGHT_HALF ((int32_t)1 << (PF_WEIGHT_BITS - 1))

/* Rows that the horizontal pass makes together: enough to use each weight several
 * times, few enough for the processor to follow as streams. */
#define PF_BLOCK_ROWS 8

/* Rows that the window between the passes has beyond the taps of a row: a multiple of
 * PF_BLOCK_ROWS. The window should stay in the second-level cache. */
#define PF_WINDOW_ROWS 32

/* Rows that lie interleaved in a window, where that is how they lie. */
#define PF_QUAD_ROWS 4

/* Scratch is aligned to this, and to it the rows of scratch are padded. */
#define PF_VECTOR_BYTES 64

/* Bytes after a row of scratch that may be written and read as well. */
#define PF_ROW_SLACK_BYTES 16

/* The pixel that a finished sum stands for. Right shift of a negative int is
 * arithmetic on every compiler that can build this. */
static inline uint8_t
pf_sum_to_u8(int32_t sum)
{
    const int32_t v = sum >> PF_WEIGHT_BITS;

    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* n_row consecutive rows of n_bytes each, row_bytes apart. n_next more lie after them
 * and will be wanted soon: they may be fetched into the cache. */
typedef struct pf_rows {
    const uint8_t *rgb;
    ptrdiff_t row_bytes;
    size_t n_bytes;
    size_t n_row;
    size_t n_next;
} pf_rows;

/* Row y, or the last one when there are fewer. */
static inline const uint8_t *
pf_row(const pf_rows *rows, size_t y)
{
    const size_t last = rows->n_row + rows->n_next - 1;

    return rows->rgb + (ptrdiff_t)(y < last ? y : last) * rows->row_bytes;
}

/* Asks for the line at `at` of each row that will be wanted soon. */
PF_BODY void
pf_rows_prefetch(const pf_rows *rows, size_t at)
{
    for (size_t i = 0; i < rows->n_next; i++) {
        PF_PREFETCH(pf_row(rows, rows->n_row + i) + at);
    }
}

/* Zeroed memory for n items, aligned to PF_VECTOR_BYTES, to be freed with free(). NULL
 * when it does not fit; never for no items. */
void *pf_aligned_zeros(size_t n, size_t item_bytes);

/* One instruction set. The sums of a pixel are exact integers, so every set gives the
 * same bytes in whatever order it adds. */
typedef struct pf_resize_kernels {
    /* What plan->tables takes; 0 where none are needed, and then the next three are not
     * there. It is zeroed first, and released even when they could not be made. */
    size_t tables_bytes;

    /* The part of plan->tables for plan->x, and plan->work_bytes; the part for plan->y.
     * Not called for an axis that keeps its size. PF_ENOMEM, PF_EOVERFLOW. */
    pf_status (*across_init)(pf_resize_plan *plan);
    pf_status (*down_init)(pf_resize_plan *plan);

    /* Frees what the tables point to. */
    void (*tables_release)(void *tables);

    /* Rows of plan->src.width_px into rows of plan->dst.width_px that start
     * plan->resized_bytes apart in the scratch. There is room for whole blocks, so the
     * rows that fill up the last one take rubbish. work is plan->work_bytes that
     * nobody else uses meanwhile. When the plan is interleaved, byte b of row r of each
     * PF_QUAD_ROWS rows lies at PF_QUAD_ROWS * b + r from their start instead. */
    void (*horizontal)(const pf_resize_plan *plan, pf_rows src, void *work,
            uint8_t *PF_RESTRICT dst);

    /* Resized row y of rows.n_bytes; rows starts at its first tap. */
    void (*vertical)(const pf_resize_plan *plan, int64_t y, pf_rows rows,
            uint8_t *PF_RESTRICT dst);

    /* The same from interleaved rows, of which the first PF_QUAD_ROWS at held hold the
     * first tap. NULL where no plan is interleaved. */
    void (*vertical_quads)(const pf_resize_plan *plan, int64_t y,
            const uint8_t *PF_RESTRICT held, uint8_t *PF_RESTRICT dst);
} pf_resize_kernels;

extern const pf_resize_kernels pf_resize_scalar;
#if PF_X86
extern const pf_resize_kernels pf_resize_avx2;
extern const pf_resize_kernels pf_resize_avx512;
#endif

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

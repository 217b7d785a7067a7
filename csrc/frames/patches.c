/* patches.c - the patch layout of vision towers, from bytes or from planes. */
#include <string.h>

#include "frames/kernels.h"

pf_status
pf_patches_plan(const pf_patch_layout *layout, size_t n_frame, pf_size size,
        pf_patch_grid *grid)
{
    const pf_size patch = layout->patch;
    const int64_t depth = layout->depth_frames;
    int64_t block_height;
    int64_t block_width;
    size_t n;

    if (patch.height_px < 1 || patch.width_px < 1 || layout->merge < 1 || depth < 1 ||
            size.height_px < 1 || size.width_px < 1) {
        return PF_EINVAL;
    }
    if (n_frame > INT64_MAX / 2 || depth > INT64_MAX / 2 ||
            !pf_mul_count(patch.height_px, layout->merge, &block_height) ||
            !pf_mul_count(patch.width_px, layout->merge, &block_width)) {
        return PF_EOVERFLOW;
    }
    if (size.height_px % block_height != 0 || size.width_px % block_width != 0) {
        return PF_EINVAL;
    }
    grid->time = ((int64_t)n_frame + depth - 1) / depth;
    grid->down = size.height_px / patch.height_px;
    grid->across = size.width_px / patch.width_px;
    if (!pf_mul_size(3, (size_t)depth, &n) ||
            !pf_mul_size(n, (size_t)patch.height_px, &n) ||
            !pf_mul_size(n, (size_t)patch.width_px, &n)) {
        return PF_EOVERFLOW;
    }
    grid->row_values = n;
    if (!pf_mul_size(n, (size_t)grid->down, &n) ||
            !pf_mul_size(n, (size_t)grid->across, &n) ||
            !pf_mul_size(n, (size_t)grid->time, &n) ||
            n > PTRDIFF_MAX / sizeof(float)) {
        return PF_EOVERFLOW;
    }
    grid->n_value = n;
    return PF_OK;
}

/* Bytes of pixels that a strip of lines may have. */
#define STRIP_BYTES 16384

/* How the values of a call are made: strip_px lines at a time, at least 1. */
struct way {
    const pf_values *values;
    pf_lines_fn convert;
    int64_t strip_px;
};

/* Top left pixel and first frame of a row. */
struct place {
    int64_t frame;
    int64_t y_px;
    int64_t x_px;
};

/* The row's number within its time step is taken apart into block and patch. */
static struct place
find_row(const pf_patch_layout *layout, const pf_patch_grid *grid, int64_t time,
        int64_t row)
{
    const int64_t merge = layout->merge;
    const int64_t in_block = row % (merge * merge);
    const int64_t block = row / (merge * merge);
    const int64_t blocks_across = grid->across / merge;
    const int64_t y = block / blocks_across * merge + in_block / merge;
    const int64_t x = block % blocks_across * merge + in_block % merge;

    return (struct place){time * layout->depth_frames, y * layout->patch.height_px,
            x * layout->patch.width_px};
}

void
pf_values_init(pf_values *values, const float table[3][256], float divisor,
        const float mean[3], const float std[3])
{
    memcpy(values->table, table, sizeof values->table);
    values->divisor = divisor;
    values->is_affine = true;
    for (size_t c = 0; c < 3; c++) {
        values->mean[c] = mean[c];
        values->std[c] = std[c];
        for (int v = 0; v < 256; v++) {
            const float y = ((float)v / divisor - mean[c]) / std[c];

            if (memcmp(&y, &table[c][v], sizeof y) != 0) {
                values->is_affine = false;
            }
        }
    }
}

static void
convert_lines(const pf_values *values, size_t c, pf_rows src, pf_size size,
        float *PF_RESTRICT out)
{
    const float *table = values->table[c];

    for (int64_t y = 0; y < size.height_px; y++) {
        const uint8_t *rgb = src.rgb + y * src.row_bytes + c;

        for (int64_t x = 0; x < size.width_px; x++) {
            out[x] = table[rgb[3 * x]];
        }
        out += size.width_px;
    }
}

/* The fastest way to convert lines of n_px. */
static pf_lines_fn
select_lines(const pf_values *values, int64_t n_px)
{
#if PF_X86
    if (values->is_affine && n_px >= PF_LINE_MIN_PX && pf_cpu_best() >= PF_CPU_AVX2) {
        return pf_convert_lines_avx2;
    }
#endif
    (void)values;
    (void)n_px;
    return convert_lines;
}

/* The frame that stands at place d of a row: the last one when there are no more. */
static size_t
frame_at(struct place place, int64_t d, size_t n_frame)
{
    const size_t i = (size_t)(place.frame + d);

    return i < n_frame ? i : n_frame - 1;
}

/* Strips of lines that stay in the first-level cache while each channel is taken out.
 * A small patch is one strip and its row is written from end to end, which is twice as
 * fast as three channels at a time. */
static void
convert_row(const pf_patch_layout *layout, const pf_batch_src *src, struct place place,
        const struct way *way, float *row)
{
    const int64_t width = layout->patch.width_px;
    const int64_t height = layout->patch.height_px;
    const int64_t depth = layout->depth_frames;

    for (int64_t y = 0; y < height; y += way->strip_px) {
        const int64_t left = height - y;
        const pf_size lines = {left < way->strip_px ? left : way->strip_px, width};

        for (int64_t i = 0; i < 3 * depth; i++) {
            const uint8_t *frame = src->frame[frame_at(place, i % depth, src->n_frame)];
            const pf_rows rows = {
                    .rgb = frame + (place.y_px + y) * src->row_bytes + 3 * place.x_px,
                    .row_bytes = src->row_bytes,
                    .n_bytes = 3 * (size_t)width,
                    .n_row = (size_t)lines.height_px};

            way->convert(way->values, (size_t)(i / depth), rows, lines,
                    row + (i * height + y) * width);
        }
    }
}

pf_status
pf_patches_from_rgb(const pf_patch_layout *layout, const pf_batch_src *src,
        const pf_values *values, float *PF_RESTRICT rows)
{
    const int64_t width = layout->patch.width_px;
    struct way way = {values, select_lines(values, width), 1};
    pf_patch_grid grid;
    const pf_status st = pf_patches_plan(layout, src->n_frame, src->size, &grid);

    if (st != PF_OK) {
        return st;
    }
    if (width < STRIP_BYTES / 3 && layout->depth_frames < STRIP_BYTES / (3 * width)) {
        way.strip_px = STRIP_BYTES / (3 * width * layout->depth_frames);
    }
    for (int64_t t = 0; t < grid.time; t++) {
        for (int64_t r = 0; r < grid.down * grid.across; r++) {
            convert_row(layout, src, find_row(layout, &grid, t, r), &way, rows);
            rows += grid.row_values;
        }
    }
    return PF_OK;
}

static void
move_row(const pf_patch_layout *layout, const float *PF_RESTRICT planes, size_t n_frame,
        pf_size size, struct place place, float *PF_RESTRICT row)
{
    const size_t width = (size_t)layout->patch.width_px;
    const size_t plane_values = (size_t)size.height_px * (size_t)size.width_px;
    const size_t offset =
            (size_t)place.y_px * (size_t)size.width_px + (size_t)place.x_px;

    for (size_t c = 0; c < 3; c++) {
        for (int64_t d = 0; d < layout->depth_frames; d++) {
            const size_t i = frame_at(place, d, n_frame);
            const float *line = planes + (3 * i + c) * plane_values + offset;

            for (int64_t y = 0; y < layout->patch.height_px; y++) {
                memcpy(row, line, width * sizeof *row);
                line += size.width_px;
                row += width;
            }
        }
    }
}

pf_status
pf_patches_from_planes(const pf_patch_layout *layout, const float *PF_RESTRICT planes,
        size_t n_frame, pf_size size, float *PF_RESTRICT rows)
{
    pf_patch_grid grid;
    const pf_status st = pf_patches_plan(layout, n_frame, size, &grid);

    if (st != PF_OK) {
        return st;
    }
    for (int64_t t = 0; t < grid.time; t++) {
        for (int64_t r = 0; r < grid.down * grid.across; r++) {
            move_row(
                    layout, planes, n_frame, size, find_row(layout, &grid, t, r), rows);
            rows += grid.row_values;
        }
    }
    return PF_OK;
}

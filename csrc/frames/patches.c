/* patches.c - the patch layout of vision towers, from bytes or from planes. */
#include "frames/patches.h"

#include <string.h>

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

/* One line of a patch; the three channels start channel_values floats apart. */
static void
convert_line(const float table[3][256], const uint8_t *PF_RESTRICT rgb, size_t n_px,
        float *PF_RESTRICT row, size_t channel_values)
{
    float *PF_RESTRICT red = row;
    float *PF_RESTRICT green = row + channel_values;
    float *PF_RESTRICT blue = row + 2 * channel_values;

    for (size_t p = 0; p < n_px; p++) {
        red[p] = table[0][rgb[3 * p]];
        green[p] = table[1][rgb[3 * p + 1]];
        blue[p] = table[2][rgb[3 * p + 2]];
    }
}

/* The frame that stands at place d of a row: the last one when there are no more. */
static size_t
frame_at(struct place place, int64_t d, size_t n_frame)
{
    const size_t i = (size_t)(place.frame + d);

    return i < n_frame ? i : n_frame - 1;
}

static void
convert_row(const pf_patch_layout *layout, const pf_batch_src *src, struct place place,
        const float table[3][256], float *row)
{
    const size_t width = (size_t)layout->patch.width_px;
    const size_t patch_values = (size_t)layout->patch.height_px * width;
    const size_t channel_values = (size_t)layout->depth_frames * patch_values;

    for (int64_t d = 0; d < layout->depth_frames; d++) {
        const uint8_t *rgb = src->frame[frame_at(place, d, src->n_frame)] +
                             place.y_px * src->row_bytes + 3 * place.x_px;
        float *at = row + (size_t)d * patch_values;

        for (int64_t y = 0; y < layout->patch.height_px; y++) {
            convert_line(table, rgb, width, at, channel_values);
            rgb += src->row_bytes;
            at += width;
        }
    }
}

pf_status
pf_patches_from_rgb(const pf_patch_layout *layout, const pf_batch_src *src,
        const float table[3][256], float *PF_RESTRICT rows)
{
    pf_patch_grid grid;
    const pf_status st = pf_patches_plan(layout, src->n_frame, src->size, &grid);

    if (st != PF_OK) {
        return st;
    }
    for (int64_t t = 0; t < grid.time; t++) {
        for (int64_t r = 0; r < grid.down * grid.across; r++) {
            convert_row(layout, src, find_row(layout, &grid, t, r), table, rows);
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

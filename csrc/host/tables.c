/* tables.c - see tables.h. */
#include "host/tables.h"

#include <stdlib.h>
#include <string.h>

enum { MAKER_AXIS = 1, MAKER_OFFSETS };

/* Four unsigned ints a word of taps, and those of a warp for three matrices. */
enum { PACKED_BYTES = 16, MATRIX_BYTES = 3 * PF_GPU_LANES * 16 };

/* first (n_item,), count (n_item,), weight (n_item, stride), one after the other. */
typedef struct packed {
    int32_t *first;
    int32_t *count;
    unsigned char *weight;
    size_t n_byte;
    size_t n_item;
    size_t stride;
} packed;

/* An axis that changes nothing. */
static pf_status
make_identity(pf_axis *axis, int64_t n_px)
{
    *axis = (pf_axis){.src_px = n_px, .dst_px = n_px, .stride = 1, .n_tap_max = 1};
    axis->first_px = calloc((size_t)n_px, sizeof *axis->first_px);
    axis->n_tap = calloc((size_t)n_px, sizeof *axis->n_tap);
    axis->weight = calloc((size_t)n_px, sizeof *axis->weight);
    if (axis->first_px == NULL || axis->n_tap == NULL || axis->weight == NULL) {
        pf_axis_free(axis);
        return PF_ENOMEM;
    }
    for (int64_t x = 0; x < n_px; x++) {
        axis->first_px[x] = (int32_t)x;
        axis->n_tap[x] = 1;
        axis->weight[x] = 1 << PF_WEIGHT_BITS;
    }
    return PF_OK;
}

/* Room for the table of an axis; weights start at a multiple of 16 bytes. */
static pf_status
allocate(packed *made, size_t n_output, size_t stride, size_t weight_bytes)
{
    const size_t head_bytes = (2 * sizeof(int32_t) * n_output + 15) / 16 * 16;
    unsigned char *memory;
    size_t n_byte;

    if (!pf_mul_size(n_output, stride, &n_byte) ||
            !pf_mul_size(n_byte, weight_bytes, &n_byte) ||
            n_byte > SIZE_MAX - head_bytes) {
        return PF_EOVERFLOW;
    }
    memory = calloc(1, head_bytes + n_byte);
    if (memory == NULL) {
        return PF_ENOMEM;
    }
    *made = (packed){.first = (int32_t *)(void *)memory,
            .count = (int32_t *)(void *)memory + n_output,
            .weight = memory + head_bytes,
            .n_byte = head_bytes + n_byte,
            .n_item = n_output,
            .stride = stride};
    return PF_OK;
}

static pf_status
make_plain(const pf_axis *axis, packed *made)
{
    const size_t n = (size_t)axis->dst_px;
    const pf_status st = allocate(made, n, axis->stride, sizeof *axis->weight);

    if (st == PF_OK) {
        memcpy(made->first, axis->first_px, n * sizeof *made->first);
        memcpy(made->count, axis->n_tap, n * sizeof *made->count);
        memcpy(made->weight, axis->weight, n * axis->stride * sizeof *axis->weight);
    }
    return st;
}

/* Byte t of three words, the three low bytes of a weight. */
static void
place_weight(uint32_t word[4], int32_t t, int32_t weight)
{
    for (int plane = 0; plane < 3; plane++) {
        word[plane] |= ((uint32_t)weight >> 8 * plane & 255u) << 8 * t;
    }
}

static pf_status
make_packed(const pf_axis *axis, packed *made)
{
    const size_t stride = (size_t)axis->n_tap_max / 4 + 2;
    const pf_status st = allocate(made, (size_t)axis->dst_px, stride, PACKED_BYTES);

    if (st != PF_OK) {
        return st;
    }
    for (size_t x = 0; x < (size_t)axis->dst_px; x++) {
        const int32_t first = axis->first_px[x];
        const int32_t end = first + axis->n_tap[x];
        const int32_t *weight = axis->weight + x * axis->stride;
        uint32_t *word = (uint32_t *)(void *)(made->weight + PACKED_BYTES * stride * x);

        made->first[x] = first / 4;
        made->count[x] = (end + 3) / 4 - first / 4;
        for (int32_t p = first; p < end; p++) {
            const int32_t at = p / 4 - first / 4;

            place_weight(word + 4 * at, p % 4, weight[p - first]);
        }
    }
    return PF_OK;
}

/* Words that outputs begin .. end - 1 read: the first, and how many. */
static void
find_words(
        const pf_axis *axis, size_t begin, size_t end, int32_t *first, int32_t *count)
{
    int32_t low = axis->first_px[begin];
    int32_t high = low;

    for (size_t x = begin; x < end; x++) {
        const int32_t after = axis->first_px[x] + axis->n_tap[x];

        low = axis->first_px[x] < low ? axis->first_px[x] : low;
        high = after > high ? after : high;
    }
    *first = low / 4;
    *count = (high + 3) / 4 - low / 4;
}

/* The weight of output row of a group and of the pixel that is offset pixels after its
 * first word, in the matrices of the group. */
static void
place_in_matrix(unsigned char *matrices, size_t row, size_t offset, int32_t weight)
{
    const size_t lane = row % 8 * 4 + offset % 16 / 4;
    const size_t word = row / 8 + offset % 32 / 16 * 2;
    unsigned char *at = matrices + offset / 32 * MATRIX_BYTES + 16 * lane + 4 * word;

    for (int byte = 0; byte < 3; byte++) {
        at[(size_t)byte * PF_GPU_LANES * 16 + offset % 4] =
                (unsigned char)((uint32_t)weight >> 8 * byte & 255u);
    }
}

static pf_status
make_matrices(const pf_axis *axis, packed *made)
{
    const size_t n_output = (size_t)axis->dst_px;
    const size_t n_group = (n_output + PF_GPU_GROUP - 1) / PF_GPU_GROUP;
    size_t stride = 1;
    pf_status st;

    for (size_t g = 0; g < n_group; g++) {
        const size_t end = (g + 1) * PF_GPU_GROUP;
        int32_t first, count;

        find_words(axis, g * PF_GPU_GROUP, end < n_output ? end : n_output, &first,
                &count);
        const size_t n_step =
                ((size_t)count + PF_GPU_STEP_WORDS - 1) / PF_GPU_STEP_WORDS;

        stride = n_step > stride ? n_step : stride;
    }
    st = allocate(made, n_group, stride, MATRIX_BYTES);
    if (st != PF_OK) {
        return st;
    }
    for (size_t x = 0; x < n_output; x++) {
        const size_t g = x / PF_GPU_GROUP;
        const size_t end = (g + 1) * PF_GPU_GROUP;
        const int32_t *weight = axis->weight + x * axis->stride;

        if (x % PF_GPU_GROUP == 0) {
            find_words(axis, x, end < n_output ? end : n_output, &made->first[g],
                    &made->count[g]);
        }
        for (int32_t t = 0; t < axis->n_tap[x]; t++) {
            const int32_t offset = axis->first_px[x] + t - 4 * made->first[g];

            place_in_matrix(made->weight + g * stride * MATRIX_BYTES, x % PF_GPU_GROUP,
                    (size_t)offset, weight[t]);
        }
    }
    return PF_OK;
}

static pf_status
make_axis(pf_axis_form form, pf_axis_sizes sizes, pf_filter filter, packed *made)
{
    pf_axis axis = {0};
    pf_status st = sizes.src_px == sizes.dst_px
                           ? make_identity(&axis, sizes.src_px)
                           : pf_axis_init(&axis, sizes.src_px, sizes.dst_px, filter);

    if (st == PF_OK) {
        st = form == PF_AXIS_PLAIN    ? make_plain(&axis, made)
             : form == PF_AXIS_PACKED ? make_packed(&axis, made)
                                      : make_matrices(&axis, made);
    }
    pf_axis_free(&axis);
    return st;
}

pf_status
pf_tables_axis(pf_device *device, pf_axis_form form, pf_axis_sizes sizes,
        pf_filter filter, pf_table **table, pf_failure *failure)
{
    const pf_table_key key = {
            {MAKER_AXIS, (int64_t)form, sizes.src_px, sizes.dst_px, (int64_t)filter}};
    packed made;
    pf_status st;

    *table = pf_device_find(device, &key);
    if (*table != NULL) {
        return PF_OK;
    }
    if (sizes.src_px < 1 || sizes.src_px > PF_AXIS_MAX_PX || sizes.dst_px < 1) {
        return PF_EINVAL;
    }
    st = make_axis(form, sizes, filter, &made);
    if (st != PF_OK) {
        return st;
    }
    st = pf_device_keep(device, &key, made.first, made.n_byte, table, failure);
    if (st != PF_OK) {
        free(made.first);
        return st;
    }
    (*table)->host = made.first;
    (*table)->n_item = (int64_t)made.n_item;
    (*table)->stride = (int64_t)made.stride;
    return PF_OK;
}

pf_gpu_axis
pf_tables_describe_axis(const pf_table *table, pf_axis_sizes sizes)
{
    const size_t n = (size_t)table->n_item;
    const size_t head_bytes = (2 * sizeof(int32_t) * n + 15) / 16 * 16;
    const pf_device_address count = table->address + n * sizeof(int32_t);

    return (pf_gpu_axis){.first = (const int *)table->address,
            .count = (const int *)count,
            .weight = (const void *)(table->address + head_bytes),
            .stride = (int)table->stride,
            .src_px = (int)sizes.src_px,
            .dst_px = (int)sizes.dst_px};
}

int64_t
pf_tables_span(const pf_table *table, int64_t n, int64_t step)
{
    const int32_t *first = table->host;
    const int32_t *count = first + table->n_item;
    int64_t widest = 0;

    for (int64_t i = 0; i < table->n_item; i += n) {
        const int64_t last = i + n < table->n_item ? i + n - 1 : table->n_item - 1;
        const int64_t read = (count[last] + step - 1) / step * step;
        const int64_t span = first[last] + read - first[i];

        widest = span > widest ? span : widest;
    }
    return widest;
}

/* The layout, with the sides that stand for the whole picture filled in. */
static pf_patch_layout
layout_of(const pf_places *places, pf_size size)
{
    pf_patch_layout layout = places->patch;

    if (layout.patch.height_px == 0) {
        layout = (pf_patch_layout){size, 1, 1};
    }
    return layout;
}

int64_t
pf_tables_channel_offset(const pf_places *places, pf_size size)
{
    const pf_patch_layout layout = layout_of(places, size);

    return places->interleaved ? 1
                               : layout.depth_frames * layout.patch.height_px *
                                         layout.patch.width_px;
}

/* How far rows are apart for patch number i of a side, of blocks of merge of them. */
static int64_t
patch_rows(int64_t i, int64_t merge, int64_t block_rows, int64_t within_rows)
{
    return i / merge * block_rows + i % merge * within_rows;
}

static void
fill_offsets(const pf_places *places, pf_size size, int64_t *x_offset)
{
    const pf_patch_layout layout = layout_of(places, size);
    const pf_size patch = layout.patch;
    const int64_t merge = layout.merge;
    const int64_t row_values =
            3 * layout.depth_frames * patch.height_px * patch.width_px;
    const int64_t block_rows = merge * merge;
    const int64_t across_rows = size.width_px / (patch.width_px * merge) * block_rows;
    int64_t *y_offset = x_offset + size.width_px;

    for (int64_t x = 0; x < size.width_px; x++) {
        const int64_t rows = patch_rows(x / patch.width_px, merge, block_rows, 1);

        x_offset[x] =
                places->interleaved ? 3 * x : rows * row_values + x % patch.width_px;
    }
    for (int64_t y = 0; y < size.height_px; y++) {
        const int64_t rows = patch_rows(y / patch.height_px, merge, across_rows, merge);

        y_offset[y] = places->interleaved ? 3 * size.width_px * y
                                          : rows * row_values + y % patch.height_px *
                                                                        patch.width_px;
    }
}

pf_status
pf_tables_offsets(pf_device *device, const pf_places *places, pf_size size,
        pf_table **table, pf_failure *failure)
{
    const pf_patch_layout layout = layout_of(places, size);
    const pf_table_key key = {{MAKER_OFFSETS, places->interleaved, size.height_px,
            size.width_px, layout.patch.height_px, layout.patch.width_px, layout.merge,
            layout.depth_frames}};
    const size_t n = (size_t)(size.height_px + size.width_px);
    pf_patch_grid grid;
    int64_t *offset;
    pf_status st;

    *table = pf_device_find(device, &key);
    if (*table != NULL) {
        return PF_OK;
    }
    st = pf_patches_plan(&layout, 1, size, &grid);
    if (st != PF_OK) {
        return st;
    }
    offset = calloc(n, sizeof *offset);
    if (offset == NULL) {
        return PF_ENOMEM;
    }
    fill_offsets(places, size, offset);
    st = pf_device_keep(device, &key, offset, n * sizeof *offset, table, failure);
    free(offset);
    return st;
}

/* resize_avx512_tables.c - weights as digits, and which source bytes a vector takes. */
#include "frames/resize_avx512.h"

#if PF_X86
#include <assert.h>
#include <stdlib.h>

static void
split_weight(int32_t weight, int8_t digit[3])
{
    for (size_t d = 0; d < 3; d++) {
        const int32_t low = weight & 0xff;

        digit[d] = (int8_t)(low < 128 ? low : low - 256);
        weight = (weight - digit[d]) / 256;
    }
    assert(weight == 0); /* |weight| < 1.99 * 2^22 for every filter */
}

/* Where the first tap of a byte of a resized row lies. */
static int64_t
first_tap_bytes(const pf_axis *axis, size_t b)
{
    return 3 * (int64_t)axis->first_px[b / 3] + (int64_t)(b % 3);
}

/* Whether groups of n_lane bytes find the taps of a step within one vector. */
static bool
lanes_fit(const pf_axis *axis, size_t n_part, size_t n_lane)
{
    const size_t n_bytes = 3 * (size_t)axis->dst_px;
    const int64_t taps_bytes = 12 * (int64_t)n_part - 2; /* from first to last */

    for (size_t b = 0; b < n_bytes; b += n_lane) {
        const size_t end = b + n_lane < n_bytes ? b + n_lane : n_bytes;
        const int64_t first = first_tap_bytes(axis, b);
        int64_t last = first;

        for (size_t i = b; i < end; i++) {
            const int64_t at = first_tap_bytes(axis, i);

            if (at < first) {
                return false;
            }
            last = at > last ? at : last;
        }
        if (last - first + taps_bytes > VECTOR_BYTES) {
            return false;
        }
    }
    return true;
}

/* Sets n_part, n_lane and n_step to those that take the fewest steps a byte. */
static void
choose_layout(struct tables *tables, const pf_axis *axis)
{
    const size_t n_tap = (size_t)axis->n_tap_max;

    for (size_t n_part = 1; n_part <= 4; n_part *= 2) {
        const size_t n_step = (n_tap - 1) / (4 * n_part) + 1;
        size_t n_lane = N_LANE / n_part;

        while (n_lane > 0 && !lanes_fit(axis, n_part, n_lane)) {
            n_lane--;
        }
        if (n_part == 1 || n_step * tables->n_lane < tables->n_step * n_lane) {
            tables->n_part = n_part;
            tables->n_lane = n_lane;
            tables->n_step = n_step;
        }
    }
}

/* Fills group g and its steps. */
static void
group_fill(struct tables *tables, const pf_axis *axis, size_t g)
{
    const size_t n_bytes = 3 * (size_t)axis->dst_px;
    const size_t taps_a_step = 4 * tables->n_part;
    const size_t part_lanes = N_LANE / tables->n_part;
    const size_t first = g * tables->n_lane;
    struct group *group = &tables->group[g];

    group->first_bytes = first_tap_bytes(axis, first);
    for (size_t b = first; b < first + tables->n_lane && b < n_bytes; b++) {
        const size_t at = (size_t)(first_tap_bytes(axis, b) - group->first_bytes);
        const size_t x = b / 3;

        for (size_t i = 0; i < taps_a_step; i++) {
            const size_t lane = i / 4 * part_lanes + b - first;

            group->pick[4 * lane + i % 4] = (uint8_t)(at + 3 * i);
        }
        for (size_t i = 0; i < (size_t)axis->n_tap[x]; i++) {
            const size_t lane = i % taps_a_step / 4 * part_lanes + b - first;
            struct step *step = &tables->step[g * tables->n_step + i / taps_a_step];
            int8_t digit[3];

            split_weight(axis->weight[x * axis->stride + i], digit);
            for (size_t d = 0; d < 3; d++) {
                step->digit[d][4 * lane + i % 4] = digit[d];
            }
        }
    }
}

/* Where byte b of a row is after block() has packed a block, or half of one: in turn
 * with those of the next row, four at a time. */
static size_t
packed_at(const struct tables *tables, size_t row, size_t b)
{
    const size_t in_turn = 2 * (b % 4) + row % 2;

    if (tables->n_part == 1) {
        return 16 * (b / 4) + 8 * (row / 2) + in_turn;
    }
    return 16 * (b / 4 + row % 4 / 2 * 2) + 8 * (row / 4) + in_turn;
}

/* Row after row, or column after column of each quad of rows. */
static void
order_fill(struct tables *tables)
{
    const size_t n_row = tables->n_part == 1 ? SUM_ROWS : PF_BLOCK_ROWS;
    const size_t n_byte = VECTOR_BYTES / n_row; /* of a row */

    for (size_t row = 0; row < n_row; row++) {
        for (size_t b = 0; b < n_byte; b++) {
            const size_t quad = row / PF_QUAD_ROWS * (PF_QUAD_ROWS * n_byte);
            const size_t to = tables->interleaved
                                      ? quad + PF_QUAD_ROWS * b + row % PF_QUAD_ROWS
                                      : row * n_byte + b;

            tables->order[to] = (uint8_t)packed_at(tables, row, b);
        }
    }
}

pf_status
pf_avx512_across_init(pf_resize_plan *plan)
{
    struct tables *tables = plan->tables;
    const pf_axis *axis = &plan->x;
    const size_t n_bytes = 3 * (size_t)axis->dst_px;
    const int64_t src_bytes = 3 * axis->src_px;
    int64_t reach_bytes;
    size_t n_step;

    tables->interleaved = plan->interleaved;
    choose_layout(tables, axis);
    tables->n_group = (n_bytes - 1) / tables->n_lane + 1;
    if (!pf_mul_size(tables->n_group, tables->n_step, &n_step)) {
        return PF_EOVERFLOW;
    }
    tables->group = pf_aligned_zeros(tables->n_group, sizeof *tables->group);
    tables->step = pf_aligned_zeros(n_step, sizeof *tables->step);
    tables->order = pf_aligned_zeros(1, VECTOR_BYTES);
    if (tables->group == NULL || tables->step == NULL || tables->order == NULL) {
        return PF_ENOMEM;
    }
    reach_bytes = (int64_t)(12 * tables->n_part * (tables->n_step - 1)) + VECTOR_BYTES;
    for (size_t g = 0; g < tables->n_group; g++) {
        group_fill(tables, axis, g);
        if (tables->group[g].first_bytes + reach_bytes <= src_bytes) {
            tables->n_fast_group = g + 1;
        }
    }
    order_fill(tables);
    return PF_OK;
}

pf_status
pf_avx512_down_init(pf_resize_plan *plan)
{
    struct tables *tables = plan->tables;
    const pf_axis *axis = &plan->y;
    const size_t n_row = (size_t)axis->dst_px;
    size_t n;

    tables->n_quad = ((size_t)axis->n_tap_max + (plan->interleaved ? 6 : 3)) / 4;
    if (!pf_mul_size(n_row, tables->n_quad, &n)) {
        return PF_EOVERFLOW;
    }
    tables->quad = calloc(n, sizeof *tables->quad);
    if (tables->quad == NULL) {
        return PF_ENOMEM;
    }
    for (size_t y = 0; y < n_row; y++) {
        const size_t skip = pf_quad_skip(plan, (int64_t)y);

        for (size_t i = 0; i < (size_t)axis->n_tap[y]; i++) {
            const size_t at = skip + i;
            struct quad *quad = &tables->quad[y * tables->n_quad + at / 4];
            int8_t digit[3];

            split_weight(axis->weight[y * axis->stride + i], digit);
            for (size_t d = 0; d < 3; d++) {
                quad->digit[d] |= (uint32_t)(uint8_t)digit[d] << (at % 4 * 8);
            }
        }
    }
    return PF_OK;
}

void
pf_avx512_tables_release(void *opaque)
{
    struct tables *tables = opaque;

    free(tables->quad);
    free(tables->order);
    free(tables->step);
    free(tables->group);
}

#endif /* PF_X86 */

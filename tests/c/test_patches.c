// uses: frames
/* test_patches.c - patch rows without Python: every value from its definition, with
 * guarded outputs, exact source buffers and frames apart in memory. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "frames/patches.h"

#define MARGIN 64
#define POISON 0xa5

static uint32_t random_state = 2463;

static uint8_t
random_byte(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint8_t)(random_state >> 24);
}

struct shape {
    size_t n_frame;
    pf_size size;
    pf_patch_layout layout;
};

/* The contract, read backwards: where a value of the rows comes from. */
static void
place_of(const struct shape *shape, size_t i, size_t *frame, size_t *channel,
        size_t *pixel)
{
    const pf_patch_layout *layout = &shape->layout;
    const size_t width = (size_t)layout->patch.width_px;
    const size_t height = (size_t)layout->patch.height_px;
    const size_t depth = (size_t)layout->depth_frames;
    const size_t merge = (size_t)layout->merge;
    const size_t blocks_across = (size_t)shape->size.width_px / (width * merge);
    const size_t blocks_down = (size_t)shape->size.height_px / (height * merge);
    const size_t x_px = i % width;
    const size_t y_px = i / width % height;
    const size_t d = i / (width * height) % depth;
    const size_t row = i / (width * height * depth * 3);
    const size_t patch_x = row % merge;
    const size_t patch_y = row / merge % merge;
    const size_t block_x = row / (merge * merge) % blocks_across;
    const size_t block_y = row / (merge * merge) / blocks_across % blocks_down;
    const size_t time = row / (merge * merge) / blocks_across / blocks_down;
    const size_t y = (block_y * merge + patch_y) * height + y_px;
    const size_t x = (block_x * merge + patch_x) * width + x_px;

    *channel = i / (width * height * depth) % 3;
    *frame = time * depth + d;
    if (*frame >= shape->n_frame) {
        *frame = shape->n_frame - 1;
    }
    *pixel = y * (size_t)shape->size.width_px + x;
}

/* Room for the rows between two margins; the rows start at MARGIN. */
static float *
guarded_rows(size_t n_value)
{
    const size_t n_bytes = (n_value + 2 * (size_t)MARGIN) * sizeof(float);
    float *room = malloc(n_bytes);

    memset(room, POISON, n_bytes);
    return room;
}

static void
check_margins(const float *room, size_t n_value)
{
    const uint8_t *before = (const uint8_t *)room;
    const uint8_t *after = (const uint8_t *)(room + MARGIN + n_value);

    for (size_t i = 0; i < MARGIN * sizeof(float); i++) {
        CHECK(before[i] == POISON && after[i] == POISON);
    }
}

/* The formula of the first two channels divides twice, as Pillow's users do; a table
 * that it does not give in the last place must be met all the same. */
static void
fill_values(pf_values *values, bool is_affine)
{
    static const float mean[3] = {0.48145466f, 0.4578275f, 0.0f};
    static const float std[3] = {0.26862954f, -0.26130258f, 1.0f};
    float table[3][256];

    for (size_t c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            table[c][v] = ((float)v / 255.0f - mean[c]) / std[c];
        }
    }
    if (!is_affine) {
        table[2][201] *= 1.000001f;
    }
    pf_values_init(values, (const float (*)[256])table, 255.0f, mean, std);
}

/* Frames in buffers of their own, the last first in memory, without a spare byte. */
static void
check_rgb(const struct shape *shape, const pf_patch_grid *grid, bool is_affine)
{
    const size_t n_px = (size_t)(shape->size.height_px * shape->size.width_px);
    const uint8_t **frame = malloc(shape->n_frame * sizeof *frame + 1);
    uint8_t **owned = malloc(shape->n_frame * sizeof *owned + 1);
    const pf_batch_src src = {
            frame, shape->n_frame, shape->size, 3 * shape->size.width_px};
    float *room = guarded_rows(grid->n_value);
    pf_values values;

    fill_values(&values, is_affine);
    CHECK(values.is_affine == is_affine);
    for (size_t i = shape->n_frame; i-- > 0;) {
        owned[i] = malloc(3 * n_px);
        frame[i] = owned[i];
        for (size_t p = 0; p < 3 * n_px; p++) {
            owned[i][p] = random_byte();
        }
    }
    CHECK(pf_patches_from_rgb(&shape->layout, &src, &values, room + MARGIN) == PF_OK);
    check_margins(room, grid->n_value);
    for (size_t i = 0; i < grid->n_value; i++) {
        size_t f;
        size_t c;
        size_t p;
        float wanted;

        place_of(shape, i, &f, &c, &p);
        wanted = values.table[c][frame[f][3 * p + c]];
        CHECK(memcmp(&room[MARGIN + i], &wanted, sizeof wanted) == 0);
    }
    for (size_t i = 0; i < shape->n_frame; i++) {
        free(owned[i]);
    }
    free(room);
    free(owned);
    free(frame);
}

static void
check_planes(const struct shape *shape, const pf_patch_grid *grid)
{
    const size_t n_px = (size_t)(shape->size.height_px * shape->size.width_px);
    const size_t n_plane = 3 * shape->n_frame * n_px;
    float *planes = malloc(n_plane * sizeof *planes + 1);
    float *room = guarded_rows(grid->n_value);

    for (size_t i = 0; i < n_plane; i++) {
        planes[i] = (float)i;
    }
    CHECK(pf_patches_from_planes(&shape->layout, planes, shape->n_frame, shape->size,
                  room + MARGIN) == PF_OK);
    check_margins(room, grid->n_value);
    for (size_t i = 0; i < grid->n_value; i++) {
        size_t f;
        size_t c;
        size_t p;

        place_of(shape, i, &f, &c, &p);
        CHECK(memcmp(&room[MARGIN + i], &planes[(3 * f + c) * n_px + p],
                      sizeof *planes) == 0);
    }
    free(room);
    free(planes);
}

static void
test_rows(void)
{
    static const int64_t sides[] = {1, 2, 3, 7, 8, 9, 14, 15, 16, 17, 23, 31, 33, 64};
    static const struct shape shapes[] = {
            {0, {8, 8}, {{4, 4}, 2, 2}},
            {1, {1, 1}, {{1, 1}, 1, 1}},
            {1, {7, 7}, {{7, 7}, 1, 5}},
            {3, {12, 18}, {{2, 3}, 3, 1}},
            {5, {28, 56}, {{14, 14}, 2, 2}},
            {4, {64, 32}, {{16, 16}, 2, 2}},
            {2, {13, 97}, {{13, 97}, 1, 1}}, /* whole frames */
            {7, {11, 30}, {{11, 5}, 1, 3}},
    };
    pf_patch_grid grid;

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        CHECK(pf_patches_plan(&shapes[i].layout, shapes[i].n_frame, shapes[i].size,
                      &grid) == PF_OK);
        check_rgb(&shapes[i], &grid, true);
        check_rgb(&shapes[i], &grid, false);
        check_planes(&shapes[i], &grid);
    }
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const struct shape shape = {
                3, {2 * 3, 2 * sides[i]}, {{3, sides[i]}, 1 + i % 2, 2}};

        CHECK(pf_patches_plan(&shape.layout, shape.n_frame, shape.size, &grid) ==
                PF_OK);
        check_rgb(&shape, &grid, true);
        check_rgb(&shape, &grid, false);
        check_planes(&shape, &grid);
    }
}

static void
test_plan(void)
{
    const pf_size size = {28, 56};
    const pf_patch_layout good = {{14, 14}, 2, 2};
    pf_patch_layout bad = good;
    pf_patch_grid grid;

    CHECK(pf_patches_plan(&good, 3, size, &grid) == PF_OK);
    CHECK(grid.time == 2 && grid.down == 2 && grid.across == 4);
    CHECK(grid.row_values == 3 * 2 * 14 * 14 && grid.n_value == 16 * 1176);
    CHECK(pf_patches_plan(&good, 0, size, &grid) == PF_OK && grid.n_value == 0);
    CHECK(pf_patches_plan(&good, 1, (pf_size){28, 55}, &grid) == PF_EINVAL);
    CHECK(pf_patches_plan(&good, 1, (pf_size){14, 56}, &grid) == PF_EINVAL);
    CHECK(pf_patches_plan(&good, 1, (pf_size){0, 56}, &grid) == PF_EINVAL);
    CHECK(pf_patches_plan(&good, SIZE_MAX, size, &grid) == PF_EOVERFLOW);
    CHECK(pf_patches_plan(&good, INT64_MAX / 4, size, &grid) == PF_EOVERFLOW);
    bad.patch.width_px = 0;
    CHECK(pf_patches_plan(&bad, 1, size, &grid) == PF_EINVAL);
    bad = good;
    bad.merge = -1;
    CHECK(pf_patches_plan(&bad, 1, size, &grid) == PF_EINVAL);
    bad.merge = INT64_MAX;
    CHECK(pf_patches_plan(&bad, 1, size, &grid) == PF_EOVERFLOW);
    bad = good;
    bad.depth_frames = 0;
    CHECK(pf_patches_plan(&bad, 1, size, &grid) == PF_EINVAL);
    bad.depth_frames = INT64_MAX;
    CHECK(pf_patches_plan(&bad, 1, size, &grid) == PF_EOVERFLOW);
    bad.depth_frames = INT64_MAX / 4;
    CHECK(pf_patches_plan(&bad, 1, size, &grid) == PF_EOVERFLOW);
}

int
main(void)
{
    test_plan();
    test_rows();
    return check_report("patches");
}

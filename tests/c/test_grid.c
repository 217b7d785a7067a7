/* test_grid.c - grids and samplers without Python: known values, limits, margins. */
#include "check.h"

#include "grid/grid.h"
#include "grid/samplers.h"

#include <math.h>
#include <string.h>

enum { MARGIN = 8, ROOM = 256 };
#define POISON INT64_C(-0x5a5a5a5a5a5a5a5b)

typedef struct guarded {
    int64_t before[MARGIN];
    int64_t value[ROOM];
    int64_t after[MARGIN];
} guarded;

static void
poison(guarded *out)
{
    for (int k = 0; k < MARGIN; k++) {
        out->before[k] = POISON;
        out->after[k] = POISON;
    }
    for (int k = 0; k < ROOM; k++) {
        out->value[k] = POISON;
    }
}

/* whether exactly the first n_written values were written */
static bool
only_wrote(const guarded *out, int64_t n_written)
{
    for (int k = 0; k < MARGIN; k++) {
        if (out->before[k] != POISON || out->after[k] != POISON) {
            return false;
        }
    }
    for (int64_t k = 0; k < ROOM; k++) {
        if ((out->value[k] == POISON) != (k >= n_written)) {
            return false;
        }
    }
    return true;
}

static bool
equal(const guarded *out, const int64_t *want, int64_t n_want)
{
    return only_wrote(out, n_want) &&
           memcmp(out->value, want, (size_t)n_want * sizeof *want) == 0;
}

static void
test_grid_equals_the_rule(void)
{
    static const int64_t clips[] = {1, 2, 3, 7, 8, 24, 61, 97, 300, 1000003};
    static const pf_fraction origins[] = {{0, 1}, {1, 2}, {1, 3}, {996, 997}};
    guarded out;

    for (size_t c = 0; c < sizeof clips / sizeof *clips; c++) {
        for (size_t o = 0; o < sizeof origins / sizeof *origins; o++) {
            for (int64_t b = 1; b <= 13; b++) {
                const pf_grid grid = {b, b % 4 + 1, origins[o]};
                const int64_t n_phase = grid.n_phase;
                const int64_t unit = n_phase * b * grid.origin.den;
                bool same = true;

                poison(&out);
                CHECK(pf_grid_indices(clips[c], &grid, out.value) == PF_OK);
                CHECK(only_wrote(&out, n_phase * b));
                for (int64_t j = 0; j < n_phase * b; j++) {
                    const int64_t at = j * grid.origin.den + grid.origin.num;

                    same = same && out.value[j % n_phase * b + j / n_phase] ==
                                           at * clips[c] / unit;
                }
                CHECK(same);
            }
        }
    }
}

static void
test_grid_limits(void)
{
    const int64_t top = INT64_MAX;
    guarded out;
    int64_t n_dense = -1;
    pf_grid grid = {2, 1, {0, 1}};

    poison(&out);
    CHECK(pf_grid_indices(top, &grid, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, top / 2}, 2));
    grid = (pf_grid){1, 1, {top - 1, top}}; /* (top - 1) / top of top frames */
    poison(&out);
    CHECK(pf_grid_indices(top, &grid, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){top - 1}, 1));
    grid = (pf_grid){1, 3, {top / 3 - 1, top / 3}};
    poison(&out);
    CHECK(pf_grid_indices(3, &grid, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 1, 2}, 3));

    CHECK(pf_grid_count(&(pf_grid){1, top, {0, 1}}, &n_dense) == PF_OK);
    CHECK(n_dense == top);
    CHECK(pf_grid_count(&(pf_grid){2, top, {0, 1}}, &n_dense) == PF_EOVERFLOW);
    CHECK(pf_grid_count(&(pf_grid){1, 2, {0, top}}, &n_dense) == PF_EOVERFLOW);
    CHECK(pf_grid_count(&(pf_grid){0, 1, {0, 1}}, &n_dense) == PF_EINVAL);
    CHECK(pf_grid_count(&(pf_grid){1, -1, {0, 1}}, &n_dense) == PF_EINVAL);
    CHECK(pf_grid_count(&(pf_grid){1, 1, {0, 0}}, &n_dense) == PF_EINVAL);
    CHECK(pf_grid_count(&(pf_grid){1, 1, {-1, 2}}, &n_dense) == PF_EINVAL);
    CHECK(pf_grid_count(&(pf_grid){1, 1, {2, 2}}, &n_dense) == PF_EINVAL);
    CHECK(n_dense == top);
    grid = (pf_grid){1, 1, {0, 1}};
    poison(&out);
    CHECK(pf_grid_indices(0, &grid, out.value) == PF_EINVAL);
    CHECK(pf_grid_indices(INT64_MIN, &grid, out.value) == PF_EINVAL);
    CHECK(only_wrote(&out, 0));
}

static void
test_frames_at(void)
{
    const int64_t uneven[] = {-10, -9, -3, -3, 5};
    const int64_t wide[] = {INT64_MIN / 2, 0, INT64_MAX / 2};
    const int64_t back[] = {0, 2, 1};
    pf_timeline clip = {uneven, 5, 10}; /* times -10, -7.5, -5, ... 7.5 */
    pf_grid grid = {4, 2, {0, 1}};
    guarded out;

    poison(&out);
    CHECK(pf_grid_frames_at(&clip, &grid, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 1, 3, 4, 1, 3, 3, 4}, 8));
    clip = (pf_timeline){uneven, 1, -10}; /* no time at all */
    poison(&out);
    CHECK(pf_grid_frames_at(&clip, &grid, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 0, 0, 0, 0, 0, 0, 0}, 8));
    clip = (pf_timeline){wide, 3, INT64_MAX / 2};
    grid = (pf_grid){2, 1, {1, 2}};
    poison(&out);
    CHECK(pf_grid_frames_at(&clip, &grid, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 1}, 2));

    poison(&out);
    clip = (pf_timeline){wide, 3, INT64_MAX};
    CHECK(pf_grid_frames_at(&clip, &grid, out.value) == PF_EOVERFLOW);
    clip = (pf_timeline){back, 3, 5};
    CHECK(pf_grid_frames_at(&clip, &grid, out.value) == PF_EINVAL);
    clip = (pf_timeline){back, 2, 1};
    CHECK(pf_grid_frames_at(&clip, &grid, out.value) == PF_EINVAL);
    clip = (pf_timeline){back, 0, 1};
    CHECK(pf_grid_frames_at(&clip, &grid, out.value) == PF_EINVAL);
    clip = (pf_timeline){back, 2, 3};
    grid.n_phase = 0;
    CHECK(pf_grid_frames_at(&clip, &grid, out.value) == PF_EINVAL);
    CHECK(only_wrote(&out, 0));
}

static void
test_linspaces(void)
{
    guarded out;

    poison(&out);
    CHECK(pf_samplers_linspace(0, 299, PF_SAMPLERS_FLOOR, 8, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 42, 85, 128, 170, 213, 256, 299}, 8));
    poison(&out);
    CHECK(pf_samplers_linspace(0, 299, PF_SAMPLERS_ROUND, 8, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 43, 85, 128, 171, 214, 256, 299}, 8));
    poison(&out);
    CHECK(pf_samplers_linspace(7, 0, PF_SAMPLERS_ROUND, 1, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){7}, 1));
    poison(&out);
    CHECK(pf_samplers_linspace(0, -1, PF_SAMPLERS_FLOOR, 3, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, -1, -1}, 3));
    poison(&out);
    CHECK(pf_samplers_torch_linspace(299, 8, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 43, 85, 128, 171, 214, 256, 299}, 8));
    poison(&out);
    CHECK(pf_samplers_torch_linspace(INT32_MAX, 1, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0}, 1));
    poison(&out);
    CHECK(pf_samplers_torch_linspace(INT32_MAX, 3, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 1 << 30, INT64_C(1) << 31}, 3));

    poison(&out);
    CHECK(pf_samplers_linspace(0, 9, PF_SAMPLERS_ROUND, 0, out.value) == PF_EINVAL);
    CHECK(pf_samplers_linspace(0, INT64_MAX, PF_SAMPLERS_ROUND, 2, out.value) ==
            PF_EINVAL);
    CHECK(pf_samplers_linspace(INT64_MIN, 0, PF_SAMPLERS_ROUND, 2, out.value) ==
            PF_EINVAL);
    CHECK(pf_samplers_torch_linspace(-1, 2, out.value) == PF_EINVAL);
    CHECK(pf_samplers_torch_linspace(INT64_MAX, 2, out.value) == PF_EINVAL);
    CHECK(pf_samplers_torch_linspace(9, -2, out.value) == PF_EINVAL);
    CHECK(only_wrote(&out, 0));
}

static void
test_arange(void)
{
    const double frames = 17.0;
    const int64_t want[] = {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, 15, 17};
    pf_samplers_range range = {0.0, frames, frames / 14.0};
    int64_t n_index = -1;
    guarded out;

    poison(&out);
    CHECK(pf_samplers_torch_arange_count(&range, &n_index) == PF_OK);
    CHECK(n_index == 15);
    CHECK(pf_samplers_torch_arange(&range, n_index, out.value) == PF_OK);
    CHECK(equal(&out, want, 15));
    for (int64_t n = 0; n <= 67; n++) { /* every mix of lots and left-overs */
        bool same = true;

        range = (pf_samplers_range){0.25, 0.25 + 3.0 * (double)n, 3.0};
        poison(&out);
        CHECK(pf_samplers_torch_arange_count(&range, &n_index) == PF_OK);
        CHECK(n_index == n);
        CHECK(pf_samplers_torch_arange(&range, n, out.value) == PF_OK);
        CHECK(only_wrote(&out, n));
        for (int64_t i = 0; i < n; i++) {
            same = same && out.value[i] == 3 * i;
        }
        CHECK(same);
        CHECK(pf_samplers_torch_arange(&range, n + 1, out.value) == PF_EINVAL);
    }
    range = (pf_samplers_range){0.0, NAN, 1.0};
    CHECK(pf_samplers_torch_arange_count(&range, &n_index) == PF_EDOMAIN);
    range = (pf_samplers_range){0.0, 9.0, INFINITY};
    CHECK(pf_samplers_torch_arange(&range, 1, out.value) == PF_EDOMAIN);
    range = (pf_samplers_range){0.0, 9.0, -1.0};
    CHECK(pf_samplers_torch_arange_count(&range, &n_index) == PF_EINVAL);
    range = (pf_samplers_range){10.0, 9.0, 1.0};
    CHECK(pf_samplers_torch_arange_count(&range, &n_index) == PF_EINVAL);
    range = (pf_samplers_range){0.0, 4e9, 1.0};
    CHECK(pf_samplers_torch_arange_count(&range, &n_index) == PF_EINVAL);
    range = (pf_samplers_range){0.0, 9.0, 5e-324};
    CHECK(pf_samplers_torch_arange_count(&range, &n_index) == PF_EOVERFLOW);
}

static void
test_multiples_and_segments(void)
{
    guarded out;

    poison(&out);
    CHECK(pf_samplers_multiples(1, 300.0 / 9.0, 8, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){33, 66, 100, 133, 166, 200, 233, 266}, 8));
    poison(&out);
    CHECK(pf_samplers_segments(7, 8, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 1, 2, 3, 4, 4, 5, 6}, 8));
    poison(&out);
    CHECK(pf_samplers_segments(0, 3, out.value) == PF_OK);
    CHECK(equal(&out, (const int64_t[]){0, 0, 0}, 3));

    poison(&out);
    CHECK(pf_samplers_multiples(0, NAN, 8, out.value) == PF_EDOMAIN);
    CHECK(pf_samplers_multiples(0, -1.0, 8, out.value) == PF_EINVAL);
    CHECK(pf_samplers_multiples(-1, 1.0, 8, out.value) == PF_EINVAL);
    CHECK(pf_samplers_multiples(0, 1.0, 0, out.value) == PF_EINVAL);
    CHECK(pf_samplers_multiples(0, 1e300, 8, out.value) == PF_EOVERFLOW);
    CHECK(pf_samplers_multiples(INT64_MAX, 0.0, 8, out.value) == PF_EOVERFLOW);
    CHECK(pf_samplers_segments(-1, 3, out.value) == PF_EINVAL);
    CHECK(pf_samplers_segments(INT64_MAX, 3, out.value) == PF_EINVAL);
    CHECK(pf_samplers_segments(3, 0, out.value) == PF_EINVAL);
    CHECK(only_wrote(&out, 0));
}

int
main(void)
{
    test_grid_equals_the_rule();
    test_grid_limits();
    test_frames_at();
    test_linspaces();
    test_arange();
    test_multiples_and_segments();
    return check_report("grid");
}

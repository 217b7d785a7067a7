/* test_frames.c - weights, resize and normalise without Python: every level against
 * the definition, with guarded outputs, exact source buffers and failing allocations.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parallel.h"
#include "check.h"
#include "full_memory.h"
#include "frames/batch.h"

#define MARGIN 64
#define POISON 0xa5

static uint32_t random_state = 12345;

static uint32_t
random_bits(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static const pf_filter filters[] = {PF_FILTER_BOX, PF_FILTER_BILINEAR,
        PF_FILTER_HAMMING, PF_FILTER_BICUBIC, PF_FILTER_LANCZOS};
#define N_FILTER (sizeof filters / sizeof *filters)

/* What the kernels rely on: sums that fit an int32, digits that fit an int8. */
static void
check_weights(const pf_axis *axis)
{
    int32_t end = 0;

    for (int64_t x = 0; x < axis->dst_px; x++) {
        const int32_t *weight = axis->weight + (size_t)x * axis->stride;
        const int32_t n_tap = axis->n_tap[x];
        int64_t above = 0;
        int64_t below = 0;

        CHECK(n_tap >= 1 && n_tap <= axis->n_tap_max);
        CHECK(axis->first_px[x] >= 0 && axis->first_px[x] + n_tap <= axis->src_px);
        CHECK(x == 0 || axis->first_px[x] >= axis->first_px[x - 1]);
        CHECK(axis->first_px[x] + n_tap >= end);
        end = axis->first_px[x] + n_tap;
        for (size_t i = 0; i < axis->stride; i++) {
            *(weight[i] > 0 ? &above : &below) += weight[i];
            CHECK(abs(weight[i]) <= 127 * 65536 + 127 * 256 + 127);
            CHECK(i < (size_t)n_tap || weight[i] == 0);
            CHECK(i == 0 || abs(weight[i - 1]) + abs(weight[i]) <= 127 * 65536);
        }
        CHECK(255 * above + (1 << (PF_WEIGHT_BITS - 1)) <= INT32_MAX);
        CHECK(255 * below >= INT32_MIN);
        CHECK(llabs(above + below - (1 << PF_WEIGHT_BITS)) <= n_tap);
    }
}

static void
test_axis(void)
{
    static const int64_t sizes[] = {
            1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 64, 97, 255, 448, 1021};
    const size_t n_size = sizeof sizes / sizeof *sizes;
    pf_axis axis;

    for (size_t f = 0; f < N_FILTER; f++) {
        for (size_t i = 0; i < n_size * n_size; i++) {
            const pf_status st = pf_axis_init(
                    &axis, sizes[i / n_size], sizes[i % n_size], filters[f]);

            CHECK(st == PF_OK);
            check_weights(&axis);
            pf_axis_free(&axis);
        }
    }
    CHECK(pf_axis_init(&axis, 0, 1, PF_FILTER_BOX) == PF_EINVAL);
    CHECK(pf_axis_init(&axis, 1, -1, PF_FILTER_BOX) == PF_EINVAL);
    CHECK(pf_axis_init(&axis, 1, 1, (pf_filter)5) == PF_EINVAL);
    CHECK(pf_axis_init(&axis, PF_AXIS_MAX_PX + 1, 1, PF_FILTER_BOX) == PF_EOVERFLOW);
    CHECK(pf_axis_init(&axis, 1, INT64_MAX, PF_FILTER_BOX) == PF_EOVERFLOW);
    pf_axis_free(&axis); /* after a failure, and twice */
    pf_axis_free(&axis);
}

static void
test_names(void)
{
    pf_filter filter = PF_FILTER_BOX;
    pf_cpu_level level = PF_CPU_SCALAR;

    CHECK(pf_filter_parse("lanczos", &filter) == PF_OK && filter == PF_FILTER_LANCZOS);
    CHECK(pf_filter_parse("nearest", &filter) == PF_EINVAL);
    CHECK(pf_cpu_level_parse("auto", &level) == PF_OK && level == pf_cpu_best());
    CHECK(pf_cpu_level_parse("scalar", &level) == PF_OK && level == PF_CPU_SCALAR);
    CHECK(pf_cpu_level_parse("sse", &level) == PF_EINVAL);
    for (int i = PF_CPU_SCALAR; i <= PF_CPU_AVX512; i++) {
        const pf_status st = pf_cpu_level_parse(pf_cpu_level_name(i), &level);

        CHECK(st == ((pf_cpu_level)i <= pf_cpu_best() ? PF_OK : PF_EBACKEND));
    }
}

static void
count_share(void *context, size_t share)
{
    ((int *)context)[share]++;
}

static atomic_bool is_released;

static void
release(void *context)
{
    (void)context;
    atomic_store(&is_released, true);
}

/* On a thread of its own, share 1 lasts until the one that waits for it has looked up.
 */
static void
wait_for_release(void *context, size_t share)
{
    count_share(context, share);
    for (int i = 0; share == 1 && i < 10000 && !atomic_load(&is_released); i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void
test_parallel(void)
{
    int count[9] = {0};
    int waited[3] = {0};

    pf_parallel_run(3, wait_for_release, release, waited);
    CHECK(waited[0] == 1 && waited[1] == 1 && waited[2] == 1);
    CHECK(atomic_load(&is_released));
    pf_parallel_run(9, count_share, NULL, count);
    pf_parallel_run(1, count_share, release, count);
    pf_parallel_run(0, count_share, NULL, count);
    n_until_failure = 0; /* no room for the list of threads: all on this one */
    pf_parallel_run(3, count_share, release, count);
    n_until_failure = -1;
    CHECK(count[0] == 3 && count[1] == 2 && count[2] == 2);
    for (size_t i = 3; i < 9; i++) {
        CHECK(count[i] == 1);
    }
}

/* One image by the definition, with no window, block or table. */
static void
one_pass(const pf_axis *axis, const uint8_t *src, size_t src_step, uint8_t *dst,
        size_t dst_step)
{
    for (size_t x = 0; x < (size_t)axis->dst_px; x++) {
        int64_t sum = 1 << (PF_WEIGHT_BITS - 1);

        for (size_t i = 0; i < (size_t)axis->n_tap[x]; i++) {
            sum += (int64_t)axis->weight[x * axis->stride + i] *
                   src[((size_t)axis->first_px[x] + i) * src_step];
        }
        sum >>= PF_WEIGHT_BITS;
        dst[x * dst_step] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

static uint8_t *
resize_axis(
        const uint8_t *src, pf_size size, int64_t dst_px, bool across, pf_filter filter)
{
    const size_t width = 3 * (size_t)size.width_px;
    const size_t height = (size_t)size.height_px;
    const size_t new_width = across ? 3 * (size_t)dst_px : width;
    const size_t new_height = across ? height : (size_t)dst_px;
    uint8_t *dst = malloc(new_width * new_height);
    pf_axis axis;

    if (dst_px == (across ? size.width_px : size.height_px)) {
        memcpy(dst, src, width * height);
        return dst;
    }
    CHECK(pf_axis_init(&axis, across ? size.width_px : size.height_px, dst_px,
                  filter) == PF_OK);
    for (size_t y = 0; across && y < height; y++) {
        for (size_t c = 0; c < 3; c++) {
            one_pass(&axis, src + y * width + c, 3, dst + y * new_width + c, 3);
        }
    }
    for (size_t x = 0; !across && x < width; x++) {
        one_pass(&axis, src + x, width, dst + x, width);
    }
    pf_axis_free(&axis);
    return dst;
}

static uint8_t *
resize_by_definition(const uint8_t *src, pf_size from, pf_size to,
        const pf_resize_options *options, bool vertical_first)
{
    uint8_t *half;
    uint8_t *whole;

    if (vertical_first) {
        half = resize_axis(src, from, to.height_px, false, options->filter);
        from.height_px = to.height_px;
        whole = resize_axis(half, from, to.width_px, true, options->filter);
    }
    else {
        half = resize_axis(src, from, to.width_px, true, options->filter);
        from.width_px = to.width_px;
        whole = resize_axis(half, from, to.height_px, false, options->filter);
    }
    free(half);
    return whole;
}

static bool
is_poisoned(const uint8_t *memory)
{
    for (size_t i = 0; i < MARGIN; i++) {
        if (memory[i] != POISON) {
            return false;
        }
    }
    return true;
}

/* memory of n_bytes between two margins, all poisoned */
static uint8_t *
guarded(size_t n_bytes)
{
    uint8_t *memory = malloc(n_bytes + 2 * MARGIN);

    memset(memory, POISON, n_bytes + 2 * MARGIN);
    return memory;
}

static void
check_image(
        const pf_resize_plan *plan, const pf_image_src *src, const uint8_t *expected)
{
    const size_t n_bytes = 3 * (size_t)plan->dst.width_px * (size_t)plan->dst.height_px;
    uint8_t *memory = guarded(n_bytes);
    const pf_image_dst dst = {
            memory + MARGIN, plan->dst, 3 * (ptrdiff_t)plan->dst.width_px};
    pf_resize_scratch scratch;

    CHECK(pf_resize_scratch_init(&scratch, plan) == PF_OK);
    CHECK(pf_resize_run(plan, &scratch, src, &dst) == PF_OK);
    CHECK(memcmp(memory + MARGIN, expected, n_bytes) == 0);
    CHECK(is_poisoned(memory) && is_poisoned(memory + MARGIN + n_bytes));
    pf_resize_scratch_free(&scratch);
    free(memory);
}

static void
check_planes(
        const pf_resize_plan *plan, const pf_image_src *src, const uint8_t *expected)
{
    static const float mean[3] = {0.48145466f, 0.4578275f, 0.40821073f};
    static const float std[3] = {0.26862954f, -0.26130258f, 1e-3f};
    const size_t n_px = (size_t)plan->dst.width_px * (size_t)plan->dst.height_px;
    const size_t n_bytes = 3 * n_px * sizeof(float);
    uint8_t *memory = guarded(n_bytes);
    const float *planes = (const float *)(const void *)(memory + MARGIN);
    pf_resize_scratch scratch;
    pf_normalise normalise;
    bool equal = true;

    CHECK(pf_normalise_init(&normalise, mean, std) == PF_OK);
    CHECK(pf_resize_scratch_init(&scratch, plan) == PF_OK);
    CHECK(pf_resize_normalise_run(plan, &scratch, src, &normalise,
                  (float *)(void *)(memory + MARGIN)) == PF_OK);
    for (size_t i = 0; i < 3 * n_px; i++) {
        const size_t c = i / n_px;
        volatile float v = expected[3 * (i % n_px) + c]; /* no fused multiply-add */

        v *= (float)(1.0 / 255.0);
        v -= mean[c];
        v /= std[c];
        equal = equal && planes[i] == v;
    }
    CHECK(equal);
    CHECK(is_poisoned(memory) && is_poisoned(memory + MARGIN + n_bytes));
    pf_resize_scratch_free(&scratch);
    free(memory);
}

/* Rows of exactly their bytes, last row first, so that a read outside is seen. */
static void
check_resize(pf_size from, pf_size to, const pf_resize_options *options)
{
    const size_t row_bytes = 3 * (size_t)from.width_px;
    const size_t n_bytes = row_bytes * (size_t)from.height_px;
    const bool loses = from.height_px > to.height_px;
    const bool vertical_first =
            options->first_pass == PF_FIRST_VERTICAL ||
            (options->first_pass == PF_FIRST_AUTO && loses &&
                    from.height_px - to.height_px > 2 * (from.width_px - to.width_px));
    uint8_t *rgb = malloc(n_bytes);
    uint8_t *flipped = malloc(n_bytes);
    const pf_image_src src = {rgb, from, (ptrdiff_t)row_bytes};
    const pf_image_src upwards = {
            flipped + n_bytes - row_bytes, from, -(ptrdiff_t)row_bytes};
    uint8_t *expected;
    pf_resize_plan plan;

    for (size_t i = 0; i < n_bytes; i++) {
        rgb[i] = (uint8_t)(random_bits() % 3 == 0 ? random_bits()
                                                  : -(random_bits() & 1));
    }
    for (size_t y = 0; y < (size_t)from.height_px; y++) {
        memcpy(flipped + n_bytes - (y + 1) * row_bytes, rgb + y * row_bytes, row_bytes);
    }
    expected = resize_by_definition(rgb, from, to, options, vertical_first);
    CHECK(pf_resize_plan_init(&plan, from, to, options) == PF_OK);
    check_image(&plan, &src, expected);
    check_image(&plan, &upwards, expected);
    check_planes(&plan, &src, expected);
    pf_resize_plan_free(&plan);
    pf_resize_plan_free(&plan);
    free(expected);
    free(flipped);
    free(rgb);
}

static void
test_resize(void)
{
    static const int64_t sizes[] = {1, 2, 5, 23, 64, 131};
    const size_t n_size = sizeof sizes / sizeof *sizes;
    size_t turn = 0;

    for (size_t i = 0; i < n_size * n_size * n_size * n_size; i++) {
        const pf_size from = {sizes[i % n_size], sizes[i / n_size % n_size]};
        const pf_size to = {sizes[i / n_size / n_size % n_size],
                sizes[i / n_size / n_size / n_size]};

        for (int level = PF_CPU_SCALAR; level <= (int)pf_cpu_best(); level++, turn++) {
            const pf_resize_options options = {filters[turn % N_FILTER],
                    (pf_first_pass)(turn / N_FILTER % 3), (pf_cpu_level)level};

            check_resize(from, to, &options);
        }
    }
}

/* Every group layout of the widest level: scales up to hundreds. */
static void
test_scales(void)
{
    static const int64_t widths[] = {129, 199, 333, 450, 700, 1000, 2000, 9001};

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        for (int level = PF_CPU_SCALAR; level <= (int)pf_cpu_best(); level++) {
            for (size_t f = 0; f < N_FILTER; f++) {
                const pf_resize_options options = {
                        filters[f], PF_FIRST_AUTO, (pf_cpu_level)level};

                check_resize((pf_size){6, widths[i]}, (pf_size){6, 67}, &options);
                check_resize((pf_size){widths[i], 3}, (pf_size){41, 3}, &options);
            }
        }
    }
}

/* Rows that end anywhere in what a level loads and holds at a time, and blocks of rows
 * that end anywhere. */
static void
test_ends(void)
{
    for (int64_t width = 17; width < 400; width++) {
        for (int level = PF_CPU_AVX2; level <= (int)pf_cpu_best(); level++) {
            const pf_resize_options options = {
                    PF_FILTER_BILINEAR, PF_FIRST_AUTO, (pf_cpu_level)level};
            const pf_size from = {1 + width % 18, width};

            check_resize(from, (pf_size){3, 1 + width * 2 / 3}, &options);
            check_resize(from, (pf_size){20, 1 + width / 5}, &options);
        }
    }
}

static void
test_bad_plans(void)
{
    const pf_size one = {1, 1};
    const pf_size huge = {PF_AXIS_MAX_PX, PF_AXIS_MAX_PX};
    pf_resize_options options = {PF_FILTER_BOX, PF_FIRST_AUTO, PF_CPU_SCALAR};
    pf_resize_scratch scratch;
    pf_resize_plan plan;
    uint8_t rgb[6] = {0};
    const pf_image_src src = {rgb, {1, 2}, 6};
    const pf_image_dst dst = {rgb, {2, 1}, 3};

    CHECK(pf_resize_plan_init(&plan, (pf_size){0, 1}, one, &options) == PF_EINVAL);
    CHECK(pf_resize_plan_init(&plan, one, (pf_size){1, 0}, &options) == PF_EINVAL);
    CHECK(pf_resize_plan_init(&plan, one, (pf_size){1, PF_AXIS_MAX_PX + 1}, &options) ==
            PF_EOVERFLOW);
    if (sizeof(size_t) == 4) {
        CHECK(pf_resize_plan_init(&plan, one, huge, &options) == PF_EOVERFLOW);
    }
    options.level = (pf_cpu_level)(pf_cpu_best() + 1);
    CHECK(pf_resize_plan_init(&plan, one, one, &options) == PF_EBACKEND);
    pf_resize_plan_free(&plan);
    options.level = PF_CPU_SCALAR;
    CHECK(pf_resize_plan_init(&plan, one, one, &options) == PF_OK);
    CHECK(pf_resize_scratch_init(&scratch, &plan) == PF_OK);
    CHECK(pf_resize_run(&plan, &scratch, &src, &dst) == PF_EINVAL);
    CHECK(pf_resize_normalise_run(&plan, &scratch, &src, NULL, NULL) == PF_EINVAL);
    pf_resize_scratch_free(&scratch);
    pf_resize_scratch_free(&scratch);
    pf_resize_plan_free(&plan);
}

static void
test_bad_normalise(void)
{
    const float one[3] = {1.0f, 1.0f, 1.0f};
    const float zero[3] = {1.0f, 1.0f, -0.0f};
    const float nan[3] = {1.0f, NAN, 1.0f};
    const float infinite[3] = {-INFINITY, 1.0f, 1.0f};
    pf_normalise normalise;

    CHECK(pf_normalise_init(&normalise, zero, one) == PF_OK);
    CHECK(pf_normalise_init(&normalise, one, zero) == PF_EINVAL);
    CHECK(pf_normalise_init(&normalise, nan, one) == PF_EDOMAIN);
    CHECK(pf_normalise_init(&normalise, one, infinite) == PF_EDOMAIN);
}

/* Plan and batch with the n-th allocation failing, for every n until none does. */
static void
check_failing_allocations(const pf_resize_options *options, pf_size to)
{
    const pf_size from = {19, 90};
    const size_t n_out = 3 * (size_t)to.height_px * (size_t)to.width_px;
    uint8_t *rgb = calloc(19, 3 * 90);
    uint8_t *out = calloc(2, n_out);
    const uint8_t *const frames[2] = {rgb, rgb};
    const pf_batch_src src = {frames, 2, from, 3 * 90};
    const pf_batch_dst dst = {.rgb = out};
    pf_status st = PF_ENOMEM;

    for (size_t i = 0; i < 19 * 3 * 90; i++) {
        rgb[i] = 200;
    }
    for (long n = 0; st != PF_OK && n < 100; n++) {
        pf_resize_plan plan;

        memset(out, POISON, 2 * n_out);
        n_until_failure = n;
        st = pf_resize_plan_init(&plan, from, to, options);
        if (st == PF_OK) {
            st = pf_batch_resize(&plan, &src, &dst, 3);
        }
        if (n_until_failure >= 0) {
            n_until_failure = -1;
            CHECK(st == PF_OK);
            CHECK(n > 1); /* something did fail before */
        }
        else {
            CHECK(st == PF_ENOMEM || st == PF_OK); /* OK: done without threads */
        }
        for (size_t i = 0; i < 2 * n_out; i++) {
            CHECK(out[i] == (st == PF_OK ? 200 : POISON));
        }
        pf_resize_plan_free(&plan);
    }
    CHECK(st == PF_OK);
    free(out);
    free(rgb);
}

static void
test_failing_allocations(void)
{
    for (int level = PF_CPU_SCALAR; level <= (int)pf_cpu_best(); level++) {
        for (int first = PF_FIRST_AUTO; first <= PF_FIRST_VERTICAL; first++) {
            const pf_resize_options options = {
                    PF_FILTER_BILINEAR, (pf_first_pass)first, (pf_cpu_level)level};

            check_failing_allocations(&options, (pf_size){7, 40});
            check_failing_allocations(&options, (pf_size){19, 40});
            check_failing_allocations(&options, (pf_size){7, 90});
        }
    }
}

static void
test_bad_batches(void)
{
    const pf_resize_options options = {PF_FILTER_BOX, PF_FIRST_AUTO, PF_CPU_SCALAR};
    pf_batch_src src = {NULL, 0, {2, 2}, 6};
    const pf_batch_dst dst = {0};
    pf_resize_plan plan;

    CHECK(pf_resize_plan_init(&plan, src.size, (pf_size){3, 3}, &options) == PF_OK);
    CHECK(pf_batch_resize(&plan, &src, &dst, 1) == PF_OK); /* no frames */
    CHECK(pf_batch_resize(&plan, &src, &dst, 0) == PF_EINVAL);
    src.n_frame = SIZE_MAX / 3;
    CHECK(pf_batch_resize(&plan, &src, &dst, 1) == PF_EOVERFLOW);
    src.n_frame = SIZE_MAX / 100;
    CHECK(pf_batch_resize(&plan, &src, &dst, 1) == PF_EOVERFLOW);
    src.size.width_px = 3;
    CHECK(pf_batch_resize(&plan, &src, &dst, 1) == PF_EINVAL);
    pf_resize_plan_free(&plan);
}

int
main(void)
{
    test_axis();
    test_names();
    test_parallel();
    test_resize();
    test_scales();
    test_ends();
    test_bad_plans();
    test_bad_normalise();
    test_failing_allocations();
    test_bad_batches();
    return check_report("frames");
}

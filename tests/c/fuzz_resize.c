/* fuzz_resize.c - sizes, strides, filters, levels and threads from any bytes: every
 * level must give what the scalar one gives, and touch nothing else (make fuzz). */
#include <stdlib.h>
#include <string.h>

#include "frames/batch.h"

#define MARGIN 64
#define POISON 0xa5
#define MAX_PX                                                                         \
    40000 /* of a picture, before and after: a run should take milliseconds */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_byte);

/* What is left of the input; zeros after its end. */
struct input {
    const uint8_t *data;
    size_t n_byte;
};

static uint32_t
take(struct input *input)
{
    if (input->n_byte == 0) {
        return 0;
    }
    input->n_byte--;
    return *input->data++;
}

static void
require(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

/* Most often a small number, now and then one of thousands. */
static int64_t
take_px(struct input *input)
{
    const uint32_t v = take(input);

    return v < 224 ? 1 + (int64_t)v : 1 + (int64_t)((v - 224) << 8 | take(input));
}

static pf_size
take_size(struct input *input)
{
    pf_size size = {take_px(input), take_px(input)};

    while (size.height_px * size.width_px > MAX_PX) {
        size.height_px = (size.height_px + 1) / 2;
    }
    return size;
}

/* Makes the size that is wanted smaller until the pictures between the passes,
 * whichever comes first, are not much larger than the others. */
static pf_size
limit_size(pf_size to, pf_size from)
{
    while (to.height_px * from.width_px > 4 * MAX_PX) {
        to.height_px = (to.height_px + 1) / 2;
    }
    while (to.width_px * from.height_px > 4 * MAX_PX) {
        to.width_px = (to.width_px + 1) / 2;
    }
    return to;
}

static uint8_t *
take_memory(size_t n_bytes)
{
    uint8_t *memory = malloc(n_bytes);

    require(memory != NULL);
    memset(memory, POISON, n_bytes);
    return memory;
}

static bool
is_poisoned(const uint8_t *memory, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (memory[i] != POISON) {
            return false;
        }
    }
    return true;
}

/* One geometry and the pictures for it. */
struct job {
    pf_size from;
    pf_size to;
    pf_resize_options options;
    size_t n_thread;
    size_t n_frame;
    size_t gap_bytes; /* between the rows of the source, and of an image */
    bool upwards;     /* last row first */
    uint8_t *source;
    const uint8_t *frame[2];
    ptrdiff_t row_bytes;
    pf_normalise normalise;
};

/* Every frame ends with its last row: a read beyond it is one beyond the block. */
static void
make_source(struct job *job, struct input *input)
{
    const size_t height = (size_t)job->from.height_px;
    const size_t width_bytes = 3 * (size_t)job->from.width_px;
    const size_t stride = width_bytes + job->gap_bytes;
    const size_t frame_bytes = stride * (height - 1) + width_bytes;
    uint32_t state = take(input) << 8 | 1;

    job->source = take_memory(job->n_frame * frame_bytes);
    for (size_t i = 0; i < job->n_frame * frame_bytes; i++) {
        state = state * 1664525u + 1013904223u;
        job->source[i] = (uint8_t)(input->n_byte > 0 ? take(input) : state >> 24);
        if (state >> 30 == 0) { /* extremes overshoot */
            job->source[i] = state >> 29 & 1 ? 255 : 0;
        }
    }
    job->row_bytes = job->upwards ? -(ptrdiff_t)stride : (ptrdiff_t)stride;
    for (size_t i = 0; i < job->n_frame; i++) {
        job->frame[i] = job->source + i * frame_bytes +
                        (job->upwards ? stride * (height - 1) : 0);
    }
}

/* The frames as bytes, or as floats when planes is set, between two margins. */
static uint8_t *
run_batch(const struct job *job, pf_cpu_level level, size_t n_thread, bool planes)
{
    const size_t n_value =
            job->n_frame * 3 * (size_t)job->to.height_px * (size_t)job->to.width_px;
    const size_t n_bytes = n_value * (planes ? sizeof(float) : 1);
    uint8_t *memory = take_memory(n_bytes + 2 * MARGIN);
    const pf_batch_src src = {job->frame, job->n_frame, job->from, job->row_bytes};
    const pf_batch_dst dst = {planes ? NULL : memory + MARGIN,
            planes ? (float *)(void *)(memory + MARGIN) : NULL, &job->normalise};
    pf_resize_options options = job->options;
    pf_resize_plan plan;

    options.level = level;
    require(pf_resize_plan_init(&plan, job->from, job->to, &options) == PF_OK);
    require(pf_batch_resize(&plan, &src, &dst, n_thread) == PF_OK);
    require(is_poisoned(memory, MARGIN));
    require(is_poisoned(memory + MARGIN + n_bytes, MARGIN));
    pf_resize_plan_free(&plan);
    return memory;
}

/* The first frame into an image with gaps between its rows. */
static void
check_image(const struct job *job, pf_cpu_level level, const uint8_t *expected)
{
    const size_t height = (size_t)job->to.height_px;
    const size_t width_bytes = 3 * (size_t)job->to.width_px;
    const size_t stride = width_bytes + job->gap_bytes;
    uint8_t *memory = take_memory(height * stride + 2 * MARGIN);
    const pf_image_src src = {job->frame[0], job->from, job->row_bytes};
    const pf_image_dst dst = {
            memory + MARGIN + (job->upwards ? stride * (height - 1) : 0), job->to,
            job->upwards ? -(ptrdiff_t)stride : (ptrdiff_t)stride};
    pf_resize_options options = job->options;
    pf_resize_scratch scratch;
    pf_resize_plan plan;

    options.level = level;
    require(pf_resize_plan_init(&plan, job->from, job->to, &options) == PF_OK);
    require(pf_resize_scratch_init(&scratch, &plan) == PF_OK);
    require(pf_resize_run(&plan, &scratch, &src, &dst) == PF_OK);
    require(is_poisoned(memory, MARGIN));
    for (size_t y = 0; y < height; y++) {
        const size_t at = MARGIN + y * stride;
        const size_t row = job->upwards ? height - 1 - y : y;

        require(memcmp(memory + at, expected + row * width_bytes, width_bytes) == 0);
        require(is_poisoned(memory + at + width_bytes, job->gap_bytes));
    }
    require(is_poisoned(memory + MARGIN + height * stride, MARGIN));
    pf_resize_scratch_free(&scratch);
    pf_resize_plan_free(&plan);
    free(memory);
}

static void
check_levels(const struct job *job)
{
    const size_t n_value =
            job->n_frame * 3 * (size_t)job->to.height_px * (size_t)job->to.width_px;
    uint8_t *bytes = run_batch(job, PF_CPU_SCALAR, 1, false);
    uint8_t *floats = run_batch(job, PF_CPU_SCALAR, 1, true);

    for (int i = PF_CPU_SCALAR; i <= (int)pf_cpu_best(); i++) {
        const pf_cpu_level level = (pf_cpu_level)i;
        uint8_t *same_bytes = run_batch(job, level, job->n_thread, false);
        uint8_t *same_floats = run_batch(job, level, job->n_thread, true);

        require(memcmp(bytes + MARGIN, same_bytes + MARGIN, n_value) == 0);
        require(memcmp(floats + MARGIN, same_floats + MARGIN,
                        n_value * sizeof(float)) == 0);
        check_image(job, level, bytes + MARGIN);
        free(same_floats);
        free(same_bytes);
    }
    free(floats);
    free(bytes);
}

/* Sizes of 64 bits as they come: a status, never a crash or a leak. */
static void
check_wild_plan(struct input *input, const pf_resize_options *options)
{
    int64_t px[4];
    pf_resize_plan plan;

    for (size_t i = 0; i < 4; i++) {
        const uint32_t shift = take(input) % 64;

        px[i] = (int64_t)((uint64_t)(take(input) << 8 | take(input)) << shift);
        if (px[i] > 1 << 16 && px[i] <= PF_AXIS_MAX_PX) {
            px[i] >>= 8; /* valid, and of a size that only takes time */
        }
    }
    if (pf_resize_plan_init(&plan, (pf_size){px[0], px[1]}, (pf_size){px[2], px[3]},
                options) != PF_OK) {
        require(plan.tables == NULL && plan.x.weight == NULL && plan.y.weight == NULL);
    }
    pf_resize_plan_free(&plan);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_byte)
{
    static const float means[3] = {0.48145466f, -0.4578275f, 1e-42f};
    static const float stds[3] = {0.26862954f, 1e-30f, -0.27577711f};
    struct input input = {data, n_byte};
    const uint32_t kind = take(&input);
    struct job job = {
            .options = {(pf_filter)(kind % 5), (pf_first_pass)(kind / 5 % 3),
                    (pf_cpu_level)(kind / 15 % ((uint32_t)pf_cpu_best() + 1))},
            .n_frame = 1 + take(&input) % 2,
    };
    const uint32_t threads = take(&input); /* starting them takes longest */

    if (kind >= 240) {
        check_wild_plan(&input, &job.options);
        return 0;
    }
    job.n_thread = threads < 200 ? 1 : threads % 5 + 1;
    job.from = take_size(&input);
    job.to = limit_size(take_size(&input), job.from);
    job.gap_bytes = take(&input) % 67;
    job.upwards = take(&input) % 2 != 0;
    require(pf_normalise_init(&job.normalise, means, stds) == PF_OK);
    make_source(&job, &input);
    check_levels(&job);
    free(job.source);
    return 0;
}

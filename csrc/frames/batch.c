/* batch.c - deals the rows of a batch out to threads. */
#include <stdlib.h>

#include "base/parallel.h"
#include "frames/batch.h"
#include "frames/kernels.h"

/* More threads than this would only wait for memory. */
#define MAX_THREADS 256

struct batch {
    const pf_resize_plan *plan;
    const pf_batch_src *src;
    const pf_batch_dst *dst;
    pf_resize_scratch *scratch; /* one a share */
    size_t n_share;
    size_t n_row; /* resized rows of all frames */
};

/* Rows first_row <= y < end_row of one frame. */
static void
run_frame(const struct batch *batch, size_t share, size_t i, int64_t first_row,
        int64_t end_row)
{
    const pf_size size = batch->plan->dst;
    const size_t frame_values = 3 * (size_t)size.height_px * (size_t)size.width_px;
    const pf_image_src src = {
            batch->src->frame[i], batch->src->size, batch->src->row_bytes};
    pf_image_dst image = {NULL, size, 3 * (ptrdiff_t)size.width_px};
    pf_resize_sink sink = {.normalise = batch->dst->normalise};

    if (batch->dst->planes != NULL) {
        sink.planes = batch->dst->planes + i * frame_values;
    }
    else {
        image.rgb = batch->dst->rgb + i * frame_values;
        sink.image = &image;
    }
    pf_resize_rows(
            batch->plan, &batch->scratch[share], &src, &sink, first_row, end_row);
}

/* The row, of all, at which a share starts. */
static size_t
share_start(const struct batch *batch, size_t share)
{
    const size_t rest = batch->n_row % batch->n_share;

    return batch->n_row / batch->n_share * share + (share < rest ? share : rest);
}

static void
run_share(void *context, size_t share)
{
    const struct batch *batch = context;
    const size_t height = (size_t)batch->plan->dst.height_px;
    const size_t end = share_start(batch, share + 1);

    for (size_t row = share_start(batch, share); row < end;) {
        const size_t i = row / height;
        const size_t frame_end = (i + 1) * height;
        const size_t stop = frame_end < end ? frame_end : end;

        run_frame(batch, share, i, (int64_t)(row - i * height),
                (int64_t)(stop - i * height));
        row = stop;
    }
}

pf_status
pf_batch_resize(const pf_resize_plan *plan, const pf_batch_src *src,
        const pf_batch_dst *dst, size_t n_thread)
{
    struct batch batch = {.plan = plan, .src = src, .dst = dst};
    size_t n_ready = 0;
    size_t n_values;
    pf_status st = PF_OK;

    if (n_thread < 1 || src->size.height_px != plan->src.height_px ||
            src->size.width_px != plan->src.width_px) {
        return PF_EINVAL;
    }
    if (!pf_mul_size(src->n_frame, (size_t)plan->dst.height_px, &batch.n_row) ||
            !pf_mul_size(batch.n_row, 3 * (size_t)plan->dst.width_px, &n_values) ||
            n_values > SIZE_MAX / sizeof(float)) {
        return PF_EOVERFLOW;
    }
    batch.n_share = n_thread < MAX_THREADS ? n_thread : MAX_THREADS;
    if (batch.n_share > batch.n_row) {
        batch.n_share = batch.n_row;
    }
    if (batch.n_share == 0) {
        return PF_OK;
    }
    batch.scratch = calloc(batch.n_share, sizeof *batch.scratch);
    if (batch.scratch == NULL) {
        return PF_ENOMEM;
    }
    for (; n_ready < batch.n_share && st == PF_OK; n_ready++) {
        st = pf_resize_scratch_init(&batch.scratch[n_ready], plan);
    }
    if (st == PF_OK) {
        pf_parallel_run(batch.n_share, run_share, NULL, &batch);
    }
    while (n_ready > 0) {
        pf_resize_scratch_free(&batch.scratch[--n_ready]);
    }
    free(batch.scratch);
    return st;
}

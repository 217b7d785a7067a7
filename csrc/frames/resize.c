/* resize.c - the plan, the window between the two passes, and one run. */
#include <stdlib.h>
#include <string.h>

#include "frames/kernels.h"
#include "frames/resize.h"

static const pf_resize_kernels *
select_kernels(pf_cpu_level level)
{
#if PF_X86
    if (level == PF_CPU_AVX512) {
        return &pf_resize_avx512;
    }
    if (level == PF_CPU_AVX2) {
        return &pf_resize_avx2;
    }
#endif
    (void)level;
    return &pf_resize_scalar;
}

static size_t
row_bytes(pf_size size)
{
    return 3 * (size_t)size.width_px;
}

/* From row to row of the scratch: whole vectors, with slack after the row. */
static size_t
padded_bytes(pf_size size)
{
    const size_t n_bytes = row_bytes(size) + PF_ROW_SLACK_BYTES;

    return (n_bytes + PF_VECTOR_BYTES - 1) / PF_VECTOR_BYTES * PF_VECTOR_BYTES;
}

void *
pf_aligned_zeros(size_t n, size_t item_bytes)
{
    size_t n_bytes;
    void *memory;

    if (!pf_mul_size(n, item_bytes, &n_bytes) || n_bytes > SIZE_MAX - PF_VECTOR_BYTES) {
        return NULL;
    }
    n_bytes = (n_bytes / PF_VECTOR_BYTES + 1) * PF_VECTOR_BYTES; /* never 0 */
    memory = aligned_alloc(PF_VECTOR_BYTES, n_bytes);
    if (memory != NULL) {
        memset(memory, 0, n_bytes);
    }
    return memory;
}

static bool
is_identity(const pf_axis *axis)
{
    return axis->dst_px == 0;
}

/* Everything that a run multiplies fits when the largest products do. */
static pf_status
check_sizes(pf_size src, pf_size dst)
{
    size_t n_bytes;

    if (src.height_px < 1 || src.width_px < 1 || dst.height_px < 1 ||
            dst.width_px < 1) {
        return PF_EINVAL;
    }
    if (src.height_px > PF_AXIS_MAX_PX || src.width_px > PF_AXIS_MAX_PX ||
            dst.height_px > PF_AXIS_MAX_PX || dst.width_px > PF_AXIS_MAX_PX) {
        return PF_EOVERFLOW;
    }
    if (!pf_mul_size(row_bytes(dst), sizeof(float), &n_bytes) ||
            !pf_mul_size(n_bytes, (size_t)dst.height_px, &n_bytes) ||
            !pf_mul_size(row_bytes(src), (size_t)src.height_px, &n_bytes)) {
        return PF_EOVERFLOW;
    }
    return PF_OK;
}

static pf_status
make_tables(pf_resize_plan *plan)
{
    const pf_resize_kernels *kernels = plan->kernels;
    pf_status st = PF_OK;

    if (kernels->tables_bytes == 0) {
        return PF_OK;
    }
    plan->tables = calloc(1, kernels->tables_bytes);
    if (plan->tables == NULL) {
        return PF_ENOMEM;
    }
    if (!is_identity(&plan->x)) {
        st = kernels->across_init(plan);
    }
    if (st == PF_OK && !is_identity(&plan->y)) {
        st = kernels->down_init(plan);
    }
    return st;
}

pf_status
pf_resize_plan_init(pf_resize_plan *plan, pf_size src, pf_size dst,
        const pf_resize_options *options)
{
    pf_status st;

    *plan = (pf_resize_plan){.src = src, .dst = dst, .level = options->level};
    st = check_sizes(src, dst);
    if (st != PF_OK) {
        return st;
    }
    if (options->level > pf_cpu_best()) {
        return PF_EBACKEND;
    }
    plan->kernels = select_kernels(options->level);
    plan->normalise = pf_normalise_select(options->level);
    plan->vertical_first = pf_first_pass_is_vertical(options->first_pass, src, dst);
    plan->source_bytes = padded_bytes(src);
    plan->resized_bytes = padded_bytes(dst);
    if (src.width_px != dst.width_px) {
        st = pf_axis_init(&plan->x, src.width_px, dst.width_px, options->filter);
    }
    if (st == PF_OK && src.height_px != dst.height_px) {
        st = pf_axis_init(&plan->y, src.height_px, dst.height_px, options->filter);
    }
    plan->interleaved = plan->kernels->vertical_quads != NULL &&
                        !plan->vertical_first && !is_identity(&plan->x) &&
                        !is_identity(&plan->y);
    if (st == PF_OK) {
        st = make_tables(plan);
    }
    if (st != PF_OK) {
        pf_resize_plan_free(plan);
        return st;
    }
    plan->window_rows = plan->y.n_tap_max + PF_QUAD_ROWS + PF_WINDOW_ROWS;
    return PF_OK;
}

void
pf_resize_plan_free(pf_resize_plan *plan)
{
    if (plan->tables != NULL) {
        plan->kernels->tables_release(plan->tables);
    }
    free(plan->tables);
    pf_axis_free(&plan->y);
    pf_axis_free(&plan->x);
    *plan = (pf_resize_plan){0};
}

pf_status
pf_resize_scratch_init(pf_resize_scratch *scratch, const pf_resize_plan *plan)
{
    size_t n_window_rows = is_identity(&plan->x) ? 1 : (size_t)plan->window_rows;
    size_t n_row = 1;
    size_t n_window_bytes = plan->resized_bytes;

    if (plan->vertical_first) {
        n_window_rows = PF_BLOCK_ROWS;
        n_window_bytes = plan->source_bytes;
        n_row = PF_BLOCK_ROWS;
    }
    *scratch = (pf_resize_scratch){
            .window = pf_aligned_zeros(n_window_rows, n_window_bytes),
            .row = pf_aligned_zeros(n_row, plan->resized_bytes),
            .work = pf_aligned_zeros(1, plan->work_bytes),
    };
    if (scratch->window == NULL || scratch->row == NULL || scratch->work == NULL) {
        pf_resize_scratch_free(scratch);
        return PF_ENOMEM;
    }
    return PF_OK;
}

void
pf_resize_scratch_free(pf_resize_scratch *scratch)
{
    free(scratch->work);
    free(scratch->row);
    free(scratch->window);
    *scratch = (pf_resize_scratch){0};
}

/* Source rows first <= y < end, as they lie in the scratch after the first pass. */
struct window {
    int64_t first_row;
    int64_t end_row;
};

/* Source rows that resized row y is made of. */
static struct window
taps_of(const pf_resize_plan *plan, int64_t y)
{
    if (is_identity(&plan->y)) {
        return (struct window){y, y + 1};
    }
    return (struct window){
            plan->y.first_px[y], (int64_t)plan->y.first_px[y] + plan->y.n_tap[y]};
}

/* Moves the window down so that it holds the taps: rows that are there stay, whole
 * blocks are added as far as they have room, but no row past the limit. */
static void
slide(struct window *window, struct window taps, int64_t limit,
        const pf_resize_plan *plan, const pf_image_src *src, pf_resize_scratch *scratch)
{
    const size_t n_bytes = plan->resized_bytes;
    const int64_t from =
            window->end_row > taps.first_row ? window->end_row : taps.first_row;
    const int64_t room = taps.first_row + plan->window_rows - from;
    const int64_t whole = from + room / PF_BLOCK_ROWS * PF_BLOCK_ROWS;
    const int64_t to = whole < limit ? whole : limit;
    const size_t n_kept = (size_t)(from - taps.first_row);
    const pf_rows rows = {src->rgb + from * src->row_bytes, src->row_bytes,
            row_bytes(plan->src), (size_t)(to - from), (size_t)(limit - to)};

    if (n_kept > 0) {
        memmove(scratch->window,
                scratch->window +
                        (size_t)(taps.first_row - window->first_row) * n_bytes,
                n_kept * n_bytes);
    }
    plan->kernels->horizontal(
            plan, rows, scratch->work, scratch->window + n_kept * n_bytes);
    *window = (struct window){taps.first_row, to};
}

/* Where a sink wants resized row y before normalisation; spare if nowhere. */
static uint8_t *
sink_row(const pf_resize_sink *sink, int64_t y, uint8_t *spare)
{
    return sink->image == NULL ? spare : sink->image->rgb + y * sink->image->row_bytes;
}

/* Hands a finished row to the sink; it may already lie there. */
static void
deliver(const pf_resize_plan *plan, const pf_resize_sink *sink, int64_t y,
        const uint8_t *row)
{
    const size_t width = (size_t)plan->dst.width_px;

    if (sink->planes != NULL) {
        plan->normalise(sink->normalise, row, width, sink->planes + (size_t)y * width,
                (size_t)plan->dst.height_px * width);
    }
    else if (row != sink_row(sink, y, NULL)) {
        memcpy(sink_row(sink, y, NULL), row, row_bytes(plan->dst));
    }
}

/* Resized row y, from its taps in the window. */
static void
from_window(const pf_resize_plan *plan, const uint8_t *held, struct window taps,
        int64_t y, uint8_t *row)
{
    const pf_rows rows = {held, (ptrdiff_t)plan->resized_bytes, row_bytes(plan->dst),
            (size_t)(taps.end_row - taps.first_row), 0};

    if (plan->interleaved) {
        plan->kernels->vertical_quads(plan, y, held, row);
    }
    else {
        plan->kernels->vertical(plan, y, rows, row);
    }
}

/* Also the way for the horizontal pass alone. */
static void
run_horizontal_first(const pf_resize_plan *plan, pf_resize_scratch *scratch,
        const pf_image_src *src, const pf_resize_sink *sink, struct window band)
{
    const int64_t limit = taps_of(plan, band.end_row - 1).end_row;
    struct window held = {0, 0};

    for (int64_t y = band.first_row; y < band.end_row; y++) {
        struct window taps = taps_of(plan, y);
        const uint8_t *at;

        if (plan->interleaved) {
            taps.first_row -= taps.first_row % PF_QUAD_ROWS;
        }
        if (taps.end_row > held.end_row) {
            slide(&held, taps, limit, plan, src, scratch);
        }
        at = scratch->window +
             (size_t)(taps.first_row - held.first_row) * plan->resized_bytes;
        if (is_identity(&plan->y)) {
            deliver(plan, sink, y, at);
        }
        else {
            uint8_t *row = sink_row(sink, y, scratch->row);

            from_window(plan, at, taps, y, row);
            deliver(plan, sink, y, row);
        }
    }
}

/* The vertical pass alone, or none. */
static void
run_vertical_only(const pf_resize_plan *plan, pf_resize_scratch *scratch,
        const pf_image_src *src, const pf_resize_sink *sink, struct window band)
{
    for (int64_t y = band.first_row; y < band.end_row; y++) {
        const struct window taps = taps_of(plan, y);
        const struct window next = y + 1 < band.end_row ? taps_of(plan, y + 1) : taps;
        const pf_rows rows = {src->rgb + taps.first_row * src->row_bytes,
                src->row_bytes, row_bytes(plan->dst),
                (size_t)(taps.end_row - taps.first_row),
                (size_t)(next.end_row - taps.end_row)};
        uint8_t *row = sink_row(sink, y, scratch->row);

        if (is_identity(&plan->y)) {
            deliver(plan, sink, y, rows.rgb);
            continue;
        }
        plan->kernels->vertical(plan, y, rows, row);
        deliver(plan, sink, y, row);
    }
}

static void
run_vertical_first(const pf_resize_plan *plan, pf_resize_scratch *scratch,
        const pf_image_src *src, const pf_resize_sink *sink, struct window band)
{
    const size_t src_bytes = row_bytes(plan->src);

    for (int64_t y = band.first_row; y < band.end_row; y += PF_BLOCK_ROWS) {
        const int64_t rest = band.end_row - y;
        const int64_t n_row = rest < PF_BLOCK_ROWS ? rest : PF_BLOCK_ROWS;
        const pf_rows tall = {scratch->window, (ptrdiff_t)plan->source_bytes, src_bytes,
                (size_t)n_row, 0};

        for (int64_t i = 0; i < n_row; i++) {
            const struct window taps = taps_of(plan, y + i);
            const struct window next =
                    y + i + 1 < band.end_row ? taps_of(plan, y + i + 1) : taps;
            const pf_rows rows = {src->rgb + taps.first_row * src->row_bytes,
                    src->row_bytes, src_bytes, (size_t)(taps.end_row - taps.first_row),
                    (size_t)(next.end_row - taps.end_row)};

            plan->kernels->vertical(plan, y + i, rows,
                    scratch->window + (size_t)i * plan->source_bytes);
        }
        plan->kernels->horizontal(plan, tall, scratch->work, scratch->row);
        for (int64_t i = 0; i < n_row; i++) {
            deliver(plan, sink, y + i, scratch->row + (size_t)i * plan->resized_bytes);
        }
    }
}

void
pf_resize_rows(const pf_resize_plan *plan, pf_resize_scratch *scratch,
        const pf_image_src *src, const pf_resize_sink *sink, int64_t first_row,
        int64_t end_row)
{
    const struct window band = {first_row, end_row};

    if (plan->vertical_first) {
        run_vertical_first(plan, scratch, src, sink, band);
    }
    else if (is_identity(&plan->x)) {
        run_vertical_only(plan, scratch, src, sink, band);
    }
    else {
        run_horizontal_first(plan, scratch, src, sink, band);
    }
}

static bool
same_size(pf_size a, pf_size b)
{
    return a.height_px == b.height_px && a.width_px == b.width_px;
}

pf_status
pf_resize_run(const pf_resize_plan *plan, pf_resize_scratch *scratch,
        const pf_image_src *src, const pf_image_dst *dst)
{
    const pf_resize_sink sink = {.image = dst};

    if (!same_size(src->size, plan->src) || !same_size(dst->size, plan->dst)) {
        return PF_EINVAL;
    }
    pf_resize_rows(plan, scratch, src, &sink, 0, plan->dst.height_px);
    return PF_OK;
}

pf_status
pf_resize_normalise_run(const pf_resize_plan *plan, pf_resize_scratch *scratch,
        const pf_image_src *src, const pf_normalise *normalise, float *planes)
{
    const pf_resize_sink sink = {.normalise = normalise, .planes = planes};

    if (!same_size(src->size, plan->src)) {
        return PF_EINVAL;
    }
    pf_resize_rows(plan, scratch, src, &sink, 0, plan->dst.height_px);
    return PF_OK;
}

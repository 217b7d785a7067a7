/* resize.c - chooses kernels, tiles and chunks, and queues them. */
#include "host/resize.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_GRID_Z = 65535,
    /* Frames of one launch: their tables must all be kept at once. */
    MAX_SLICE = 48,
    PLAIN_THREADS = 256,
    PLAIN_BLOCKS = 16, /* of a multiprocessor */
    TABLE_VALUES = 3 * 256,
    TENSOR_MAJOR = 8, /* the oldest devices with the products that it needs */
};

/* Output lines of a block, the best first. More lines share more of their source, up to
 * the point where few blocks fit on a multiprocessor. */
static const int tiles[] = {36, 24, 16, 8, 4, 2, 1};

/* The same for tensor cores, and the lines that are staged at a time. */
static const struct {
    int tile;
    int stage_lines;
} tensor_tiles[] = {{64, 64}, {48, 64}, {32, 64}, {32, 32}, {16, 32}, {16, 16}};

/* What makes a job, apart from the plain kernel. */
typedef enum kind { KIND_TENSOR = 0, KIND_TILED, KIND_TURNED, N_KIND } kind;

static const struct {
    pf_kernel_id kernel;
    pf_axis_form form;
} kinds[N_KIND] = {
        {PF_KERNEL_pf_tensor, PF_AXIS_MATRICES},
        {PF_KERNEL_pf_tiled, PF_AXIS_PACKED},
        {PF_KERNEL_pf_turned, PF_AXIS_PACKED},
};

typedef struct run {
    pf_device *device;
    const pf_gpu_request *request;
    pf_failure *failure;
    bool tensor;               /* cores are wanted */
    bool too_large[MAX_SLICE]; /* for them: jobs of the slice */
    pf_gpu_frame *frame;       /* (MAX_SLICE,), of the launch that is put together */
    pf_table *down[MAX_SLICE];
    pf_table *across[MAX_SLICE];
} run;

/* What all frames of a launch need. */
typedef struct tiling {
    int tile;
    int stage_lines; /* tensor */
    int64_t stage_words;
    int64_t mid_words;
    size_t shared_bytes;
} tiling;

static bool
is_turned(const run *r, const pf_gpu_job *job)
{
    return pf_first_pass_is_vertical(r->request->first_pass, job->src, job->dst);
}

/* Frame i of the launch: the job with weights of that form. */
static pf_status
describe(run *r, size_t i, const pf_gpu_job *job, pf_axis_form form)
{
    const pf_gpu_request *request = r->request;
    pf_gpu_frame *frame = &r->frame[i];
    const pf_axis_sizes across = {job->src.width_px, job->dst.width_px};
    const pf_axis_sizes down = {job->src.height_px, job->dst.height_px};
    pf_table *offsets = NULL;
    pf_status st = pf_tables_axis(
            r->device, form, across, request->filter, &r->across[i], r->failure);

    if (st == PF_OK) {
        st = pf_tables_axis(
                r->device, form, down, request->filter, &r->down[i], r->failure);
    }
    if (st == PF_OK) {
        st = pf_tables_offsets(
                r->device, &request->places, job->dst, &offsets, r->failure);
    }
    if (st != PF_OK) {
        return st;
    }
    *frame = (pf_gpu_frame){
            .dst = (void *)job->result,
            .x_offset = (const long long *)offsets->address,
            .y_offset = (const long long *)offsets->address + job->dst.width_px,
            .channel_offset = pf_tables_channel_offset(&request->places, job->dst),
            .row_bytes = {job->row_bytes[0], job->row_bytes[1]},
            .across = pf_tables_describe_axis(r->across[i], across),
            .down = pf_tables_describe_axis(r->down[i], down),
    };
    for (int p = 0; p < 3; p++) {
        frame->plane[p] = (const unsigned char *)job->plane[p];
    }
    return PF_OK;
}

/* An odd number of words, so that neighbouring lines start in other banks. */
static int64_t
odd(int64_t n_word)
{
    return n_word | 1;
}

/* Whether frame i is of the same sizes as the one before it. */
static bool
is_as_before(const run *r, size_t i)
{
    return i > 0 && r->down[i] == r->down[i - 1] && r->across[i] == r->across[i - 1];
}

/* Shared memory for n frames at that tile. */
static tiling
measure(const run *r, size_t n, bool turned, int tile)
{
    tiling t = {.tile = tile, .stage_words = 1, .mid_words = 1};

    for (size_t i = 0; i < n; i++) {
        const pf_table *first = turned ? r->down[i] : r->across[i];
        const pf_table *second = turned ? r->across[i] : r->down[i];

        if (is_as_before(r, i)) {
            continue;
        }
        const int64_t stage = odd(pf_tables_span(first, PF_GPU_LANES, 1));
        const int64_t mid = odd(pf_tables_span(second, tile, 1));

        t.stage_words = stage > t.stage_words ? stage : t.stage_words;
        t.mid_words = mid > t.mid_words ? mid : t.mid_words;
    }
    if (turned && t.stage_words < odd((tile + 3) / 4)) {
        t.stage_words = odd((tile + 3) / 4); /* the result is turned there */
    }
    t.shared_bytes =
            PF_GPU_TABLE_BYTES((size_t)r->request->value_bytes) +
            sizeof(uint32_t) * 3 * PF_GPU_LANES * (size_t)(t.stage_words + t.mid_words);
    return t;
}

/* The next odd multiple of four words. */
static int64_t
odd_fours(int64_t n_word)
{
    return (n_word + 3) / 8 * 8 + 4;
}

/* The same for tensor cores: pixels are three bytes, and lines are read in steps. */
static tiling
measure_tensor(const run *r, size_t n, int tile, int stage_lines)
{
    const int64_t done_words = tile * (PF_GPU_DONE_BYTES / 4) / stage_lines;
    tiling t = {.tile = tile, .stage_lines = stage_lines};

    t.stage_words = odd_fours(done_words); /* the finished tile goes there */
    for (size_t i = 0; i < n; i++) {
        if (is_as_before(r, i)) {
            continue;
        }
        const int64_t groups = PF_GPU_LANES / PF_GPU_GROUP;
        const int64_t read =
                pf_tables_span(r->across[i], groups, PF_GPU_STEP_WORDS) + 1;
        const int64_t between =
                pf_tables_span(r->down[i], tile / PF_GPU_GROUP, PF_GPU_STEP_WORDS);
        const int64_t stage = odd_fours(3 * read);
        /* lines come by sixteen */
        const int64_t mid = odd_fours(3 * ((between + 3) / 4 * 4));

        t.stage_words = stage > t.stage_words ? stage : t.stage_words;
        t.mid_words = mid > t.mid_words ? mid : t.mid_words;
    }
    t.shared_bytes =
            PF_GPU_TABLE_BYTES((size_t)r->request->value_bytes) +
            sizeof(uint32_t) * ((size_t)stage_lines * (size_t)t.stage_words +
                                       (size_t)PF_GPU_LANES * (size_t)t.mid_words);
    return t;
}

/* The largest that leaves room for two blocks, or else the largest that fits; tile 0
 * when none does. */
static tiling
choose_tensor_tiling(const run *r, size_t n)
{
    const size_t most = (size_t)r->device->max_shared_bytes;
    tiling chosen = {0};

    for (size_t i = 0; i < sizeof tensor_tiles / sizeof *tensor_tiles; i++) {
        const tiling t =
                measure_tensor(r, n, tensor_tiles[i].tile, tensor_tiles[i].stage_lines);

        if (t.shared_bytes <= most && chosen.tile == 0) {
            chosen = t;
        }
        if (t.shared_bytes <= most / 2) {
            return t;
        }
    }
    return chosen;
}

/* The largest tile that leaves room for three blocks, or else the largest that fits;
 * tile 0 when none does. */
static tiling
choose_tiling(const run *r, size_t n, kind k)
{
    const size_t most = (size_t)r->device->max_shared_bytes;
    tiling chosen = {0};

    if (k == KIND_TENSOR) {
        return choose_tensor_tiling(r, n);
    }
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const tiling t = measure(r, n, k == KIND_TURNED, tiles[i]);

        if (t.shared_bytes <= most && chosen.tile == 0) {
            chosen = t;
        }
        if (t.shared_bytes <= most / 3) {
            return t;
        }
    }
    return chosen;
}

/* Sends n frame descriptions and the table of values to new memory on the device. */
static pf_status
send(run *r, size_t n, pf_device_address *sent)
{
    const pf_gpu_request *request = r->request;
    const pf_driver *driver = r->device->driver;
    const size_t frame_bytes = n * sizeof *r->frame;
    const size_t table_bytes =
            request->table == NULL ? 0 : TABLE_VALUES * (size_t)request->value_bytes;
    unsigned char *bytes = malloc(frame_bytes + table_bytes);
    pf_status st;

    if (bytes == NULL) {
        return PF_ENOMEM;
    }
    memcpy(bytes, r->frame, frame_bytes);
    if (request->table != NULL) {
        memcpy(bytes + frame_bytes, request->table, table_bytes);
    }
    *sent = 0;
    st = PF_CALL(driver, r->failure, cuMemAllocAsync, sent, frame_bytes + table_bytes,
            request->stream);
    if (st == PF_OK) { /* pageable: read before the call comes back */
        st = PF_CALL(driver, r->failure, cuMemcpyHtoDAsync_v2, *sent, bytes,
                frame_bytes + table_bytes, request->stream);
    }
    free(bytes);
    return st;
}

static pf_gpu_resize
params_for(const run *r, size_t n, pf_device_address sent)
{
    const pf_gpu_request *request = r->request;
    pf_gpu_resize params = {.frame = (const pf_gpu_frame *)sent,
            .colour = request->colour,
            .value_bytes = request->value_bytes};

    if (request->table != NULL) {
        params.table = (const void *)(sent + n * sizeof(pf_gpu_frame));
    }
    return params;
}

/* Gives memory back when the stream has passed; 0 is no memory. */
static pf_status
release(run *r, pf_device_address address, pf_status st)
{
    pf_failure failure;
    pf_status freed = PF_OK;

    if (address != 0) {
        freed = PF_CALL(r->device->driver, &failure, cuMemFreeAsync, address,
                r->request->stream);
    }
    if (st == PF_OK && freed != PF_OK) {
        *r->failure = failure;
    }
    return st == PF_OK ? freed : st;
}

static unsigned
blocks(int64_t n, int64_t of)
{
    return (unsigned)((n + of - 1) / of);
}

/* n described frames, all of one kind. */
static pf_status
launch_tiled(run *r, size_t n, kind k, const tiling *t)
{
    const bool turned = k == KIND_TURNED;
    pf_launch launch = {.kernel = kinds[k].kernel,
            .grid = {1, 1, (unsigned)n},
            .block = {PF_GPU_LANES, PF_GPU_WARPS, 1},
            .shared_bytes = t->shared_bytes,
            .stream = r->request->stream};
    pf_device_address sent = 0;
    pf_gpu_resize params;
    pf_status st;

    for (size_t i = 0; i < n; i++) {
        const pf_gpu_axis *first = turned ? &r->frame[i].down : &r->frame[i].across;
        const pf_gpu_axis *second = turned ? &r->frame[i].across : &r->frame[i].down;
        const unsigned x = blocks(first->dst_px, PF_GPU_LANES);
        const unsigned y = blocks(second->dst_px, t->tile);

        launch.grid[0] = x > launch.grid[0] ? x : launch.grid[0];
        launch.grid[1] = y > launch.grid[1] ? y : launch.grid[1];
    }
    if (launch.grid[1] > MAX_GRID_Z) {
        return PF_EINVAL;
    }
    st = send(r, n, &sent);
    if (st == PF_OK) {
        params = params_for(r, n, sent);
        params.tile = t->tile;
        params.pixels = (int)r->request->pixels;
        params.stage_words = (int)t->stage_words;
        params.mid_words = (int)t->mid_words;
        params.stage_lines = t->stage_lines;
        launch.params = &params;
        st = pf_device_launch(r->device, &launch, r->failure);
    }
    return release(r, sent, st);
}

/* One pass over one described frame. */
static pf_status
launch_pass(run *r, pf_pixels pixels, bool down, bool last)
{
    const pf_gpu_frame *frame = &r->frame[0];
    const int64_t n_px = down ? (int64_t)frame->across.src_px * frame->down.dst_px
                              : (int64_t)frame->across.dst_px * frame->down.src_px;
    const int64_t most = PLAIN_BLOCKS * (int64_t)r->device->n_multiprocessor;
    const int64_t wanted = (n_px + PLAIN_THREADS - 1) / PLAIN_THREADS;
    pf_launch launch = {.kernel = PF_KERNEL_pf_pass,
            .grid = {(unsigned)(wanted < most ? wanted : most), 1, 1},
            .block = {PLAIN_THREADS, 1, 1},
            .stream = r->request->stream};
    pf_device_address sent = 0;
    pf_gpu_resize params;
    pf_status st = send(r, 1, &sent);

    if (st == PF_OK) {
        params = params_for(r, 1, sent);
        params.is_down = down;
        params.pixels = (int)pixels;
        params.value_bytes = last ? r->request->value_bytes : 1;
        launch.params = &params;
        st = pf_device_launch(r->device, &launch, r->failure);
    }
    return release(r, sent, st);
}

/* Two passes through scratch memory. */
static pf_status
run_plain(const run *all, const pf_gpu_job *job)
{
    run alone = *all;
    run *r = &alone;
    pf_gpu_frame frame;
    pf_gpu_frame whole;
    const bool turned = is_turned(r, job);
    const pf_size between = turned ? (pf_size){job->dst.height_px, job->src.width_px}
                                   : (pf_size){job->src.height_px, job->dst.width_px};
    pf_device_address scratch = 0;
    size_t n_byte;
    pf_status st;

    alone.frame = &frame;
    st = describe(r, 0, job, PF_AXIS_PLAIN);
    if (st != PF_OK) {
        return st;
    }
    if (!pf_mul_size(
                3 * (size_t)between.width_px, (size_t)between.height_px, &n_byte)) {
        return PF_EOVERFLOW;
    }
    whole = frame;
    st = PF_CALL(r->device->driver, r->failure, cuMemAllocAsync, &scratch, n_byte,
            r->request->stream);
    if (st == PF_OK) {
        frame.dst = (void *)scratch;
        frame.x_offset = NULL;
        st = launch_pass(r, r->request->pixels, turned, false);
    }
    if (st == PF_OK) {
        frame = whole;
        frame.plane[0] = (const unsigned char *)scratch;
        frame.row_bytes[0] = 3 * between.width_px;
        if (turned) {
            frame.down.src_px = (int)between.height_px;
        }
        else {
            frame.across.src_px = (int)between.width_px;
        }
        st = launch_pass(r, PF_PIXELS_RGB24, !turned, true);
    }
    return release(r, scratch, st);
}

static kind
kind_of(const run *r, size_t i, const pf_gpu_job *job)
{
    if (is_turned(r, job)) {
        return KIND_TURNED;
    }
    return r->tensor && !r->too_large[i] ? KIND_TENSOR : KIND_TILED;
}

/* Jobs of a slice that are of that kind. Those that no tile can hold are left to what
 * comes next, or refused when that is not wanted. */
static pf_status
run_kind(run *r, const pf_gpu_job *job, size_t n_job, kind k)
{
    const bool only = r->request->variant == PF_VARIANT_TILED ||
                      r->request->variant == PF_VARIANT_TENSOR;
    size_t n = 0;
    tiling chosen = {0};
    pf_status st = PF_OK;

    for (size_t i = 0; st == PF_OK && i < n_job; i++) {
        tiling with;

        if (kind_of(r, i, &job[i]) != k) {
            continue;
        }
        if (k == KIND_TURNED && r->request->variant == PF_VARIANT_TENSOR) {
            return PF_EINVAL;
        }
        st = describe(r, n, &job[i], kinds[k].form);
        if (st != PF_OK) {
            break;
        }
        with = choose_tiling(r, n + 1, k);
        if (with.tile > 0) {
            chosen = with;
            n++;
        }
        else if (only) {
            st = PF_EINVAL;
        }
        else if (k == KIND_TENSOR) {
            r->too_large[i] = true; /* its turn comes */
        }
        else {
            st = run_plain(r, &job[i]);
        }
    }
    return st == PF_OK && n > 0 ? launch_tiled(r, n, k, &chosen) : st;
}

static pf_status
run_slice(run *r, const pf_gpu_job *job, size_t n_job)
{
    pf_status st = PF_OK;

    if (r->request->variant == PF_VARIANT_PLAIN) {
        for (size_t i = 0; st == PF_OK && i < n_job; i++) {
            st = run_plain(r, &job[i]);
        }
        return st;
    }
    memset(r->too_large, 0, sizeof r->too_large);
    for (kind k = KIND_TENSOR; st == PF_OK && k < N_KIND; k++) {
        st = run_kind(r, job, n_job, k);
    }
    return st;
}

bool
pf_gpu_has_sane_sizes(pf_size src, pf_size dst)
{
    return src.height_px >= 1 && src.width_px >= 1 && dst.height_px >= 1 &&
           dst.width_px >= 1 && src.height_px <= PF_AXIS_MAX_PX &&
           src.width_px <= PF_AXIS_MAX_PX && dst.height_px <= PF_AXIS_MAX_PX &&
           dst.width_px <= PF_AXIS_MAX_PX;
}

pf_status
pf_gpu_resize_queue(
        pf_device *device, const pf_gpu_request *request, pf_failure *failure)
{
    run r = {.device = device, .request = request, .failure = failure};
    pf_status st = PF_OK;

    r.tensor = device->major >= TENSOR_MAJOR &&
               (request->variant == PF_VARIANT_TENSOR ||
                       request->variant == PF_VARIANT_TENSOR_FIRST);
    if (request->variant == PF_VARIANT_TENSOR && !r.tensor) {
        return PF_EINVAL;
    }
    r.frame = calloc(MAX_SLICE, sizeof *r.frame);
    if (r.frame == NULL) {
        return PF_ENOMEM;
    }
    for (size_t i = 0; st == PF_OK && i < request->n_job; i += MAX_SLICE) {
        const size_t left = request->n_job - i;

        st = run_slice(&r, request->job + i, left < MAX_SLICE ? left : MAX_SLICE);
    }
    free(r.frame);
    return st;
}

pf_status
pf_gpu_resize_run(pf_device *device, const pf_gpu_request *request, pf_failure *failure)
{
    int is_capturing = 0;
    pf_status st = pf_device_enter(device, failure);

    if (st != PF_OK) {
        return st;
    }
    st = PF_CALL(device->driver, failure, cuStreamIsCapturing, request->stream,
            &is_capturing);
    if (st == PF_OK && is_capturing != 0) {
        st = pf_failure_say(failure,
                "the stream is being captured into a graph, which would not outlive "
                "this call; resize on it before or after");
        failure->code = PF_CUDA_CAPTURE_UNSUPPORTED;
    }
    if (st == PF_OK) {
        st = pf_gpu_resize_queue(device, request, failure);
    }
    return pf_device_leave(device, st, failure);
}

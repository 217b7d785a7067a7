/* upload.c - two chunks of frames in flight, each in memory and a stream of its own. */
#include "host/upload.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of frames that travel together; one group at least. */
#define CHUNK_BYTES ((size_t)32 << 20)

/* Rows start at whole words, which the kernels like. */
enum { ROW_ALIGN_BYTES = 16, N_SLOT = PF_N_LANE, STREAM_NON_BLOCKING = 1 };

/* One chunk on its way: frames in the lane's memory, then results. */
typedef struct slot {
    pf_lane *lane;
    unsigned char *pending; /* where the results go that are on their way; or NULL */
    size_t pending_bytes;
    size_t pending_at; /* from the start of the lane's pinned memory */
} slot;

typedef struct transfer {
    pf_device *device;
    pf_failure *failure;
    const pf_gpu_request *request;
    pf_gpu_job *job; /* (chunk,), with device addresses */
    slot slot[N_SLOT];
} transfer;

/* Planes of a frame: how many, and how large each is. */
static int
count_planes(pf_pixels pixels)
{
    return pixels == PF_PIXELS_RGB24 ? 1 : pixels == PF_PIXELS_NV12 ? 2 : 3;
}

typedef struct extent {
    size_t row_bytes;
    size_t pitch_bytes; /* from row to row, when packed for the way */
    size_t n_row;
} extent;

static extent
plane_extent(pf_pixels pixels, int plane, pf_size size)
{
    const size_t width = (size_t)size.width_px;
    const size_t height = (size_t)size.height_px;
    extent e = {3 * width, 0, height};

    if (pixels != PF_PIXELS_RGB24) {
        const size_t half = (width + 1) / 2;

        e.row_bytes = plane == 0 ? width : pixels == PF_PIXELS_NV12 ? 2 * half : half;
        e.n_row = plane == 0 ? height : (height + 1) / 2;
    }
    e.pitch_bytes =
            (e.row_bytes + ROW_ALIGN_BYTES - 1) / ROW_ALIGN_BYTES * ROW_ALIGN_BYTES;
    return e;
}

static size_t
result_bytes(const pf_gpu_request *request, const pf_gpu_job *job)
{
    return 3 * (size_t)job->dst.height_px * (size_t)job->dst.width_px *
           (size_t)request->value_bytes;
}

static size_t
source_bytes(pf_pixels pixels, pf_size size)
{
    size_t n_byte = 0;

    for (int p = 0; p < count_planes(pixels); p++) {
        const extent e = plane_extent(pixels, p, size);

        n_byte += e.pitch_bytes * e.n_row;
    }
    return n_byte;
}

/* Waits for the results of a chunk and hands them over. */
static pf_status
drain(transfer *t, slot *s)
{
    pf_status st = PF_OK;

    if (s->pending != NULL) {
        st = PF_CALL(
                t->device->driver, t->failure, cuStreamSynchronize, s->lane->stream);
        if (st == PF_OK) {
            memcpy(s->pending, s->lane->pinned + s->pending_at, s->pending_bytes);
        }
    }
    s->pending = NULL;
    return st;
}

static void
release_memory(const pf_device *device, pf_lane *lane)
{
    if (lane->memory != 0) {
        (void)device->driver->cuMemFree_v2(lane->memory);
    }
    if (lane->pinned != NULL) {
        (void)device->driver->cuMemFreeHost(lane->pinned);
    }
    lane->memory = 0;
    lane->pinned = NULL;
    lane->n_byte = 0;
}

/* Nothing is on its way any more. */
static void
release_lanes(pf_device *device)
{
    for (int i = 0; i < PF_N_LANE; i++) {
        pf_lane *lane = &device->lane[i];

        release_memory(device, lane);
        if (lane->stream != NULL) {
            (void)device->driver->cuStreamDestroy_v2(lane->stream);
        }
        lane->stream = NULL;
    }
}

/* Room for n_byte on both sides; nothing is on its way in this lane. */
static pf_status
make_room(transfer *t, pf_lane *lane, size_t n_byte)
{
    const pf_driver *driver = t->device->driver;
    void *pinned = NULL;
    pf_status st = PF_OK;

    if (n_byte <= lane->n_byte) {
        return PF_OK;
    }
    release_memory(t->device, lane);
    if (lane->stream == NULL) {
        st = PF_CALL(
                driver, t->failure, cuStreamCreate, &lane->stream, STREAM_NON_BLOCKING);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, t->failure, cuMemAllocHost_v2, &pinned, n_byte);
    }
    if (st != PF_OK) {
        return st;
    }
    lane->pinned = pinned;
    st = PF_CALL(driver, t->failure, cuMemAlloc_v2, &lane->memory, n_byte);
    lane->n_byte = st == PF_OK ? n_byte : 0;
    return st;
}

/* Copies a frame to offset bytes from the start of the lane, and describes it there. */
static void
pack_frame(const transfer *t, const pf_lane *lane, const pf_gpu_job *from,
        size_t offset, pf_gpu_job *to)
{
    const pf_pixels pixels = t->request->pixels;

    *to = *from;
    for (int p = 0; p < count_planes(pixels); p++) {
        const extent e = plane_extent(pixels, p, from->src);
        const unsigned char *row = (const unsigned char *)from->plane[p];

        to->plane[p] = lane->memory + offset;
        to->row_bytes[p > 0] = (int64_t)e.pitch_bytes;
        for (size_t y = 0; y < e.n_row; y++) {
            memcpy(lane->pinned + offset, row, e.row_bytes);
            row += from->row_bytes[p > 0];
            offset += e.pitch_bytes;
        }
    }
}

/* Jobs begin .. end - 1 through one slot. */
static pf_status
send_chunk(transfer *t, slot *s, size_t begin, size_t end)
{
    const pf_driver *driver = t->device->driver;
    const pf_gpu_job *job = t->request->job;
    pf_lane *lane = s->lane;
    pf_gpu_request request = *t->request;
    pf_device_address first = job[begin].result;
    size_t in_bytes = 0, out_bytes = 0, offset = 0;
    pf_status st = drain(t, s);

    for (size_t i = begin; i < end; i++) {
        in_bytes += source_bytes(request.pixels, job[i].src);
        out_bytes += result_bytes(&request, &job[i]);
        first = job[i].result < first ? job[i].result : first;
    }
    if (st == PF_OK) {
        st = make_room(t, lane, in_bytes + out_bytes);
    }
    for (size_t i = begin; st == PF_OK && i < end; i++) {
        const size_t at = job[i].result - first;

        if (at >= out_bytes) {
            return PF_EINVAL;
        }
        pack_frame(t, lane, &job[i], offset, &t->job[i - begin]);
        t->job[i - begin].result = lane->memory + in_bytes + at;
        offset += source_bytes(request.pixels, job[i].src);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, t->failure, cuMemcpyHtoDAsync_v2, lane->memory,
                lane->pinned, in_bytes, lane->stream);
    }
    request.job = t->job;
    request.n_job = end - begin;
    request.stream = lane->stream;
    if (st == PF_OK) {
        st = pf_gpu_resize_queue(t->device, &request, t->failure);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, t->failure, cuMemcpyDtoHAsync_v2, lane->pinned + in_bytes,
                lane->memory + in_bytes, out_bytes, lane->stream);
    }
    if (st == PF_OK) {
        s->pending = (unsigned char *)first;
        s->pending_bytes = out_bytes;
        s->pending_at = in_bytes;
    }
    return st;
}

/* Whole groups, as many as a chunk may have. */
static size_t
chunk_end(const pf_gpu_request *request, size_t begin, size_t n_group)
{
    size_t n_byte = 0;
    size_t i = begin;

    while (i < request->n_job && (i == begin || n_byte < CHUNK_BYTES)) {
        for (size_t g = 0; g < n_group && i < request->n_job; g++, i++) {
            n_byte += source_bytes(request->pixels, request->job[i].src);
        }
    }
    return i;
}

static pf_status
run_chunks(transfer *t, size_t n_group)
{
    pf_status st = PF_OK;
    int which = 0;

    for (size_t begin = 0; st == PF_OK && begin < t->request->n_job;) {
        const size_t end = chunk_end(t->request, begin, n_group);

        st = send_chunk(t, &t->slot[which], begin, end);
        which = (which + 1) % N_SLOT;
        begin = end;
    }
    for (int i = 0; i < N_SLOT; i++, which = (which + 1) % N_SLOT) {
        slot *s = &t->slot[which];

        if (st == PF_OK) {
            st = drain(t, s);
        }
        else if (s->lane->stream != NULL) {
            (void)t->device->driver->cuStreamSynchronize(s->lane->stream);
        }
    }
    return st;
}

pf_status
pf_gpu_resize_host(pf_device *device, const pf_gpu_request *request, size_t n_group,
        pf_failure *failure)
{
    transfer t = {.device = device, .failure = failure, .request = request};
    pf_status st;

    for (size_t i = 0; i < request->n_job; i++) {
        if (!pf_gpu_has_sane_sizes(request->job[i].src, request->job[i].dst)) {
            return PF_EINVAL;
        }
    }
    if (n_group < 1) {
        return PF_EINVAL;
    }
    t.job = calloc(request->n_job + 1, sizeof *t.job);
    if (t.job == NULL) {
        return PF_ENOMEM;
    }
    st = pf_device_enter(device, failure);
    if (st == PF_OK) {
        for (int i = 0; i < N_SLOT; i++) {
            t.slot[i].lane = &device->lane[i];
        }
        st = run_chunks(&t, n_group);
        if (device->n_hold == 0) {
            release_lanes(device);
        }
        st = pf_device_leave(device, st, failure);
    }
    free(t.job);
    return st;
}

pf_status
pf_gpu_hold(pf_device *device, pf_failure *failure)
{
    pf_status st = pf_device_enter(device, failure);

    if (st == PF_OK) {
        device->n_hold++;
        st = pf_device_leave(device, st, failure);
    }
    return st;
}

void
pf_gpu_release(pf_device *device)
{
    pf_failure failure = {0};

    if (pf_device_enter(device, &failure) != PF_OK) {
        return; /* after a fork, or lost: what it has goes with its process */
    }
    if (device->n_hold > 0 && --device->n_hold == 0) {
        release_lanes(device);
    }
    /* a release has nobody to tell of a context that stays current */
    const pf_status left = pf_device_leave(device, PF_OK, &failure);
    (void)left;
}

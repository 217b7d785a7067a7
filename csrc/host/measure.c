/* measure.c - see measure.h. */
#include "host/measure.h"

#include <stdlib.h>

enum {
    N_SOURCE = 8, /* frames that take turns, so that caches do not hold them all */
    ALIGN_BYTES = 256,
    GREY = 0x80
};

/* Begin and end. */
typedef struct events {
    void *event[2];
} events;

static size_t
room(pf_size size)
{
    const size_t n_byte = 3 * (size_t)size.height_px * (size_t)size.width_px;

    return (n_byte + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static void
describe_jobs(const pf_gpu_trial *trial, pf_device_address memory, pf_gpu_job *job)
{
    const pf_device_address results = memory + N_SOURCE * room(trial->src);

    for (size_t i = 0; i < trial->n_frame; i++) {
        job[i] = (pf_gpu_job){.plane = {memory + i % N_SOURCE * room(trial->src)},
                .row_bytes = {3 * trial->src.width_px},
                .src = trial->src,
                .dst = trial->dst,
                .result = results + i * room(trial->dst)};
    }
}

/* One turn that is not counted, one that is. */
static pf_status
take_turns(pf_device *device, const pf_gpu_request *request, const events *e,
        float *milliseconds, pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    pf_status st = pf_gpu_resize_queue(device, request, failure);

    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuEventRecord, e->event[0], request->stream);
    }
    if (st == PF_OK) {
        st = pf_gpu_resize_queue(device, request, failure);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuEventRecord, e->event[1], request->stream);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuStreamSynchronize, request->stream);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuEventElapsedTime, milliseconds, e->event[0],
                e->event[1]);
    }
    return st;
}

/* With memory, on the stream. */
static pf_status
measure_in(pf_device *device, const pf_gpu_trial *trial, pf_device_address memory,
        size_t n_byte, float *milliseconds, pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    pf_gpu_job *job = calloc(trial->n_frame, sizeof *job);
    const pf_gpu_request request = {.job = job,
            .n_job = trial->n_frame,
            .first_pass = PF_FIRST_HORIZONTAL,
            .filter = PF_FILTER_BICUBIC,
            .places = {.interleaved = true},
            .value_bytes = 1,
            .variant = trial->variant,
            .stream = device->stream};
    events e = {{NULL, NULL}};
    pf_status st = job == NULL ? PF_ENOMEM : PF_OK;

    for (int i = 0; st == PF_OK && i < 2; i++) {
        st = PF_CALL(driver, failure, cuEventCreate, &e.event[i], 0);
    }
    if (st == PF_OK) {
        st = PF_CALL(
                driver, failure, cuMemsetD8Async, memory, GREY, n_byte, device->stream);
    }
    if (st == PF_OK) {
        describe_jobs(trial, memory, job);
        st = take_turns(device, &request, &e, milliseconds, failure);
    }
    for (int i = 0; i < 2; i++) {
        if (e.event[i] != NULL) {
            (void)driver->cuEventDestroy_v2(e.event[i]);
        }
    }
    free(job);
    return st;
}

pf_status
pf_gpu_measure(pf_device *device, const pf_gpu_trial *trial, float *milliseconds,
        pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    pf_device_address memory = 0;
    pf_failure freeing;
    pf_status freed;
    pf_status st;

    if (trial->n_frame < 1 || !pf_gpu_has_sane_sizes(trial->src, trial->dst)) {
        return PF_EINVAL;
    }
    const size_t n_byte =
            N_SOURCE * room(trial->src) + trial->n_frame * room(trial->dst);
    st = pf_device_enter(device, failure);
    if (st != PF_OK) {
        return st;
    }
    st = PF_CALL(driver, failure, cuMemAllocAsync, &memory, n_byte, device->stream);
    if (st == PF_OK) {
        st = measure_in(device, trial, memory, n_byte, milliseconds, failure);
        freed = PF_CALL(driver, &freeing, cuMemFreeAsync, memory, device->stream);
        if (st == PF_OK && freed != PF_OK) {
            *failure = freeing;
            st = freed;
        }
    }
    return pf_device_leave(device, st, failure);
}

/* resize.h - resizes frames that lie on a GPU; every byte is that of csrc/frames. */
#ifndef PF_HOST_RESIZE_H
#define PF_HOST_RESIZE_H

#include "host/tables.h"

typedef enum pf_pixels {
    PF_PIXELS_RGB24 = 0, /* plane: RGB */
    PF_PIXELS_NV12,      /* planes: Y, and U and V in turn, of half the size */
    PF_PIXELS_I420       /* planes: Y, U, V */
} pf_pixels;

typedef enum pf_variant {
    PF_VARIANT_AUTO = 0,
    PF_VARIANT_PLAIN,  /* one thread a pixel, two launches: the reference */
    PF_VARIANT_TILED,  /* both passes in shared memory, four taps an instruction */
    PF_VARIANT_TENSOR, /* the same on tensor cores; not with the vertical pass first */
    PF_VARIANT_TENSOR_FIRST
} pf_variant;

/* A frame, and where its result goes; device addresses, never overlapping. */
typedef struct pf_gpu_job {
    pf_device_address plane[3];
    int64_t row_bytes[2]; /* of the first plane, and of the others; may be negative */
    pf_size src;
    pf_size dst;
    pf_device_address result;
} pf_gpu_job;

typedef struct pf_gpu_request {
    const pf_gpu_job *job;
    size_t n_job;
    pf_pixels pixels;
    pf_gpu_colour colour; /* not for RGB24 */
    pf_filter filter;
    pf_first_pass first_pass;
    pf_places places;
    int value_bytes;   /* 1: bytes as they are; 2 or 4: by table */
    const void *table; /* host, (3, 256) values, or NULL for bytes */
    pf_variant variant;
    void *stream;
} pf_gpu_request;

/* Queues the work on the stream and comes back; the frames and the results must stay
 * until the stream is done. PF_EINVAL for sizes below 1, a picture that the patches do
 * not fill, or a variant that cannot do it (shared memory, an old device);
 * PF_EOVERFLOW; PF_ENOMEM (of host or device); PF_EBACKEND, with the reason. AUTO is
 * TILED, and PLAIN where that cannot; TENSOR_FIRST is TENSOR where that can, else AUTO.
 *
 * What the kernels are told is copied from memory that does not outlive the call, so a
 * stream that is captured into a graph is refused. */
PF_NODISCARD pf_status pf_gpu_resize_run(
        pf_device *device, const pf_gpu_request *request, pf_failure *failure);

/* Whether sides are at least 1 and the sources at most PF_AXIS_MAX_PX. */
bool pf_gpu_has_sane_sizes(pf_size src, pf_size dst);

/* The same between pf_device_enter and pf_device_leave, on a stream of ours. */
PF_NODISCARD pf_status pf_gpu_resize_queue(
        pf_device *device, const pf_gpu_request *request, pf_failure *failure);

#endif /* PF_HOST_RESIZE_H */

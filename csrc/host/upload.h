/* upload.h - resizes frames of the host's memory on a GPU, there and back again. */
#ifndef PF_HOST_UPLOAD_H
#define PF_HOST_UPLOAD_H

#include "host/resize.h"

/* As pf_gpu_resize_run, but planes and results are addresses of the host, the stream is
 * not looked at, and everything is done when the call comes back. The results of every
 * group of n_group jobs, one group after the other, follow one another without gaps, in
 * any order within the group: n_group is the depth of the patches, or 1.
 *
 * Frames travel through page-locked memory of two streams, so that one chunk is copied
 * while another is worked on. PF_EINVAL also for results that do not lie so. */
PF_NODISCARD pf_status pf_gpu_resize_host(pf_device *device,
        const pf_gpu_request *request, size_t n_group, pf_failure *failure);

/* Lets the memory and the streams of pf_gpu_resize_host stay from one call to the next,
 * which page-locked memory is too slow to make for: until as many calls of
 * pf_gpu_release. Both by themselves, not between enter and leave. */
PF_NODISCARD pf_status pf_gpu_hold(pf_device *device, pf_failure *failure);

/* Undoes one pf_gpu_hold; the last one frees everything, if the device answers yet. */
void pf_gpu_release(pf_device *device);

#endif /* PF_HOST_UPLOAD_H */

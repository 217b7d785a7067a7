/* measure.h - how long a device takes for a resize, to choose between variants. */
#ifndef PF_HOST_MEASURE_H
#define PF_HOST_MEASURE_H

#include "host/resize.h"

/* What is resized, n_frame at a time; RGB24 to bytes, horizontal pass first. */
typedef struct pf_gpu_trial {
    pf_variant variant;
    pf_size src;
    pf_size dst;
    size_t n_frame;
} pf_gpu_trial;

/* Milliseconds of one such resize, after another one that is not counted, in memory of
 * its own and on the stream of the device; everything is done and given back when the
 * call returns. Errors as of pf_gpu_resize_run. */
PF_NODISCARD pf_status pf_gpu_measure(pf_device *device, const pf_gpu_trial *trial,
        float *milliseconds, pf_failure *failure);

#endif /* PF_HOST_MEASURE_H */

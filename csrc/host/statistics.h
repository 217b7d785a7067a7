/* statistics.h - sums over frames that lie on a GPU. */
#ifndef PF_HOST_STATISTICS_H
#define PF_HOST_STATISTICS_H

#include "host/device.h"

/* n_pair pairs of frames, (n_pair, n_px, 3) bytes each at a and b. */
typedef struct pf_gpu_pairs {
    pf_device_address a;
    pf_device_address b;
    int64_t n_pair;
    int64_t n_px;
    void *stream;
} pf_gpu_pairs;

/* sums[i] holds the sum of |a - b|, that of (a - b)^2, and how many pixels of the
 * histograms of csrc/frames/distance.h lie in other bins, both ways. sums (n_pair, 3)
 * is the host's and complete on return. PF_EINVAL when there are no pixels, or more
 * pairs or pixels than an int can count. */
PF_NODISCARD pf_status pf_gpu_distance_sums(pf_device *device,
        const pf_gpu_pairs *pairs, int64_t *sums, pf_failure *failure);

#endif /* PF_HOST_STATISTICS_H */

/* statistics.c - see statistics.h. */
#include "host/statistics.h"

#include "cuda/params.h"
#include "host/block.h"

enum { THREADS = 256, SUMS_BYTES = 32 };

pf_status
pf_gpu_distance_sums(pf_device *device, const pf_gpu_pairs *pairs, int64_t *sums,
        pf_failure *failure)
{
    pf_block block = {.stream = pairs->stream};
    pf_gpu_distance params = {
            .a = (const unsigned char *)pairs->a,
            .b = (const unsigned char *)pairs->b,
            .n_px = pairs->n_px,
    };
    const pf_launch launch = {.kernel = PF_KERNEL_pf_frame_distance,
            .grid = {(unsigned)pairs->n_pair, 1, 1},
            .block = {THREADS, 1, 1},
            .shared_bytes = SUMS_BYTES + 3 * PF_GPU_BINS * sizeof(int32_t),
            .params = &params,
            .stream = pairs->stream};
    pf_status st;

    if (pairs->n_px < 1 || pairs->n_px > INT32_MAX / 3 || pairs->n_pair < 0 ||
            pairs->n_pair > INT32_MAX) {
        return PF_EINVAL;
    }
    if (pairs->n_pair == 0) {
        return PF_OK;
    }
    block.part[0] = (pf_block_part){
            .to = sums, .n_byte = 3 * (size_t)pairs->n_pair * sizeof *sums};
    st = pf_device_enter(device, failure);
    if (st != PF_OK) {
        return st;
    }
    st = pf_block_open(device, &block, failure);
    if (st == PF_OK) {
        params.sums = (long long *)block.part[0].address;
        st = pf_device_launch(device, &launch, failure);
    }
    st = pf_block_close(device, &block, st, failure);
    return pf_device_leave(device, st, failure);
}

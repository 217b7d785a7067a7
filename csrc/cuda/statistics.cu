/* statistics.cu - counts of a bootstrap, and distances of frames; integers throughout.
 */
#include "device.h"
#include "params.h"

enum { PF_STATISTICS_THREADS = 256 };

/* One resample a block: the clusters that pf_resample_indices draws, counted. Draw i is
 * half i of the words of pf_rng_stream(seed, resample), unless it is refused; those in
 * the place of refused ones, seldom any, follow after the last. */
PF_KERNEL
__launch_bounds__(PF_STATISTICS_THREADS) pf_resample_counts(const pf_gpu_counts p)
{
    PF_DYN_SHARED(shared);
    pf_u32 *count = (pf_u32 *)shared;
    pf_u32 *n_refused = count + p.n_cluster;
    const pf_u32 bound = (pf_u32)p.n_cluster;
    const pf_u32 spare = (0u - bound) % bound; /* 2^32 mod bound */
    const pf_u64 resample = (pf_u64)(p.first_resample + blockIdx.x);
    /* as pf_rng_stream: the output of that number is where the stream starts */
    const pf_u64 start = pf_gpu_mix(p.seed + (resample + 1) * PF_GPU_RNG_STEP);
    pf_u32 most = 0;

#pragma unroll 1
    for (pf_i32 i = threadIdx.x; i <= p.n_cluster; i += PF_STATISTICS_THREADS) {
        count[i] = 0;
    }
    __syncthreads();
#pragma unroll 1
    for (pf_u64 i = threadIdx.x; i < bound; i += PF_STATISTICS_THREADS) {
        const pf_u64 word = pf_gpu_mix(start + (i / 2 + 1) * PF_GPU_RNG_STEP);
        const pf_u64 product = (word >> 32 * (i & 1u) & 0xffffffffu) * bound;

        if ((pf_u32)product >= spare) {
            atomicAdd(&count[product >> 32], 1u);
        }
        else {
            atomicAdd(n_refused, 1u);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        pf_u32 missing = *n_refused;

        for (pf_u64 i = bound; missing > 0; i++) {
            const pf_u64 word = pf_gpu_mix(start + (i / 2 + 1) * PF_GPU_RNG_STEP);
            const pf_u64 product = (word >> 32 * (i & 1u) & 0xffffffffu) * bound;

            if ((pf_u32)product >= spare) {
                count[product >> 32]++;
                missing--;
            }
        }
    }
    __syncthreads();
#pragma unroll 1
    for (pf_i32 i = threadIdx.x; i < p.n_cluster; i += PF_STATISTICS_THREADS) {
        union {
            float value;
            pf_u32 bits;
        } exact = {(float)count[i]};

        most = count[i] > most ? count[i] : most;
        p.count[(pf_i64)blockIdx.x * p.n_cluster + i] = (pf_u16)(exact.bits >> 16);
    }
    atomicMax(p.most, most);
}

/* One pair of frames a block: differences of all bytes, and of the histograms. */
PF_KERNEL
__launch_bounds__(PF_STATISTICS_THREADS) pf_frame_distance(const pf_gpu_distance p)
{
    PF_DYN_SHARED(shared);
    pf_u64 *sums = (pf_u64 *)shared;        /* of |a - b|, of squares, of what moved */
    pf_i32 *more = (pf_i32 *)(shared + 32); /* (3, bins): in a than in b */
    const pf_i64 n_byte = 3 * p.n_px;
    const pf_u8 *a = p.a + blockIdx.x * n_byte;
    const pf_u8 *b = p.b + blockIdx.x * n_byte;
    const pf_i32 tid = threadIdx.x;
    pf_u64 absolute = 0, square = 0;

    if (tid < 3) {
        sums[tid] = 0;
    }
#pragma unroll 1
    for (pf_i32 i = tid; i < 3 * PF_GPU_BINS; i += PF_STATISTICS_THREADS) {
        more[i] = 0;
    }
    __syncthreads();
#pragma unroll 1
    for (pf_i64 i = tid; i < n_byte; i += PF_STATISTICS_THREADS) {
        const pf_i32 difference = (pf_i32)a[i] - (pf_i32)b[i];
        const pf_i32 channel = (pf_i32)(i % 3) * PF_GPU_BINS;

        absolute += (pf_u64)(difference < 0 ? -difference : difference);
        square += (pf_u64)(difference * difference);
        if (a[i] / 8 != b[i] / 8) {
            atomicAdd(&more[channel + a[i] / 8], 1);
            atomicAdd(&more[channel + b[i] / 8], -1);
        }
    }
    atomicAdd(&sums[0], absolute);
    atomicAdd(&sums[1], square);
    __syncthreads();
    if (tid < 3 * PF_GPU_BINS && more[tid] != 0) {
        atomicAdd(&sums[2], (pf_u64)(more[tid] < 0 ? -more[tid] : more[tid]));
    }
    __syncthreads();
    if (tid < 3) {
        p.sums[3 * (pf_i64)blockIdx.x + tid] = (pf_i64)sums[tid];
    }
}

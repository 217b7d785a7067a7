/* statistics.cu - counts of a bootstrap, and distances of frames; integers throughout.
 */
#include "device.h"
#include "params.h"

enum { PF_STATISTICS_THREADS = 256 };

/* Half i of the words of a stream, as a number below bound; refused when its remainder
 * is below spare. */
struct pf_draw {
    pf_u32 index;
    pf_u32 remainder;
};

PF_DEVICE pf_draw
pf_draw_half(pf_u64 start, pf_u64 i, pf_u32 bound)
{
    const pf_u64 word = pf_gpu_mix(start + (i / 2 + 1) * PF_GPU_RNG_STEP);
    const pf_u64 product = (word >> 32 * (i & 1u) & 0xffffffffu) * bound;

    return {(pf_u32)(product >> 32), (pf_u32)product};
}

/* What pf_rng_indices draws, one after the other: 64 at a time, each 64 from whole
 * words, then the rest. */
PF_DEVICE void
pf_count_slowly(pf_u64 start, pf_u32 bound, pf_u32 spare, pf_u32 *count)
{
    pf_u64 half = 0;

    for (pf_u32 left = bound; left > 0;) {
        pf_u32 missing = left < 64 ? left : 64;

        left -= missing;
        for (; missing > 0; half++) {
            const pf_draw draw = pf_draw_half(start, half, bound);

            if (draw.remainder >= spare) {
                count[draw.index]++;
                missing--;
            }
        }
        half += half & 1u;
    }
}

/* One resample a block: the clusters that pf_resample_indices draws, counted, those of
 * pf_rng_stream(seed, resample). Draw i is half i of the words, unless one is refused;
 * then, which is seldom, the resample is counted again. */
PF_KERNEL
__launch_bounds__(PF_STATISTICS_THREADS) pf_resample_counts(const pf_gpu_counts p)
{
    PF_DYN_SHARED(block_memory);
    pf_u32 *count = (pf_u32 *)block_memory;
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
        const pf_draw draw = pf_draw_half(start, i, bound);

        atomicAdd(draw.remainder >= spare ? &count[draw.index] : n_refused, 1u);
    }
    __syncthreads();
    if (*n_refused > 0) { /* for the whole block */
        for (pf_i32 i = threadIdx.x; i < p.n_cluster; i += PF_STATISTICS_THREADS) {
            count[i] = 0;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            pf_count_slowly(start, bound, spare, count);
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
    PF_DYN_SHARED(block_memory);
    pf_u64 *sums = (pf_u64 *)block_memory; /* of |a - b|, of squares, of what moved */
    pf_i32 *more = (pf_i32 *)(block_memory + 32); /* (3, bins): in a than in b */
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

/* cuemu.h - lets device code compile as C++ and run on the CPU, one fiber a thread.
 *
 * Included by csrc/cuda/device.h under PF_EMULATED. Only what the kernels use is here;
 * what is missing fails to compile. */
#ifndef CUEMU_H
#define CUEMU_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

struct cuemu_dim3 {
    unsigned x, y, z;
};

struct cuemu_thread {
    cuemu_dim3 id;
    unsigned linear;
};

#define CUEMU_TLS extern "C" __attribute__((tls_model("initial-exec"))) thread_local

CUEMU_TLS cuemu_thread *cuemu_current;
CUEMU_TLS cuemu_dim3 cuemu_block_id, cuemu_block_dim, cuemu_grid_dim;

extern "C" {
extern unsigned long long cuemu_n_mma; /* products of matrices so far */
unsigned char *cuemu_shared(void);
void cuemu_block_barrier(int line);
void cuemu_warp_barrier(unsigned mask, int line);
/* 64 bytes a lane of the caller's warp, for what lanes show one another */
unsigned *cuemu_lane_words(unsigned lane);
void cuemu_register(const char *name, void (*run)(const void *), size_t param_bytes);
}

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)

#define threadIdx (cuemu_current->id)
#define blockIdx cuemu_block_id
#define blockDim cuemu_block_dim
#define gridDim cuemu_grid_dim

#define PF_DYN_SHARED(name) unsigned char *name = cuemu_shared()
#define __syncthreads() cuemu_block_barrier(__LINE__)
#define __syncwarp() cuemu_warp_barrier(0xffffffffu, __LINE__)

struct uint4 {
    unsigned x, y, z, w;
};

/* One access of 16 bytes, as on the device; the fields would be four. */
static inline void
pf_store_uint4(uint4 *p, const uint4 &v)
{
    typedef unsigned words __attribute__((vector_size(16)));

    *reinterpret_cast<words *>(p) = words{v.x, v.y, v.z, v.w};
}

static inline uint4
pf_load_uint4(const uint4 *p)
{
    typedef unsigned words __attribute__((vector_size(16)));
    const words w = *reinterpret_cast<const words *>(p);

    return {w[0], w[1], w[2], w[3]};
}

/* Built with -ffp-contract=off, so the plain operators round once each. */
static inline float
__fmul_rn(float a, float b)
{
    return a * b;
}
static inline float
__fadd_rn(float a, float b)
{
    return a + b;
}
static inline double
__dmul_rn(double a, double b)
{
    return a * b;
}
static inline double
__dadd_rn(double a, double b)
{
    return a + b;
}

template <class T>
static inline T
cuemu_shuffle(unsigned mask, T value, unsigned from, int line)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    T got;

    std::memcpy(cuemu_lane_words(cuemu_current->linear & 31u), &value, sizeof value);
    cuemu_warp_barrier(mask, line);
    std::memcpy(&got, cuemu_lane_words(from & 31u), sizeof got);
    cuemu_warp_barrier(mask, line);
    return got;
}
#define __shfl_sync(mask, value, from)                                                 \
    cuemu_shuffle((mask), (value), (unsigned)(from), __LINE__)
#define __shfl_xor_sync(mask, value, bits)                                             \
    cuemu_shuffle((mask), (value), (cuemu_current->linear & 31u) ^ (unsigned)(bits),   \
            __LINE__)

/* The scheduler never interrupts a fiber, so these are atomic as they stand. The tracer
 * does not see them: atomics on one word are no race. */
#define CUEMU_ATOMIC __attribute__((noinline, no_sanitize("thread")))
template <class T>
CUEMU_ATOMIC static T
atomicAdd(T *to, T value)
{
    const T before = *to;

    *to = (T)(before + value);
    return before;
}

template <class T>
CUEMU_ATOMIC static T
atomicMax(T *to, T value)
{
    const T before = *to;

    *to = before > value ? before : value;
    return before;
}

/* mma.sync.m16n8k32, row.col, 32-bit sums of 8-bit products, fragments as the PTX
 * manual lays them out: lane = 4 * group + quad. b is unsigned; a is signed or not. */
template <bool SIGNED>
CUEMU_ATOMIC static void
cuemu_mma(int *sum, const unsigned *a, const unsigned *b, int line)
{
    const unsigned lane = cuemu_current->linear & 31u;
    const size_t lane_words = (size_t)(cuemu_lane_words(1) - cuemu_lane_words(0));
    const unsigned *all = cuemu_lane_words(0);
    unsigned *mine = cuemu_lane_words(lane);

    std::memcpy(mine, a, 4 * sizeof *a);
    std::memcpy(mine + 4, b, 2 * sizeof *b);
    cuemu_warp_barrier(0xffffffffu, line);
    cuemu_n_mma += lane == 0;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = (lane >> 2) + 8 * (i >> 1);
        const unsigned column = (lane & 3u) * 2 + (i & 1u);
        const unsigned *of_a = all + (row & 7u) * 4 * lane_words + (row >> 3);
        const unsigned *of_b = all + column * 4 * lane_words + 4;

        for (unsigned k = 0; k < 32; k += 4) { /* four bytes of one lane */
            const size_t quad = (k & 15u) / 4 * lane_words;
            const unsigned word_a = of_a[quad + (k >> 4) * 2];
            const unsigned word_b = of_b[quad + (k >> 4)];

            for (unsigned shift = 0; shift < 32; shift += 8) {
                const unsigned char byte_a = (unsigned char)(word_a >> shift);
                const int value = SIGNED ? (int)(signed char)byte_a : (int)byte_a;

                sum[i] += value * (int)(word_b >> shift & 255u);
            }
        }
    }
    cuemu_warp_barrier(0xffffffffu, line);
}

/* Makes a kernel known to the emulated driver; kernels take one structure. */
#define CUEMU_EXPORT(name, params)                                                     \
    static void cuemu_run_##name(const void *p)                                        \
    {                                                                                  \
        name(*static_cast<const params *>(p));                                         \
    }                                                                                  \
    __attribute__((constructor)) static void cuemu_register_##name(void)               \
    {                                                                                  \
        cuemu_register(#name, cuemu_run_##name, sizeof(params));                       \
    }

#endif /* CUEMU_H */

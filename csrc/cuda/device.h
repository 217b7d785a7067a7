/* device.h - arithmetic of single elements, the same for every compiler that reads it.
 *
 * nvcc and NVRTC (which has no system headers) make device code of it, the emulator
 * compiles it with g++, and plain C may use what is marked PF_HD. */
#ifndef PF_CUDA_DEVICE_H
#define PF_CUDA_DEVICE_H

typedef unsigned char pf_u8;
typedef unsigned short pf_u16;
typedef unsigned int pf_u32;
typedef int pf_i32;
typedef long long pf_i64;
typedef unsigned long long pf_u64;

#if defined(PF_EMULATED)
#include "cuemu.h"
#elif defined(__CUDACC__)
#define PF_DYN_SHARED(name) extern __shared__ __align__(16) pf_u8 name[]
#endif

#if defined(PF_EMULATED) || defined(__CUDACC__)
#define PF_KERNEL extern "C" __global__ void
#define PF_DEVICE static __device__ __forceinline__
#define PF_HD static __inline__ __host__ __device__
#else
#define PF_HD static inline
#endif

/* The pixel that a sum of weights of 22 fraction bits, started at one half, stands
 * for. */
PF_HD pf_u32
pf_gpu_byte_of(pf_i32 sum)
{
    const pf_i32 v = sum >> 22;

    return (pf_u32)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* The same of 20 fraction bits, for colours. */
PF_HD pf_u32
pf_gpu_colour_of(pf_i32 sum)
{
    const pf_i32 v = sum >> 20;

    return (pf_u32)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Bytes of a, then b, that the four low hexadecimal digits of which name, lowest
 * first. */
PF_HD pf_u32
pf_gpu_pick(pf_u32 a, pf_u32 b, pf_u32 which)
{
#ifdef __CUDA_ARCH__
    return __byte_perm(a, b, which);
#else
    const pf_u64 both = (pf_u64)b << 32 | a;
    pf_u32 picked = 0;

    for (pf_u32 i = 0; i < 4; i++) {
        picked |= (pf_u32)(both >> 8 * (which >> 4 * i & 7u) & 255u) << 8 * i;
    }
    return picked;
#endif
}

/* sum + the products of the four bytes of pixels and weights, all unsigned. */
PF_HD pf_i32
pf_gpu_dot_unsigned(pf_u32 pixels, pf_u32 weights, pf_i32 sum)
{
#ifdef __CUDA_ARCH__
    return (pf_i32)__dp4a(pixels, weights, (pf_u32)sum);
#else
    for (pf_u32 i = 0; i < 4; i++) {
        sum += (pf_i32)((pixels >> 8 * i & 255u) * (weights >> 8 * i & 255u));
    }
    return sum;
#endif
}

/* The same with signed weights. */
PF_HD pf_i32
pf_gpu_dot_signed(pf_u32 pixels, pf_u32 weights, pf_i32 sum)
{
#ifdef __CUDA_ARCH__
    pf_i32 more;

    asm("dp4a.u32.s32 %0, %1, %2, %3;"
            : "=r"(more)
            : "r"(pixels), "r"(weights), "r"(sum));
    return more;
#else
    for (pf_u32 i = 0; i < 4; i++) {
        sum += (pf_i32)(pixels >> 8 * i & 255u) *
               (pf_i32)(signed char)(weights >> 8 * i & 255u);
    }
    return sum;
#endif
}

/* Sums over the three bytes of the weights, put together; modulo 2^32, which loses
 * nothing because the whole sum fits. */
PF_HD pf_i32
pf_gpu_join(pf_i32 low, pf_i32 middle, pf_i32 high)
{
    return (pf_i32)((pf_u32)low + ((pf_u32)middle << 8) + ((pf_u32)high << 16));
}

/* float of the bits of a bfloat16 */
PF_HD float
pf_gpu_from_bfloat16(pf_u16 bits)
{
    const union {
        pf_u32 bits;
        float value;
    } wide = {(pf_u32)bits << 16};

    return wide.value;
}

/* float of the bits of a float16 */
PF_HD float
pf_gpu_from_float16(pf_u16 bits)
{
    const pf_u32 sign = (pf_u32)(bits & 0x8000u) << 16;
    const pf_u32 exponent = bits >> 10 & 31u;
    const pf_u32 fraction = bits & 1023u;
    union {
        pf_u32 bits;
        float value;
    } wide;

    if (exponent == 0) { /* subnormal: a multiple of 2^-24 */
        wide.value = (float)fraction * (1.0f / 16777216.0f);
        wide.bits |= sign;
    }
    else if (exponent == 31) {
        wide.bits = sign | 0x7F800000u | fraction << 13;
    }
    else {
        wide.bits = sign | (exponent + 112) << 23 | fraction << 13;
    }
    return wide.value;
}

PF_HD double
pf_gpu_infinity(void)
{
    const union {
        pf_u64 bits;
        double value;
    } infinity = {0x7FF0000000000000ull};

    return infinity.value;
}

/* Of csrc/base/random.h: what a state of splitmix64 says. */
PF_HD pf_u64
pf_gpu_mix(pf_u64 state)
{
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
    return state ^ (state >> 31);
}

#define PF_GPU_RNG_STEP 0x9e3779b97f4a7c15ull

#if defined(__CUDACC__) && !defined(PF_EMULATED)
/* One load of 16 bytes of what no kernel writes; nvcc would split it when a part is not
 * used. */
PF_DEVICE uint4
pf_load_uint4(const uint4 *p)
{
    uint4 v;

    asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
            : "l"(p));
    return v;
}

PF_DEVICE void
pf_store_uint4(uint4 *p, const uint4 &v)
{
    *p = v;
}
#endif

/* sum (16 x 8) += a (16 x 32) * b (32 x 8), by the lanes of a warp together: lane
 * 4 * g + q has rows g and g + 8 of a and of the sum, column g of b and columns 2 * q
 * and 2 * q + 1 of the sum. Bytes of b are unsigned, those of a are when it says so. */
#ifdef PF_EMULATED
#define pf_multiply(is_signed, sum, a, b)                                              \
    cuemu_mma<is_signed>((sum), &(a).x, (b), __LINE__)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define PF_MMA(type, sum, a, b)                                                        \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." type ".u8.s32 {%0, %1, %2, %3}, "     \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                \
            : "+r"((sum)[0]), "+r"((sum)[1]), "+r"((sum)[2]), "+r"((sum)[3])           \
            : "r"((a).x), "r"((a).y), "r"((a).z), "r"((a).w), "r"((b)[0]),             \
            "r"((b)[1]))
#define pf_multiply(is_signed, sum, a, b)                                              \
    if (is_signed) {                                                                   \
        PF_MMA("s8", sum, a, b);                                                       \
    }                                                                                  \
    else {                                                                             \
        PF_MMA("u8", sum, a, b);                                                       \
    }
#else /* older devices never run what uses it */
#define pf_multiply(is_signed, sum, a, b) ((void)(a), (void)(b))
#endif

#endif /* PF_CUDA_DEVICE_H */

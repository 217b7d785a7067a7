/* pf.h - what every pure-C file of phasefusion shares: status codes and checked
 * sizes. No Python, NumPy, FFmpeg or CUDA header may be included from here. */
#ifndef PF_H
#define PF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define PF_RESTRICT __restrict
#else
#define PF_RESTRICT restrict
#endif

#if defined(__GNUC__) || defined(__clang__)
#define PF_NODISCARD __attribute__((warn_unused_result))
#else
#define PF_NODISCARD
#endif

typedef enum pf_status {
    PF_OK = 0,
    PF_EINVAL,    /* an argument breaks the documented contract */
    PF_ENOMEM,    /* allocation failed */
    PF_EOVERFLOW, /* a size or an index does not fit its type */
    PF_EDOMAIN,   /* NaN or Inf where a finite number is needed */
    PF_EIO,       /* a file cannot be opened or read; the caller's struct says why */
    PF_EDATA,     /* the bytes of a file are not what they claim to be */
    PF_EBACKEND   /* no such backend here, or it refused */
} pf_status;

/* An exact fraction, den >= 1. A phase is a fraction of one grid step. */
typedef struct pf_fraction {
    int64_t num;
    int64_t den;
} pf_fraction;

/* false when a * b does not fit; *product is then left alone */
static inline bool
pf_mul_size(size_t a, size_t b, size_t *product)
{
    if (b != 0 && a > SIZE_MAX / b) {
        return false;
    }
    *product = a * b;
    return true;
}

/* the same for counts; a and b must be >= 0 */
static inline bool
pf_mul_count(int64_t a, int64_t b, int64_t *product)
{
    if (b != 0 && a > INT64_MAX / b) {
        return false;
    }
    *product = a * b;
    return true;
}

#endif /* PF_H */

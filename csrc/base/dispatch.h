/* dispatch.h - one body of code compiled for several instruction sets.
 *
 * The body is a PF_BODY function; a function without attributes and one with each of
 * the targets below call it, and pf_cpu_best() chooses among them at run time. No
 * result depends on the choice: floating-point contraction is off. */
#ifndef PF_DISPATCH_H
#define PF_DISPATCH_H

#include "base/cpu.h"

#if defined(__GNUC__) || defined(__clang__)
#define PF_BODY static inline __attribute__((always_inline))
/* asks for the cache line of an address; nothing is read */
#define PF_PREFETCH(address) __builtin_prefetch(address)
#else
#define PF_BODY static inline
#define PF_PREFETCH(address) ((void)(address))
#endif

#if PF_X86
#define PF_TARGET_AVX2 __attribute__((target("avx2")))
#define PF_TARGET_AVX512                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))
#endif

#endif /* PF_DISPATCH_H */

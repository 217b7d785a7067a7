/* cpu.h - which instruction sets the kernels may use here. */
#ifndef PF_CPU_H
#define PF_CPU_H

#include "base/pf.h"

#if (defined(__x86_64__) || defined(_M_X64)) &&                                        \
        (defined(__GNUC__) || defined(__clang__))
#define PF_X86 1
#else
#define PF_X86 0
#endif

/* Ordered: a level includes the ones before it. */
typedef enum pf_cpu_level {
    PF_CPU_SCALAR = 0,
    PF_CPU_AVX2,
    PF_CPU_AVX512 /* F, BW, DQ, VL, VBMI and VNNI */
} pf_cpu_level;

/* The highest level that this processor and its system support. */
pf_cpu_level pf_cpu_best(void);

/* "scalar", "avx2" or "avx512" */
const char *pf_cpu_level_name(pf_cpu_level level);

/* The level of that name; "auto" is the best one. PF_EINVAL for another name,
 * PF_EBACKEND when the processor does not have it. */
PF_NODISCARD pf_status pf_cpu_level_parse(const char *name, pf_cpu_level *level);

#endif /* PF_CPU_H */

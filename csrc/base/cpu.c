/* cpu.c - asks the processor; no state, so every call gives the same answer. */
#include <string.h>

#include "base/cpu.h"

static const char *const level_names[] = {"scalar", "avx2", "avx512"};

pf_cpu_level
pf_cpu_best(void)
{
#if PF_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) {
        return PF_CPU_SCALAR;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512vbmi") &&
            __builtin_cpu_supports("avx512vnni")) {
        return PF_CPU_AVX512;
    }
    return PF_CPU_AVX2;
#else
    return PF_CPU_SCALAR;
#endif
}

const char *
pf_cpu_level_name(pf_cpu_level level)
{
    return level_names[level];
}

pf_status
pf_cpu_level_parse(const char *name, pf_cpu_level *level)
{
    const pf_cpu_level best = pf_cpu_best();

    if (strcmp(name, "auto") == 0) {
        *level = best;
        return PF_OK;
    }
    for (int i = PF_CPU_SCALAR; i <= PF_CPU_AVX512; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *level = (pf_cpu_level)i;
            return *level <= best ? PF_OK : PF_EBACKEND;
        }
    }
    return PF_EINVAL;
}

/* normalise.c - the table of all answers, and the portable way to use it. */
#include <math.h>

#include "frames/kernels.h"
#include "frames/normalise.h"

pf_status
pf_normalise_init(pf_normalise *normalise, const float mean[3], const float std[3])
{
    for (size_t c = 0; c < 3; c++) {
        if (!isfinite(mean[c]) || !isfinite(std[c])) {
            return PF_EDOMAIN;
        }
        if (!(std[c] < 0.0f || std[c] > 0.0f)) {
            return PF_EINVAL;
        }
    }
    for (size_t c = 0; c < 3; c++) {
        normalise->mean[c] = mean[c];
        normalise->std[c] = std[c];
        for (int v = 0; v < 256; v++) {
            const float unit = (float)v * PF_UNIT_SCALE;
            const float centred = unit - mean[c];

            normalise->table[c][v] = centred / std[c];
        }
    }
    return PF_OK;
}

void
pf_normalise_from(const pf_normalise *normalise, const uint8_t *PF_RESTRICT rgb,
        size_t first_px, size_t n_px, float *PF_RESTRICT planes, size_t plane_px)
{
    for (size_t c = 0; c < 3; c++) {
        const float *table = normalise->table[c];
        float *plane = planes + c * plane_px;

        for (size_t p = first_px; p < n_px; p++) {
            plane[p] = table[rgb[3 * p + c]];
        }
    }
}

static void
normalise_scalar(const pf_normalise *normalise, const uint8_t *PF_RESTRICT rgb,
        size_t n_px, float *PF_RESTRICT planes, size_t plane_px)
{
    pf_normalise_from(normalise, rgb, 0, n_px, planes, plane_px);
}

pf_normalise_fn
pf_normalise_select(pf_cpu_level level)
{
#if PF_X86
    if (level == PF_CPU_AVX512) {
        return pf_normalise_avx512;
    }
    if (level == PF_CPU_AVX2) {
        return pf_normalise_avx2;
    }
#endif
    (void)level;
    return normalise_scalar;
}

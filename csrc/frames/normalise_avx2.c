/* normalise_avx2.c - eight pixels at a time, the three operations as written. */
#include "frames/kernels.h"
#include "frames/rgb_avx2.h"

#if PF_X86

PF_TARGET_AVX2 void
pf_normalise_avx2(const pf_normalise *normalise, const uint8_t *PF_RESTRICT rgb,
        size_t n_px, float *PF_RESTRICT planes, size_t plane_px)
{
    const __m256 scale = _mm256_set1_ps(PF_UNIT_SCALE);
    const size_t n_fast_px = n_px / 8 * 8;

    for (size_t p = 0; p < n_fast_px; p += 8) {
        const __m256i bytes = pf_load_8px(rgb + 3 * p);

        for (size_t c = 0; c < 3; c++) {
            const __m256 mean = _mm256_set1_ps(normalise->mean[c]);
            const __m256 std = _mm256_set1_ps(normalise->std[c]);
            __m256 v = pf_channel_8px(bytes, c);

            v = _mm256_sub_ps(_mm256_mul_ps(v, scale), mean);
            _mm256_storeu_ps(planes + c * plane_px + p, _mm256_div_ps(v, std));
        }
    }
    pf_normalise_from(normalise, rgb, n_fast_px, n_px, planes, plane_px);
}

#endif /* PF_X86 */

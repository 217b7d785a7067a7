/* normalise_avx2.c - eight pixels at a time, the three operations as written. */
#include "frames/kernels.h"

#if PF_X86
#include <immintrin.h>

/* Eight pixels are 24 bytes: bytes 0 to 15 in the low half of a vector, 8 to 23 in the
 * high half, so that four whole pixels lie in each. */
__attribute__((target("avx2"))) void
pf_normalise_avx2(const pf_normalise *normalise, const uint8_t *PF_RESTRICT rgb,
        size_t n_px, float *PF_RESTRICT planes, size_t plane_px)
{
    const __m256i red = _mm256_setr_epi8(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9,
            -1, -1, -1, 4, -1, -1, -1, 7, -1, -1, -1, 10, -1, -1, -1, 13, -1, -1, -1);
    const __m256i next = _mm256_set1_epi32(1);
    const __m256 scale = _mm256_set1_ps(PF_UNIT_SCALE);
    const size_t n_fast_px = n_px / 8 * 8;

    for (size_t p = 0; p < n_fast_px; p += 8) {
        const __m128i *at = (const void *)(rgb + 3 * p);
        const __m128i *middle = (const void *)(rgb + 3 * p + 8);
        const __m256i bytes =
                _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(at)),
                        _mm_loadu_si128(middle), 1);
        __m256i pick = red;

        for (size_t c = 0; c < 3; c++) {
            const __m256 mean = _mm256_set1_ps(normalise->mean[c]);
            const __m256 std = _mm256_set1_ps(normalise->std[c]);
            __m256 v = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, pick));

            v = _mm256_sub_ps(_mm256_mul_ps(v, scale), mean);
            _mm256_storeu_ps(planes + c * plane_px + p, _mm256_div_ps(v, std));
            pick = _mm256_add_epi32(pick, next); /* the low byte of each picks */
        }
    }
    pf_normalise_from(normalise, rgb, n_fast_px, n_px, planes, plane_px);
}

#endif /* PF_X86 */

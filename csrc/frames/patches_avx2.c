/* patches_avx2.c - one channel of patches, eight pixels at a time. */
#include "frames/kernels.h"

#if PF_X86
#include <immintrin.h>

/* Eight pixels are 24 bytes: bytes 0 to 15 in the low half of a vector, 8 to 23 in the
 * high half, so that four whole pixels lie in each. The last eight pixels of a line are
 * made anew where they overlap earlier ones, so nothing beyond the line is touched. */
__attribute__((target("avx2"))) void
pf_convert_lines_avx2(const pf_values *values, size_t c, pf_rows src, pf_size size,
        float *PF_RESTRICT out)
{
    const __m256i red = _mm256_setr_epi8(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9,
            -1, -1, -1, 4, -1, -1, -1, 7, -1, -1, -1, 10, -1, -1, -1, 13, -1, -1, -1);
    /* the low byte of each picks */
    const __m256i pick = _mm256_add_epi32(red, _mm256_set1_epi32((int)c));
    const __m256 divisor = _mm256_set1_ps(values->divisor);
    const __m256 mean = _mm256_set1_ps(values->mean[c]);
    const __m256 std = _mm256_set1_ps(values->std[c]);
    const bool divides = values->divisor < 1.0f || values->divisor > 1.0f;
    const size_t n_px = (size_t)size.width_px;

    for (int64_t y = 0; y < size.height_px; y++) {
        const uint8_t *rgb = src.rgb + y * src.row_bytes;

        for (size_t i = 0; i < n_px; i += PF_LINE_MIN_PX) {
            const size_t p = i + PF_LINE_MIN_PX <= n_px ? i : n_px - PF_LINE_MIN_PX;
            const __m128i *at = (const void *)(rgb + 3 * p);
            const __m128i *middle = (const void *)(rgb + 3 * p + 8);
            const __m256i bytes =
                    _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(at)),
                            _mm_loadu_si128(middle), 1);
            __m256 v = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, pick));

            if (divides) {
                v = _mm256_div_ps(v, divisor);
            }
            v = _mm256_div_ps(_mm256_sub_ps(v, mean), std);
            _mm256_storeu_ps(out + p, v);
        }
        out += n_px;
    }
}

#endif /* PF_X86 */

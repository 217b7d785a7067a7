/* patches_avx2.c - one channel of patches, eight pixels at a time. */
#include "frames/kernels.h"
#include "frames/rgb_avx2.h"

#if PF_X86

/* The last eight pixels of a line are made anew where they overlap earlier ones, so
 * nothing beyond the line is touched. */
PF_TARGET_AVX2 void
pf_convert_lines_avx2(const pf_values *values, size_t c, pf_rows src, pf_size size,
        float *PF_RESTRICT out)
{
    const __m256 divisor = _mm256_set1_ps(values->divisor);
    const __m256 mean = _mm256_set1_ps(values->mean[c]);
    const __m256 std = _mm256_set1_ps(values->std[c]);
    const bool divides = values->divisor < 1.0f || values->divisor > 1.0f;
    const size_t n_px = (size_t)size.width_px;

    for (int64_t y = 0; y < size.height_px; y++) {
        const uint8_t *rgb = src.rgb + y * src.row_bytes;

        for (size_t i = 0; i < n_px; i += PF_LINE_MIN_PX) {
            const size_t p = i + PF_LINE_MIN_PX <= n_px ? i : n_px - PF_LINE_MIN_PX;
            __m256 v = pf_channel_8px(pf_load_8px(rgb + 3 * p), c);

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

/* normalise_avx512.c - sixteen pixels at a time, the three operations as written. */
#include "frames/kernels.h"

#if PF_X86
#include <immintrin.h>

__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void
pf_normalise_avx512(const pf_normalise *normalise, const uint8_t *PF_RESTRICT rgb,
        size_t n_px, float *PF_RESTRICT planes, size_t plane_px)
{
    const __mmask64 low_byte = 0x1111111111111111u; /* of each 32-bit lane */
    const __m512i red = _mm512_setr_epi32(
            0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    const __m512 scale = _mm512_set1_ps(PF_UNIT_SCALE);

    for (size_t p = 0; p < n_px; p += 16) {
        const size_t n = n_px - p < 16 ? n_px - p : 16;
        const __mmask64 bytes_there = ((__mmask64)1 << (3 * n)) - 1;
        const __mmask16 pixels_there = (__mmask16)((1u << n) - 1u);
        const __m512i bytes = _mm512_maskz_loadu_epi8(bytes_there, rgb + 3 * p);

        for (size_t c = 0; c < 3; c++) {
            const __m512 mean = _mm512_set1_ps(normalise->mean[c]);
            const __m512 std = _mm512_set1_ps(normalise->std[c]);
            const __m512i pick = _mm512_add_epi32(red, _mm512_set1_epi32((int)c));
            __m512 v = _mm512_cvtepi32_ps(
                    _mm512_maskz_permutexvar_epi8(low_byte, pick, bytes));

            v = _mm512_sub_ps(_mm512_mul_ps(v, scale), mean);
            _mm512_mask_storeu_ps(
                    planes + c * plane_px + p, pixels_there, _mm512_div_ps(v, std));
        }
    }
}

#endif /* PF_X86 */

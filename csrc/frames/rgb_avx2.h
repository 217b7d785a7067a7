/* rgb_avx2.h - eight RGB pixels at a time, for the files whose kernels use AVX2. */
#ifndef PF_FRAMES_RGB_AVX2_H
#define PF_FRAMES_RGB_AVX2_H

#include "base/dispatch.h"

#if PF_X86
#include <immintrin.h>

/* The 24 bytes of eight pixels: bytes 0 to 15 in the low half, 8 to 23 in the high
 * half, so that four whole pixels lie in each. Nothing beyond them is read. */
PF_BODY PF_TARGET_AVX2 __m256i
pf_load_8px(const uint8_t *rgb)
{
    const __m128i first = _mm_loadu_si128((const void *)rgb);
    const __m128i middle = _mm_loadu_si128((const void *)(rgb + 8));

    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), middle, 1);
}

/* Channel c of eight loaded pixels as floats. */
PF_BODY PF_TARGET_AVX2 __m256
pf_channel_8px(__m256i bytes, size_t c)
{
    const __m256i red = _mm256_setr_epi8(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9,
            -1, -1, -1, 4, -1, -1, -1, 7, -1, -1, -1, 10, -1, -1, -1, 13, -1, -1, -1);
    /* the low byte of each picks */
    const __m256i pick = _mm256_add_epi32(red, _mm256_set1_epi32((int)c));

    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, pick));
}

#endif /* PF_X86 */

#endif /* PF_FRAMES_RGB_AVX2_H */

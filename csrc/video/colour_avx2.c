/* colour_avx2.c - 8-bit planar YUV with chroma shared by two pixels, 32 pixels at a
 * time.
 *
 * A factor k of 22 bits is k1 * 2^11 + k0, both parts in 16 bits, so that one multiply
 * and add of 16-bit pairs gives k * y + k' * c in two halves. The sums are those of
 * colour.h, whatever the order. */
#include "video/colour.h"

#if PF_X86
#include <immintrin.h>

enum { STEP_PX = 32, LOW_BITS = 11, FRACTION_BITS = 20 };

#define AVX2 __attribute__((target("avx2")))

/* The two halves of a pair of factors, for all lanes. */
typedef struct factors {
    __m256i low;
    __m256i high;
} factors;

AVX2 static inline factors
split(int32_t first, int32_t second)
{
    const int32_t mask = (1 << LOW_BITS) - 1;
    const uint32_t low = (uint32_t)(first & mask) | (uint32_t)(second & mask) << 16;
    const uint32_t high = (uint32_t)((first >> LOW_BITS) & 0xffff) |
                          (uint32_t)(second >> LOW_BITS) << 16;

    return (factors){_mm256_set1_epi32((int32_t)low), _mm256_set1_epi32((int32_t)high)};
}

/* 8 sums of products of pairs */
AVX2 static inline __m256i
weigh(__m256i pairs, const factors *f)
{
    return _mm256_add_epi32(_mm256_madd_epi16(pairs, f->low),
            _mm256_slli_epi32(_mm256_madd_epi16(pairs, f->high), LOW_BITS));
}

/* 16 values in 16 bits from two halves that unpacking made */
AVX2 static inline __m256i
finish(__m256i low, __m256i high)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(low, FRACTION_BITS),
            _mm256_srai_epi32(high, FRACTION_BITS));
}

typedef struct matrix {
    factors red;     /* of y and v */
    factors blue;    /* of y and u */
    factors green;   /* of y and u, and then */
    factors green_v; /* of v and 1, which brings the half in */
    __m256i half;
    __m256i y0;
    __m256i c0;
} matrix;

AVX2 static inline matrix
prepare(const pf_colour *c)
{
    const int32_t half = 1 << (FRACTION_BITS - 1);

    return (matrix){
            .red = split(c->ky, c->krv),
            .blue = split(c->ky, c->kbu),
            .green = split(c->ky, c->kgu),
            .green_v = split(c->kgv, half),
            .half = _mm256_set1_epi32(half),
            .y0 = _mm256_set1_epi16((int16_t)c->y0),
            .c0 = _mm256_set1_epi16((int16_t)c->c0),
    };
}

/* 16 pixels: 16 luma and 8 of each chroma bytes to 16-bit R, G, B. */
AVX2 static inline void
convert_16(const matrix *m, const uint8_t *y, const uint8_t *u, const uint8_t *v,
        __m256i rgb[3])
{
    const __m128i u_8 = _mm_loadl_epi64((const __m128i *)(const void *)u);
    const __m128i v_8 = _mm_loadl_epi64((const __m128i *)(const void *)v);
    const __m128i y_16 = _mm_loadu_si128((const __m128i *)(const void *)y);
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i luma = _mm256_sub_epi16(_mm256_cvtepu8_epi16(y_16), m->y0);
    const __m256i cb =
            _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(u_8, u_8)), m->c0);
    const __m256i cr =
            _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(v_8, v_8)), m->c0);
    const __m256i yv_low = _mm256_unpacklo_epi16(luma, cr);
    const __m256i yv_high = _mm256_unpackhi_epi16(luma, cr);
    const __m256i yu_low = _mm256_unpacklo_epi16(luma, cb);
    const __m256i yu_high = _mm256_unpackhi_epi16(luma, cb);
    const __m256i v1_low = _mm256_unpacklo_epi16(cr, one);
    const __m256i v1_high = _mm256_unpackhi_epi16(cr, one);

    rgb[0] = finish(_mm256_add_epi32(weigh(yv_low, &m->red), m->half),
            _mm256_add_epi32(weigh(yv_high, &m->red), m->half));
    rgb[1] = finish(
            _mm256_add_epi32(weigh(yu_low, &m->green), weigh(v1_low, &m->green_v)),
            _mm256_add_epi32(weigh(yu_high, &m->green), weigh(v1_high, &m->green_v)));
    rgb[2] = finish(_mm256_add_epi32(weigh(yu_low, &m->blue), m->half),
            _mm256_add_epi32(weigh(yu_high, &m->blue), m->half));
}

/* 32 values of one colour in bytes, pixels 0 to 15 in the low half */
AVX2 static inline __m256i
to_bytes(__m256i first, __m256i second)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8);
}

AVX2 static inline void
store_half(uint8_t *at, __m256i out, int half)
{
    _mm_storeu_si128((__m128i *)(void *)at,
            half == 0 ? _mm256_castsi256_si128(out) : _mm256_extracti128_si256(out, 1));
}

/* Byte k of each third of 48 bytes R G B R G B ...: from which pixel of one colour, or
 * none (high bit set). */
#define THIRD(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                          \
    _mm256_setr_epi8(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, a, b, c, d, e, f, \
            g, h, i, j, k, l, m, n, o, p)

AVX2 static inline void
store_32(__m256i r, __m256i g, __m256i b, uint8_t *rgb)
{
    const __m256i r0 = THIRD(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5);
    const __m256i g0 = THIRD(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1);
    const __m256i b0 = THIRD(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1);
    const __m256i r1 =
            THIRD(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1);
    const __m256i g1 = THIRD(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10);
    const __m256i b1 = THIRD(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1);
    const __m256i r2 =
            THIRD(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1);
    const __m256i g2 =
            THIRD(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1);
    const __m256i b2 =
            THIRD(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15);
    const __m256i out[3] = {
            _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(r, r0),
                                    _mm256_shuffle_epi8(g, g0)),
                    _mm256_shuffle_epi8(b, b0)),
            _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(r, r1),
                                    _mm256_shuffle_epi8(g, g1)),
                    _mm256_shuffle_epi8(b, b1)),
            _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(r, r2),
                                    _mm256_shuffle_epi8(g, g2)),
                    _mm256_shuffle_epi8(b, b2)),
    };

    for (int i = 0; i < 3; i++) {
        store_half(rgb + 16 * i, out[i], 0);
        store_half(rgb + 48 + 16 * i, out[i], 1);
    }
}

AVX2 int64_t
pf_colour_row_avx2(const pf_colour *c, const uint8_t *const sample[3], int64_t width_px,
        uint8_t *PF_RESTRICT rgb)
{
    const matrix m = prepare(c);
    int64_t x = 0;

    for (; x + STEP_PX <= width_px; x += STEP_PX) {
        const uint8_t *y = sample[0] + x;
        const uint8_t *u = sample[1] + x / 2;
        const uint8_t *v = sample[2] + x / 2;
        __m256i first[3];
        __m256i second[3];

        convert_16(&m, y, u, v, first);
        convert_16(&m, y + 16, u + 8, v + 8, second);
        store_32(to_bytes(first[0], second[0]), to_bytes(first[1], second[1]),
                to_bytes(first[2], second[2]), rgb + 3 * x);
    }
    return x;
}
#endif /* PF_X86 */

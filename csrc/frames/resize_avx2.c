/* resize_avx2.c - the two passes in 16-bit products.
 *
 * A weight of up to 24 bits is split into high * 2^11 + low, both of which fit an
 * int16, so that one multiply-add instruction takes two taps of a half. Sums wrap, and
 * the true sum fits an int32, so the halves may be put together at the end. */
#include "frames/kernels.h"

#if PF_X86
#include <assert.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

#define LOW_BITS 11

/* The weights of four taps of one resized pixel. */
struct step {
    int16_t high[4];
    int16_t low[4];
};

/* The weights of two taps of one resized row, low tap in the low half. */
struct pair {
    uint32_t high;
    uint32_t low;
};

struct tables {
    size_t n_step;     /* for the pixel of the most taps */
    size_t n_fast_px;  /* from here on a load might leave the row */
    struct step *step; /* (x.dst_px, n_step) */
    size_t n_pair;
    struct pair *pair; /* (y.dst_px, n_pair) */
};

static int16_t
high_half(int32_t weight)
{
    return (int16_t)(weight >> LOW_BITS);
}

static int16_t
low_half(int32_t weight)
{
    return (int16_t)(weight & ((1 << LOW_BITS) - 1));
}

static pf_status
step_init(struct tables *tables, const pf_axis *axis)
{
    const size_t n_px = (size_t)axis->dst_px;
    const size_t n_step = ((size_t)axis->n_tap_max + 3) / 4;
    const int64_t reach_bytes = 12 * ((int64_t)n_step - 1) + 16;
    size_t n;

    if (!pf_mul_size(n_px, n_step, &n)) {
        return PF_EOVERFLOW;
    }
    tables->n_step = n_step;
    tables->step = calloc(n, sizeof *tables->step);
    if (tables->step == NULL) {
        return PF_ENOMEM;
    }
    for (size_t x = 0; x < n_px; x++) {
        if (3 * axis->first_px[x] + reach_bytes <= 3 * axis->src_px) {
            tables->n_fast_px = x + 1;
        }
        for (size_t i = 0; i < (size_t)axis->n_tap[x]; i++) {
            const int32_t weight = axis->weight[x * axis->stride + i];
            struct step *step = &tables->step[x * n_step + i / 4];

            step->high[i % 4] = high_half(weight);
            step->low[i % 4] = low_half(weight);
        }
    }
    /* The taps of the last pixel end with the row, so a load of them goes past it.
     * Stores rely on that: they are a byte longer than a pixel. */
    assert(tables->n_fast_px < n_px);
    return PF_OK;
}

static pf_status
pair_init(struct tables *tables, const pf_axis *axis)
{
    const size_t n_row = (size_t)axis->dst_px;
    size_t n;

    tables->n_pair = ((size_t)axis->n_tap_max + 1) / 2;
    if (!pf_mul_size(n_row, tables->n_pair, &n)) {
        return PF_EOVERFLOW;
    }
    tables->pair = calloc(n, sizeof *tables->pair);
    if (tables->pair == NULL) {
        return PF_ENOMEM;
    }
    for (size_t y = 0; y < n_row; y++) {
        for (size_t i = 0; i < (size_t)axis->n_tap[y]; i++) {
            const int32_t weight = axis->weight[y * axis->stride + i];
            struct pair *pair = &tables->pair[y * tables->n_pair + i / 2];
            const unsigned shift = i % 2 * 16;

            pair->high |= (uint32_t)(uint16_t)high_half(weight) << shift;
            pair->low |= (uint32_t)(uint16_t)low_half(weight) << shift;
        }
    }
    return PF_OK;
}

static pf_status
tables_init(pf_resize_plan *plan)
{
    struct tables *tables = calloc(1, sizeof *tables);
    pf_status st = PF_OK;

    plan->tables = tables;
    if (tables == NULL) {
        return PF_ENOMEM;
    }
    if (plan->x.dst_px != 0) {
        st = step_init(tables, &plan->x);
    }
    if (st == PF_OK && plan->y.dst_px != 0) {
        st = pair_init(tables, &plan->y);
    }
    return st;
}

static void
tables_free(void *opaque)
{
    struct tables *tables = opaque;

    free(tables->pair);
    free(tables->step);
    free(tables);
}

/* Four pixels from sixteen bytes as 16-bit numbers: taps 0 1 2 3 of red, the same of
 * green, then of blue, and zeros. */
INLINE __m256i
spread(const uint8_t *rgb)
{
    const __m256i order = _mm256_setr_epi8(0, -1, 3, -1, 6, -1, 9, -1, 1, -1, 4, -1, 7,
            -1, 10, -1, 2, -1, 5, -1, 8, -1, 11, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i bytes = _mm_loadu_si128((const void *)rgb);

    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), order);
}

/* Four weights, over and over. */
INLINE __m256i
four_weights(const int16_t weight[4])
{
    return _mm256_broadcastq_epi64(_mm_loadl_epi64((const void *)weight));
}

/* Eight sums. gcc copies every sum in every step when they are __m256i. */
typedef uint32_t lanes __attribute__((vector_size(32)));

/* Sixteen products, two to a sum. */
INLINE lanes
dot(__m256i taps, __m256i weights)
{
    return (lanes)_mm256_madd_epi16(taps, weights);
}

INLINE __m256i
join(lanes high, lanes low)
{
    return (__m256i)((high << LOW_BITS) + low);
}

/* The pixels of two rows from their sums in the order of spread(): red and green of
 * both in the low half, blue of both in the high half. */
INLINE __m256i
finish(__m256i a, __m256i b)
{
    const __m256i half = _mm256_set1_epi32(PF_WEIGHT_HALF);
    const __m256i sum = _mm256_hadd_epi32(a, b);

    return _mm256_srai_epi32(_mm256_add_epi32(sum, half), PF_WEIGHT_BITS);
}

INLINE void
store_px(uint8_t *at, int32_t rgbx)
{
    memcpy(at, &rgbx, sizeof rgbx);
}

INLINE void
add_step(lanes high[4], lanes low[4], const struct step *step,
        const uint8_t *const src[4], size_t at)
{
    const __m256i w_high = four_weights(step->high);
    const __m256i w_low = four_weights(step->low);

    for (size_t r = 0; r < 4; r++) {
        const __m256i taps = spread(src[r] + at);

        high[r] += dot(taps, w_high);
        low[r] += dot(taps, w_low);
    }
}

/* One resized pixel of four rows, from the bytes at src[r] + at; a fourth byte is
 * written after each. */
INLINE void
four_rows(const struct step *step, size_t n_step, const uint8_t *const src[4],
        size_t at, uint8_t *const dst[4])
{
    lanes high[4] = {0};
    lanes low[4] = {0};
    __m256i px;
    __m128i rgbx;

    add_step(high, low, step, src, at); /* outside: the sums are 0, nothing to add */
    for (size_t t = 1; t < n_step; t++) {
        add_step(high, low, step + t, src, at + 12 * t);
    }
    px = _mm256_packs_epi32(finish(join(high[0], low[0]), join(high[1], low[1])),
            finish(join(high[2], low[2]), join(high[3], low[3])));
    px = _mm256_packus_epi16(px, px);
    rgbx = _mm_unpacklo_epi16(
            _mm256_castsi256_si128(px), _mm256_extracti128_si256(px, 1));
    store_px(dst[0], _mm_cvtsi128_si32(rgbx));
    store_px(dst[1], _mm_extract_epi32(rgbx, 1));
    store_px(dst[2], _mm_extract_epi32(rgbx, 2));
    store_px(dst[3], _mm_extract_epi32(rgbx, 3));
}

static_assert(PF_BLOCK_ROWS == 4, "four_rows() makes a block");

/* A block at a time; when fewer rows are left, the last one is made again. */
TARGET static void
horizontal(
        const pf_resize_plan *plan, pf_rows src, size_t n_row, uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const size_t n_bytes = 3 * (size_t)plan->x.dst_px;

    for (size_t y = 0; y < n_row; y += PF_BLOCK_ROWS) {
        const struct step *step = tables->step;
        const uint8_t *in[4];
        uint8_t *out[4];

        for (size_t r = 0; r < 4; r++) {
            const size_t row = y + r < n_row ? y + r : n_row - 1;

            in[r] = src.rgb + (ptrdiff_t)row * src.row_bytes;
            out[r] = dst + row * n_bytes;
        }
        for (size_t x = 0; x < tables->n_fast_px; x++) {
            four_rows(step, tables->n_step, in, 3 * (size_t)plan->x.first_px[x], out);
            step += tables->n_step;
            for (size_t r = 0; r < 4; r++) {
                out[r] += 3;
            }
        }
    }
    pf_horizontal_from(plan, src, n_row, tables->n_fast_px, dst);
}

/* 32 bytes of resized row y, whose first tap is at src. */
INLINE __m256i
column(const struct pair *pair, size_t n_tap, const uint8_t *src, ptrdiff_t row_bytes)
{
    const __m256i zero = _mm256_setzero_si256();
    const lanes half = (lanes)_mm256_set1_epi32(PF_WEIGHT_HALF);
    lanes high[4] = {0};
    lanes low[4] = {half, half, half, half};
    __m256i px[4];

    for (size_t i = 0; i < n_tap; i += 2, pair++) {
        const uint8_t *next = i + 1 < n_tap ? src + row_bytes : src; /* weight 0 */
        const __m256i a = _mm256_loadu_si256((const void *)src);
        const __m256i b = _mm256_loadu_si256((const void *)next);
        const __m256i w_high = _mm256_set1_epi32((int32_t)pair->high);
        const __m256i w_low = _mm256_set1_epi32((int32_t)pair->low);
        const __m256i ab_low = _mm256_unpacklo_epi8(a, b);
        const __m256i ab_high = _mm256_unpackhi_epi8(a, b);
        const __m256i ab[4] = {
                _mm256_unpacklo_epi8(ab_low, zero),
                _mm256_unpackhi_epi8(ab_low, zero),
                _mm256_unpacklo_epi8(ab_high, zero),
                _mm256_unpackhi_epi8(ab_high, zero),
        };

        for (size_t q = 0; q < 4; q++) {
            high[q] += dot(ab[q], w_high);
            low[q] += dot(ab[q], w_low);
        }
        src = next + row_bytes;
    }
    for (size_t q = 0; q < 4; q++) {
        px[q] = _mm256_srai_epi32(join(high[q], low[q]), PF_WEIGHT_BITS);
    }
    return _mm256_packus_epi16(
            _mm256_packs_epi32(px[0], px[1]), _mm256_packs_epi32(px[2], px[3]));
}

TARGET static void
vertical(const pf_resize_plan *plan, int64_t y, pf_rows rows, uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const struct pair *pair = tables->pair + (size_t)y * tables->n_pair;
    const size_t n_tap = (size_t)plan->y.n_tap[y];

    if (rows.n_bytes < 32) {
        pf_vertical_scalar(plan, y, rows, dst);
        return;
    }
    for (size_t b = 0; b < rows.n_bytes; b += 32) {
        /* The last column is moved back into the row; it repeats a few bytes. */
        const size_t at = b + 32 <= rows.n_bytes ? b : rows.n_bytes - 32;

        _mm256_storeu_si256(
                (void *)(dst + at), column(pair, n_tap, rows.rgb + at, rows.row_bytes));
    }
}

const pf_resize_kernels pf_resize_avx2 = {
        .tables_init = tables_init,
        .tables_free = tables_free,
        .horizontal = horizontal,
        .vertical = vertical,
};

#endif /* PF_X86 */

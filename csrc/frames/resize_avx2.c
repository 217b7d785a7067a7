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

/* The weights of two taps, that of the first in the low half. */
struct pair {
    uint32_t high;
    uint32_t low;
};

/* Sixteen columns of a block - eight rows, two pixels - are three vectors: every
 * 32-bit lane holds one channel of the two pixels of a row. */
#define DUO_BYTES 96

/* Duos of a row that are held at a time: they should stay in the first-level cache. */
#define N_HELD 48

/* Duos that may be written after those that are held. */
#define N_BEYOND 4

struct tables {
    size_t n_duo;        /* that hold the taps of a resized pixel */
    size_t n_held;       /* duos, even, more than n_duo */
    int32_t *first_duo;  /* (x.dst_px,), the first of them */
    struct pair *across; /* (x.dst_px, n_duo) */
    size_t n_pair;
    struct pair *down; /* (y.dst_px, n_pair) */
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

/* Adds the weight of tap i of the pixel whose pairs these are. */
static void
pair_set(struct pair *pair, size_t i, int32_t weight)
{
    const unsigned shift = i % 2 * 16;

    pair[i / 2].high |= (uint32_t)(uint16_t)high_half(weight) << shift;
    pair[i / 2].low |= (uint32_t)(uint16_t)low_half(weight) << shift;
}

static pf_status
across_init(struct tables *tables, const pf_axis *axis)
{
    const size_t n_px = (size_t)axis->dst_px;
    size_t n;

    for (size_t x = 0; x < n_px; x++) {
        const int32_t first = axis->first_px[x];
        const size_t n_duo = (size_t)(first % 2 + axis->n_tap[x] + 1) / 2;

        tables->n_duo = n_duo > tables->n_duo ? n_duo : tables->n_duo;
    }
    tables->n_held = 2 * tables->n_duo > N_HELD ? 2 * tables->n_duo : N_HELD;
    if (!pf_mul_size(n_px, tables->n_duo, &n)) {
        return PF_EOVERFLOW;
    }
    tables->first_duo = calloc(n_px, sizeof *tables->first_duo);
    tables->across = calloc(n, sizeof *tables->across);
    if (tables->first_duo == NULL || tables->across == NULL) {
        return PF_ENOMEM;
    }
    for (size_t x = 0; x < n_px; x++) {
        const size_t odd = (size_t)axis->first_px[x] % 2;

        tables->first_duo[x] = axis->first_px[x] / 2;
        for (size_t i = 0; i < (size_t)axis->n_tap[x]; i++) {
            pair_set(tables->across + x * tables->n_duo, i + odd,
                    axis->weight[x * axis->stride + i]);
        }
    }
    return PF_OK;
}

static pf_status
down_init(struct tables *tables, const pf_axis *axis)
{
    const size_t n_row = (size_t)axis->dst_px;
    size_t n;

    tables->n_pair = ((size_t)axis->n_tap_max + 1) / 2;
    if (!pf_mul_size(n_row, tables->n_pair, &n)) {
        return PF_EOVERFLOW;
    }
    tables->down = calloc(n, sizeof *tables->down);
    if (tables->down == NULL) {
        return PF_ENOMEM;
    }
    for (size_t y = 0; y < n_row; y++) {
        for (size_t i = 0; i < (size_t)axis->n_tap[y]; i++) {
            pair_set(tables->down + y * tables->n_pair, i,
                    axis->weight[y * axis->stride + i]);
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
        st = across_init(tables, &plan->x);
        plan->work_bytes = (tables->n_held + N_BEYOND) * DUO_BYTES;
    }
    if (st == PF_OK && plan->y.dst_px != 0) {
        st = down_init(tables, &plan->y);
    }
    return st;
}

static void
tables_free(void *opaque)
{
    struct tables *tables = opaque;

    free(tables->down);
    free(tables->across);
    free(tables->first_duo);
    free(tables);
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

/* Two windows of sixteen bytes, one a half. */
INLINE __m256i
load_two(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const void *)low)),
            _mm_loadu_si128((const void *)high), 1);
}

/* Where a byte of two neighbour pixels is, to become two 16-bit numbers. */
#define DUO(c) (char)(c), -1, (char)((c) + 3), -1
#define NONE -1, -1, -1, -1
#define SETR(...) _mm256_setr_epi8(__VA_ARGS__)
#define TWICE(...) SETR(__VA_ARGS__, __VA_ARGS__)

/* Four pixels of eight rows, from sixteen bytes at row[r] + at, as two duos. Each half
 * of a vector has room for four channels, so rows 0 to 2 and 4 to 6 take a vector each
 * with one lane free, and the lanes of rows 3 and 7 go there. */
INLINE void
spread(const uint8_t *const row[PF_BLOCK_ROWS], size_t at, __m256i *to)
{
    const __m256i order[2][4] = {
            {TWICE(DUO(0), DUO(1), DUO(2), NONE), TWICE(DUO(0), DUO(1), NONE, DUO(2)),
                    TWICE(DUO(0), NONE, DUO(1), DUO(2)),
                    TWICE(NONE, DUO(2), DUO(1), DUO(0))},
            {TWICE(DUO(6), DUO(7), DUO(8), NONE), TWICE(DUO(6), DUO(7), NONE, DUO(8)),
                    TWICE(DUO(6), NONE, DUO(7), DUO(8)),
                    TWICE(NONE, DUO(8), DUO(7), DUO(6))},
    };
    const __m256i bytes[4] = {
            load_two(row[0] + at, row[4] + at),
            load_two(row[1] + at, row[5] + at),
            load_two(row[2] + at, row[6] + at),
            load_two(row[3] + at, row[7] + at),
    };

    for (size_t d = 0; d < 2; d++, to += 3) {
        const __m256i last = _mm256_shuffle_epi8(bytes[3], order[d][3]);

        _mm256_store_si256(
                to + 0, _mm256_blend_epi32(_mm256_shuffle_epi8(bytes[0], order[d][0]),
                                last, 0x88));
        _mm256_store_si256(
                to + 1, _mm256_blend_epi32(_mm256_shuffle_epi8(bytes[1], order[d][1]),
                                last, 0x44));
        _mm256_store_si256(
                to + 2, _mm256_blend_epi32(_mm256_shuffle_epi8(bytes[2], order[d][2]),
                                last, 0x22));
    }
}

/* A block of source rows; after them lie those of the next block, if any. */
struct source {
    const uint8_t *row[PF_BLOCK_ROWS];
    const uint8_t *next[PF_BLOCK_ROWS];
    size_t n_bytes;
};

/* Asks for line n of the next block, counted from row to row. */
INLINE void
fetch_next(const struct source *src, size_t n)
{
    const size_t at = n / PF_BLOCK_ROWS * 64;

    if (at < src->n_bytes) {
        _mm_prefetch((const char *)src->next[n % PF_BLOCK_ROWS] + at, _MM_HINT_T0);
    }
}

/* The last pixels of the rows, which a load of spread() would leave. */
TARGET static void
spread_end(const struct source *src, size_t at, __m256i *to)
{
    uint8_t copy[PF_BLOCK_ROWS][32] = {{0}};
    const uint8_t *row[PF_BLOCK_ROWS];
    const size_t n_bytes = src->n_bytes - at;

    assert(n_bytes < 16);
    for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
        memcpy(copy[r], src->row[r] + at, n_bytes);
        row[r] = copy[r];
    }
    for (size_t b = 0; b < n_bytes; b += 12, to += 6) {
        spread(row, b, to);
    }
}

/* Holds n_duo duos of the rows from that one on, fewer where the rows end. */
TARGET static void
hold(const struct source *src, size_t first_duo, size_t n_duo, __m256i *held)
{
    const size_t end = 6 * (first_duo + n_duo);
    size_t at = 6 * first_duo;

    for (; at < end && at + 16 <= src->n_bytes; at += 12, held += 6) {
        fetch_next(src, at / 6); /* 8 rows of 12 bytes: fewer than two lines */
        fetch_next(src, at / 6 + 1);
        spread(src->row, at, held);
    }
    if (at < end && at < src->n_bytes) {
        spread_end(src, at, held);
    }
}

INLINE void
store_px(uint8_t *at, int32_t rgbx)
{
    memcpy(at, &rgbx, sizeof rgbx);
}

/* The pixels of eight rows, in the order of spread(), into dst; a fourth byte is
 * written after each. */
INLINE void
store_block(const lanes sum[3], uint8_t *dst, size_t row_bytes)
{
    const __m256i order = _mm256_setr_epi8(0, 1, 2, -1, 4, 5, 7, -1, 8, 10, 11, -1, 3,
            6, 9, -1, 0, 1, 2, -1, 4, 5, 7, -1, 8, 10, 11, -1, 3, 6, 9, -1);
    __m256i px[3];
    __m128i low;
    __m128i high;

    /* the lanes of row 3 are blue, green, red in vectors 2, 1, 0 */
    for (size_t v = 0; v < 3; v++) {
        px[v] = _mm256_srai_epi32((__m256i)sum[v], PF_WEIGHT_BITS);
    }
    px[0] = _mm256_packus_epi16(
            _mm256_packs_epi32(px[0], px[1]), _mm256_packs_epi32(px[2], px[2]));
    px[0] = _mm256_shuffle_epi8(px[0], order);
    low = _mm256_castsi256_si128(px[0]);
    high = _mm256_extracti128_si256(px[0], 1);
    store_px(dst, _mm_cvtsi128_si32(low));
    store_px(dst + row_bytes, _mm_extract_epi32(low, 1));
    store_px(dst + 2 * row_bytes, _mm_extract_epi32(low, 2));
    store_px(dst + 3 * row_bytes, _mm_extract_epi32(low, 3));
    dst += 4 * row_bytes;
    store_px(dst, _mm_cvtsi128_si32(high));
    store_px(dst + row_bytes, _mm_extract_epi32(high, 1));
    store_px(dst + 2 * row_bytes, _mm_extract_epi32(high, 2));
    store_px(dst + 3 * row_bytes, _mm_extract_epi32(high, 3));
}

/* One resized pixel of a block from its duos. */
INLINE void
block_px(const __m256i *duo, const struct pair *pair, size_t n_duo, lanes sum[3])
{
    const lanes half = (lanes)_mm256_set1_epi32(PF_WEIGHT_HALF);
    lanes high[3] = {0};
    lanes low[3] = {half, half, half};

    for (size_t d = 0; d < n_duo; d++, duo += 3) {
        const __m256i w_high = _mm256_set1_epi32((int32_t)pair[d].high);
        const __m256i w_low = _mm256_set1_epi32((int32_t)pair[d].low);

        for (size_t v = 0; v < 3; v++) {
            __m256i taps = _mm256_load_si256(duo + v);

            __asm__("" : "+x"(taps)); /* load once: gcc would for each use */

            high[v] += dot(taps, w_high);
            low[v] += dot(taps, w_low);
        }
    }
    for (size_t v = 0; v < 3; v++) {
        sum[v] = (lanes)join(high[v], low[v]);
    }
}

static_assert(PF_BLOCK_ROWS == 8, "spread() takes a block");
static_assert(PF_ROW_SLACK_BYTES >= 1, "store_block() writes a byte too many");

TARGET static void
horizontal_block(const pf_resize_plan *plan, const struct source *src, __m256i *held,
        uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const size_t n_px = (size_t)plan->x.dst_px;
    size_t start = 0;
    size_t end = 0;

    for (size_t x = 0; x < n_px; x++) {
        const size_t first = (size_t)tables->first_duo[x];
        lanes sum[3];

        if (first + tables->n_duo > end) {
            start = first;
            end = first + tables->n_held;
            hold(src, start, tables->n_held, held);
        }
        block_px(held + 3 * (first - start), tables->across + x * tables->n_duo,
                tables->n_duo, sum);
        store_block(sum, dst + 3 * x, plan->resized_bytes);
    }
}

/* A block at a time; when fewer rows are left, the last one is made again. */
TARGET static void
horizontal(
        const pf_resize_plan *plan, pf_rows src, void *work, uint8_t *PF_RESTRICT dst)
{
    struct source block = {.n_bytes = src.n_bytes};

    for (size_t y = 0; y < src.n_row; y += PF_BLOCK_ROWS) {
        for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
            const size_t row = y + r < src.n_row ? y + r : src.n_row - 1;
            const size_t all = src.n_row + src.n_next;
            const size_t next =
                    y + r + PF_BLOCK_ROWS < all ? y + r + PF_BLOCK_ROWS : row;

            block.row[r] = src.rgb + (ptrdiff_t)row * src.row_bytes;
            block.next[r] = src.rgb + (ptrdiff_t)next * src.row_bytes;
        }
        horizontal_block(plan, &block, work, dst + y * plan->resized_bytes);
    }
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
    const struct pair *pair = tables->down + (size_t)y * tables->n_pair;
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

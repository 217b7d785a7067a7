/* resize_avx2.c - the two passes in 16-bit products.
 *
 * A weight of up to 24 bits is split into high * 2^16 + low, so that one multiply-add
 * instruction takes two taps of a half. The highest 16 bits of a sum are the sum of
 * the high halves and the highest 16 bits of the sum of the low ones; they say which
 * pixel it is. Only they must fit, so either sum may wrap. */
#include "frames/kernels.h"

#if PF_X86
#include <assert.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

#define LOW_BITS 16
#define HIGH_HALF (1 << (PF_WEIGHT_BITS - LOW_BITS - 1)) /* half a pixel value */

/* The weights of two taps: low halves as two 16-bit numbers, high ones as the same
 * (across) or as two 8-bit numbers twice (down). */
struct pair {
    uint32_t high;
    uint32_t low;
};

/* Sixteen columns of a block - eight rows, two pixels - are three vectors: every
 * 32-bit lane holds one channel of the two pixels of a row. */
#define DUO_BYTES 96

/* Duos of a row that are held at a time: few enough for the first-level cache, and so
 * many that few are made again for the next ones. */
#define N_HELD 48
#define MANY_TAPS 4

/* Duos that may be written after those that are held. */
#define N_BEYOND 4

/* The duos that hold the taps of a resized pixel. */
struct span {
    int32_t first;
    int32_t n_duo;
};

struct tables {
    size_t n_duo;        /* of the longest span */
    size_t n_held;       /* even */
    struct span *span;   /* (x.dst_px and one to make it even,) */
    struct pair *across; /* (the same, n_duo), for the duos of each span */
    size_t n_pair;
    struct pair *down; /* (y.dst_px, n_pair) */
};

/* What the low half, rounded to the nearest, leaves. */
static int32_t
high_half(int32_t weight)
{
    return (weight + (1 << (LOW_BITS - 1))) >> LOW_BITS;
}

/* Adds the weight of tap i of the pixel whose pairs these are. */
static void
pair_set(struct pair *pair, size_t i, int32_t weight, bool across)
{
    const uint32_t high = (uint32_t)high_half(weight);

    pair[i / 2].low |= ((uint32_t)weight & 0xffff) << (i % 2 * 16);
    pair[i / 2].high |= across ? (high & 0xffff) << (i % 2 * 16)
                               : (high & 0xff) * 0x10001 << (i % 2 * 8);
}

static struct span
span_of(const pf_axis *axis, size_t x)
{
    const int32_t first = axis->first_px[x] / 2;
    const int32_t end = (axis->first_px[x] + axis->n_tap[x] + 1) / 2;

    return (struct span){first, end - first};
}

/* Sets n_duo, and n_held to what the taps of two neighbours need at least. */
static void
measure_spans(struct tables *tables, const pf_axis *axis)
{
    size_t n_two = 0;

    for (size_t x = 0; x < (size_t)axis->dst_px; x++) {
        const struct span span = span_of(axis, x);
        const struct span before = span_of(axis, x == 0 ? 0 : x - 1);
        const size_t n_duo = (size_t)span.n_duo;
        const size_t n = (size_t)(span.first - before.first) + n_duo;

        tables->n_duo = n_duo > tables->n_duo ? n_duo : tables->n_duo;
        n_two = n > n_two ? n : n_two;
    }
    tables->n_held = MANY_TAPS * n_two > N_HELD ? MANY_TAPS * n_two : N_HELD;
}

static pf_status
across_init(pf_resize_plan *plan)
{
    struct tables *tables = plan->tables;
    const pf_axis *axis = &plan->x;
    const size_t n_px = (size_t)axis->dst_px;
    const size_t n_even_px = n_px + n_px % 2;
    size_t n;

    measure_spans(tables, axis);
    plan->work_bytes = (tables->n_held + N_BEYOND) * DUO_BYTES;
    if (!pf_mul_size(n_even_px, tables->n_duo, &n)) {
        return PF_EOVERFLOW;
    }
    tables->span = calloc(n_even_px, sizeof *tables->span);
    tables->across = calloc(n, sizeof *tables->across);
    if (tables->span == NULL || tables->across == NULL) {
        return PF_ENOMEM;
    }
    for (size_t x = 0; x < n_px; x++) {
        const size_t odd = (size_t)axis->first_px[x] % 2;

        tables->span[x] = span_of(axis, x);
        for (size_t i = 0; i < (size_t)axis->n_tap[x]; i++) {
            pair_set(tables->across + x * tables->n_duo, i + odd,
                    axis->weight[x * axis->stride + i], true);
        }
    }
    tables->span[n_even_px - 1] = span_of(axis, n_px - 1);
    return PF_OK;
}

static pf_status
down_init(pf_resize_plan *plan)
{
    struct tables *tables = plan->tables;
    const pf_axis *axis = &plan->y;
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
                    axis->weight[y * axis->stride + i], false);
        }
    }
    return PF_OK;
}

static void
tables_release(void *opaque)
{
    struct tables *tables = opaque;

    free(tables->down);
    free(tables->across);
    free(tables->span);
}

/* Eight sums. gcc copies every sum in every step when they are __m256i. */
typedef uint32_t lanes __attribute__((vector_size(32)));

/* Sixteen products, two to a sum. */
INLINE lanes
dot(__m256i taps, __m256i weights)
{
    return (lanes)_mm256_madd_epi16(taps, weights);
}

/* Pixels as 16-bit numbers, not yet clipped, from the highest halves of their sums. */
INLINE __m256i
finish(__m256i high, __m256i low)
{
    const __m256i half = _mm256_set1_epi16(HIGH_HALF);
    const __m256i sum = _mm256_add_epi16(_mm256_add_epi16(high, low), half);

    return _mm256_srai_epi16(sum, PF_WEIGHT_BITS - LOW_BITS);
}

/* Two windows of sixteen bytes, one a half. */
INLINE __m256i
load_two(const uint8_t *low, const uint8_t *high)
{
    const __m128i both = _mm_loadu_si128((const void *)high);

    return _mm256_blend_epi32(
            _mm256_castsi128_si256(_mm_loadu_si128((const void *)low)),
            _mm256_broadcastsi128_si256(both), 0xf0);
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
    const size_t end = first_duo + n_duo;
    size_t duo = first_duo;

    for (; duo < end && 6 * duo + 16 <= src->n_bytes; duo += 2, held += 6) {
        fetch_next(src, duo); /* eight rows of twelve bytes: fewer than two lines */
        fetch_next(src, duo + 1);
        spread(src->row, 6 * duo, held);
    }
    if (duo < end && 6 * duo < src->n_bytes) {
        spread_end(src, 6 * duo, held);
    }
}

/* The sums of a resized pixel of a block, in the order of spread(). */
struct sums {
    lanes high[3];
    lanes low[3];
};

/* One resized pixel of a block from its duos. */
INLINE struct sums
block_px(const __m256i *duo, const struct pair *pair, int32_t n_duo)
{
    struct sums sum = {{{0}}, {{0}}};

    for (int32_t d = 0; d < n_duo; d++, duo += 3) {
        const __m256i w_high = _mm256_set1_epi32((int32_t)pair[d].high);
        const __m256i w_low = _mm256_set1_epi32((int32_t)pair[d].low);

        for (size_t v = 0; v < 3; v++) {
            __m256i taps = _mm256_load_si256(duo + v);

            __asm__("" : "+x"(taps)); /* gcc would load them for each use */
            sum.high[v] += dot(taps, w_high);
            sum.low[v] += dot(taps, w_low);
        }
    }
    return sum;
}

/* Pixels of two vectors of sums, in turn. */
INLINE __m256i
finish_two(const struct sums *a, size_t i, const struct sums *b, size_t k)
{
    const __m256i high = _mm256_blend_epi16(
            (__m256i)a->high[i], (__m256i)(b->high[k] << LOW_BITS), 0xaa);
    const __m256i low = _mm256_blend_epi16(
            (__m256i)(a->low[i] >> LOW_BITS), (__m256i)b->low[k], 0xaa);

    return finish(high, low);
}

/* The low eight bytes to one row, the high ones to another. */
INLINE void
store_two(uint8_t *low, uint8_t *high, __m128i bytes)
{
    _mm_storel_epi64((void *)low, bytes);
    _mm_storeh_pi((void *)high, _mm_castsi128_ps(bytes));
}

/* Two resized pixels of a block into dst; two more bytes are written after them. */
INLINE void
store_block(const struct sums *a, const struct sums *b, uint8_t *dst, size_t row_bytes)
{
    /* of rows 0 and 1; of row 3, and of rows 2 and 3: 4 to 7 are in the other half */
    const __m256i order01 =
            TWICE(0, 2, 4, 8, 10, 12, -1, -1, 1, 3, 7, 9, 11, 15, -1, -1);
    const __m256i order3 =
            TWICE(-1, -1, -1, -1, -1, -1, -1, -1, 6, 5, -1, 14, 13, -1, -1, -1);
    const __m256i order23 =
            TWICE(0, 4, 6, 1, 5, 7, -1, -1, -1, -1, 2, -1, -1, 3, -1, -1);
    const __m256i px01 =
            _mm256_packus_epi16(finish_two(a, 0, a, 1), finish_two(b, 0, b, 1));
    const __m256i px2 = finish_two(a, 2, b, 2);
    const __m256i rows01 = _mm256_shuffle_epi8(px01, order01);
    const __m256i rows23 = _mm256_or_si256(_mm256_shuffle_epi8(px01, order3),
            _mm256_shuffle_epi8(_mm256_packus_epi16(px2, px2), order23));

    store_two(dst, dst + row_bytes, _mm256_castsi256_si128(rows01));
    store_two(dst + 2 * row_bytes, dst + 3 * row_bytes, _mm256_castsi256_si128(rows23));
    dst += 4 * row_bytes;
    store_two(dst, dst + row_bytes, _mm256_extracti128_si256(rows01, 1));
    store_two(dst + 2 * row_bytes, dst + 3 * row_bytes,
            _mm256_extracti128_si256(rows23, 1));
}

static_assert(PF_BLOCK_ROWS == 8, "spread() takes a block");
static_assert(PF_ROW_SLACK_BYTES >= 5, "store_block() writes too many bytes");

TARGET static void
horizontal_block(const pf_resize_plan *plan, const struct source *src, __m256i *held,
        uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const size_t n_px = (size_t)plan->x.dst_px;
    int32_t start = 0;
    int32_t end = 0;

    for (size_t x = 0; x < n_px; x += 2) {
        const struct pair *pair = tables->across + x * tables->n_duo;
        const struct span span[2] = {tables->span[x], tables->span[x + 1]};
        struct sums a;
        struct sums b;

        if (span[1].first + span[1].n_duo > end ||
                span[0].first + span[0].n_duo > end) {
            start = span[0].first;
            end = start + (int32_t)tables->n_held;
            hold(src, (size_t)start, tables->n_held, held);
        }
        a = block_px(held + 3 * (span[0].first - start), pair, span[0].n_duo);
        b = block_px(held + 3 * (span[1].first - start), pair + tables->n_duo,
                span[1].n_duo);
        store_block(&a, &b, dst + 3 * x, plan->resized_bytes);
    }
}

/* A block at a time; what fills up the last one may be any rows. */
TARGET static void
horizontal(
        const pf_resize_plan *plan, pf_rows src, void *work, uint8_t *PF_RESTRICT dst)
{
    struct source block = {.n_bytes = src.n_bytes};

    for (size_t y = 0; y < src.n_row; y += PF_BLOCK_ROWS) {
        for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
            block.row[r] = pf_row(&src, y + r);
            block.next[r] = pf_row(&src, y + r + PF_BLOCK_ROWS);
        }
        horizontal_block(plan, &block, work, dst + y * plan->resized_bytes);
    }
}

/* 32 bytes of resized row y, whose first tap is at src. */
INLINE __m256i
column(const struct pair *pair, size_t n_tap, const uint8_t *src, ptrdiff_t row_bytes)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i high[2] = {zero, zero};
    lanes low[4] = {0};
    __m256i px[2];

    for (size_t i = 0; i < n_tap; i += 2, pair++) {
        const uint8_t *next = i + 1 < n_tap ? src + row_bytes : src; /* weight 0 */
        const __m256i a = _mm256_loadu_si256((const void *)src);
        const __m256i b = _mm256_loadu_si256((const void *)next);
        const __m256i w_high = _mm256_set1_epi32((int32_t)pair->high);
        const __m256i w_low = _mm256_set1_epi32((int32_t)pair->low);
        const __m256i ab[2] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};

        for (size_t h = 0; h < 2; h++) {
            high[h] = _mm256_add_epi16(high[h], _mm256_maddubs_epi16(ab[h], w_high));
            low[2 * h] += dot(_mm256_unpacklo_epi8(ab[h], zero), w_low);
            low[2 * h + 1] += dot(_mm256_unpackhi_epi8(ab[h], zero), w_low);
        }
        src = next + row_bytes;
    }
    for (size_t h = 0; h < 2; h++) {
        const __m256i half[2] = {_mm256_srai_epi32((__m256i)low[2 * h], LOW_BITS),
                _mm256_srai_epi32((__m256i)low[2 * h + 1], LOW_BITS)};

        px[h] = finish(high[h], _mm256_packs_epi32(half[0], half[1]));
    }
    return _mm256_packus_epi16(px[0], px[1]);
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

        pf_rows_prefetch(&rows, at);
        _mm256_storeu_si256(
                (void *)(dst + at), column(pair, n_tap, rows.rgb + at, rows.row_bytes));
    }
}

const pf_resize_kernels pf_resize_avx2 = {
        .tables_bytes = sizeof(struct tables),
        .across_init = across_init,
        .down_init = down_init,
        .tables_release = tables_release,
        .horizontal = horizontal,
        .vertical = vertical,
};

#endif /* PF_X86 */

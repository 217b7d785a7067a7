/* resize_avx512.c - the two passes in 8-bit products (VBMI, VNNI).
 *
 * A weight is written with three signed digits to the base 256, so that one
 * dot-product instruction takes four taps of a digit, in sixteen lanes. Sums wrap, and
 * the true sum fits an int32, so the digits may be put together at the end. */
#include "frames/resize_avx512.h"

#if PF_X86
#include <assert.h>
#include <immintrin.h>

#define FEATURES "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni"
#define TARGET __attribute__((target(FEATURES)))
#define INLINE static inline __attribute__((always_inline, target(FEATURES)))

/* Sixteen sums. gcc copies every sum in every step when they are __m512i. */
typedef uint32_t lanes __attribute__((vector_size(VECTOR_BYTES)));

/* The sums of a group of some rows, one a digit. */
struct sums {
    lanes digit[SUM_ROWS][3];
};

INLINE lanes
broadcast(int32_t v)
{
    return (lanes)_mm512_set1_epi32(v);
}

INLINE lanes
dot(lanes sum, __m512i taps, __m512i digit)
{
    return (lanes)_mm512_dpbusd_epi32((__m512i)sum, taps, digit);
}

/* 64 bytes from row + at; of a row that ends sooner, those before its end. */
INLINE __m512i
load(const uint8_t *row, size_t at, size_t n_bytes, bool ends)
{
    if (!ends) {
        return _mm512_loadu_si512(row + at);
    }
    if (at >= n_bytes) {
        return _mm512_setzero_si512();
    }
    n_bytes = n_bytes - at < VECTOR_BYTES ? n_bytes - at : VECTOR_BYTES;
    return _mm512_maskz_loadu_epi8(~(__mmask64)0 >> (VECTOR_BYTES - n_bytes), row + at);
}

/* A block of source rows; after them lie those of the next block, if any. */
struct source {
    const uint8_t *row[PF_BLOCK_ROWS];
    const uint8_t *next[PF_BLOCK_ROWS];
    size_t n_bytes;
};

/* Group g of the rows from that one on; ends is a constant where this is used: false
 * away from the ends of the rows. */
INLINE struct sums
add_taps(const struct tables *tables, size_t g, const struct source *src, size_t row,
        bool ends)
{
    const struct step *step = tables->step + g * tables->n_step;
    const __m512i pick = _mm512_load_si512(tables->group[g].pick);
    const size_t stride = 12 * tables->n_part;
    size_t at = (size_t)tables->group[g].first_bytes;
    const size_t end = at + stride * tables->n_step;
    struct sums sum;

    for (size_t r = 0; r < SUM_ROWS; r++) {
        _mm_prefetch((const char *)src->next[row + r] + at, _MM_HINT_T0);
        sum.digit[r][0] = broadcast(0);
        sum.digit[r][1] = broadcast(0);
        sum.digit[r][2] = broadcast(0);
    }
    do {
        const __m512i digit[3] = {_mm512_load_si512(step->digit[0]),
                _mm512_load_si512(step->digit[1]), _mm512_load_si512(step->digit[2])};

        for (size_t r = 0; r < SUM_ROWS; r++) {
            const __m512i taps = _mm512_permutexvar_epi8(
                    pick, load(src->row[row + r], at, src->n_bytes, ends));

            sum.digit[r][0] = dot(sum.digit[r][0], taps, digit[0]);
            sum.digit[r][1] = dot(sum.digit[r][1], taps, digit[1]);
            sum.digit[r][2] = dot(sum.digit[r][2], taps, digit[2]);
        }
        step++;
        at += stride;
    } while (at < end);
    return sum;
}

/* The sums of the lower two digits. */
INLINE __m512i
join_low(const lanes sum[3])
{
    return (__m512i)(sum[0] + (sum[1] << 8));
}

/* The low halves of the lanes of a, and those of b next to each. */
INLINE __m512i
low_halves(lanes a, lanes b)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaau, (__m512i)a, (__m512i)(b << 16));
}

INLINE __m512i
high_halves(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(a, 16), b);
}

/* Pixels as 16-bit numbers, not yet clipped, from the highest halves of their sums. */
INLINE __m512i
finish(__m512i high, __m512i low)
{
    const __m512i half = _mm512_set1_epi16(1 << (PF_WEIGHT_BITS - 17));
    const __m512i sum = _mm512_add_epi16(_mm512_add_epi16(high, low), half);

    return _mm512_srai_epi16(sum, PF_WEIGHT_BITS - 16);
}

/* Two rows of a group, in turn. */
INLINE __m512i
finish_two(const struct sums *sum, size_t row)
{
    return finish(low_halves(sum->digit[row][2], sum->digit[row + 1][2]),
            high_halves(join_low(sum->digit[row]), join_low(sum->digit[row + 1])));
}

/* The lower halves of a and b, then the upper ones. */
#define LOWER(a, b) _mm512_shuffle_i64x2(a, b, 0x44)
#define UPPER(a, b) _mm512_shuffle_i64x2(a, b, 0xee)

INLINE __m512i
add_parts(__m512i a, __m512i b)
{
    return _mm512_add_epi32(LOWER(a, b), UPPER(a, b));
}

/* Four rows of a group in two parts: rows 0 and 1 in turn, then rows 2 and 3. */
INLINE __m512i
finish_parts(const struct sums *sum)
{
    const __m512i high01 = low_halves(sum->digit[0][2], sum->digit[1][2]);
    const __m512i high23 = low_halves(sum->digit[2][2], sum->digit[3][2]);
    const __m512i low02 = add_parts(join_low(sum->digit[0]), join_low(sum->digit[2]));
    const __m512i low13 = add_parts(join_low(sum->digit[1]), join_low(sum->digit[3]));

    return finish(_mm512_add_epi16(LOWER(high01, high23), UPPER(high01, high23)),
            high_halves(low02, low13));
}

/* Makes two parts of four. */
INLINE void
fold(struct sums *sum)
{
    for (size_t r = 0; r < SUM_ROWS; r++) {
        for (size_t d = 0; d < 3; d++) {
            const __m512i s = (__m512i)sum->digit[r][d];

            sum->digit[r][d] += (lanes)_mm512_shuffle_i64x2(s, s, 0xb1);
        }
    }
}

/* Sixteen bytes of each of four rows. */
INLINE void
store_four(uint8_t *dst, size_t row_bytes, bool interleaved, __m512i bytes)
{
    if (interleaved) {
        _mm512_storeu_si512(dst, bytes);
        return;
    }
    _mm_storeu_si128((void *)dst, _mm512_castsi512_si128(bytes));
    dst += row_bytes;
    _mm_storeu_si128((void *)dst, _mm512_extracti32x4_epi32(bytes, 1));
    dst += row_bytes;
    _mm_storeu_si128((void *)dst, _mm512_extracti32x4_epi32(bytes, 2));
    dst += row_bytes;
    _mm_storeu_si128((void *)dst, _mm512_extracti32x4_epi32(bytes, 3));
}

INLINE void
store_two(uint8_t *dst, size_t row_bytes, __m128i bytes)
{
    _mm_storel_epi64((void *)dst, bytes);
    _mm_storeh_pi((void *)(dst + row_bytes), _mm_castsi128_ps(bytes));
}

/* Eight bytes of each of eight rows. */
INLINE void
store_eight(uint8_t *dst, size_t row_bytes, bool interleaved, __m512i bytes)
{
    if (interleaved) {
        _mm256_storeu_si256((void *)dst, _mm512_castsi512_si256(bytes));
        _mm256_storeu_si256((void *)(dst + PF_QUAD_ROWS * row_bytes),
                _mm512_extracti64x4_epi64(bytes, 1));
        return;
    }
    store_two(dst, row_bytes, _mm512_castsi512_si128(bytes));
    store_two(dst + 2 * row_bytes, row_bytes, _mm512_extracti32x4_epi32(bytes, 1));
    store_two(dst + 4 * row_bytes, row_bytes, _mm512_extracti32x4_epi32(bytes, 2));
    store_two(dst + 6 * row_bytes, row_bytes, _mm512_extracti32x4_epi32(bytes, 3));
}

static_assert(PF_BLOCK_ROWS == 2 * SUM_ROWS && SUM_ROWS == PF_QUAD_ROWS,
        "block() makes two quads of rows");
static_assert(PF_ROW_SLACK_BYTES >= N_LANE - 1, "block() writes too many bytes");

/* Group g of a block of rows into dst, and rubbish after it, for the next group. */
INLINE void
block(const struct tables *tables, size_t g, const struct source *src, uint8_t *dst,
        size_t row_bytes, bool ends)
{
    const __m512i order = _mm512_load_si512(tables->order);
    struct sums sum = add_taps(tables, g, src, 0, ends);
    __m512i px;

    if (tables->n_part == 1) {
        px = _mm512_packus_epi16(finish_two(&sum, 0), finish_two(&sum, 2));
        store_four(dst, row_bytes, tables->interleaved,
                _mm512_permutexvar_epi8(order, px));
        sum = add_taps(tables, g, src, SUM_ROWS, ends);
        px = _mm512_packus_epi16(finish_two(&sum, 0), finish_two(&sum, 2));
        dst += SUM_ROWS * row_bytes;
        store_four(dst, row_bytes, tables->interleaved,
                _mm512_permutexvar_epi8(order, px));
        return;
    }
    if (tables->n_part == 4) {
        fold(&sum);
    }
    px = finish_parts(&sum);
    sum = add_taps(tables, g, src, SUM_ROWS, ends);
    if (tables->n_part == 4) {
        fold(&sum);
    }
    px = _mm512_packus_epi16(px, finish_parts(&sum));
    store_eight(
            dst, row_bytes, tables->interleaved, _mm512_permutexvar_epi8(order, px));
}

/* A block at a time; what fills up the last one may be any rows. */
TARGET static void
horizontal(
        const pf_resize_plan *plan, pf_rows src, void *work, uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const size_t row_bytes = plan->resized_bytes;
    const size_t n_step = tables->n_lane * (plan->interleaved ? PF_QUAD_ROWS : 1);

    (void)work;
    for (size_t y = 0; y < src.n_row; y += PF_BLOCK_ROWS) {
        struct source rows = {.n_bytes = src.n_bytes};
        uint8_t *out = dst + y * row_bytes;

        for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
            rows.row[r] = pf_row(&src, y + r);
            rows.next[r] = pf_row(&src, y + r + PF_BLOCK_ROWS);
        }
        for (size_t g = 0; g < tables->n_fast_group; g++) {
            block(tables, g, &rows, out + g * n_step, row_bytes, false);
        }
        for (size_t g = tables->n_fast_group; g < tables->n_group; g++) {
            block(tables, g, &rows, out + g * n_step, row_bytes, true);
        }
    }
}

/* The sums of 64 bytes of a resized row, sixteen a vector. */
struct column {
    lanes sum[4][3];
};

INLINE struct column
column_start(void)
{
    struct column column;

    for (size_t q = 0; q < 4; q++) {
        column.sum[q][0] = broadcast(0);
        column.sum[q][1] = broadcast(0);
        column.sum[q][2] = broadcast(PF_WEIGHT_HALF >> 16);
    }
    return column;
}

/* Four taps of each byte. */
INLINE void
column_add(struct column *column, const struct quad *quad, const __m512i taps[4])
{
    for (size_t d = 0; d < 3; d++) {
        const __m512i digit = _mm512_set1_epi32((int32_t)quad->digit[d]);

        for (size_t q = 0; q < 4; q++) {
            column->sum[q][d] = dot(column->sum[q][d], taps[q], digit);
        }
    }
}

/* The bytes; four of each vector in turn. */
INLINE __m512i
column_finish(const struct column *column)
{
    __m512i px[4];

    for (size_t q = 0; q < 4; q++) {
        px[q] = _mm512_srai_epi32(join_low(column->sum[q]), 16);
        px[q] = _mm512_add_epi32(px[q], (__m512i)column->sum[q][2]);
    }
    for (size_t q = 0; q < 4; q += 2) { /* 16 bits say which pixel it is */
        px[q] = _mm512_packs_epi32(px[q], px[q + 1]);
        px[q] = _mm512_srai_epi16(px[q], PF_WEIGHT_BITS - 16);
    }
    return _mm512_packus_epi16(px[0], px[2]);
}

/* 64 bytes of a resized row, whose first tap is at src; those that are there. */
INLINE __m512i
column_of_rows(const struct quad *quad, size_t n_tap, const uint8_t *src,
        ptrdiff_t row_bytes, __mmask64 there)
{
    struct column column = column_start();

    for (size_t i = 0; i < n_tap; i += 4, quad++) {
        __m512i row[4];

        for (size_t u = 0; u < 4; u++) {
            row[u] = _mm512_maskz_loadu_epi8(there, src);
            src += i + u + 1 < n_tap ? row_bytes : 0; /* then the weight is 0 */
        }
        const __m512i low01 = _mm512_unpacklo_epi8(row[0], row[1]);
        const __m512i high01 = _mm512_unpackhi_epi8(row[0], row[1]);
        const __m512i low23 = _mm512_unpacklo_epi8(row[2], row[3]);
        const __m512i high23 = _mm512_unpackhi_epi8(row[2], row[3]);
        const __m512i taps[4] = {
                _mm512_unpacklo_epi16(low01, low23),
                _mm512_unpackhi_epi16(low01, low23),
                _mm512_unpacklo_epi16(high01, high23),
                _mm512_unpackhi_epi16(high01, high23),
        };

        column_add(&column, quad, taps);
    }
    return column_finish(&column);
}

/* The same from quads of rows. */
INLINE __m512i
column_of_quads(
        const struct quad *quad, size_t n_quad, const uint8_t *held, size_t row_bytes)
{
    const __m512i order =
            _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    struct column column = column_start();

    for (size_t i = 0; i < n_quad; i++, quad++) {
        const __m512i taps[4] = {
                _mm512_load_si512(held),
                _mm512_load_si512(held + VECTOR_BYTES),
                _mm512_load_si512(held + 2 * VECTOR_BYTES),
                _mm512_load_si512(held + 3 * VECTOR_BYTES),
        };

        column_add(&column, quad, taps);
        held += PF_QUAD_ROWS * row_bytes;
    }
    return _mm512_permutexvar_epi32(order, column_finish(&column));
}

/* As many of the bytes from b on as there are, at most 64. */
INLINE __mmask64
bytes_there(size_t n_bytes, size_t b)
{
    const size_t rest = n_bytes - b;

    return ~(__mmask64)0 >> (rest < VECTOR_BYTES ? VECTOR_BYTES - rest : 0);
}

TARGET static void
vertical(const pf_resize_plan *plan, int64_t y, pf_rows rows, uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const struct quad *quad = tables->quad + (size_t)y * tables->n_quad;
    const size_t n_tap = (size_t)plan->y.n_tap[y];

    for (size_t b = 0; b < rows.n_bytes; b += VECTOR_BYTES) {
        const __mmask64 there = bytes_there(rows.n_bytes, b);

        pf_rows_prefetch(&rows, b);
        _mm512_mask_storeu_epi8(dst + b, there,
                column_of_rows(quad, n_tap, rows.rgb + b, rows.row_bytes, there));
    }
}

TARGET static void
vertical_quads(const pf_resize_plan *plan, int64_t y, const uint8_t *PF_RESTRICT held,
        uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const struct quad *quad = tables->quad + (size_t)y * tables->n_quad;
    const size_t n_row = pf_quad_skip(plan, y) + (size_t)plan->y.n_tap[y];
    const size_t n_quad = (n_row - 1) / PF_QUAD_ROWS + 1;
    const size_t n_bytes = 3 * (size_t)plan->dst.width_px;

    for (size_t b = 0; b < n_bytes; b += VECTOR_BYTES) {
        const __m512i bytes = column_of_quads(
                quad, n_quad, held + PF_QUAD_ROWS * b, plan->resized_bytes);

        _mm512_mask_storeu_epi8(dst + b, bytes_there(n_bytes, b), bytes);
    }
}

const pf_resize_kernels pf_resize_avx512 = {
        .tables_bytes = sizeof(struct tables),
        .across_init = pf_avx512_across_init,
        .down_init = pf_avx512_down_init,
        .tables_release = pf_avx512_tables_release,
        .horizontal = horizontal,
        .vertical = vertical,
        .vertical_quads = vertical_quads,
};

#endif /* PF_X86 */

/* resize_avx512.c - the two passes in 8-bit products (VBMI, VNNI).
 *
 * A weight is written with three signed digits to the base 256, so that one
 * dot-product instruction takes four taps of a digit, in sixteen lanes. Sums wrap, and
 * the true sum fits an int32, so the digits may be put together at the end. */
#include "frames/kernels.h"

#if PF_X86
#include <assert.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni"
#define TARGET __attribute__((target(FEATURES)))
#define INLINE static inline __attribute__((always_inline, target(FEATURES)))

#define N_LANE 16
#define VECTOR_BYTES PF_VECTOR_BYTES

/* Rows whose sums are made together: those of a group fill most registers. */
#define SUM_ROWS 4

/* The digits of the weights of four taps, in each lane those of its own byte. */
struct step {
    int8_t digit[3][VECTOR_BYTES];
};

/* Consecutive bytes of a resized row, one a lane. A pixel of many taps has its sum in
 * parts: with two, lanes 0 to 7 take taps 0 to 3 and lanes 8 to 15 take taps 4 to 7 of
 * the same bytes. The taps of all lanes lie within one vector of the source, and stay
 * there from step to step as all windows move on together. */
struct group {
    uint8_t pick[VECTOR_BYTES]; /* where the four taps of each lane are */
    int64_t first_bytes;        /* where the vector of the first step starts */
    uint8_t unused[VECTOR_BYTES - sizeof(int64_t)];
};

/* The digits of the weights of four taps of one resized row. */
struct quad {
    uint32_t digit[3];
};

struct tables {
    size_t n_part; /* 1, 2 or 4 */
    size_t n_lane; /* bytes of a group, at most N_LANE / n_part */
    size_t n_group;
    size_t n_fast_group; /* from here on a load might leave the row */
    size_t n_step;
    struct group *group; /* (n_group,), aligned to a vector */
    struct step *step;   /* (n_group, n_step), aligned to a vector */
    uint8_t *order;      /* (64,), of the finished bytes of a block or half a block */
    size_t n_quad;
    struct quad *quad; /* (y.dst_px, n_quad) */
};

static void
split_weight(int32_t weight, int8_t digit[3])
{
    for (size_t d = 0; d < 3; d++) {
        const int32_t low = weight & 0xff;

        digit[d] = (int8_t)(low < 128 ? low : low - 256);
        weight = (weight - digit[d]) / 256;
    }
    assert(weight == 0); /* |weight| < 1.99 * 2^22 for every filter */
}

/* Where the first tap of a byte of a resized row lies. */
static int64_t
first_tap_bytes(const pf_axis *axis, size_t b)
{
    return 3 * (int64_t)axis->first_px[b / 3] + (int64_t)(b % 3);
}

/* Whether groups of n_lane bytes find the taps of a step within one vector. */
static bool
lanes_fit(const pf_axis *axis, size_t n_part, size_t n_lane)
{
    const size_t n_bytes = 3 * (size_t)axis->dst_px;
    const int64_t taps_bytes = 12 * (int64_t)n_part - 2; /* from first to last */

    for (size_t b = 0; b < n_bytes; b += n_lane) {
        const size_t end = b + n_lane < n_bytes ? b + n_lane : n_bytes;
        const int64_t first = first_tap_bytes(axis, b);
        int64_t last = first;

        for (size_t i = b; i < end; i++) {
            const int64_t at = first_tap_bytes(axis, i);

            if (at < first) {
                return false;
            }
            last = at > last ? at : last;
        }
        if (last - first + taps_bytes > VECTOR_BYTES) {
            return false;
        }
    }
    return true;
}

/* Sets n_part, n_lane and n_step to those that take the fewest steps a byte. */
static void
choose_layout(struct tables *tables, const pf_axis *axis)
{
    const size_t n_tap = (size_t)axis->n_tap_max;

    for (size_t n_part = 1; n_part <= 4; n_part *= 2) {
        const size_t n_step = (n_tap - 1) / (4 * n_part) + 1;
        size_t n_lane = N_LANE / n_part;

        while (n_lane > 0 && !lanes_fit(axis, n_part, n_lane)) {
            n_lane--;
        }
        if (n_part == 1 || n_step * tables->n_lane < tables->n_step * n_lane) {
            tables->n_part = n_part;
            tables->n_lane = n_lane;
            tables->n_step = n_step;
        }
    }
}

/* Fills group g and its steps. */
static void
group_fill(struct tables *tables, const pf_axis *axis, size_t g)
{
    const size_t n_bytes = 3 * (size_t)axis->dst_px;
    const size_t taps_a_step = 4 * tables->n_part;
    const size_t part_lanes = N_LANE / tables->n_part;
    const size_t first = g * tables->n_lane;
    struct group *group = &tables->group[g];

    group->first_bytes = first_tap_bytes(axis, first);
    for (size_t b = first; b < first + tables->n_lane && b < n_bytes; b++) {
        const size_t at = (size_t)(first_tap_bytes(axis, b) - group->first_bytes);
        const size_t x = b / 3;

        for (size_t i = 0; i < taps_a_step; i++) {
            const size_t lane = i / 4 * part_lanes + b - first;

            group->pick[4 * lane + i % 4] = (uint8_t)(at + 3 * i);
        }
        for (size_t i = 0; i < (size_t)axis->n_tap[x]; i++) {
            const size_t lane = i % taps_a_step / 4 * part_lanes + b - first;
            struct step *step = &tables->step[g * tables->n_step + i / taps_a_step];
            int8_t digit[3];

            split_weight(axis->weight[x * axis->stride + i], digit);
            for (size_t d = 0; d < 3; d++) {
                step->digit[d][4 * lane + i % 4] = digit[d];
            }
        }
    }
}

/* Where the bytes of each row are after block() has packed them: in turn with those of
 * the next row, four at a time. */
static void
order_fill(struct tables *tables)
{
    const size_t n_byte = tables->n_part == 1 ? N_LANE : N_LANE / 2; /* of a row */

    for (size_t i = 0; i < VECTOR_BYTES; i++) {
        const size_t row = i / n_byte;
        const size_t b = i % n_byte;
        const size_t at = tables->n_part == 1
                                  ? 16 * (b / 4) + 8 * (row / 2)
                                  : 16 * (b / 4 + row % 4 / 2 * 2) + 8 * (row / 4);

        tables->order[i] = (uint8_t)(at + 2 * (b % 4) + row % 2);
    }
}

static pf_status
group_init(struct tables *tables, const pf_axis *axis)
{
    const size_t n_bytes = 3 * (size_t)axis->dst_px;
    const int64_t src_bytes = 3 * axis->src_px;
    int64_t reach_bytes;
    size_t n_step;

    choose_layout(tables, axis);
    tables->n_group = (n_bytes - 1) / tables->n_lane + 1;
    if (!pf_mul_size(tables->n_group, tables->n_step, &n_step)) {
        return PF_EOVERFLOW;
    }
    tables->group = pf_aligned_zeros(tables->n_group, sizeof *tables->group);
    tables->step = pf_aligned_zeros(n_step, sizeof *tables->step);
    tables->order = pf_aligned_zeros(1, VECTOR_BYTES);
    if (tables->group == NULL || tables->step == NULL || tables->order == NULL) {
        return PF_ENOMEM;
    }
    reach_bytes = (int64_t)(12 * tables->n_part * (tables->n_step - 1)) + VECTOR_BYTES;
    for (size_t g = 0; g < tables->n_group; g++) {
        group_fill(tables, axis, g);
        if (tables->group[g].first_bytes + reach_bytes <= src_bytes) {
            tables->n_fast_group = g + 1;
        }
    }
    order_fill(tables);
    return PF_OK;
}

static pf_status
quad_init(struct tables *tables, const pf_axis *axis)
{
    const size_t n_row = (size_t)axis->dst_px;
    size_t n;

    tables->n_quad = ((size_t)axis->n_tap_max + 3) / 4;
    if (!pf_mul_size(n_row, tables->n_quad, &n)) {
        return PF_EOVERFLOW;
    }
    tables->quad = calloc(n, sizeof *tables->quad);
    if (tables->quad == NULL) {
        return PF_ENOMEM;
    }
    for (size_t y = 0; y < n_row; y++) {
        for (size_t i = 0; i < (size_t)axis->n_tap[y]; i++) {
            struct quad *quad = &tables->quad[y * tables->n_quad + i / 4];
            int8_t digit[3];

            split_weight(axis->weight[y * axis->stride + i], digit);
            for (size_t d = 0; d < 3; d++) {
                quad->digit[d] |= (uint32_t)(uint8_t)digit[d] << (i % 4 * 8);
            }
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
        st = group_init(tables, &plan->x);
    }
    if (st == PF_OK && plan->y.dst_px != 0) {
        st = quad_init(tables, &plan->y);
    }
    return st;
}

static void
tables_free(void *opaque)
{
    struct tables *tables = opaque;

    free(tables->quad);
    free(tables->order);
    free(tables->step);
    free(tables->group);
    free(tables);
}

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

/* Sixteen bytes to each of four rows. */
INLINE void
store_quarters(uint8_t *dst, size_t row_bytes, __m512i bytes)
{
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

/* Eight bytes to each of eight rows. */
INLINE void
store_eighths(uint8_t *dst, size_t row_bytes, __m512i bytes)
{
    store_two(dst, row_bytes, _mm512_castsi512_si128(bytes));
    store_two(dst + 2 * row_bytes, row_bytes, _mm512_extracti32x4_epi32(bytes, 1));
    store_two(dst + 4 * row_bytes, row_bytes, _mm512_extracti32x4_epi32(bytes, 2));
    store_two(dst + 6 * row_bytes, row_bytes, _mm512_extracti32x4_epi32(bytes, 3));
}

static_assert(PF_BLOCK_ROWS == 2 * SUM_ROWS && SUM_ROWS == 4, "block() takes a block");
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
        store_quarters(dst, row_bytes, _mm512_permutexvar_epi8(order, px));
        sum = add_taps(tables, g, src, SUM_ROWS, ends);
        px = _mm512_packus_epi16(finish_two(&sum, 0), finish_two(&sum, 2));
        dst += SUM_ROWS * row_bytes;
        store_quarters(dst, row_bytes, _mm512_permutexvar_epi8(order, px));
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
    store_eighths(dst, row_bytes, _mm512_permutexvar_epi8(order, px));
}

/* A block at a time; what fills up the last one may be any rows. */
TARGET static void
horizontal(
        const pf_resize_plan *plan, pf_rows src, void *work, uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const size_t row_bytes = plan->resized_bytes;

    (void)work;
    for (size_t y = 0; y < src.n_row; y += PF_BLOCK_ROWS) {
        struct source rows = {.n_bytes = src.n_bytes};
        uint8_t *out = dst + y * row_bytes;

        for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
            rows.row[r] = pf_row(&src, y + r);
            rows.next[r] = pf_row(&src, y + r + PF_BLOCK_ROWS);
        }
        for (size_t g = 0; g < tables->n_fast_group; g++) {
            block(tables, g, &rows, out + g * tables->n_lane, row_bytes, false);
        }
        for (size_t g = tables->n_fast_group; g < tables->n_group; g++) {
            block(tables, g, &rows, out + g * tables->n_lane, row_bytes, true);
        }
    }
}

/* 64 bytes of a resized row, whose first tap is at src; those that are there. */
INLINE __m512i
column(const struct quad *quad, size_t n_tap, const uint8_t *src, ptrdiff_t row_bytes,
        __mmask64 there)
{
    lanes sum[4][3];
    __m512i px[4];

    for (size_t q = 0; q < 4; q++) {
        sum[q][0] = broadcast(0);
        sum[q][1] = broadcast(0);
        sum[q][2] = broadcast(PF_WEIGHT_HALF >> 16);
    }
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

        for (size_t d = 0; d < 3; d++) {
            const __m512i digit = _mm512_set1_epi32((int32_t)quad->digit[d]);

            for (size_t q = 0; q < 4; q++) {
                sum[q][d] = dot(sum[q][d], taps[q], digit);
            }
        }
    }
    for (size_t q = 0; q < 4; q++) {
        px[q] = _mm512_srai_epi32(join_low(sum[q]), 16);
        px[q] = _mm512_add_epi32(px[q], (__m512i)sum[q][2]);
    }
    for (size_t q = 0; q < 4; q += 2) { /* 16 bits say which pixel it is */
        px[q] = _mm512_packs_epi32(px[q], px[q + 1]);
        px[q] = _mm512_srai_epi16(px[q], PF_WEIGHT_BITS - 16);
    }
    return _mm512_packus_epi16(px[0], px[2]);
}

TARGET static void
vertical(const pf_resize_plan *plan, int64_t y, pf_rows rows, uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const struct quad *quad = tables->quad + (size_t)y * tables->n_quad;
    const size_t n_tap = (size_t)plan->y.n_tap[y];

    for (size_t b = 0; b < rows.n_bytes; b += VECTOR_BYTES) {
        const size_t rest = rows.n_bytes - b;
        const size_t n_bytes = rest < VECTOR_BYTES ? rest : VECTOR_BYTES;
        const __mmask64 there = ~(__mmask64)0 >> (VECTOR_BYTES - n_bytes);

        _mm512_mask_storeu_epi8(dst + b, there,
                column(quad, n_tap, rows.rgb + b, rows.row_bytes, there));
    }
}

const pf_resize_kernels pf_resize_avx512 = {
        .tables_init = tables_init,
        .tables_free = tables_free,
        .horizontal = horizontal,
        .vertical = vertical,
};

#endif /* PF_X86 */

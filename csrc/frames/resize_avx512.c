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
#define VECTOR_BYTES 64

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
    size_t n_fast_group; /* from here on a load or store might leave the row */
    size_t n_step;
    struct group *group; /* (n_group,), aligned to a vector */
    struct step *step;   /* (n_group, n_step), aligned to a vector */
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
    if (tables->group == NULL || tables->step == NULL) {
        return PF_ENOMEM;
    }
    reach_bytes = (int64_t)(12 * tables->n_part * (tables->n_step - 1)) + VECTOR_BYTES;
    for (size_t g = 0; g < tables->n_group; g++) {
        group_fill(tables, axis, g);
        if (tables->group[g].first_bytes + reach_bytes <= src_bytes &&
                g * tables->n_lane + N_LANE <= n_bytes) {
            tables->n_fast_group = g + 1;
        }
    }
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
    free(tables->step);
    free(tables->group);
    free(tables);
}

/* Sixteen sums. gcc copies every sum in every step when they are __m512i. */
typedef uint32_t lanes __attribute__((vector_size(VECTOR_BYTES)));

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

/* The sums of the weights from those of their three digits. */
INLINE __m512i
join(const lanes sum[3])
{
    return (__m512i)(sum[0] + (sum[1] << 8) + (sum[2] << 16));
}

/* Finished pixels, not below 0, in the lanes of the first part. */
INLINE __m512i
finish(__m512i sum, size_t n_part)
{
    if (n_part > 1) {
        sum = _mm512_add_epi32(sum, _mm512_shuffle_i64x2(sum, sum, 0x4e));
    }
    if (n_part > 2) {
        sum = _mm512_add_epi32(sum, _mm512_shuffle_i64x2(sum, sum, 0xb1));
    }
    sum = _mm512_add_epi32(sum, _mm512_set1_epi32(PF_WEIGHT_HALF));
    return _mm512_max_epi32(
            _mm512_srai_epi32(sum, PF_WEIGHT_BITS), _mm512_setzero_si512());
}

/* Where rows end, for groups that come too close to use whole vectors. */
struct edge {
    size_t src_bytes;
    size_t dst_bytes;
};

/* 64 bytes from row + at; of a row with an edge, those before it. */
INLINE __m512i
load(const uint8_t *row, size_t at, const struct edge *edge)
{
    size_t n_bytes = VECTOR_BYTES;

    if (edge == NULL) {
        return _mm512_loadu_si512(row + at);
    }
    if (at >= edge->src_bytes) {
        return _mm512_setzero_si512();
    }
    if (edge->src_bytes - at < n_bytes) {
        n_bytes = edge->src_bytes - at;
    }
    return _mm512_maskz_loadu_epi8(~(__mmask64)0 >> (VECTOR_BYTES - n_bytes), row + at);
}

/* Writes sixteen bytes; the next group overwrites those that are not of this one. */
INLINE void
store(uint8_t *row, size_t at, __m128i bytes, const struct edge *edge)
{
    size_t n_bytes = N_LANE;

    if (edge == NULL) {
        _mm_storeu_si128((void *)(row + at), bytes);
        return;
    }
    if (edge->dst_bytes - at < n_bytes) {
        n_bytes = edge->dst_bytes - at;
    }
    _mm_mask_storeu_epi8(row + at, (__mmask16)(0xffffu >> (N_LANE - n_bytes)), bytes);
}

/* One group of a block of rows; edge is NULL, a constant where this is used, away from
 * the ends of the rows. */
INLINE void
block(const struct tables *tables, size_t g, const uint8_t *const src[PF_BLOCK_ROWS],
        uint8_t *const dst[PF_BLOCK_ROWS], const struct edge *edge)
{
    const struct step *step = tables->step + g * tables->n_step;
    const __m512i pick = _mm512_load_si512(tables->group[g].pick);
    const size_t stride = 12 * tables->n_part;
    size_t at = (size_t)tables->group[g].first_bytes;
    const size_t end = at + stride * tables->n_step;
    lanes sum[PF_BLOCK_ROWS][3];

    for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
        sum[r][0] = broadcast(0);
        sum[r][1] = broadcast(0);
        sum[r][2] = broadcast(0);
    }
    do {
        const __m512i digit[3] = {_mm512_load_si512(step->digit[0]),
                _mm512_load_si512(step->digit[1]), _mm512_load_si512(step->digit[2])};

        for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
            const __m512i taps = _mm512_permutexvar_epi8(pick, load(src[r], at, edge));

            sum[r][0] = dot(sum[r][0], taps, digit[0]);
            sum[r][1] = dot(sum[r][1], taps, digit[1]);
            sum[r][2] = dot(sum[r][2], taps, digit[2]);
        }
        step++;
        at += stride;
    } while (at < end);
    for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
        const __m512i px = finish(join(sum[r]), tables->n_part);

        store(dst[r], g * tables->n_lane, _mm512_cvtusepi32_epi8(px), edge);
    }
}

/* A block at a time; when fewer rows are left, the last one is made again. */
TARGET static void
horizontal(
        const pf_resize_plan *plan, pf_rows src, void *work, uint8_t *PF_RESTRICT dst)
{
    const struct tables *tables = plan->tables;
    const struct edge edge = {src.n_bytes, 3 * (size_t)plan->x.dst_px};
    const size_t n_row = src.n_row;

    (void)work;
    for (size_t y = 0; y < n_row; y += PF_BLOCK_ROWS) {
        const uint8_t *in[PF_BLOCK_ROWS];
        uint8_t *out[PF_BLOCK_ROWS];

        for (size_t r = 0; r < PF_BLOCK_ROWS; r++) {
            const size_t row = y + r < n_row ? y + r : n_row - 1;

            in[r] = src.rgb + (ptrdiff_t)row * src.row_bytes;
            out[r] = dst + row * plan->resized_bytes;
        }
        for (size_t g = 0; g < tables->n_fast_group; g++) {
            block(tables, g, in, out, NULL);
        }
        for (size_t g = tables->n_fast_group; g < tables->n_group; g++) {
            block(tables, g, in, out, &edge);
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
        sum[q][0] = broadcast(PF_WEIGHT_HALF);
        sum[q][1] = broadcast(0);
        sum[q][2] = broadcast(0);
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
        px[q] = _mm512_srai_epi32(join(sum[q]), PF_WEIGHT_BITS);
    }
    return _mm512_packus_epi16(
            _mm512_packs_epi32(px[0], px[1]), _mm512_packs_epi32(px[2], px[3]));
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

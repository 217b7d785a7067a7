/* resize_avx512.h - what the kernels of resize_avx512.c look up. */
#ifndef PF_RESIZE_AVX512_H
#define PF_RESIZE_AVX512_H

#include "frames/kernels.h"

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
    bool interleaved;    /* as in the plan */
    size_t n_quad;
    struct quad *quad; /* (y.dst_px, n_quad), the first with pf_quad_skip() zeros */
};

/* Rows of a quad that lie before the first tap: none unless the quads of the window are
 * where they are. */
static inline size_t
pf_quad_skip(const pf_resize_plan *plan, int64_t y)
{
    return plan->interleaved ? (size_t)plan->y.first_px[y] % PF_QUAD_ROWS : 0;
}

/* As pf_resize_kernels wants them. */
PF_NODISCARD pf_status pf_avx512_across_init(pf_resize_plan *plan);
PF_NODISCARD pf_status pf_avx512_down_init(pf_resize_plan *plan);
void pf_avx512_tables_release(void *opaque);

#endif /* PF_RESIZE_AVX512_H */

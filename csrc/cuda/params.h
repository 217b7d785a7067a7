/* params.h - what the host hands to the kernels; one layout for gcc, g++, nvcc and
 * NVRTC.
 *
 * Pointers are device addresses. Every structure is a whole number of 8 bytes, pointers
 * and 64-bit members first, so that no compiler pads it in a way of its own. */
#ifndef PF_CUDA_PARAMS_H
#define PF_CUDA_PARAMS_H

#ifdef __cplusplus
#define PF_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define PF_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* One axis of one size.
 *
 * Plain: resized pixel x is the sum over t < count[x] of
 * source[first[x] + t] * weight[x * stride + t], weight int.
 * Packed: the same, four taps at a time: first and count are in words of four source
 * pixels, and weight holds four unsigned ints a word: byte t of the first is bits 0 to
 * 7 of the weight of tap t, the second holds bits 8 to 15, the third bits 16 to 23 (of
 * a signed number), the fourth is 0. */
typedef struct pf_gpu_axis {
    const int *first;
    const int *count;
    const void *weight;
    int stride;
    int src_px;
    int dst_px;
    int unused;
} pf_gpu_axis;
PF_STATIC_ASSERT(sizeof(pf_gpu_axis) == 40, "pf_gpu_axis must be 40 bytes");

/* One frame on its way. Value (x, y, c) of the result lies at
 * dst + x_offset[x] + y_offset[y] + c * channel_offset, in values; x_offset NULL stands
 * for tight interleaved pixels of the result's width. */
typedef struct pf_gpu_frame {
    const unsigned char *plane[3]; /* RGB; or Y, UV; or Y, U, V */
    void *dst;
    const long long *x_offset;
    const long long *y_offset;
    long long channel_offset;
    long long row_bytes[2]; /* of the first plane, and of the others */
    pf_gpu_axis across;
    pf_gpu_axis down;
} pf_gpu_frame;
PF_STATIC_ASSERT(sizeof(pf_gpu_frame) == 152, "pf_gpu_frame must be 152 bytes");

/* Factors of csrc/video/colour.h, 20 fraction bits. */
typedef struct pf_gpu_colour {
    int luma;
    int red_v;
    int green_u;
    int green_v;
    int blue_u;
    int luma_zero;
} pf_gpu_colour;

typedef struct pf_gpu_resize {
    const pf_gpu_frame *frame; /* (gridDim.z,) */
    const void *table;         /* (3, 256) values that bytes become; bytes: NULL */
    pf_gpu_colour colour;
    int value_bytes; /* 1, 2 or 4 */
    int is_down;     /* plain: the axis of this pass */
    int tile;        /* tiled: outputs of the second pass a block, >= 1 */
    int stage_words; /* tiled: from line to line of the stage; odd */
    int mid_words;   /* tiled: from line to line between the passes; odd */
    int pixels;      /* plain: of the source, see source.h */
} pf_gpu_resize;
PF_STATIC_ASSERT(sizeof(pf_gpu_resize) == 64, "pf_gpu_resize must be 64 bytes");

/* Threads of a block, and its lines at a time: one a lane. */
enum { PF_GPU_LANES = 32, PF_GPU_WARPS = 8 };

/* Bytes that the tiled kernels keep for the table, before everything else. */
#define PF_GPU_TABLE_BYTES(value_bytes) ((value_bytes) == 1 ? 0 : 768 * (value_bytes))

#endif /* PF_CUDA_PARAMS_H */

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
 * a signed number), the fourth is 0.
 * Tensor: the same by groups of PF_GPU_GROUP outputs: first and count are those of the
 * words that any output of the group reads. Its weights are matrices of 16 outputs by
 * 32 pixels, one a byte of the weight, as the lanes of a warp hold them: lane l of
 * matrix (group, step, byte) has the four unsigned ints at
 * ((group * stride + step) * 3 + byte) * 32 + l. Byte t of int i is of output
 * l / 4 + 8 * (i & 1) of the group and of pixel
 * 4 * (first + 8 * step) + 4 * (l % 4) + 16 * (i >> 1) + t. */
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
    int tile;        /* outputs of the second pass a block, >= 1 */
    int stage_words; /* from line to line of the stage */
    int mid_words;   /* from line to line between the passes */
    int pixels;      /* of the source, see source.h */
    int stage_lines; /* tensor: lines at a time, a multiple of PF_GPU_GROUP */
    int unused;
} pf_gpu_resize;
PF_STATIC_ASSERT(sizeof(pf_gpu_resize) == 72, "pf_gpu_resize must be 72 bytes");

typedef enum pf_gpu_float {
    PF_GPU_FLOAT32 = 0,
    PF_GPU_FLOAT16,
    PF_GPU_BFLOAT16
} pf_gpu_float;

/* Rows of logits over a vocabulary, and what is wanted of them. */
typedef struct pf_gpu_scores {
    const void *logits; /* (gridDim.x, n_vocab), rows row_values apart */
    const int *token;   /* (gridDim.x, n_option): of the option at each place */
    const int *order;   /* (gridDim.x, n_option): content of each place */
    double *logprob;    /* (gridDim.x, n_option), content order */
    double *mass;       /* (gridDim.x,): of all options together */
    long long row_values;
    long long n_vocab;
    int n_option;
    int type; /* pf_gpu_float */
} pf_gpu_scores;
PF_STATIC_ASSERT(sizeof(pf_gpu_scores) == 64, "pf_gpu_scores must be 64 bytes");

/* Passes of items, and their pool; as pf_pass_batch and pf_fused. */
typedef struct pf_gpu_fuse {
    const double *logprob; /* (n_item, n_pass, n_option) */
    const unsigned long long *tie_seed;
    double *posterior; /* (n_item, n_option) */
    double *margin;
    long long *answer;
    long long *n_tied;
    long long *n_valid;
    long long n_item;
    long long n_pass;
    int n_option;
    int is_complete; /* an item that lacks a pass has no answer */
} pf_gpu_fuse;
PF_STATIC_ASSERT(sizeof(pf_gpu_fuse) == 80, "pf_gpu_fuse must be 80 bytes");

/* How often each cluster is drawn; one resample a block. */
typedef struct pf_gpu_counts {
    unsigned short *count; /* (gridDim.x, n_cluster), bfloat16 */
    unsigned *most;        /* the greatest count of all */
    unsigned long long seed;
    long long first_resample;
    int n_cluster;
    int unused;
} pf_gpu_counts;
PF_STATIC_ASSERT(sizeof(pf_gpu_counts) == 40, "pf_gpu_counts must be 40 bytes");

/* Sums over pairs of frames; one pair a block. */
typedef struct pf_gpu_distance {
    const unsigned char *a; /* (gridDim.x, n_px, 3) */
    const unsigned char *b;
    long long *sums; /* (gridDim.x, 3): of |a - b|, of (a - b)^2, of what moved */
    long long n_px;
} pf_gpu_distance;
PF_STATIC_ASSERT(sizeof(pf_gpu_distance) == 32, "pf_gpu_distance must be 32 bytes");

enum { PF_GPU_BINS = 32 }; /* of a channel, in the histogram of colours */

/* Threads of a block, and its lines at a time: one a lane. */
enum { PF_GPU_LANES = 32, PF_GPU_WARPS = 8 };

/* Outputs whose weights make one matrix, words of pixels that it spans, and bytes from
 * line to line of the finished tile in shared memory. */
enum { PF_GPU_GROUP = 16, PF_GPU_STEP_WORDS = 8, PF_GPU_DONE_BYTES = 112 };

/* Bytes that the tiled kernels keep for the table, before everything else. */
#define PF_GPU_TABLE_BYTES(value_bytes) ((value_bytes) == 1 ? 0 : 768 * (value_bytes))

#endif /* PF_CUDA_PARAMS_H */

/* resize_tensor.cu - both passes of the resize on integer tensor cores, in one launch;
 * compute capability 8.0 and newer.
 *
 * A block makes 32 outputs of the first pass times p.tile of the second, as in
 * resize_tiled.cu. Sixteen neighbouring outputs read one band of pixels, so their
 * weights are a matrix of 16 by 32 for every 32 pixels of it, zero where an output has
 * no tap, and 8 lines of pixels are the other factor. A weight of 24 bits, its sign
 * among them, is cut into three bytes, of which the highest is signed: three products
 * of bytes, each exact in 32 bits, which pf_gpu_join puts together. What is read beyond
 * the band meets zeros.
 *
 * Lines of RGB24 are staged as they lie in memory, 16 bytes a lane; lanes take the
 * channels apart when they load their part of a factor. From line to line of stage and
 * of mid there is an odd multiple of four words, which keeps the 8 lines by 4 words (or
 * 4 times 3) that a warp loads apart in the banks. */
#include "source.h"

/* Lines that one load of weights is used for: two factors of 8. */
enum { PF_FACTORS = 2 };

/* What a lane holds of 16 outputs by 8 lines, in one channel. */
struct pf_sums_of_bytes {
    pf_i32 low[4];
    pf_i32 middle[4];
    pf_i32 high[4];
};

/* Of a line: pixels 4 * q .. 4 * q + 3 and 16 further on, a channel. */
struct pf_factor {
    pf_u32 channel[3][2];
};

PF_DEVICE pf_factor
pf_load_factor(const pf_u32 *three)
{
    const pf_four near = pf_split(three[0], three[1], three[2]);
    const pf_four far = pf_split(three[12], three[13], three[14]);
    pf_factor factor;

#pragma unroll
    for (pf_i32 c = 0; c < 3; c++) {
        factor.channel[c][0] = near.channel[c];
        factor.channel[c][1] = far.channel[c];
    }
    return factor;
}

/* A group of outputs, for 16 lines. Output i of line n becomes the three bytes
 * done + i * done_bytes + 3 * n. */
struct pf_product {
    const uint4 *weight; /* of the group */
    pf_i32 n_step;
    const pf_u32 *from; /* first pixel of the group in the first line */
    pf_i32 line_words;
    pf_u8 *done;
    pf_i32 done_bytes;
};

PF_DEVICE pf_product
pf_product_of(const pf_gpu_axis &axis, pf_i32 made, const pf_u32 *line,
        pf_i32 line_words, pf_i32 word0, pf_u8 *done, pf_i32 done_bytes)
{
    const pf_i32 group = made / PF_GPU_GROUP;
    const pf_i64 matrix = (pf_i64)group * axis.stride * 3;

    return {(const uint4 *)axis.weight + matrix * PF_GPU_LANES,
            (axis.count[group] + PF_GPU_STEP_WORDS - 1) / PF_GPU_STEP_WORDS,
            line + 3 * (axis.first[group] - word0), line_words, done, done_bytes};
}

PF_DEVICE void
pf_multiply_lines(const pf_product &product)
{
    const pf_i32 line_words = product.line_words;
    const pf_u32 *from = product.from;
    const pf_i32 lane = threadIdx.x;
    const uint4 *weight = product.weight + lane;
    pf_sums_of_bytes sums[PF_FACTORS][3];

#pragma unroll
    for (pf_i32 i = 0; i < 4 * 3 * PF_FACTORS; i++) {
        pf_sums_of_bytes &s = sums[i / 12][i / 4 % 3];

        s.low[i % 4] = 1 << 21; /* one half */
        s.middle[i % 4] = 0;
        s.high[i % 4] = 0;
    }
    from += lane / 4 * line_words + 3 * (lane % 4);
#pragma unroll 1
    for (pf_i32 step = 0; step < product.n_step; step++) {
        const uint4 low = pf_load_uint4(weight);
        const uint4 middle = pf_load_uint4(weight + PF_GPU_LANES);
        const uint4 high = pf_load_uint4(weight + 2 * PF_GPU_LANES);

#pragma unroll
        for (pf_i32 n = 0; n < PF_FACTORS; n++) {
            const pf_factor factor = pf_load_factor(from + 8 * n * line_words);

#pragma unroll
            for (pf_i32 c = 0; c < 3; c++) {
                pf_multiply(false, sums[n][c].low, low, factor.channel[c]);
                pf_multiply(false, sums[n][c].middle, middle, factor.channel[c]);
                pf_multiply(true, sums[n][c].high, high, factor.channel[c]);
            }
        }
        weight += 3 * PF_GPU_LANES;
        from += 3 * PF_GPU_STEP_WORDS;
    }
    const pf_i32 done_bytes = product.done_bytes;
    pf_u8 *done = product.done + lane / 4 * done_bytes + 6 * (lane % 4);
#pragma unroll
    for (pf_i32 i = 0; i < 2 * PF_FACTORS; i++) { /* two lines, six bytes */
        const pf_i32 lower = i % 2, n = i / 2;
        pf_u16 *to = (pf_u16 *)(done + 8 * lower * done_bytes + 24 * n);
        pf_u32 v[6];

#pragma unroll
        for (pf_i32 b = 0; b < 6; b++) {
            const pf_sums_of_bytes &s = sums[n][b % 3];
            const pf_i32 e = 2 * lower + b / 3;

            v[b] = pf_gpu_byte_of(pf_gpu_join(s.low[e], s.middle[e], s.high[e]));
        }
#pragma unroll
        for (pf_i32 b = 0; b < 3; b++) {
            to[b] = (pf_u16)(v[2 * b] | v[2 * b + 1] << 8);
        }
    }
}

/* Whether lines can be staged as they are. */
PF_DEVICE bool
pf_is_piecewise(const pf_gpu_resize &p, const pf_gpu_frame &f)
{
    return p.pixels == PF_RGB24 &&
           (((pf_u64)f.plane[0] | (pf_u64)f.row_bytes[0]) & 15u) == 0;
}

/* Lines y0 .. y0 + n_line - 1 as they are, from the last multiple of 16 bytes that is
 * not right of word0; rows and the frame start at multiples of 16 bytes. */
PF_DEVICE void
pf_stage_bytes(const pf_gpu_resize &p, const pf_gpu_frame &f, pf_u32 *stage, pf_i32 y0,
        pf_i32 n_line, pf_i32 word0, pf_i32 n_word)
{
    const pf_i64 begin = 12 * (pf_i64)word0 & ~15ll;
    const pf_i64 row_end = 3 * (pf_i64)f.across.src_px;
    const pf_i64 wanted = 12 * (pf_i64)(word0 + n_word);
    const pf_i64 end = wanted < row_end ? wanted : row_end;
    const pf_i32 n_piece = (pf_i32)(end - begin + 15) / 16;
    const pf_i64 row_bytes = f.row_bytes[0];
    const pf_u8 *row = f.plane[0] + (y0 + threadIdx.y) * row_bytes + begin;
    const pf_i64 step_bytes = PF_GPU_WARPS * row_bytes;

    for (pf_i32 i = threadIdx.x; i < n_piece; i += PF_GPU_LANES) {
        const pf_i64 n_byte = row_end - begin - 16 * i;
        const pf_u8 *from = row + 16 * i;
        pf_u32 *to = stage + threadIdx.y * p.stage_words + 4 * i;

#pragma unroll 4
        for (pf_i32 line = threadIdx.y; line < n_line; line += PF_GPU_WARPS) {
            if (n_byte >= 16) {
                pf_store_uint4((uint4 *)to, pf_load_uint4((const uint4 *)from));
            }
            else { /* memory may end with the row */
#pragma unroll 1
                for (pf_i32 b = 0; b < n_byte; b++) {
                    ((pf_u8 *)to)[b] = from[b];
                }
            }
            from += step_bytes;
            to += PF_GPU_WARPS * p.stage_words;
        }
    }
}

/* The same of any frame: made into RGB24 in shared memory, from word0 on. */
PF_DEVICE void
pf_stage_pixels(const pf_gpu_resize &p, const pf_gpu_frame &f, pf_u32 *stage, pf_i32 y0,
        pf_i32 n_line, pf_i32 word0, pf_i32 n_word)
{
    for (pf_i32 line = threadIdx.y; line < n_line; line += PF_GPU_WARPS) {
        for (pf_i32 i = threadIdx.x; i < n_word; i += PF_GPU_LANES) {
            const pf_triple three = pf_unsplit(
                    pf_four_at(p.pixels, f, p.colour, 4 * (word0 + i), y0 + line));
            pf_u32 *to = stage + line * p.stage_words + 3 * i;

#pragma unroll
            for (pf_i32 w = 0; w < 3; w++) {
                to[w] = three.word[w];
            }
        }
    }
}

PF_DEVICE void
pf_stage(const pf_gpu_resize &p, const pf_gpu_frame &f, pf_u32 *stage, pf_i32 y0,
        pf_i32 n_line, const pf_tile &t)
{
    if (pf_is_piecewise(p, f)) {
        pf_stage_bytes(p, f, stage, y0, n_line, t.word0, t.n_word);
    }
    else {
        pf_stage_pixels(p, f, stage, y0, n_line, t.word0, t.n_word);
    }
}

/* Stores the finished tile, rows of PF_GPU_DONE_BYTES. */
PF_DEVICE void
pf_store_tile(const pf_result &result, const pf_tile &t, const pf_u8 *done)
{
    const pf_i32 x = threadIdx.x;

    if (x >= t.n_a) {
        return;
    }
    const pf_i64 x_at = result.x_offset[t.a0 + x];

    for (pf_i32 y = threadIdx.y; y < t.n_b; y += PF_GPU_WARPS) {
        const pf_i64 at = x_at + result.y_offset[t.b0 + y];
        const pf_u8 *from = done + y * PF_GPU_DONE_BYTES + 3 * x;

#pragma unroll
        for (pf_i32 c = 0; c < 3; c++) {
            pf_put(result, at + c * result.channel_offset, c, from[c]);
        }
    }
}

/* 128 registers a thread, two blocks a multiprocessor: 72 of them are sums. */
PF_KERNEL __launch_bounds__(256, 2) pf_tensor(const pf_gpu_resize p)
{
    PF_DYN_SHARED(tensor_memory);
    const pf_gpu_frame &f = p.frame[blockIdx.z];
    const pf_tile t = pf_tile_of(f.across, f.down, p.tile, PF_GPU_GROUP);

    if (t.n_a < 1 || t.n_b < 1) {
        return; /* the whole block: a smaller frame of a batch of many sizes */
    }
    pf_u32 *stage = pf_keep_table(p, tensor_memory);
    pf_u32 *mid = stage + p.stage_lines * p.stage_words;
    const pf_u32 *staged = stage + (pf_is_piecewise(p, f) ? 3 * t.word0 & 3 : 0);
    const pf_i32 side = threadIdx.y % 2 * PF_GPU_GROUP;
    pf_u8 *done = (pf_u8 *)stage;
    pf_i32 from = t.line0;
    pf_i32 left;

#pragma unroll 1
    do { /* the last turn is the second pass */
        left = t.end_line - from;
        pf_i32 n = left < p.stage_lines ? left : p.stage_lines;

        if (left > 0) {
            pf_stage(p, f, stage, from, n, t);
        }
        else {
            n = t.n_b;
        }
        __syncthreads();
#pragma unroll 1
        for (pf_i32 i = threadIdx.y / 2 * PF_GPU_GROUP; i < n;
                i += PF_GPU_WARPS / 2 * PF_GPU_GROUP) {
            pf_product product = {0, 0, 0, 0, 0, 0};

            if (left <= 0) {
                product = pf_product_of(f.down, t.b0 + i, mid + side * p.mid_words,
                        p.mid_words, t.line0 / 4,
                        done + i * PF_GPU_DONE_BYTES + 3 * side, PF_GPU_DONE_BYTES);
            }
            else if (side < t.n_a) {
                product = pf_product_of(f.across, t.a0 + side,
                        staged + i * p.stage_words, p.stage_words, t.word0,
                        (pf_u8 *)(mid + side * p.mid_words) + 3 * (from - t.line0 + i),
                        4 * p.mid_words);
            }
            if (product.n_step > 0) { /* the whole warp */
                pf_multiply_lines(product);
            }
        }
        __syncthreads();
        from += p.stage_lines;
    } while (left > 0);
    pf_store_tile(pf_result_of(p, f, tensor_memory), t, done);
}

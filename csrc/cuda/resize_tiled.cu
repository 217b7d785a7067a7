/* resize_tiled.cu - both passes of the resize in one launch, four taps an instruction.
 *
 * A block makes 32 outputs of the first pass times p.tile of the second. Lines across
 * the first pass (rows, when it goes across; columns, when it goes down: TURNED) are
 * staged 32 at a time, one a lane, as words of four pixels a channel. So all lanes of a
 * warp share their weights, and the lines between the passes, stored the other way
 * round, are read by the second pass just as the first reads the stage. Line pitches
 * are odd numbers of words: neighbouring lanes then never meet in a bank. */
#include "source.h"

struct pf_sums {
    pf_i32 channel[3];
};

/* Sums of n_word words of each channel; channels are channel_words apart. */
PF_DEVICE pf_sums
pf_dot_words(const pf_u32 *word, pf_i32 channel_words, const void *weight, pf_i64 index,
        pf_i32 n_word)
{
    pf_i32 low[3] = {1 << 21, 1 << 21, 1 << 21};
    pf_i32 middle[3] = {0, 0, 0};
    pf_i32 high[3] = {0, 0, 0};
    pf_sums sums;

#pragma unroll 2
    for (pf_i32 t = 0; t < n_word; t++) {
        const uint4 w = pf_load_uint4((const uint4 *)weight + index + t);

#pragma unroll
        for (pf_i32 c = 0; c < 3; c++) {
            const pf_u32 pixels = word[c * channel_words + t];

            low[c] = pf_gpu_dot_unsigned(pixels, w.x, low[c]);
            middle[c] = pf_gpu_dot_unsigned(pixels, w.y, middle[c]);
            high[c] = pf_gpu_dot_signed(pixels, w.z, high[c]);
        }
    }
#pragma unroll
    for (pf_i32 c = 0; c < 3; c++) {
        sums.channel[c] = pf_gpu_join(low[c], middle[c], high[c]);
    }
    return sums;
}

/* Rows y0 .. y0 + n_line - 1, words word0 .. word0 + n_word - 1 of each. */
PF_DEVICE void
pf_stage_rows(const pf_gpu_resize &p, const pf_gpu_frame &f, pf_u32 *stage, pf_i32 y0,
        pf_i32 n_line, pf_i32 word0, pf_i32 n_word)
{
    const pf_i32 channel_words = PF_GPU_LANES * p.stage_words;

    for (pf_i32 line = threadIdx.y; line < n_line; line += PF_GPU_WARPS) {
        for (pf_i32 i = threadIdx.x; i < n_word; i += PF_GPU_LANES) {
            const pf_four four =
                    pf_four_at(p.pixels, f, p.colour, 4 * (word0 + i), y0 + line);
            pf_u32 *to = stage + line * p.stage_words + i;

#pragma unroll
            for (pf_i32 c = 0; c < 3; c++) {
                to[c * channel_words] = four.channel[c];
            }
        }
    }
}

/* Columns x0 .. x0 + 31, x0 a multiple of 4; words word0 .. of four rows each. Lanes
 * read 8 neighbouring words of four rows, and turn squares of 4 by 4 pixels. */
PF_DEVICE void
pf_stage_columns(const pf_gpu_resize &p, const pf_gpu_frame &f, pf_u32 *stage,
        pf_i32 x0, pf_i32 word0, pf_i32 n_word)
{
    const pf_i32 channel_words = PF_GPU_LANES * p.stage_words;
    const pf_i32 column = 4 * (threadIdx.x & 7);
    const pf_i32 last = f.down.src_px - 1;

    if (x0 + column >= f.across.src_px) {
        return;
    }
    for (pf_i32 i = 4 * threadIdx.y + (threadIdx.x >> 3); i < n_word;
            i += 4 * PF_GPU_WARPS) {
        pf_u32 *to = stage + column * p.stage_words + i;
        pf_u32 turned[3][4] = {};

#pragma unroll 1
        for (pf_i32 r = 0; r < 4; r++) {
            const pf_i32 y = 4 * (word0 + i) + r;
            const pf_four four =
                    pf_four_at(p.pixels, f, p.colour, x0 + column, y < last ? y : last);
            const pf_u32 kept = 0x3210u & ~(0xFu << 4 * r);

#pragma unroll
            for (pf_i32 x = 0; x < 4; x++) { /* byte x becomes byte r of column x */
                const pf_u32 which = kept | (4u + x) << 4 * r;

                for (pf_i32 c = 0; c < 3; c++) {
                    turned[c][x] = pf_gpu_pick(turned[c][x], four.channel[c], which);
                }
            }
        }
#pragma unroll
        for (pf_i32 c = 0; c < 3; c++) {
#pragma unroll
            for (pf_i32 x = 0; x < 4; x++) {
                to[c * channel_words + x * p.stage_words] = turned[c][x];
            }
        }
    }
}

/* A copy of the table in front of shared memory; what lies after it. */
PF_DEVICE pf_u32 *
pf_keep_table(const pf_gpu_resize &p, pf_u8 *shared)
{
    const pf_i32 n_word = PF_GPU_TABLE_BYTES(p.value_bytes) / 4;
    pf_u32 *kept = (pf_u32 *)shared;

    for (pf_i32 i = threadIdx.y * PF_GPU_LANES + threadIdx.x; i < n_word;
            i += PF_GPU_LANES * PF_GPU_WARPS) {
        kept[i] = ((const pf_u32 *)p.table)[i];
    }
    return kept + n_word;
}

/* The tile of this block; its axes speak of single outputs, or of groups of some. */
struct pf_tile {
    pf_i32 a0, n_a;         /* outputs of the first pass */
    pf_i32 b0, n_b;         /* of the second */
    pf_i32 word0, n_word;   /* words that the first pass reads of a line */
    pf_i32 line0, end_line; /* lines that the second pass reads */
};

PF_DEVICE pf_tile
pf_tile_of(const pf_gpu_axis &a, const pf_gpu_axis &b, pf_i32 tile, pf_i32 group)
{
    pf_tile t;

    t.a0 = blockIdx.x * PF_GPU_LANES;
    t.b0 = blockIdx.y * tile;
    t.n_a = a.dst_px - t.a0 < PF_GPU_LANES ? a.dst_px - t.a0 : PF_GPU_LANES;
    t.n_b = b.dst_px - t.b0 < tile ? b.dst_px - t.b0 : tile;
    if (t.n_a < 1 || t.n_b < 1) {
        return t;
    }
    const pf_i32 a1 = (t.a0 + t.n_a - 1) / group;
    const pf_i32 b1 = (t.b0 + t.n_b - 1) / group;

    t.word0 = a.first[t.a0 / group];
    t.n_word = a.first[a1] + a.count[a1] - t.word0;
    t.line0 = 4 * b.first[t.b0 / group];
    t.end_line = 4 * (b.first[b1] + b.count[b1]);
    t.end_line = t.end_line < b.src_px ? t.end_line : b.src_px;
    return t;
}

/* Lanes are outputs of the first pass. When that went across they are neighbours in the
 * result; otherwise the tile is turned in shared memory before it is stored. */
template <bool TURNED>
PF_DEVICE void
pf_second_pass(const pf_gpu_resize &p, const pf_gpu_frame &f, const pf_tile &t,
        const void *table, pf_u32 *stage, const pf_u32 *mid)
{
    const pf_gpu_axis b = TURNED ? f.across : f.down;
    const pf_result result = pf_result_of(p, f, table);
    const pf_i32 lane = threadIdx.x;
    const pf_i32 mid_channel = PF_GPU_LANES * p.mid_words;
    const pf_i32 turned_bytes = 4 * p.stage_words;
    pf_u8 *turned = (pf_u8 *)stage;

    if (lane < t.n_a) {
        const pf_i64 x_at = TURNED ? 0 : result.x_offset[t.a0 + lane];

        for (pf_i32 i = threadIdx.y; i < t.n_b; i += PF_GPU_WARPS) {
            const pf_i32 made = t.b0 + i;
            const pf_sums sums = pf_dot_words(
                    mid + lane * p.mid_words + b.first[made] - t.line0 / 4, mid_channel,
                    b.weight, (pf_i64)made * b.stride, b.count[made]);
            const pf_i64 at = TURNED ? 0 : x_at + result.y_offset[made];

#pragma unroll
            for (pf_i32 c = 0; c < 3; c++) {
                const pf_u32 v = pf_gpu_byte_of(sums.channel[c]);

                if (TURNED) {
                    turned[(c * PF_GPU_LANES + lane) * turned_bytes + i] = (pf_u8)v;
                }
                else {
                    pf_put(result, at + c * result.channel_offset, c, v);
                }
            }
        }
    }
    if (!TURNED) {
        return;
    }
    __syncthreads();
    for (pf_i32 y = threadIdx.y; y < t.n_a; y += PF_GPU_WARPS) {
        for (pf_i32 x = lane; x < t.n_b; x += PF_GPU_LANES) {
            const pf_i64 at = result.x_offset[t.b0 + x] + result.y_offset[t.a0 + y];

#pragma unroll
            for (pf_i32 c = 0; c < 3; c++) {
                pf_put(result, at + c * result.channel_offset, c,
                        turned[(c * PF_GPU_LANES + y) * turned_bytes + x]);
            }
        }
    }
}

template <bool TURNED>
PF_DEVICE void
pf_resize_tile(const pf_gpu_resize &p)
{
    PF_DYN_SHARED(tile_memory);
    const pf_gpu_frame &f = p.frame[blockIdx.z];
    const pf_gpu_axis a = TURNED ? f.down : f.across;
    const pf_tile t = pf_tile_of(a, TURNED ? f.across : f.down, p.tile, 1);

    if (t.n_a < 1 || t.n_b < 1) {
        return; /* the whole block: a smaller frame of a batch of many sizes */
    }
    pf_u32 *stage = pf_keep_table(p, tile_memory);
    const pf_i32 stage_channel = PF_GPU_LANES * p.stage_words;
    pf_u32 *mid = stage + 3 * stage_channel;
    const pf_i32 lane = threadIdx.x;

    for (pf_i32 from = t.line0; from < t.end_line; from += PF_GPU_LANES) {
        const pf_i32 left = t.end_line - from;
        const pf_i32 n_line = left < PF_GPU_LANES ? left : PF_GPU_LANES;

        if (TURNED) {
            pf_stage_columns(p, f, stage, from, t.word0, t.n_word);
        }
        else {
            pf_stage_rows(p, f, stage, from, n_line, t.word0, t.n_word);
        }
        __syncthreads();
        for (pf_i32 i = threadIdx.y; lane < n_line && i < t.n_a; i += PF_GPU_WARPS) {
            const pf_i32 made = t.a0 + i;
            const pf_sums sums = pf_dot_words(
                    stage + lane * p.stage_words + a.first[made] - t.word0,
                    stage_channel, a.weight, (pf_i64)made * a.stride, a.count[made]);
            pf_u8 *to = (pf_u8 *)(mid + i * p.mid_words) + (from - t.line0) + lane;

#pragma unroll
            for (pf_i32 c = 0; c < 3; c++) {
                to[c * 4 * PF_GPU_LANES * p.mid_words] =
                        (pf_u8)pf_gpu_byte_of(sums.channel[c]);
            }
        }
        __syncthreads();
    }
    pf_second_pass<TURNED>(p, f, t, tile_memory, stage, mid);
}

/* Blocks a multiprocessor: 64 registers a thread for four of them, 80 for three; no
 * variant has to spill then. */
PF_KERNEL __launch_bounds__(256, 4) pf_tiled(const pf_gpu_resize p)
{
    pf_resize_tile<false>(p);
}

PF_KERNEL __launch_bounds__(256, 3) pf_turned(const pf_gpu_resize p)
{
    pf_resize_tile<true>(p);
}

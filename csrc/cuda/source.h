/* source.h - pixels of RGB24, NV12 and I420 frames, one by one or four at a time; for
 * device code alone. */
#ifndef PF_CUDA_SOURCE_H
#define PF_CUDA_SOURCE_H

#include "device.h"
#include "params.h"

#ifdef PF_DEVICE

enum { PF_RGB24 = 0, PF_NV12, PF_I420 };

/* Four pixels of a line, one word a channel, leftmost in the low byte. */
struct pf_four {
    pf_u32 channel[3];
};

/* Red in the low byte, then green and blue. */
PF_DEVICE pf_u32
pf_rgb_of(const pf_gpu_colour &k, pf_i32 y, pf_i32 u, pf_i32 v)
{
    const pf_i32 luma = k.luma * (y - k.luma_zero) + (1 << 19);
    const pf_i32 red = k.red_v * (v - 128);
    const pf_i32 green = k.green_u * (u - 128) + k.green_v * (v - 128);
    const pf_i32 blue = k.blue_u * (u - 128);

    return pf_gpu_colour_of(luma + red) | pf_gpu_colour_of(luma + green) << 8 |
           pf_gpu_colour_of(luma + blue) << 16;
}

template <int SOURCE>
PF_DEVICE pf_u32
pf_pixel_at(const pf_gpu_frame &f, const pf_gpu_colour &k, pf_i64 x, pf_i64 y)
{
    const pf_u8 *line = f.plane[0] + y * f.row_bytes[0];

    if (SOURCE == PF_RGB24) {
        line += 3 * x;
        return line[0] | (pf_u32)line[1] << 8 | (pf_u32)line[2] << 16;
    }
    if (SOURCE == PF_NV12) {
        const pf_u8 *uv = f.plane[1] + (y >> 1) * f.row_bytes[1] + 2 * (x >> 1);

        return pf_rgb_of(k, line[x], uv[0], uv[1]);
    }
    const pf_i64 chroma = (y >> 1) * f.row_bytes[1] + (x >> 1);

    return pf_rgb_of(k, line[x], f.plane[1][chroma], f.plane[2][chroma]);
}

PF_DEVICE bool
pf_is_aligned(const pf_u8 *p)
{
    return ((pf_u64)p & 3u) == 0;
}

/* R0 G0 B0 R1, G1 B1 R2 G2, B2 R3 G3 B3 */
PF_DEVICE pf_four
pf_split(pf_u32 a, pf_u32 b, pf_u32 c)
{
    return {{pf_gpu_pick(pf_gpu_pick(a, b, 0x0630), c, 0x5210),
            pf_gpu_pick(pf_gpu_pick(a, b, 0x0741), c, 0x6210),
            pf_gpu_pick(pf_gpu_pick(a, b, 0x0052), c, 0x7410)}};
}

/* The other way round. */
struct pf_triple {
    pf_u32 word[3];
};

PF_DEVICE pf_triple
pf_unsplit(const pf_four &four)
{
    const pf_u32 r = four.channel[0], g = four.channel[1], b = four.channel[2];

    return {{pf_gpu_pick(pf_gpu_pick(r, g, 0x1040), b, 0x3410),
            pf_gpu_pick(pf_gpu_pick(r, g, 0x6205), b, 0x3250),
            pf_gpu_pick(pf_gpu_pick(r, g, 0x0730), b, 0x7216)}};
}

/* Pixels x .. x+3 of line y one by one; 0 beyond the right edge. */
template <int SOURCE>
PF_DEVICE pf_four
pf_four_slowly(const pf_gpu_frame &f, const pf_gpu_colour &k, pf_i32 x, pf_i32 y)
{
    pf_four four = {{0, 0, 0}};

#pragma unroll 1
    for (pf_i32 i = 0; i < 4 && x + i < f.across.src_px; i++) {
        const pf_u32 rgb = pf_pixel_at<SOURCE>(f, k, x + i, y);

        for (pf_i32 c = 0; c < 3; c++) {
            four.channel[c] |= (rgb >> 8 * c & 255u) << 8 * i;
        }
    }
    return four;
}

/* Pixels x .. x+3 of line y, x a multiple of 4; 0 beyond the right edge. Rows of an odd
 * number of bytes start anywhere in a word: four words around the twelve bytes are read
 * then, within the frame because neither the first nor the last pixels are read so. */
PF_DEVICE pf_four
pf_four_rgb(const pf_gpu_frame &f, const pf_gpu_colour &k, pf_i32 x, pf_i32 y)
{
    const pf_u8 *at = f.plane[0] + y * f.row_bytes[0] + 3 * (pf_i64)x;

    if (pf_is_aligned(at) && x + 4 <= f.across.src_px) {
        const pf_u32 *word = (const pf_u32 *)at;

        return pf_split(word[0], word[1], word[2]);
    }
    if (x > 0 && x + 8 <= f.across.src_px) {
        const pf_u32 skip = (pf_u32)((pf_u64)at & 3u);
        const pf_u32 *word = (const pf_u32 *)(at - skip);
        const pf_u32 which = 0x3210u + 0x1111u * skip;
        const pf_u32 w1 = word[1];
        const pf_u32 w2 = word[2];

        return pf_split(pf_gpu_pick(word[0], w1, which), pf_gpu_pick(w1, w2, which),
                pf_gpu_pick(w2, word[3], which));
    }
    return pf_four_slowly<PF_RGB24>(f, k, x, y);
}

template <int SOURCE>
PF_DEVICE pf_four
pf_four_yuv(const pf_gpu_frame &f, const pf_gpu_colour &k, pf_i32 x, pf_i32 y)
{
    const pf_u8 *luma = f.plane[0] + y * f.row_bytes[0] + x;
    const pf_u8 *chroma =
            f.plane[1] + (y >> 1) * f.row_bytes[1] + (SOURCE == PF_NV12 ? x : x >> 1);
    pf_four four = {{0, 0, 0}};
    pf_u32 uv;

    if (!pf_is_aligned(luma) || x + 4 > f.across.src_px ||
            (SOURCE == PF_NV12 && !pf_is_aligned(chroma))) {
        return pf_four_slowly<SOURCE>(f, k, x, y);
    }
    if (SOURCE == PF_NV12) {
        uv = *(const pf_u32 *)chroma;
    }
    else {
        const pf_u8 *v = f.plane[2] + (chroma - f.plane[1]);

        uv = chroma[0] | (pf_u32)v[0] << 8 | (pf_u32)chroma[1] << 16 |
             (pf_u32)v[1] << 24;
    }
    const pf_u32 word = *(const pf_u32 *)luma;
#pragma unroll
    for (pf_i32 i = 0; i < 4; i++) {
        const pf_u32 pair = uv >> 16 * (i >> 1);
        const pf_u32 rgb = pf_rgb_of(k, (pf_i32)(word >> 8 * i & 255u),
                (pf_i32)(pair & 255u), (pf_i32)(pair >> 8 & 255u));

        for (pf_i32 c = 0; c < 3; c++) {
            four.channel[c] |= (rgb >> 8 * c & 255u) << 8 * i;
        }
    }
    return four;
}

/* The source is one of a launch: a branch that all take alike. */
PF_DEVICE pf_four
pf_four_at(pf_i32 pixels, const pf_gpu_frame &f, const pf_gpu_colour &k, pf_i32 x,
        pf_i32 y)
{
    if (pixels == PF_RGB24) {
        return pf_four_rgb(f, k, x, y);
    }
    return pixels == PF_NV12 ? pf_four_yuv<PF_NV12>(f, k, x, y)
                             : pf_four_yuv<PF_I420>(f, k, x, y);
}

/* Where values go. A copy of what the frame says, because the compiler has to take it
 * that any store changes the frame. */
struct pf_result {
    void *dst;
    const long long *x_offset;
    const long long *y_offset;
    pf_i64 channel_offset;
    const void *table; /* p.table, or a copy of it */
    int value_bytes;
};

PF_DEVICE pf_result
pf_result_of(const pf_gpu_resize &p, const pf_gpu_frame &f, const void *table)
{
    return {f.dst, f.x_offset, f.y_offset, f.channel_offset, table, p.value_bytes};
}

/* Stores what byte v of channel c becomes. */
PF_DEVICE void
pf_put(const pf_result &r, pf_i64 at, pf_i32 c, pf_u32 v)
{
    if (r.value_bytes == 4) {
        ((pf_u32 *)r.dst)[at] = ((const pf_u32 *)r.table)[256 * c + v];
    }
    else if (r.value_bytes == 2) {
        ((pf_u16 *)r.dst)[at] = ((const pf_u16 *)r.table)[256 * c + v];
    }
    else {
        ((pf_u8 *)r.dst)[at] = (pf_u8)v;
    }
}

#endif /* PF_DEVICE */

#endif /* PF_CUDA_SOURCE_H */

/* resize_plain.cu - one pass of the resize, one pixel a thread, straight from memory.
 *
 * The reference of the other kernels, and what takes over where a picture shrinks so
 * much that their lines do not fit into shared memory: nothing here has a limit. Two
 * launches, through tight interleaved bytes in between, make a resize. */
#include "source.h"

PF_DEVICE pf_u32
pf_any_pixel(pf_i32 pixels, const pf_gpu_frame &f, const pf_gpu_colour &k, pf_i64 x,
        pf_i64 y)
{
    if (pixels == PF_RGB24) {
        return pf_pixel_at<PF_RGB24>(f, k, x, y);
    }
    return pixels == PF_NV12 ? pf_pixel_at<PF_NV12>(f, k, x, y)
                             : pf_pixel_at<PF_I420>(f, k, x, y);
}

PF_KERNEL __launch_bounds__(256) pf_pass(const pf_gpu_resize p)
{
    const pf_gpu_frame &f = p.frame[blockIdx.z];
    const pf_gpu_axis axis = p.is_down ? f.down : f.across;
    const pf_result result = pf_result_of(p, f, p.table);
    const pf_i64 width = p.is_down ? f.across.src_px : f.across.dst_px;
    const pf_i64 height = p.is_down ? f.down.dst_px : f.down.src_px;
    const pf_i64 step = (pf_i64)gridDim.x * blockDim.x;

#pragma unroll 1
    for (pf_i64 i = (pf_i64)blockIdx.x * blockDim.x + threadIdx.x; i < width * height;
            i += step) {
        const pf_i64 y = i / width;
        const pf_i64 x = i - y * width;
        const pf_i64 made = p.is_down ? y : x;
        const pf_i32 *weight = (const pf_i32 *)axis.weight + made * axis.stride;
        const pf_i32 first = axis.first[made];
        const pf_i32 n_tap = axis.count[made];
        pf_i32 sum[3] = {1 << 21, 1 << 21, 1 << 21};

#pragma unroll 1
        for (pf_i32 t = 0; t < n_tap; t++) {
            const pf_i64 from_x = p.is_down ? x : first + t;
            const pf_i64 from_y = p.is_down ? first + t : y;
            const pf_u32 rgb = pf_any_pixel(p.pixels, f, p.colour, from_x, from_y);

            for (pf_i32 c = 0; c < 3; c++) {
                sum[c] += weight[t] * (pf_i32)(rgb >> 8 * c & 255u);
            }
        }
        const bool tight = result.x_offset == 0;
        const pf_i64 at = tight ? 3 * i : result.x_offset[x] + result.y_offset[y];
        const pf_i64 next = tight ? 1 : result.channel_offset;

        for (pf_i32 c = 0; c < 3; c++) {
            pf_put(result, at + c * next, c, pf_gpu_byte_of(sum[c]));
        }
    }
}

/* resize_plain.cu - one pass of the resize, one pixel a thread, straight from memory.
 *
 * The reference of the other kernels, and what takes over where a picture shrinks so
 * much that their lines do not fit into shared memory: nothing here has a limit. Two
 * launches, through tight interleaved bytes in between, make a resize. */
#include "source.h"

template <int SOURCE>
PF_DEVICE void
pf_pass(const pf_gpu_resize &p)
{
    const pf_gpu_frame &f = p.frame[blockIdx.z];
    const pf_gpu_axis &axis = p.is_down ? f.down : f.across;
    const pf_i64 width = p.is_down ? f.across.src_px : f.across.dst_px;
    const pf_i64 height = p.is_down ? f.down.dst_px : f.down.src_px;
    const pf_i64 step = (pf_i64)gridDim.x * blockDim.x;

    for (pf_i64 i = (pf_i64)blockIdx.x * blockDim.x + threadIdx.x; i < width * height;
            i += step) {
        const pf_i64 y = i / width;
        const pf_i64 x = i - y * width;
        const pf_i64 made = p.is_down ? y : x;
        const pf_i32 *weight = (const pf_i32 *)axis.weight + made * axis.stride;
        const pf_i32 first = axis.first[made];
        const pf_i32 n_tap = axis.count[made];
        pf_i32 sum[3] = {1 << 21, 1 << 21, 1 << 21};

        for (pf_i32 t = 0; t < n_tap; t++) {
            const pf_u32 rgb = p.is_down
                                       ? pf_pixel_at<SOURCE>(f, p.colour, x, first + t)
                                       : pf_pixel_at<SOURCE>(f, p.colour, first + t, y);

            for (pf_i32 c = 0; c < 3; c++) {
                sum[c] += weight[t] * (pf_i32)(rgb >> 8 * c & 255u);
            }
        }
        const bool tight = f.x_offset == 0;
        const pf_i64 at = tight ? 3 * i : f.x_offset[x] + f.y_offset[y];
        const pf_i64 next = tight ? 1 : f.channel_offset;

        for (pf_i32 c = 0; c < 3; c++) {
            pf_put(p, f, p.table, at + c * next, c, pf_gpu_byte_of(sum[c]));
        }
    }
}

PF_KERNEL
__launch_bounds__(256) pf_pass_rgb24(const pf_gpu_resize p)
{
    pf_pass<PF_RGB24>(p);
}

PF_KERNEL
__launch_bounds__(256) pf_pass_nv12(const pf_gpu_resize p)
{
    pf_pass<PF_NV12>(p);
}

PF_KERNEL
__launch_bounds__(256) pf_pass_i420(const pf_gpu_resize p)
{
    pf_pass<PF_I420>(p);
}

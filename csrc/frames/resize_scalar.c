/* resize_scalar.c - the two passes as the contract states them: the reference. */
#include "frames/kernels.h"

static void
horizontal(
        const pf_resize_plan *plan, pf_rows src, void *work, uint8_t *PF_RESTRICT dst)
{
    const pf_axis *axis = &plan->x;
    const size_t n_px = (size_t)axis->dst_px;

    (void)work;
    for (size_t y = 0; y < src.n_row; y++) {
        const uint8_t *row = src.rgb + (ptrdiff_t)y * src.row_bytes;
        uint8_t *out = dst + y * plan->resized_bytes;

        for (size_t x = 0; x < n_px; x++) {
            const int32_t *weight = axis->weight + x * axis->stride;
            const uint8_t *rgb = row + 3 * (size_t)axis->first_px[x];
            int32_t sum[3] = {PF_WEIGHT_HALF, PF_WEIGHT_HALF, PF_WEIGHT_HALF};

            for (int32_t i = 0; i < axis->n_tap[x]; i++, rgb += 3) {
                sum[0] += rgb[0] * weight[i];
                sum[1] += rgb[1] * weight[i];
                sum[2] += rgb[2] * weight[i];
            }
            out[3 * x] = pf_sum_to_u8(sum[0]);
            out[3 * x + 1] = pf_sum_to_u8(sum[1]);
            out[3 * x + 2] = pf_sum_to_u8(sum[2]);
        }
    }
}

/* Sums of this many bytes are kept at a time, so that the inner loop runs along a row
 * and can be vectorised. */
#define CHUNK_BYTES 256

void
pf_vertical_scalar(
        const pf_resize_plan *plan, int64_t y, pf_rows rows, uint8_t *PF_RESTRICT dst)
{
    const pf_axis *axis = &plan->y;
    const int32_t *weight = axis->weight + (size_t)y * axis->stride;
    const size_t n_bytes = rows.n_bytes;
    int32_t sum[CHUNK_BYTES];

    for (size_t start = 0; start < n_bytes; start += CHUNK_BYTES) {
        const size_t rest = n_bytes - start;
        const size_t n = rest < CHUNK_BYTES ? rest : CHUNK_BYTES;

        for (size_t b = 0; b < n; b++) {
            sum[b] = PF_WEIGHT_HALF;
        }
        for (int32_t i = 0; i < axis->n_tap[y]; i++) {
            const uint8_t *row = rows.rgb + i * rows.row_bytes + start;

            for (size_t b = 0; b < n; b++) {
                sum[b] += row[b] * weight[i];
            }
        }
        for (size_t b = 0; b < n; b++) {
            dst[start + b] = pf_sum_to_u8(sum[b]);
        }
    }
}

const pf_resize_kernels pf_resize_scalar = {
        .horizontal = horizontal,
        .vertical = pf_vertical_scalar,
};

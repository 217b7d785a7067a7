/* colour.c - YUV to RGB in integers; tables for 8 bits, products for more. */
#include "video/colour.h"

#include <math.h>

enum { FRACTION_BITS = 20, HALF = 1 << (FRACTION_BITS - 1) };

static int32_t
fixed(double value)
{
    return (int32_t)lrint(value * (1 << FRACTION_BITS));
}

pf_status
pf_colour_init(pf_colour *colour, pf_luma_weights weights, bool full_range, int depth)
{
    const double green = 1.0 - weights.red - weights.blue;
    double luma_scale, chroma_scale;

    if (depth < 8 || depth > PF_COLOUR_MAX_DEPTH || !(green > 0.0)) {
        return PF_EINVAL;
    }
    *colour = (pf_colour){.depth = depth};
    colour->has_avx2 = pf_cpu_best() >= PF_CPU_AVX2;
    luma_scale = full_range ? 255.0 / ((1 << depth) - 1) : 255.0 / (219 << (depth - 8));
    chroma_scale =
            full_range ? 255.0 / ((1 << depth) - 1) : 255.0 / (224 << (depth - 8));
    colour->ky = fixed(luma_scale);
    colour->krv = fixed(2.0 * (1.0 - weights.red) * chroma_scale);
    colour->kgu =
            fixed(-2.0 * weights.blue * (1.0 - weights.blue) / green * chroma_scale);
    colour->kgv =
            fixed(-2.0 * weights.red * (1.0 - weights.red) / green * chroma_scale);
    colour->kbu = fixed(2.0 * (1.0 - weights.blue) * chroma_scale);
    colour->y0 = full_range ? 0 : 16 << (depth - 8);
    colour->c0 = 128 << (depth - 8);
    for (int i = 0; i < 256 && depth == 8; i++) {
        colour->luma[i] = colour->ky * (i - colour->y0) + HALF;
        colour->red_v[i] = colour->krv * (i - colour->c0);
        colour->green_u[i] = colour->kgu * (i - colour->c0);
        colour->green_v[i] = colour->kgv * (i - colour->c0);
        colour->blue_u[i] = colour->kbu * (i - colour->c0);
    }
    return PF_OK;
}

/* Arithmetic shift rounds down, also below zero (gcc and clang promise it). */
static inline uint8_t
clamp_byte(int32_t value)
{
    value >>= FRACTION_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static inline void
put_pixel(uint8_t *rgb, int32_t luma, int32_t red, int32_t green, int32_t blue)
{
    rgb[0] = clamp_byte(luma + red);
    rgb[1] = clamp_byte(luma + green);
    rgb[2] = clamp_byte(luma + blue);
}

/* 8 bits, chroma of its own sample or shared by two: the common layouts. */
static void
row_8(const pf_colour *c, const uint8_t *const sample[3], const ptrdiff_t step[3],
        int x_shift, int64_t width_px, uint8_t *PF_RESTRICT rgb)
{
    const uint8_t *y = sample[0];
    const uint8_t *u = sample[1];
    const uint8_t *v = sample[2];
    const int64_t n_share = INT64_C(1) << x_shift;

    for (int64_t x = 0; x < width_px; x += n_share, u += step[1], v += step[2]) {
        const int32_t red = c->red_v[*v];
        const int32_t green = c->green_u[*u] + c->green_v[*v];
        const int32_t blue = c->blue_u[*u];
        const int64_t n = width_px - x < n_share ? width_px - x : n_share;

        for (int64_t k = 0; k < n; k++, y += step[0], rgb += 3) {
            put_pixel(rgb, c->luma[*y], red, green, blue);
        }
    }
}

static inline int32_t
load_wide(const uint8_t *sample, int value_shift)
{
    return (int32_t)((uint32_t)sample[0] | (uint32_t)sample[1] << 8) >> value_shift;
}

static void
row_wide(const pf_colour *c, const pf_component component[3],
        const uint8_t *const sample[3], int64_t width_px, uint8_t *PF_RESTRICT rgb)
{
    const int32_t highest = (1 << c->depth) - 1; /* stray high bits must not overflow */

    for (int64_t x = 0; x < width_px; x++, rgb += 3) {
        int32_t value[3] = {0, c->c0, c->c0};

        for (int i = 0; i < 3 && sample[i] != NULL; i++) {
            const ptrdiff_t at = (x >> component[i].x_shift) * component[i].step_bytes;

            value[i] = load_wide(sample[i] + at, component[i].value_shift) & highest;
        }
        put_pixel(rgb, c->ky * (value[0] - c->y0) + HALF, c->krv * (value[2] - c->c0),
                c->kgu * (value[1] - c->c0) + c->kgv * (value[2] - c->c0),
                c->kbu * (value[1] - c->c0));
    }
}

void
pf_colour_row(const pf_colour *colour, const pf_component component[3], int64_t y_px,
        int64_t width_px, uint8_t *PF_RESTRICT rgb)
{
    const uint8_t *sample[3] = {NULL, NULL, NULL};
    ptrdiff_t step[3];

    for (int i = 0; i < 3; i++) {
        step[i] = component[i].step_bytes;
        if (component[i].data != NULL) {
            sample[i] = component[i].data +
                        (y_px >> component[i].y_shift) * component[i].row_bytes;
        }
    }
    if (colour->depth > 8) {
        row_wide(colour, component, sample, width_px, rgb);
    }
    else if (sample[1] == NULL) {
        for (int64_t x = 0; x < width_px; x++, rgb += 3) {
            put_pixel(rgb, colour->luma[sample[0][x * step[0]]], 0, 0, 0);
        }
    }
    else {
        int64_t n_done = 0;

#if PF_X86
        if (colour->has_avx2 && component[1].x_shift == 1 && step[0] == 1 &&
                step[1] == 1 && step[2] == 1) {
            n_done = pf_colour_row_avx2(colour, sample, width_px, rgb);
            sample[0] += n_done;
            sample[1] += n_done / 2;
            sample[2] += n_done / 2;
        }
#endif
        row_8(colour, sample, step, component[1].x_shift, width_px - n_done,
                rgb + 3 * n_done);
    }
}

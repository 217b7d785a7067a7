/* colour.h - YUV and grey to RGB, exactly defined and the same on every machine.
 *
 * With y, u, v the samples of depth b, s = 2^(b-8) and 20 fraction bits:
 *
 *     R = clamp((ky*(y - y0) + krv*(v - c0) + 2^19) >> 20)
 *     G = clamp((ky*(y - y0) + kgu*(u - c0) + kgv*(v - c0) + 2^19) >> 20)
 *     B = clamp((ky*(y - y0) + kbu*(u - c0) + 2^19) >> 20)
 *
 * y0 = 16 s (limited) or 0 (full), c0 = 128 s; each k is the matrix coefficient times
 * 255 / (219 s), 255 / (224 s) (limited: luma, chroma) or 255 / (2^b - 1) (full), times
 * 2^20, rounded to nearest. Chroma is repeated over the pixels it covers, which is what
 * libswscale's default path and so most readers do; unlike theirs, results are rounded
 * and not cut, so they carry no bias. */
#ifndef PF_VIDEO_COLOUR_H
#define PF_VIDEO_COLOUR_H

#include "base/cpu.h"
#include "base/pf.h"

enum { PF_COLOUR_MAX_DEPTH = 12 };

/* The luma weights of red and blue in a YUV matrix. */
typedef struct pf_luma_weights {
    double red;
    double blue;
} pf_luma_weights;

typedef struct pf_colour {
    int32_t luma[256]; /* ky*(y - y0) + 2^19, depth 8 only */
    int32_t red_v[256];
    int32_t green_u[256];
    int32_t green_v[256];
    int32_t blue_u[256];
    int32_t ky, krv, kgu, kgv, kbu, y0, c0;
    int depth;
    bool has_avx2; /* found at run time; the result is the same */
} pf_colour;

/* One component of a picture: the sample of pixel (x, y) lies at
 * data + (y >> y_shift) * row_bytes + (x >> x_shift) * step_bytes, one byte for depth
 * 8, otherwise two (little endian), shifted left by value_shift. */
typedef struct pf_component {
    const uint8_t *data;
    ptrdiff_t row_bytes;
    ptrdiff_t step_bytes;
    int x_shift;
    int y_shift;
    int value_shift;
} pf_component;

/* depth 8 to PF_COLOUR_MAX_DEPTH bits; PF_EINVAL beyond. */
PF_NODISCARD pf_status pf_colour_init(
        pf_colour *colour, pf_luma_weights weights, bool full_range, int depth);

/* Row y_px of the picture, width_px pixels, to rgb (3 * width_px bytes), which must not
 * overlap the picture. component holds Y, U, V; U.data == NULL: grey. */
void pf_colour_row(const pf_colour *colour, const pf_component component[3],
        int64_t y_px, int64_t width_px, uint8_t *PF_RESTRICT rgb);

#if PF_X86
/* For pf_colour_row alone: the first pixels of a row of depth 8 whose chroma bytes are
 * shared by two pixels; returns how many it did, an even number. */
int64_t pf_colour_row_avx2(const pf_colour *colour, const uint8_t *const sample[3],
        int64_t width_px, uint8_t *PF_RESTRICT rgb);
#endif

#endif /* PF_VIDEO_COLOUR_H */

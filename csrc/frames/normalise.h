/* normalise.h - uint8 pixels to the float32 planes that vision models take. */
#ifndef PF_NORMALISE_H
#define PF_NORMALISE_H

#include "base/cpu.h"
#include "base/pf.h"

/* y = (v * (1/255) - mean[c]) / std[c] for channel c: three float32 operations in
 * that order, each rounded, 1/255 rounded to float32 before. Every path gives the same
 * bits. table[c][v] holds all 256 answers. */
typedef struct pf_normalise {
    float mean[3];
    float std[3];
    float table[3][256];
} pf_normalise;

/* PF_EDOMAIN when a mean or std is not finite, PF_EINVAL when a std is 0. */
PF_NODISCARD pf_status pf_normalise_init(
        pf_normalise *normalise, const float mean[3], const float std[3]);

/* n_px interleaved RGB pixels into three planes that start plane_px floats apart. The
 * buffers must not overlap. */
typedef void (*pf_normalise_fn)(const pf_normalise *normalise,
        const uint8_t *PF_RESTRICT rgb, size_t n_px, float *PF_RESTRICT planes,
        size_t plane_px);

/* The fastest variant at that level. */
pf_normalise_fn pf_normalise_select(pf_cpu_level level);

#endif /* PF_NORMALISE_H */

/* tables.h - weights and places of pixels as the kernels read them, kept on the device.
 */
#ifndef PF_HOST_TABLES_H
#define PF_HOST_TABLES_H

#include "cuda/params.h"
#include "frames/filter.h"
#include "frames/patches.h"
#include "host/device.h"

typedef enum pf_axis_form {
    PF_AXIS_PLAIN = 0, /* one weight a tap */
    PF_AXIS_PACKED,    /* four taps a word, their weights in three planes of bytes */
    PF_AXIS_MATRICES   /* the same by groups of outputs, as tensor cores want them */
} pf_axis_form;

typedef struct pf_axis_sizes {
    int64_t src_px;
    int64_t dst_px;
} pf_axis_sizes;

/* The same weights as pf_axis_init makes, in that form; an axis that keeps its size has
 * one tap of 1.0, which changes no pixel. host holds first and count of every output,
 * or of every group of them.
 * Errors as of pf_axis_init, and PF_EBACKEND. */
PF_NODISCARD pf_status pf_tables_axis(pf_device *device, pf_axis_form form,
        pf_axis_sizes sizes, pf_filter filter, pf_table **table, pf_failure *failure);

/* What a kernel is told of it. */
pf_gpu_axis pf_tables_describe_axis(const pf_table *table, pf_axis_sizes sizes);

/* Words from the first to the last that outputs (or groups) i .. i + n - 1 read, at
 * most, for i in steps of n; each reads a multiple of step words. */
int64_t pf_tables_span(const pf_table *table, int64_t n, int64_t step);

/* Where the values of a picture go. A side of patch that is 0 stands for the whole
 * picture: planes. */
typedef struct pf_places {
    bool interleaved; /* RGB RGB ..., patch is not looked at */
    pf_patch_layout patch;
} pf_places;

/* x_offset (width), then y_offset (height), as of pf_gpu_frame. PF_EINVAL for a picture
 * that the patches do not fill. */
PF_NODISCARD pf_status pf_tables_offsets(pf_device *device, const pf_places *places,
        pf_size size, pf_table **table, pf_failure *failure);

/* From channel to channel, in values. */
int64_t pf_tables_channel_offset(const pf_places *places, pf_size size);

#endif /* PF_HOST_TABLES_H */

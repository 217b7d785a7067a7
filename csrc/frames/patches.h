/* patches.h - frames cut into the float32 rows that vision towers read. */
#ifndef PF_PATCHES_H
#define PF_PATCHES_H

#include "base/pf.h"
#include "frames/batch.h"

/* A row is one patch over depth_frames frames, its values in the order channel, frame,
 * line, column. Rows run over time, then over blocks of merge x merge patches, left to
 * right and top to bottom, then in the same way over the patches of a block. Whole
 * frames as planes are patches of the frame's size, with merge and depth 1. */
typedef struct pf_patch_layout {
    pf_size patch;
    int64_t merge;
    int64_t depth_frames;
} pf_patch_layout;

typedef struct pf_patch_grid {
    int64_t time;
    int64_t down;
    int64_t across;
    size_t row_values;
    size_t n_value; /* of all rows */
} pf_patch_grid;

/* How many rows n_frame frames of that size make. When the frames do not fill the last
 * row in time, the last frame counts as often as it takes. PF_EINVAL when a number is
 * below 1 (n_frame may be 0: no rows) or a side is no multiple of patch times merge;
 * PF_EOVERFLOW when the rows have more bytes than an address. */
PF_NODISCARD pf_status pf_patches_plan(const pf_patch_layout *layout, size_t n_frame,
        pf_size size, pf_patch_grid *grid);

/* What each value v of channel c becomes: table[c][v], so that whatever arithmetic made
 * the table is met bit for bit. */
typedef struct pf_values {
    float table[3][256];
    bool is_affine; /* (v / divisor - mean[c]) / std[c] gives every entry, bit for bit
                     */
    float divisor;
    float mean[3];
    float std[3];
} pf_values;

/* Whether the table is that of the formula is tried here, so a wrong guess costs time
 * and changes nothing. */
void pf_values_init(pf_values *values, const float table[3][256], float divisor,
        const float mean[3], const float std[3]);

/* uint8 frames to rows. rows has room for pf_patches_plan's n_value floats and must not
 * overlap the frames or the values. Errors are those of pf_patches_plan; rows is then
 * untouched. */
PF_NODISCARD pf_status pf_patches_from_rgb(const pf_patch_layout *layout,
        const pf_batch_src *src, const pf_values *values, float *PF_RESTRICT rows);

/* float32 planes (n_frame, 3, height, width), contiguous, to rows; the values are
 * moved, not changed. Otherwise the same. */
PF_NODISCARD pf_status pf_patches_from_planes(const pf_patch_layout *layout,
        const float *PF_RESTRICT planes, size_t n_frame, pf_size size,
        float *PF_RESTRICT rows);

#endif /* PF_PATCHES_H */

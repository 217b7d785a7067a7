/* convert.h - from the decoder's picture to upright packed RGB of one size. */
#ifndef PF_VIDEO_CONVERT_H
#define PF_VIDEO_CONVERT_H

#include "base/pf.h"
#include "video/colour.h"
#include "video/compat.h"

/* The picture every frame is delivered as: scaled to the stored size, turned, then
 * mirrored. */
typedef struct pf_geometry {
    int stored_width_px; /* as coded */
    int stored_height_px;
    int quarter_turns; /* clockwise, 0..3 */
    bool mirrored;     /* left and right are exchanged after the turn */
} pf_geometry;

/* From a 3x3 display matrix (NULL: upright); turns that are no multiple of 90 degrees
 * are left out. */
void pf_geometry_orient(pf_geometry *geometry, const int32_t *matrix);

int pf_geometry_width_px(const pf_geometry *geometry);
int pf_geometry_height_px(const pf_geometry *geometry);

/* One a thread. */
typedef struct pf_converter {
    struct SwsContext *scaler;
    pf_colour colour; /* for matrix and full_range; depth 0: not set up yet */
    enum AVColorSpace matrix;
    bool full_range;
    uint8_t *scratch; /* rows padded for the scaler's wide stores */
    int scratch_row_bytes;
    size_t scratch_bytes;
} pf_converter;

/* Writes the frame as height x width x 3 bytes R G B, rows tight, to rgb. Matrix and
 * range are the frame's own; unspecified means BT.601 and the range of the pixel
 * format (limited for YUV, full for grey and yuvj), FFmpeg's rule. Alpha is left out.
 * A frame of another size is scaled to the stored size (bicubic). */
PF_NODISCARD pf_status pf_convert(pf_converter *converter, const AVFrame *frame,
        const pf_geometry *geometry, uint8_t *rgb);

void pf_converter_free(pf_converter *converter);

/* The matrices that pf_convert tells apart; BT.601 also stands for those that are
 * unspecified. */
typedef enum pf_matrix {
    PF_MATRIX_BT601 = 0,
    PF_MATRIX_BT709,
    PF_MATRIX_BT2020,
    PF_MATRIX_FCC,
    PF_MATRIX_SMPTE240M
} pf_matrix;

/* "bt601" and so on; static storage. */
const char *pf_matrix_name(pf_matrix matrix);

/* What has to be known of planes to make of them what pf_convert makes. */
typedef struct pf_planar {
    pf_matrix matrix;
    bool full_range;
} pf_planar;

/* Has the frame planes that can be handed out upright, 8 bits deep and chroma shared by
 * squares of four pixels? Not so when it has another size than the stored one, nor when
 * the turn reverses a side of an odd number of pixels: which of them share chroma would
 * change. */
bool pf_planar_of(const AVFrame *frame, const pf_geometry *geometry, pf_planar *planar);

/* Copies the planes of such a frame: Y height x width, U and V each half of it rounded
 * up, rows tight. Alpha is left out. */
void pf_copy_planes(
        const AVFrame *frame, const pf_geometry *geometry, uint8_t *const plane[3]);

/* Planes that are black, whatever the matrix. */
void pf_black_planes(
        const pf_geometry *geometry, bool full_range, uint8_t *const plane[3]);

#endif /* PF_VIDEO_CONVERT_H */

/* motion.h - how much moves in a picture, by the motion vectors of its own coding. */
#ifndef PF_VIDEO_MOTION_H
#define PF_VIDEO_MOTION_H

#include "base/pf.h"
#include "video/compat.h"

typedef enum pf_picture_kind {
    PF_PICTURE_UNKNOWN = 0,
    PF_PICTURE_INTRA,     /* predicted from nothing */
    PF_PICTURE_PREDICTED, /* from pictures shown before it */
    PF_PICTURE_BOTH       /* from pictures before and after it */
} pf_picture_kind;

/* What the vectors of one picture add up to. */
typedef struct pf_motion {
    double past_px3;   /* of vectors from earlier pictures: area times length */
    double future_px3; /* of those from later ones */
    int64_t past_px2;  /* area that they predict */
    int64_t future_px2;
    int64_t n_vector;
    int64_t decode_order; /* pictures decoded before have lower numbers */
    pf_picture_kind kind;
    bool is_reference; /* others may be predicted from it */
} pf_motion;

/*
 * Sums the vectors (n_vector) of one picture, in their order and in double. A vector's
 * length is that of (motion_x, motion_y) over motion_scale, in pixels; its area is that
 * of its block; its side is the sign of source. Vectors without area or scale are left
 * out. Everything else of motion is left alone.
 */
void pf_motion_sum(const AVMotionVector *vector, size_t n_vector, pf_motion *motion);

/* The sums and the kind of a decoded picture; sums of 0 without vectors. A decoder
 * exports them only with AV_CODEC_EXPORT_DATA_MVS, and few do. */
void pf_motion_read(const AVFrame *frame, pf_motion *motion);

/*
 * Displacement from picture to picture, in pixels: the mean over the area that vectors
 * predict, or over the whole picture where that is larger,
 *
 *     (past_px3 / d_past + future_px3 / d_future)
 *         / max(picture_px2, past_px2 + future_px2)
 *
 * A vector says how far a block has come, not since when. d_past and d_future are the
 * distances, in pictures as shown, to the nearest reference on that side that was
 * decoded before: what encoders mostly use, not always. The vectors of a side are left
 * out, with their area, where no reference is within 32 pictures.
 *
 * motion     (n_frame) in the order in which pictures are shown
 * energy_px  (n_frame,), out; 0 for a picture without such vectors. Must not overlap
 *            motion
 * measured   (n_frame,), out; 0 for a picture without such vectors, else 1. Likewise
 *
 * PF_EINVAL when picture_px2 is below 1. PF_EDOMAIN for sums that are not finite.
 */
PF_NODISCARD pf_status pf_motion_energy(const pf_motion *motion, size_t n_frame,
        int64_t picture_px2, double *PF_RESTRICT energy_px,
        uint8_t *PF_RESTRICT measured);

#endif /* PF_VIDEO_MOTION_H */

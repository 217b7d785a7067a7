/* motion.c - see motion.h. */
#include "video/motion.h"

#include <math.h>

/* References further off than this are looked for no longer; no codec reorders more. */
enum { MOST_DISTANCE = 32 };

void
pf_motion_sum(const AVMotionVector *vector, size_t n_vector, pf_motion *motion)
{
    motion->past_px3 = motion->future_px3 = 0.0;
    motion->past_px2 = motion->future_px2 = motion->n_vector = 0;
    for (size_t i = 0; i < n_vector; i++) {
        const AVMotionVector *v = &vector[i];
        const double x = v->motion_x;
        const double y = v->motion_y;
        const int64_t area_px2 = (int64_t)v->w * v->h;
        double px3;

        if (area_px2 == 0 || v->motion_scale == 0) {
            continue;
        }
        px3 = (double)area_px2 * sqrt(x * x + y * y) / v->motion_scale;
        motion->n_vector++;
        if (v->source < 0) {
            motion->past_px3 += px3;
            motion->past_px2 += area_px2;
        }
        else {
            motion->future_px3 += px3;
            motion->future_px2 += area_px2;
        }
    }
}

static pf_picture_kind
kind_of(const AVFrame *frame)
{
    switch (frame->pict_type) {
        case AV_PICTURE_TYPE_I:
        case AV_PICTURE_TYPE_SI:
            return PF_PICTURE_INTRA;
        case AV_PICTURE_TYPE_P:
        case AV_PICTURE_TYPE_S:
        case AV_PICTURE_TYPE_SP:
            return PF_PICTURE_PREDICTED;
        case AV_PICTURE_TYPE_B:
        case AV_PICTURE_TYPE_BI:
            return PF_PICTURE_BOTH;
        default:
            return PF_PICTURE_UNKNOWN;
    }
}

void
pf_motion_read(const AVFrame *frame, pf_motion *motion)
{
    const AVFrameSideData *side =
            av_frame_get_side_data(frame, AV_FRAME_DATA_MOTION_VECTORS);
    const AVMotionVector *vector = NULL;
    size_t n_vector = 0;

    if (side != NULL) {
        vector = (const AVMotionVector *)(const void *)side->data;
        n_vector = side->size / sizeof *vector;
    }
    pf_motion_sum(vector, n_vector, motion);
    motion->kind = kind_of(frame);
}

/* Pictures from frame f to its nearest reference in that direction; 0 without one. */
static int64_t
find_distance(const pf_motion *motion, size_t n_frame, size_t f, int step)
{
    for (int64_t k = 1; k <= MOST_DISTANCE; k++) {
        const int64_t at = (int64_t)f + step * k;

        if (at < 0 || at >= (int64_t)n_frame) {
            break;
        }
        if (motion[at].is_reference &&
                motion[at].decode_order < motion[f].decode_order) {
            return k;
        }
    }
    return 0;
}

pf_status
pf_motion_energy(const pf_motion *motion, size_t n_frame, int64_t picture_px2,
        double *PF_RESTRICT energy_px, uint8_t *PF_RESTRICT measured)
{
    if (picture_px2 < 1) {
        return PF_EINVAL;
    }
    for (size_t f = 0; f < n_frame; f++) {
        const pf_motion *m = &motion[f];
        const int64_t past = find_distance(motion, n_frame, f, -1);
        const int64_t future = find_distance(motion, n_frame, f, 1);
        double px3 = 0.0;
        double area_px2 = 0.0;

        if (!isfinite(m->past_px3) || !isfinite(m->future_px3)) {
            return PF_EDOMAIN;
        }
        if (past > 0) {
            px3 += m->past_px3 / (double)past;
            area_px2 += (double)m->past_px2;
        }
        if (future > 0) {
            px3 += m->future_px3 / (double)future;
            area_px2 += (double)m->future_px2;
        }
        measured[f] = area_px2 > 0.0;
        energy_px[f] = px3 / fmax((double)picture_px2, area_px2);
    }
    return PF_OK;
}

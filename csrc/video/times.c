/* times.c - when each frame is presented, by what the stream has. */
#include "video/index.h"

#include <stdlib.h>

static int
compare_pts(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Fills pts from the packets' pts (or dts); false when one is missing. */
static bool
collect_times(const pf_index *index, bool use_dts, int64_t *pts)
{
    for (int64_t i = 0; i < index->n_frame; i++) {
        const pf_packet *entry = &index->packet[index->frame_packet[i]];

        pts[i] = use_dts ? entry->dts : entry->pts;
        if (pts[i] == AV_NOPTS_VALUE) {
            return false;
        }
    }
    return true;
}

/* Sorts when that moves no time further than pictures can be reordered: the times are
 * right and only assigned in stream order. false: they jump. */
static bool
sort_times(int64_t *pts, int64_t n_frame)
{
    int64_t highest = INT64_MIN;
    int64_t n_below = 0; /* in a row below the highest so far */

    for (int64_t i = 0; i < n_frame; i++) {
        n_below = pts[i] < highest ? n_below + 1 : 0;
        highest = pts[i] > highest ? pts[i] : highest;
        if (n_below > PF_MAX_REORDER) {
            return false;
        }
    }
    qsort(pts, (size_t)n_frame, sizeof *pts, compare_pts);
    return true;
}

/* A clock that was set back (joined files, a wrapped counter) goes on where it was.
 * false: it is set back so often and so far that the times would leave their range. */
static bool
unfold_times(int64_t *pts, int64_t n_frame, int64_t nominal_pts)
{
    const int64_t most = INT64_C(1) << 61; /* each time alone is within 2^60 */
    int64_t shift = 0;

    for (int64_t i = 1; i < n_frame; i++) {
        if (pts[i] + shift < pts[i - 1]) {
            shift = pts[i - 1] + nominal_pts - pts[i];
        }
        pts[i] += shift;
        if (pts[i] > most) {
            return false;
        }
    }
    return true;
}

/* Decoding times run ahead of presentation by a constant: half of the frames whose
 * presentation time is known say at most how much. */
static pf_status
shift_times(const pf_index *index, int64_t *pts)
{
    int64_t *ahead = calloc((size_t)index->n_frame, sizeof *ahead);
    int64_t n_known = 0;
    int64_t shift;

    if (ahead == NULL) {
        return PF_ENOMEM;
    }
    for (int64_t i = 0; i < index->n_frame; i++) {
        const int64_t known = index->packet[index->frame_packet[i]].pts;

        if (known != AV_NOPTS_VALUE) {
            ahead[n_known++] = known - pts[i];
        }
    }
    qsort(ahead, (size_t)n_known, sizeof *ahead, compare_pts);
    shift = n_known > 0 ? ahead[n_known / 2] : 0;
    for (int64_t i = 0; i < index->n_frame; i++) {
        pts[i] += shift;
    }
    free(ahead);
    return PF_OK;
}

/* The time of every frame, by what the stream has: pts, dts or its rate alone. */
static pf_status
find_times(const pf_index *index, int64_t nominal_pts, int64_t *pts)
{
    const int64_t n = index->n_frame;

    if (collect_times(index, false, pts) &&
            (sort_times(pts, n) || unfold_times(pts, n, nominal_pts))) {
        return PF_OK;
    }
    if (collect_times(index, true, pts) && sort_times(pts, n)) {
        return shift_times(index, pts);
    }
    for (int64_t i = 0; i < n; i++) {
        pts[i] = i * nominal_pts;
    }
    return PF_OK;
}

pf_status
pf_index_times(pf_index *index, int64_t nominal_pts)
{
    const int64_t n = index->n_frame;
    int64_t *pts = calloc((size_t)(n > 0 ? n : 1), sizeof *pts);
    int64_t last_pts;

    free(index->frame_pts); /* of the order before this one, perhaps shorter */
    index->frame_pts = pts;
    index->end_pts = 0;
    if (pts == NULL || find_times(index, nominal_pts, pts) != PF_OK) {
        index->n_frame = 0; /* a frame without a time cannot be asked for */
        return PF_ENOMEM;
    }
    if (n == 0) {
        return PF_OK;
    }
    last_pts = index->packet[index->frame_packet[n - 1]].duration_pts;
    if (last_pts <= 0) {
        last_pts = n > 1 && pts[n - 1] > pts[n - 2] ? pts[n - 1] - pts[n - 2]
                                                    : nominal_pts;
    }
    index->end_pts = pts[n - 1] + last_pts;
    return PF_OK;
}

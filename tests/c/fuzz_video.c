/* fuzz_video.c - any bytes as a file: scanned and read in every way there is, and
 * recounted (make fuzz). The bytes themselves choose the way. */
#include "video/video.h"

#include <stdlib.h>
#include <string.h>

#include "frames/fit.h"

enum {
    N_SLOT = 6,
    FIT_PX = 24,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_byte);

static void
require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Hands out small numbers, the same for the same bytes. */
typedef struct dice {
    uint32_t state;
} dice;

static int64_t
roll(dice *d, int64_t n)
{
    d->state = d->state * 1664525U + 1013904223U;
    return (int64_t)(d->state >> 8) % n;
}

static void
choose_frames(const pf_video *video, dice *d, int64_t *frame)
{
    const int64_t n_frame = video->index.n_frame;

    for (int i = 0; i < N_SLOT; i++) {
        frame[i] = roll(d, n_frame);
    }
    frame[0] = roll(d, 3) == 0 ? n_frame - 1 : frame[0];
    frame[N_SLOT - 1] = frame[0]; /* a repeat */
}

/* What every reading promises. */
static void
check_read(const pf_video *video, const pf_wish *wish, pf_status st)
{
    const pf_index *index = &video->index;

    for (size_t i = 0; st == PF_OK && i < wish->n_slot; i++) {
        require(wish->state[i] <= PF_FRAME_MISSING);
    }
    require(st != PF_OK || wish->state[0] == wish->state[N_SLOT - 1]);
    for (int64_t i = 1; i < index->n_frame; i++) {
        require(index->frame_pts[i - 1] <= index->frame_pts[i]);
    }
    require(index->frame_pts[index->n_frame - 1] <= index->end_pts);
}

/* Full pictures, in blocks of their own so that a write past one is seen. */
static void
read_full(pf_video *video, pf_wish *wish)
{
    const size_t picture_bytes = 3 * (size_t)pf_geometry_width_px(&video->geometry) *
                                 (size_t)pf_geometry_height_px(&video->geometry);
    uint8_t *slot[N_SLOT] = {NULL};
    bool room = true;
    bool damaged = false;

    for (int i = 0; i < N_SLOT; i++) {
        slot[i] = malloc(picture_bytes);
        room = room && slot[i] != NULL;
    }
    if (room) {
        pf_status st;

        wish->slot = slot;
        st = pf_video_read(video, wish, &damaged);
        check_read(video, wish, st);
        require(st != PF_OK || memcmp(slot[0], slot[N_SLOT - 1], picture_bytes) == 0);
    }
    for (int i = 0; i < N_SLOT; i++) {
        free(slot[i]);
    }
}

/* Pictures that are resized as they are decoded, into uint8 or normalised float32. */
static void
read_fitted(pf_video *video, pf_wish *wish, dice *d)
{
    static const float mean[] = {0.5F, 0.4F, 0.3F};
    static const float std[] = {0.2F, 0.3F, 0.4F};
    const pf_resize_options options = {
            .filter = (pf_filter)roll(d, PF_FILTER_LANCZOS + 1),
            .level = pf_cpu_best()};
    pf_normalise normalise;
    const bool planes = roll(d, 2) == 0;
    const pf_size src = {pf_geometry_height_px(&video->geometry),
            pf_geometry_width_px(&video->geometry)};
    const size_t n_value = (size_t)N_SLOT * 3 * FIT_PX * (FIT_PX + 1);
    uint8_t *rgb = planes ? NULL : malloc(n_value);
    float *planar = planes ? malloc(n_value * sizeof *planar) : NULL;
    const pf_fit_group group = {{FIT_PX, FIT_PX + 1}, N_SLOT, rgb, planar};
    pf_fit fit = {0};
    bool damaged = false;

    if (pf_normalise_init(&normalise, mean, std) == PF_OK &&
            pf_fit_init(&fit, src, (pf_fit_groups){&group, 1}, &options, &normalise,
                    (size_t)wish->n_thread) == PF_OK) {
        const pf_sink sink = {pf_fit_take, &fit};

        wish->sink = &sink;
        check_read(video, wish, pf_video_read(video, wish, &damaged));
    }
    pf_fit_free(&fit);
    free(rgb);
    free(planar);
}

/* Motion vectors in place of pixels. */
static void
read_motion(pf_video *video, pf_wish *wish)
{
    pf_motion motion[N_SLOT];
    double energy_px[N_SLOT];
    uint8_t measured[N_SLOT];
    bool damaged = false;

    wish->motion = motion;
    if (pf_video_read(video, wish, &damaged) == PF_OK) {
        require(pf_motion_energy(motion, N_SLOT, 1, energy_px, measured) == PF_OK);
        for (int i = 0; i < N_SLOT; i++) {
            require(energy_px[i] >= 0.0 && motion[i].n_vector >= 0);
            require(wish->state[i] != PF_FRAME_MISSING || motion[i].n_vector == 0);
        }
    }
}

static void
read_some(pf_video *video, dice *d)
{
    const pf_poll poll = {NULL, NULL};
    int64_t frame[N_SLOT];
    uint8_t state[N_SLOT];
    pf_wish wish = {.frame = frame,
            .n_slot = N_SLOT,
            .state = state,
            .n_thread = (int)(1 + roll(d, 4)),
            .sequential = roll(d, 4) == 0,
            .poll = &poll};

    choose_frames(video, d, frame);
    if (roll(d, 4) == 0) {
        read_motion(video, &wish);
    }
    else if (roll(d, 3) == 0) {
        read_fitted(video, &wish, d);
    }
    else {
        read_full(video, &wish);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_byte)
{
    const pf_source source = {"data", data, (int64_t)n_byte, {0}};
    const pf_poll poll = {NULL, NULL};
    dice d = {2166136261U};
    pf_limits limits = {2000, 640 * 480, 1 << 24, 1 << 24, 600.0};
    pf_video video;
    pf_video_error error;
    bool changed = false;
    int stream_index;

    pf_log_install();
    for (size_t i = 0; i < n_byte; i += 1 + n_byte / 64) {
        d.state = (d.state ^ data[i]) * 16777619U;
    }
    limits.cache_bytes = roll(&d, 3) == 0 ? 1 + roll(&d, 4000) : limits.cache_bytes;
    limits.max_packets = roll(&d, 16) == 0 ? 1 + roll(&d, 30) : limits.max_packets;
    stream_index = roll(&d, 8) == 0 ? (int)roll(&d, 3) : -1;
    if (pf_video_open(&video, &source, stream_index, &limits, &poll, &error) == PF_OK) {
        read_some(&video, &d);
        if (roll(&d, 2) == 0 && pf_video_recount(&video, &poll, &changed) == PF_OK &&
                video.index.n_frame > 0) {
            read_some(&video, &d);
        }
    }
    pf_video_close(&video);
    return 0;
}

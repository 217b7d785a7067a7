// uses: video
/* test_motion.c - motion vectors summed one by one, distances to references, and the
 * vectors of the shipped clip. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "video/video.h"

enum { VECTOR_MAX = 97, FRAME_MAX = 41, MARGIN = 8 };

static AVMotionVector vectors[VECTOR_MAX];
static pf_motion frames[FRAME_MAX];
static double energy[MARGIN + FRAME_MAX + MARGIN];
static uint8_t measured[MARGIN + FRAME_MAX + MARGIN];
static uint32_t state = 1;

static uint32_t
draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static bool
near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

static void
fill_vectors(void)
{
    static const uint16_t scales[] = {0, 1, 2, 4};

    for (size_t i = 0; i < VECTOR_MAX; i++) {
        vectors[i] = (AVMotionVector){.source = draw(2) ? -1 : 1,
                .w = (uint8_t)(4 * draw(5)),
                .h = (uint8_t)(4 * draw(5)),
                .motion_x = (int32_t)draw(200) - 100,
                .motion_y = (int32_t)draw(200) - 100,
                .motion_scale = scales[draw(4)]};
    }
    vectors[0].motion_x = vectors[0].motion_y = INT32_MIN; /* any bytes may come */
}

static void
check_sum(size_t n_vector)
{
    pf_motion got = {.past_px3 = NAN, .n_vector = 7, .kind = PF_PICTURE_BOTH};
    long double px3[2] = {0.0L, 0.0L};
    int64_t px2[2] = {0, 0};
    int64_t n = 0;

    pf_motion_sum(vectors, n_vector, &got);
    for (size_t i = 0; i < n_vector; i++) {
        const AVMotionVector *v = &vectors[i];
        const long double x = v->motion_x, y = v->motion_y;
        const int area = v->w * v->h;

        if (area > 0 && v->motion_scale > 0) {
            px3[v->source > 0] += area * hypotl(x, y) / v->motion_scale;
            px2[v->source > 0] += area;
            n++;
        }
    }
    CHECK(near(got.past_px3, (double)px3[0]) && near(got.future_px3, (double)px3[1]));
    CHECK(got.past_px2 == px2[0] && got.future_px2 == px2[1] && got.n_vector == n);
    CHECK(got.kind == PF_PICTURE_BOTH);
}

/* The nearest earlier or later reference, over all frames; 0 when it is too far off. */
static double
plain_distance(size_t n_frame, size_t f, bool later)
{
    int64_t best = 0;

    for (int64_t k = 0; k < (int64_t)n_frame; k++) {
        const int64_t away = later ? k - (int64_t)f : (int64_t)f - k;
        const bool fits = away > 0 && away <= 32 && frames[k].is_reference &&
                          frames[k].decode_order < frames[f].decode_order;

        if (fits && (best == 0 || away < best)) {
            best = away;
        }
    }
    return (double)best;
}

static void
check_energy(size_t n_frame, uint32_t one_reference_in)
{
    static const double POISON = -7.25;

    for (size_t f = 0; f < n_frame; f++) {
        pf_motion_sum(vectors + draw(VECTOR_MAX / 2), draw(4) * 11, &frames[f]);
        frames[f].decode_order = draw(50);
        frames[f].is_reference = draw(one_reference_in) == 0;
    }
    for (size_t i = 0; i < sizeof energy / sizeof *energy; i++) {
        energy[i] = POISON;
        measured[i] = 0xa5;
    }
    CHECK(pf_motion_energy(frames, n_frame, 1000, energy + MARGIN, measured + MARGIN) ==
            PF_OK);
    for (size_t f = 0; f < n_frame; f++) {
        const double past = plain_distance(n_frame, f, false);
        const double future = plain_distance(n_frame, f, true);
        const double px3 = (past > 0.0 ? frames[f].past_px3 / past : 0.0) +
                           (future > 0.0 ? frames[f].future_px3 / future : 0.0);
        const double px2 = (past > 0.0 ? (double)frames[f].past_px2 : 0.0) +
                           (future > 0.0 ? (double)frames[f].future_px2 : 0.0);

        CHECK(near(energy[MARGIN + f], px3 / fmax(px2, 1000.0)));
        CHECK(measured[MARGIN + f] == (px2 > 0.0));
    }
    for (size_t i = 0; i < MARGIN; i++) {
        CHECK(energy[i] <= POISON && energy[i] >= POISON && measured[i] == 0xa5);
        CHECK(energy[MARGIN + n_frame + i] <= POISON);
        CHECK(energy[MARGIN + n_frame + i] >= POISON);
        CHECK(measured[MARGIN + n_frame + i] == 0xa5);
    }
}

static void
find_clip(char path[4096])
{
    char *slash;

    strncpy(path, __FILE__, 4000);
    slash = strrchr(path, '/');
    strcpy(slash != NULL ? slash + 1 : path,
            "../../phasefusion/tinyvlm/clips/clip-000.mp4");
}

/* Motion of all frames of the shipped clip on so many threads; freed by the caller. */
static pf_motion *
read_clip(int n_thread, size_t *n_frame)
{
    const pf_limits limits = {100000, 1 << 20, 1 << 26, 0, 0.0};
    const pf_poll poll = {NULL, NULL};
    char path[4096] = "";
    pf_video video;
    pf_video_error error;
    int64_t *index;
    uint8_t *states;
    pf_motion *motion;
    bool damaged = true;

    find_clip(path);
    CHECK(pf_video_open(&video, &(pf_source){.name = path}, -1, &limits, &poll,
                  &error) == PF_OK);
    *n_frame = (size_t)video.index.n_frame;
    index = malloc(*n_frame * sizeof *index);
    states = malloc(*n_frame);
    motion = calloc(*n_frame, sizeof *motion);
    for (size_t f = 0; f < *n_frame; f++) {
        index[f] = (int64_t)f;
    }
    CHECK(pf_video_read(&video,
                  &(pf_wish){.frame = index,
                          .n_slot = *n_frame,
                          .state = states,
                          .motion = motion,
                          .n_thread = n_thread,
                          .poll = &poll},
                  &damaged) == PF_OK);
    CHECK(!damaged);
    for (size_t f = 0; f < *n_frame; f++) {
        CHECK(states[f] == PF_FRAME_OK);
    }
    pf_video_close(&video);
    free(index);
    free(states);
    return motion;
}

static void
test_shipped_clip(void)
{
    size_t n_one, n_two;
    pf_motion *one = read_clip(1, &n_one);
    pf_motion *two = read_clip(2, &n_two);
    size_t n_moving = 0;

    CHECK(n_one == n_two && n_one > 10);
    CHECK(one[0].kind == PF_PICTURE_INTRA && one[0].n_vector == 0);
    for (size_t f = 0; f < n_one && f < n_two; f++) {
        CHECK(near(one[f].past_px3, two[f].past_px3) &&
                near(one[f].future_px3, two[f].future_px3));
        CHECK(one[f].n_vector == two[f].n_vector && one[f].kind == two[f].kind);
        CHECK(one[f].past_px2 <= 224 * 224 && one[f].future_px2 <= 224 * 224);
        n_moving += one[f].past_px3 > 0.0;
    }
    CHECK(n_moving > n_one / 8);
    free(one);
    free(two);
}

int
main(void)
{
    pf_log_install();
    for (int round = 0; round < 20; round++) {
        fill_vectors();
        check_sum(0);
        check_sum(1);
        check_sum(VECTOR_MAX);
        for (size_t n_frame = 0; n_frame <= FRAME_MAX; n_frame += 1 + n_frame / 2) {
            check_energy(n_frame, 2);
            check_energy(n_frame, 30);
        }
    }
    frames[0].past_px3 = NAN;
    CHECK(pf_motion_energy(frames, 1, 1000, energy, measured) == PF_EDOMAIN);
    CHECK(pf_motion_energy(frames, 0, 0, energy, measured) == PF_EINVAL);
    test_shipped_clip();
    return check_report("motion");
}

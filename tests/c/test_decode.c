// uses: video
/* test_decode.c - a whole clip opened, read and recounted: stopped half-way, and with
 * each allocation failing once. */
#include "check.h"
#include "full_memory_av.h"

#include "video/video.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

int __real_av_packet_ref(AVPacket *to, const AVPacket *from);
AVFrame *__real_av_frame_alloc(void);
int __wrap_av_packet_ref(AVPacket *to, const AVPacket *from);
AVFrame *__wrap_av_frame_alloc(void);

int
__wrap_av_packet_ref(AVPacket *to, const AVPacket *from)
{
    return fails_now() ? AVERROR(ENOMEM) : __real_av_packet_ref(to, from);
}

AVFrame *
__wrap_av_frame_alloc(void)
{
    return fails_now() ? NULL : __real_av_frame_alloc();
}

enum { N_SLOT = 4 };

typedef struct shot {
    uint8_t *rgb[N_SLOT];
    uint8_t state[N_SLOT];
    size_t n_byte; /* of one picture */
} shot;

static char clip_path[4096];

static void
find_clip(void)
{
    char *slash;

    strncpy(clip_path, __FILE__, sizeof clip_path - 100);
    slash = strrchr(clip_path, '/');
    strcpy(slash != NULL ? slash + 1 : clip_path,
            "../../phasefusion/tinyvlm/clips/clip-000.mp4");
}

static pf_status
open_clip(pf_video *video)
{
    const pf_limits limits = {100000, 1 << 20, 1 << 26, 0, 0.0};
    const pf_source source = {.name = clip_path};
    const pf_poll poll = {NULL, NULL};
    pf_video_error error;

    return pf_video_open(video, &source, -1, &limits, &poll, &error);
}

static pf_status
read_shot(pf_video *video, shot *taken)
{
    const int64_t last = video->index.n_frame - 1;
    const int64_t frame[N_SLOT] = {last / 2, 0, last, last / 2};
    const pf_poll poll = {NULL, NULL};
    const pf_wish wish = {.frame = frame,
            .n_slot = N_SLOT,
            .slot = taken->rgb,
            .state = taken->state,
            .n_thread = 2,
            .poll = &poll};
    bool damaged = false;

    return pf_video_read(video, &wish, &damaged);
}

/* Not by the wrapped functions, so that it never fails. */
static void
shot_init(shot *taken, const pf_video *video)
{
    taken->n_byte = (size_t)pf_geometry_width_px(&video->geometry) *
                    (size_t)pf_geometry_height_px(&video->geometry) * 3;
    for (int i = 0; i < N_SLOT; i++) {
        taken->rgb[i] = __real_malloc(taken->n_byte);
        memset(taken->rgb[i], 0xa5, taken->n_byte);
    }
}

static void
shot_free(shot *taken)
{
    for (int i = 0; i < N_SLOT; i++) {
        free(taken->rgb[i]);
    }
}

static bool
same_shots(const shot *a, const shot *b)
{
    for (int i = 0; i < N_SLOT; i++) {
        if (a->state[i] != PF_FRAME_OK || b->state[i] != PF_FRAME_OK ||
                memcmp(a->rgb[i], b->rgb[i], a->n_byte) != 0) {
            return false;
        }
    }
    return true;
}

static int
stop_soon(void *arg)
{
    int *n_asked = arg;

    return ++*n_asked > 1;
}

/* A count that is stopped leaves the order that was there. */
static void
test_stopped_recount_changes_nothing(const shot *expected)
{
    int n_asked = 0;
    const pf_poll poll = {stop_soon, &n_asked};
    const pf_poll quiet = {NULL, NULL};
    pf_video video;
    pf_packet *before;
    shot taken;
    bool changed = true;
    int64_t n_frame;

    CHECK(open_clip(&video) == PF_OK && !video.index.counted);
    shot_init(&taken, &video);
    n_frame = video.index.n_frame;
    before = calloc((size_t)video.index.n_packet, sizeof *before);
    for (int64_t i = 0; i < video.index.n_packet; i++) {
        before[i] = video.index.packet[i];
        video.index.packet[i].rank += 1000; /* not what counting would find */
    }
    CHECK(pf_video_recount(&video, &poll, &changed) == PF_EBACKEND && !changed);
    CHECK(n_asked == 2 && !video.index.counted && video.index.n_frame == n_frame);
    for (int64_t i = 0; i < video.index.n_packet; i++) {
        CHECK(video.index.packet[i].rank == before[i].rank + 1000);
    }
    CHECK(read_shot(&video, &taken) == PF_OK && same_shots(&taken, expected));
    CHECK(pf_video_recount(&video, &quiet, &changed) == PF_OK && !changed);
    CHECK(video.index.counted && video.index.n_frame == n_frame);
    for (int64_t i = 0; i < video.index.n_packet; i++) {
        CHECK(video.index.packet[i].rank == before[i].rank);
    }
    CHECK(read_shot(&video, &taken) == PF_OK && same_shots(&taken, expected));
    pf_video_close(&video);
    shot_free(&taken);
    free(before);
}

static void
test_threads_are_checked(void)
{
    const int64_t frame = 0;
    uint8_t state = 0;
    const pf_wish wish = {.frame = &frame, .n_slot = 1, .state = &state};
    pf_video video;
    bool damaged;

    CHECK(open_clip(&video) == PF_OK);
    CHECK(pf_video_read(&video, &wish, &damaged) == PF_EINVAL);
    pf_video_close(&video);
}

/* One attempt at everything; the sum of what was out of memory. */
static int
try_all(const shot *expected)
{
    const pf_poll poll = {NULL, NULL};
    pf_video video;
    shot taken;
    bool changed;
    pf_status st = open_clip(&video);
    int n_failed_steps = 0;

    if (st != PF_OK) {
        CHECK(st == PF_ENOMEM);
        pf_video_close(&video);
        return 1;
    }
    shot_init(&taken, &video);
    st = read_shot(&video, &taken);
    CHECK(st == PF_ENOMEM || (st == PF_OK && same_shots(&taken, expected)));
    n_failed_steps += st != PF_OK;
    st = pf_video_recount(&video, &poll, &changed);
    CHECK(st == PF_ENOMEM || (st == PF_OK && !changed));
    n_failed_steps += st != PF_OK;
    if (video.index.n_frame > 0) {
        CHECK(video.index.frame_pts[video.index.n_frame - 1] > 0);
        st = read_shot(&video, &taken);
        CHECK(st == PF_ENOMEM || (st == PF_OK && same_shots(&taken, expected)));
        n_failed_steps += st != PF_OK;
    }
    pf_video_close(&video);
    shot_free(&taken);
    return n_failed_steps;
}

static void
test_each_allocation_fails_once(const shot *expected)
{
    long n_before = 0;
    bool failed = true;
    int n_out_of_memory = 0;

    for (; failed && n_before < 2000; n_before++) {
        atomic_store(&n_until_failure, n_before);
        n_out_of_memory += try_all(expected) > 0;
        failed = atomic_load(&n_until_failure) < 0;
        atomic_store(&n_until_failure, -1);
    }
    CHECK(!failed && n_before > 30);
    CHECK(n_out_of_memory > 30);
}

int
main(void)
{
    pf_video video;
    shot expected;

    pf_log_install();
    find_clip();
    CHECK(open_clip(&video) == PF_OK);
    shot_init(&expected, &video);
    CHECK(read_shot(&video, &expected) == PF_OK);
    pf_video_close(&video);
    test_stopped_recount_changes_nothing(&expected);
    test_threads_are_checked();
    test_each_allocation_fails_once(&expected);
    shot_free(&expected);
    return check_report("decode");
}

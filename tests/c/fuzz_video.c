/* fuzz_video.c - any bytes as a file: scan, read some frames, recount (make fuzz). */
#include "video/video.h"

#include <stdlib.h>

enum { N_SLOT = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_byte);

static void
read_some(pf_video *video, int64_t seed)
{
    const size_t n_pixel = (size_t)pf_geometry_width_px(&video->geometry) *
                           (size_t)pf_geometry_height_px(&video->geometry);
    const pf_poll poll = {NULL, NULL};
    int64_t frame[N_SLOT];
    uint8_t *slot[N_SLOT] = {NULL};
    uint8_t state[N_SLOT];
    bool damaged;

    for (int i = 0; i < N_SLOT; i++) {
        frame[i] = (seed + 7 * i) % video->index.n_frame;
        slot[i] = malloc(n_pixel * 3);
    }
    if (slot[N_SLOT - 1] != NULL) {
        const pf_wish wish = {frame, N_SLOT, slot, state, 2, false, &poll};

        (void)!pf_video_read(video, &wish, &damaged);
    }
    for (int i = 0; i < N_SLOT; i++) {
        free(slot[i]);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_byte)
{
    const pf_limits limits = {
            2000, 640 * 480, n_byte % 3 == 0 ? 1 : 1 << 24, 1 << 24, 600.0};
    const pf_source source = {"data", data, (int64_t)n_byte, {0}};
    const pf_poll poll = {NULL, NULL};
    pf_video video;
    pf_video_error error;
    bool changed;

    pf_log_install();
    if (pf_video_open(&video, &source, -1, &limits, &poll, &error) == PF_OK) {
        read_some(&video, (int64_t)n_byte);
        if (pf_video_recount(&video, &poll, &changed) == PF_OK &&
                video.index.n_frame > 0) {
            read_some(&video, 3);
        }
    }
    pf_video_close(&video);
    return 0;
}

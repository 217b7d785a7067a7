/* fuzz_video.c - any bytes as a file: scan, read some frames, recount (make fuzz). */
#define _GNU_SOURCE
#include "video/video.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
    const pf_limits limits = {2000, 640 * 480, n_byte % 3 == 0 ? 1 : 1 << 24};
    const pf_poll poll = {NULL, NULL};
    const int fd = memfd_create("fuzz", 0);
    char path[64];
    pf_video video;
    pf_video_error error;
    bool changed;

    if (fd < 0 || write(fd, data, n_byte) != (ssize_t)n_byte) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    pf_log_install();
    if (pf_video_open(&video, path, -1, &limits, &poll, &error) == PF_OK) {
        read_some(&video, (int64_t)n_byte);
        if (pf_video_recount(&video, &poll, &changed) == PF_OK &&
                video.index.n_frame > 0) {
            read_some(&video, 3);
        }
    }
    pf_video_close(&video);
    (void)close(fd);
    return 0;
}

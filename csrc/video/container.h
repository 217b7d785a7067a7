/* container.h - one open media file: its bytes, its streams, the packets of one. */
#ifndef PF_VIDEO_CONTAINER_H
#define PF_VIDEO_CONTAINER_H

#include "base/pf.h"
#include "video/compat.h"
#include "video/log.h"

/* What went wrong, for the message: FFmpeg's code and words, or errno. */
typedef struct pf_video_error {
    int errno_code;            /* of the operating system, 0 when not its fault */
    int av_code;               /* of FFmpeg, 0 when not its fault */
    char detail[PF_LOG_BYTES]; /* the first error that FFmpeg logged */
    const char *reason;        /* ours, in plain words; static storage */
} pf_video_error;

/* Called now and then from the thread that called in; not 0 means stop. */
typedef struct pf_poll {
    int (*ask)(void *arg);
    void *arg;
} pf_poll;

typedef struct pf_container {
    int fd;
    int64_t file_bytes;
    int64_t at_byte;
    AVFormatContext *format;
    AVIOContext *io;
    AVStream *stream;     /* the chosen one; belongs to format */
    const AVCodec *codec; /* its decoder */
    int n_read_error;     /* av_read_frame failures so far */
} pf_container;

/* Opens a regular file and chooses its video stream: stream_index, or for -1 the best
 * one (no cover picture; the largest, then the one marked default, then the lower
 * index). Playlists and other formats that open further files are refused.
 * PF_EIO: the file cannot be opened, error->errno_code says why. PF_EDATA: no such
 * video in it. The container must be closed in every case. */
PF_NODISCARD pf_status pf_container_open(pf_container *container, const char *path,
        int stream_index, pf_video_error *error);

/* The next packet of the chosen stream. *got is false at the end of the file. Damaged
 * stretches are skipped and counted in n_read_error. */
PF_NODISCARD pf_status pf_container_next(
        pf_container *container, AVPacket *packet, bool *got);

/* Duration of the chosen stream as the header states it, in seconds; 0 when it states
 * none, or only one of the whole file beside other streams. Estimates are no statement.
 * It may count from time 0 or from the first frame: containers differ. */
double pf_container_stated_s(const pf_container *container);

/* true for a stream that holds moving pictures */
bool pf_container_is_video(const AVStream *stream);

void pf_container_close(pf_container *container);

#endif /* PF_VIDEO_CONTAINER_H */

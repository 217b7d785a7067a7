/* container.h - one open media file: its bytes, its streams, the packets of one. */
#ifndef PF_VIDEO_CONTAINER_H
#define PF_VIDEO_CONTAINER_H

#include "base/pf.h"
#include "video/compat.h"
#include "video/source.h"

typedef struct pf_container {
    pf_cursor cursor;
    AVFormatContext *format;
    AVIOContext *io;
    AVStream *stream;     /* the chosen one; belongs to format */
    const AVCodec *codec; /* its decoder */
    int n_read_error;     /* av_read_frame failures so far */
    pf_limits limits;
    pf_beyond beyond; /* set with PF_EOVERFLOW */
    int64_t n_packet; /* of the chosen stream so far */
    int64_t last_dts;
    double lasts_s; /* so far, at least */
} pf_container;

/* Opens a source and chooses its video stream: stream_index, or for -1 the best one (no
 * cover picture; the largest, then the one marked default, then the lower index). What
 * kind of file it is is seen from its bytes; a name's ending only helps where they
 * leave it open. Playlists and other formats that name further files are refused, and
 * nothing but the source is ever opened. poll may be NULL; what it asks for while the
 * container is open comes back as PF_EBACKEND.
 * PF_EIO, PF_EOVERFLOW: as pf_cursor_open. PF_EDATA: no such video in it. The container
 * must be closed in every case. */
PF_NODISCARD pf_status pf_container_open(pf_container *container,
        const pf_source *source, int stream_index, const pf_limits *limits,
        const pf_poll *poll, pf_video_error *error);

/* The same without the choice: container->stream stays NULL. */
PF_NODISCARD pf_status pf_container_open_streams(pf_container *container,
        const pf_source *source, const pf_limits *limits, const pf_poll *poll,
        pf_video_error *error);

/* The next packet of the chosen stream. *got is false at the end of the file. Damaged
 * stretches are skipped and counted in n_read_error. PF_EBACKEND: the poll asked to
 * stop. PF_EOVERFLOW: the stream goes on beyond a limit, as container->beyond says. */
PF_NODISCARD pf_status pf_container_next(
        pf_container *container, AVPacket *packet, bool *got);

/* The next packet of any stream that is not set to be discarded; uncounted. */
PF_NODISCARD pf_status pf_container_next_any(
        pf_container *container, AVPacket *packet, bool *got);

/* Duration of the chosen stream as the header states it, in seconds; 0 when it states
 * none, or only one of the whole file beside other streams. Estimates are no statement.
 * It may count from time 0 or from the first frame: containers differ. */
double pf_container_stated_s(const pf_container *container);

/* true for a stream that holds moving pictures */
bool pf_container_is_video(const AVStream *stream);

void pf_container_close(pf_container *container);

#endif /* PF_VIDEO_CONTAINER_H */

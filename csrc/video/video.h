/* video.h - one video file, scanned and ready to give frames by index. */
#ifndef PF_VIDEO_VIDEO_H
#define PF_VIDEO_VIDEO_H

#include "video/decode.h"

/* What the container says about one of its streams. */
typedef struct pf_stream_info {
    int index;
    const char *kind;  /* "video", "audio", ...; static storage */
    const char *codec; /* static storage */
    int width_px;      /* as coded, 0 when it is no video */
    int height_px;
    int64_t n_frames_header; /* 0 when the container does not say */
    bool is_default;
    bool is_picture; /* a cover or thumbnail, not moving pictures */
} pf_stream_info;

typedef struct pf_video {
    char *name; /* of the source, for messages */
    pf_stream stream;
    pf_index index;
    pf_look look;
    pf_geometry geometry;
    char container_name[64];
    const char *codec_name; /* static storage */
    AVRational rate;        /* frames a second by the container, 0/1: unknown */
    int64_t n_frames_header;
    double duration_header_s;    /* of the stream by its container, 0: unknown */
    pf_stream_info *stream_info; /* (n_stream) */
    size_t n_stream;
    bool has_matrix; /* of the stream */
    int32_t display_matrix[9];
} pf_video;

/* Scans the source; counts by decoding where the packets do not suffice. stream_index
 * -1 is the best one. On failure error says why (PF_EIO, PF_EDATA, PF_EBACKEND,
 * PF_EOVERFLOW for a limit, PF_ENOMEM). Data must stay until the video is closed, or
 * until it is open when pf_video_needs_source says no. The video must be closed in
 * every case. */
PF_NODISCARD pf_status pf_video_open(pf_video *video, const pf_source *source,
        int stream_index, const pf_limits *limits, const pf_poll *poll,
        pf_video_error *error);

/* false when all packets are in memory and the source is not read again. */
bool pf_video_needs_source(const pf_video *video);

/* Decodes the wanted frames, at first with as little work as possible; when the decoder
 * meets an error, once more from the start with nothing left out. *damaged tells that
 * the second attempt was needed or an error was met. */
PF_NODISCARD pf_status pf_video_read(
        pf_video *video, const pf_wish *wish, bool *damaged);

/* Finds the order by decoding everything, also where the packets seemed to suffice.
 * *changed: the frames are no longer those of before. When it is stopped the video is
 * as it was. */
PF_NODISCARD pf_status pf_video_recount(
        pf_video *video, const pf_poll *poll, bool *changed);

void pf_video_close(pf_video *video);

#endif /* PF_VIDEO_VIDEO_H */

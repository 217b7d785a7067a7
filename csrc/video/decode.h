/* decode.h - from wanted frames to pictures: which packets to decode, in how many
 * threads, and how each decoded picture is recognised. */
#ifndef PF_VIDEO_DECODE_H
#define PF_VIDEO_DECODE_H

#include "video/convert.h"
#include "video/index.h"
#include "video/motion.h"

/* What a stream needs to be decoded, apart from its packets. */
typedef struct pf_stream {
    pf_source source; /* to read packets that are not in memory */
    int stream_index;
    AVCodecParameters *par;
    const AVCodec *codec;
    AVRational time_base;
    pf_limits limits;
} pf_stream;

/* How the first decoded picture looks. */
typedef struct pf_look {
    bool seen;
    int width_px;
    int height_px;
    enum AVPixelFormat pixel_format;
    enum AVColorSpace matrix;
    enum AVColorRange range;
    AVRational sample_aspect;
    bool has_display_matrix;
    int32_t display_matrix[9];
    bool size_changes; /* a later picture had another size */
} pf_look;

typedef enum pf_frame_state {
    PF_FRAME_OK = 0,
    PF_FRAME_DAMAGED, /* decoded, with an error in it or in what it may refer to */
    PF_FRAME_MISSING  /* the decoder did not give it; its pixels are black */
} pf_frame_state;

/* Takes the upright picture of one slot, height x width x 3 bytes, rows tight, which
 * lasts for the call alone. Called from n_thread threads at once, each with a share of
 * its own below n_thread; for a slot again when its frame is decoded again. */
typedef struct pf_sink {
    pf_status (*take)(void *arg, size_t share, size_t slot, const uint8_t *rgb);
    void *arg;
} pf_sink;

/* The same with the picture as the decoder has it, or NULL for one that did not come; a
 * status other than PF_OK ends the reading with it. */
typedef struct pf_raw_sink {
    pf_status (*take)(void *arg, size_t share, size_t slot, const AVFrame *frame);
    void *arg;
} pf_raw_sink;

typedef struct pf_wish {
    const int64_t *frame; /* (n_slot) frame indices, any order, repeats allowed */
    size_t n_slot;
    uint8_t **slot;      /* (n_slot) height x width x 3 bytes each, must not overlap; */
    const pf_sink *sink; /* or NULL and, instead, what takes the pictures one by one, */
    const pf_raw_sink *raw; /* or what takes them before they are made RGB, */
    pf_motion *motion;   /* or (n_slot) what moves in them; pixels are then not made */
    uint8_t *state;      /* (n_slot) pf_frame_state */
    int n_thread;        /* >= 1; this many threads at most, the caller's included */
    bool sequential;     /* decode from the start, leave nothing out, on one thread */
    const pf_poll *poll; /* asked from the calling thread only */
} pf_wish;

/* Decodes everything once and sets the index's order, n_frame and counted from what
 * comes out. On failure the index is as it was. PF_EOVERFLOW, here and below: a picture
 * has more pixels than the limit. */
PF_NODISCARD pf_status pf_decode_count(
        const pf_stream *stream, pf_index *index, pf_look *look, const pf_poll *poll);

/* Decodes as little as gives one picture, for its look; look->seen tells success. */
PF_NODISCARD pf_status pf_decode_look(const pf_stream *stream, const pf_index *index,
        pf_look *look, const pf_poll *poll);

/* Decodes the wanted frames. *damaged: the decoder reported an error, or a frame did
 * not come; with sequential set, what came is still what a plain decode gives.
 * PF_EINVAL: n_thread < 1 or a frame out of range. PF_EBACKEND: the poll asked to
 * stop, or FFmpeg cannot open the decoder or convert its pictures. */
PF_NODISCARD pf_status pf_decode_frames(const pf_stream *stream, const pf_index *index,
        const pf_geometry *geometry, const pf_wish *wish, bool *damaged);

#endif /* PF_VIDEO_DECODE_H */

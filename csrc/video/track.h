/* track.h - the packets of one subtitle stream turned into cues. */
#ifndef PF_VIDEO_TRACK_H
#define PF_VIDEO_TRACK_H

#include "video/compat.h"
#include "video/cues.h"

/* How the packets of a stream hold their text. */
typedef enum pf_payload {
    PF_PAYLOAD_NONE,       /* pictures, or a kind that FFmpeg does not know */
    PF_PAYLOAD_TEXT,       /* as in a SubRip file */
    PF_PAYLOAD_WEBVTT,     /* as in a WebVTT file */
    PF_PAYLOAD_TIMED_TEXT, /* of MP4: its length in two bytes, the text, style boxes */
    PF_PAYLOAD_ASS,        /* an event */
    PF_PAYLOAD_DECODED     /* any other: FFmpeg's decoder makes ASS events of it */
} pf_payload;

typedef struct pf_track {
    const AVStream *stream;
    pf_payload payload;
    AVCodecContext *decoder; /* of PF_PAYLOAD_DECODED */
    pf_cues cues;
    pf_text scratch; /* of the payload at hand, repaired */
    int64_t n_invalid;
    int64_t n_unreadable; /* packets without a time or that do not decode */
} pf_track;

pf_payload pf_track_payload(const AVCodecParameters *par);

/* PF_EBACKEND: there is no decoder. The track must be closed in every case. */
PF_NODISCARD pf_status pf_track_open(pf_track *track, const AVStream *stream);

/* Adds the cues of a packet. packet NULL: the one that the decoder may still hold. The
 * room for text is that of track->cues.text and track->scratch. */
PF_NODISCARD pf_status pf_track_add(pf_track *track, const AVPacket *packet);

void pf_track_close(pf_track *track);

#endif /* PF_VIDEO_TRACK_H */

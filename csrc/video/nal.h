/* nal.h - what the first bytes of a compressed picture say: shown or hidden, a place
 * to start decoding or not, needed by other pictures or not. Bytes in, facts out; no
 * FFmpeg. Every function accepts any bytes. */
#ifndef PF_VIDEO_NAL_H
#define PF_VIDEO_NAL_H

#include "base/pf.h"

typedef enum pf_syntax {
    PF_SYNTAX_OTHER = 0, /* nothing is read from the bytes */
    PF_SYNTAX_H264,
    PF_SYNTAX_HEVC,
    PF_SYNTAX_VP8,
    PF_SYNTAX_VP9,
    PF_SYNTAX_AV1,
    PF_SYNTAX_MJPEG
} pf_syntax;

/* The facts about one packet. */
typedef struct pf_picture {
    int32_t n_shown;      /* pictures it shows; -1: the bytes break the syntax */
    int32_t temporal_id;  /* HEVC sub-layer, otherwise 0 */
    bool resets;          /* nothing after it, in any order, refers to before it */
    bool starts;          /* decoding may start here; pictures shown earlier excepted */
    bool unreferenced;    /* no picture of its sub-layer or below refers to it */
    bool has_slots;       /* VP9 and AV1: the next three are known */
    bool relies_on_last;  /* takes over what the packet before it left behind */
    uint8_t read_slots;   /* one bit a slot for pictures that it may refer to */
    uint8_t stored_slots; /* and that it goes into */
    bool uses_older;      /* what was left from before the last key picture */
    bool carries_headers; /* sequence or picture parameter sets */
    bool whole_headers;   /* enough of them to decode the picture */
} pf_picture;

#define PF_NAL_MAX_HEADERS 64

/* What an AV1 sequence header says about the frame headers after it. */
typedef struct pf_av1 {
    bool known;  /* false: they cannot be followed to their end */
    int id_bits; /* of a frame number, 0: none */
    int id_change_bits;
    int order_bits;    /* of an order hint */
    int screen_tools;  /* 0 never, 1 always, 2 chosen by each frame */
    int whole_vectors; /* the same for motion in whole pixels */
    uint8_t key_slots; /* slots that hold key frames */
} pf_av1;

/* What is remembered between the packets of one stream. */
typedef struct pf_nal {
    pf_syntax syntax;
    int length_bytes; /* of the NAL length field; 0: start codes (Annex B) */
    uint64_t header[PF_NAL_MAX_HEADERS]; /* distinct parameter sets, by hash */
    size_t n_header;
    bool headers_change;  /* a parameter set came that the first packet did not have */
    bool hidden_pictures; /* HEVC: pictures may be flagged as not for output */
    bool first_seen;
    pf_av1 av1;
    bool has_map;   /* VP8 */
    bool has_codes; /* JPEG */
} pf_nal;

/* Reads the headers of the stream's extradata (avcC, hvcC, av1C or Annex B; NULL when
 * there is none). */
void pf_nal_init(pf_nal *nal, pf_syntax syntax, const uint8_t *extradata,
        size_t extradata_bytes);

/* The facts about the next packet; packets must come in stream order. */
pf_picture pf_nal_read(pf_nal *nal, const uint8_t *data, size_t data_bytes);

/* The same for one packet of a codec that needs little or no memory of earlier ones. */
/* *has_map: the pictures since the last key frame brought a map of segments. */
pf_picture pf_vp8_read(bool *has_map, const uint8_t *data, size_t data_bytes);
pf_picture pf_vp9_read(const uint8_t *data, size_t data_bytes);
/* *has_codes: a picture so far had code tables; one that has none, where the stream's
 * first had none either, uses the usual ones and not those of a picture before. */
pf_picture pf_mjpeg_read(
        bool *has_codes, bool is_first, const uint8_t *data, size_t data_bytes);

pf_picture pf_av1_read(pf_av1 *av1, const uint8_t *data, size_t data_bytes);

#endif /* PF_VIDEO_NAL_H */

/* index.h - the packet table of one stream and the order in which its pictures come
 * out of the decoder. A frame's index is its place in that order, counting only
 * presentable pictures (those an edit list does not cut away). */
#ifndef PF_VIDEO_INDEX_H
#define PF_VIDEO_INDEX_H

#include "video/container.h"
#include "video/nal.h"
#include "video/store.h"

enum {
    PF_PACKET_STARTS = 1,       /* decoding may start here */
    PF_PACKET_RESETS = 2,       /* and nothing after refers to before */
    PF_PACKET_UNREFERENCED = 4, /* may be left out when its picture is not wanted */
    PF_PACKET_CUT = 8,          /* decoded but not presented: edit list */
    PF_PACKET_HIDDEN = 16,      /* shows no picture */
    PF_PACKET_SLOTS = 32,       /* read_slots and stored_slots are known */
    PF_PACKET_RELIES = 64,      /* on the packet before it, beside the slots */
};

enum { PF_MAX_REORDER = 32 }; /* no codec here may move a picture further than this */

typedef struct pf_packet {
    const uint8_t *data; /* in the index's store, when the stream is held */
    AVPacket *whole;     /* instead of data, for a packet with side data */
    int data_bytes;
    int av_flags;
    int64_t pts; /* in stream time base, AV_NOPTS_VALUE when missing */
    int64_t dts;
    int64_t duration_pts;
    int64_t rank; /* place among all pictures in output order, the cut ones included */
    int32_t order_count; /* H.264 and HEVC: picture order count */
    int32_t temporal_id;
    uint32_t flags;
    uint8_t read_slots; /* VP9 and AV1, see nal.h */
    uint8_t stored_slots;
} pf_packet;

typedef struct pf_index {
    pf_packet *packet; /* (n_packet) in stream order */
    int64_t n_packet;
    int64_t n_packet_room;
    int64_t held_bytes;
    bool held; /* all packets are in memory */
    pf_store store;

    int64_t *frame_packet; /* (n_frame) the packet of each presentable frame */
    int64_t *frame_pts;    /* (n_frame) non-decreasing */
    int64_t n_frame;
    int64_t end_pts; /* where the last frame ends */
    int64_t n_cut;   /* pictures that an edit list takes away */

    bool counted; /* the order was found by decoding everything */
    bool damaged; /* the decoder or the demuxer reported an error on the way */
    const char
            *suspect; /* why the packets alone do not give the order; NULL: they do */
} pf_index;

/* Reads every packet of the container's stream once and, where their headers suffice,
 * sets frame_packet and rank; otherwise suspect says why not and the order must be
 * counted. PF_EOVERFLOW: more than the limits allow, as container->beyond says. */
PF_NODISCARD pf_status pf_index_scan(pf_index *index, pf_container *container,
        const pf_limits *limits, const pf_poll *poll);

/* Sets rank, frame_packet, n_frame and n_cut from by_rank, the packets of all n_picture
 * pictures in the order of the decoder's output. PF_ENOMEM: nothing has changed. */
PF_NODISCARD pf_status pf_index_list(
        pf_index *index, const int64_t *by_rank, int64_t n_picture);

/* Sets frame_pts and end_pts from frame_packet. nominal_pts is the duration of a frame
 * at the stream's rate, >= 1. PF_ENOMEM: the index is left without frames. */
PF_NODISCARD pf_status pf_index_times(pf_index *index, int64_t nominal_pts);

void pf_index_free(pf_index *index);

#endif /* PF_VIDEO_INDEX_H */

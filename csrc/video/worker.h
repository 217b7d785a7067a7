/* worker.h - what the files of the decoder share; not for callers. A worker is one
 * decoder on one thread; a job is what the workers of one call have in common. */
#ifndef PF_VIDEO_WORKER_H
#define PF_VIDEO_WORKER_H

#include <stdatomic.h>

#include "video/decode.h"
#include "video/plan.h"

typedef struct pf_job {
    const pf_stream *stream;
    const pf_index *index;
    const pf_geometry *geometry;
    const pf_wish *wish; /* NULL: count, or look */
    const pf_plan *plan;
    const pf_poll *poll;
    pf_look *look;
    bool counts;    /* decode everything and list what comes */
    int64_t *order; /* counting: the packet of each picture, in output order */
    int64_t n_order;
    int64_t n_order_room;
    int decoder_threads; /* of each worker's decoder; > 1 only helps few long runs */
    atomic_size_t next_run;
    atomic_bool stop;
    atomic_bool damaged;
} pf_job;

typedef struct pf_worker {
    pf_job *job;
    size_t share;     /* 0 stays on the calling thread */
    uint8_t *picture; /* upright, for a sink */
    AVCodecContext *decoder;
    AVFrame *frame;
    AVPacket *packet;
    pf_converter converter;
    pf_container container; /* open when the packets are not in memory */
    bool container_open;
    int64_t next_packet; /* the one the container gives next */
    int64_t last_sent;
    int64_t n_logged; /* errors that FFmpeg had logged when last asked */
    int64_t n_oversize;
    int64_t place; /* presentable pictures so far in this run */
    const pf_run *run;
    size_t n_left;   /* targets of this run still to come */
    uint8_t *broken; /* (n_packet) pictures reached by damage; NULL: none so far */
    pf_status st;
} pf_worker;

/* PF_ENOMEM; PF_EBACKEND when FFmpeg cannot open the decoder. The worker must be closed
 * in every case. */
PF_NODISCARD pf_status pf_worker_open(pf_worker *w);

void pf_worker_close(pf_worker *w);

/* Packet i as it goes into the decoder, in w->packet. PF_EDATA or PF_EIO when the file
 * it must be read from has changed. */
PF_NODISCARD pf_status pf_worker_fetch(pf_worker *w, int64_t i);

/* Notes an error in packet or picture i and what it reaches. Pictures that precede the
 * entry point of a run are expected to break and are not wanted here. */
PF_NODISCARD pf_status pf_worker_note_error(pf_worker *w, int64_t i);

/* Damage is often reported after pictures that it reached were delivered: marks those
 * of the run. */
void pf_worker_mark_damaged(const pf_worker *w);

size_t pf_picture_bytes(const pf_geometry *geometry);

/* Delivers w->frame to every slot that asks for it. */
PF_NODISCARD pf_status pf_worker_deliver(pf_worker *w, int64_t key);

#endif /* PF_VIDEO_WORKER_H */

/* chunks.h - decoded pictures gathered in memory of the caller, some at a time, as
 * planes or as RGB. */
#ifndef PF_VIDEO_CHUNKS_H
#define PF_VIDEO_CHUNKS_H

#include <pthread.h>

#include "video/decode.h"

/* Room for the pictures of one chunk: Y, U and V of pf_copy_planes one plane after the
 * other, each with all its pictures; or plane[0] alone for RGB. */
typedef struct pf_chunk {
    uint8_t *plane[3];
} pf_chunk;

/* Called from whichever thread has filled a chunk, one at a time and in order; when it
 * returns, the chunk after it is free again. slot says whose pictures they are; one may
 * come again when its frame is decoded again, and then counts. */
typedef pf_status (*pf_chunk_fn)(void *arg, size_t chunk, const int64_t *slot,
        size_t n_picture, const pf_planar *planar);

typedef struct pf_chunks {
    const pf_geometry *geometry;
    const pf_chunk *chunk; /* (n_chunk) of the caller, filled in turn */
    size_t n_chunk;
    size_t room; /* pictures of each */
    pf_chunk_fn full;
    void *arg;
    bool is_rgb;
    bool in_place; /* one chunk for everything, a picture's place is its slot */
    /* what it has come to */
    pthread_mutex_t lock;
    int64_t *slot; /* (room) */
    size_t current;
    size_t n_held;
    bool has_planar;
    pf_planar planar; /* of all pictures */
    bool is_refused;  /* a picture has no such planes, or others than those before */
} pf_chunks;

/* The first fields are the caller's; n_slot are all pictures to come. PF_EINVAL without
 * chunks or room. Must be freed after success. */
PF_NODISCARD pf_status pf_chunks_init(pf_chunks *chunks, size_t n_slot);

/* The take of a pf_raw_sink, for planes. PF_EBACKEND and is_refused for a picture that
 * cannot be taken. */
PF_NODISCARD pf_status pf_chunks_take(
        void *chunks, size_t share, size_t slot, const AVFrame *frame);

/* The take of a pf_sink, for RGB. */
PF_NODISCARD pf_status pf_chunks_take_rgb(
        void *chunks, size_t share, size_t slot, const uint8_t *rgb);

/* Hands over what no chunk was filled with. */
PF_NODISCARD pf_status pf_chunks_finish(pf_chunks *chunks);

void pf_chunks_free(pf_chunks *chunks);

#endif /* PF_VIDEO_CHUNKS_H */

/* chunks.c - one lock over copying and handing over: the pictures of several threads
 * wait for a chunk to be free, which keeps the memory bounded. */
#define _POSIX_C_SOURCE 200809L
#include "video/chunks.h"

#include <stdlib.h>
#include <string.h>

#include "video/worker.h"

pf_status
pf_chunks_init(pf_chunks *chunks, size_t n_slot)
{
    if (chunks->n_chunk < 1 || chunks->room < 1) {
        return PF_EINVAL;
    }
    chunks->slot = calloc(chunks->room, sizeof *chunks->slot);
    if (chunks->slot == NULL) {
        return PF_ENOMEM;
    }
    if (pthread_mutex_init(&chunks->lock, NULL) != 0) {
        free(chunks->slot);
        return PF_ENOMEM;
    }
    chunks->in_place = chunks->n_chunk == 1 && n_slot <= chunks->room;
    for (size_t i = 0; chunks->in_place && i < n_slot; i++) {
        chunks->slot[i] = (int64_t)i;
    }
    chunks->current = 0;
    chunks->n_held = chunks->in_place ? n_slot : 0;
    chunks->has_planar = false;
    chunks->is_refused = false;
    chunks->planar = (pf_planar){PF_MATRIX_BT601, false};
    return PF_OK;
}

/* Where the next picture goes, and whose it is noted to be. */
static size_t
next_place(pf_chunks *chunks, size_t slot)
{
    if (chunks->in_place) {
        return slot;
    }
    chunks->slot[chunks->n_held] = (int64_t)slot;
    return chunks->n_held++;
}

static pf_status
hand_over(pf_chunks *chunks)
{
    const pf_status st = chunks->full(chunks->arg, chunks->current, chunks->slot,
            chunks->n_held, &chunks->planar);

    chunks->current = (chunks->current + 1) % chunks->n_chunk;
    chunks->n_held = 0;
    return st;
}

static pf_status
hand_over_if_full(pf_chunks *chunks)
{
    const bool is_full = !chunks->in_place && chunks->n_held == chunks->room;

    return is_full ? hand_over(chunks) : PF_OK;
}

/* Notes how the planes of a picture are to be read; false when it is not like those
 * before. */
static bool
is_alike(pf_chunks *chunks, const AVFrame *frame)
{
    pf_planar planar;

    if (!pf_planar_of(frame, chunks->geometry, &planar)) {
        return false;
    }
    if (!chunks->has_planar) {
        chunks->planar = planar;
        chunks->has_planar = true;
    }
    return planar.matrix == chunks->planar.matrix &&
           planar.full_range == chunks->planar.full_range;
}

static void
put_planes(const pf_chunks *chunks, size_t place, const AVFrame *frame)
{
    const size_t width = (size_t)pf_geometry_width_px(chunks->geometry);
    const size_t height = (size_t)pf_geometry_height_px(chunks->geometry);
    const size_t n_chroma = (width + 1) / 2 * ((height + 1) / 2);
    const pf_chunk *chunk = &chunks->chunk[chunks->current];
    uint8_t *const plane[3] = {chunk->plane[0] + place * width * height,
            chunk->plane[1] + place * n_chroma, chunk->plane[2] + place * n_chroma};

    if (frame != NULL) {
        pf_copy_planes(frame, chunks->geometry, plane);
    }
    else {
        pf_black_planes(chunks->geometry, chunks->planar.full_range, plane);
    }
}

pf_status
pf_chunks_take(void *opaque, size_t share, size_t slot, const AVFrame *frame)
{
    pf_chunks *chunks = opaque;
    pf_status st = PF_OK;

    (void)share;
    (void)pthread_mutex_lock(&chunks->lock);
    if (chunks->is_refused || (frame != NULL && !is_alike(chunks, frame))) {
        chunks->is_refused = true;
        st = PF_EBACKEND;
    }
    else {
        put_planes(chunks, next_place(chunks, slot), frame);
        st = hand_over_if_full(chunks);
    }
    (void)pthread_mutex_unlock(&chunks->lock);
    return st;
}

pf_status
pf_chunks_take_rgb(void *opaque, size_t share, size_t slot, const uint8_t *rgb)
{
    pf_chunks *chunks = opaque;
    const size_t n_byte = pf_picture_bytes(chunks->geometry);
    pf_status st;

    (void)share;
    (void)pthread_mutex_lock(&chunks->lock);
    memcpy(chunks->chunk[chunks->current].plane[0] + next_place(chunks, slot) * n_byte,
            rgb, n_byte);
    st = hand_over_if_full(chunks);
    (void)pthread_mutex_unlock(&chunks->lock);
    return st;
}

pf_status
pf_chunks_finish(pf_chunks *chunks)
{
    return chunks->n_held > 0 ? hand_over(chunks) : PF_OK;
}

void
pf_chunks_free(pf_chunks *chunks)
{
    (void)pthread_mutex_destroy(&chunks->lock);
    free(chunks->slot);
    chunks->slot = NULL;
}

/* worker.c - one decoder on one thread: its packets, its pictures, its errors. */
#include "video/worker.h"

#include <stdlib.h>
#include <string.h>

pf_status
pf_worker_open(pf_worker *w)
{
    const pf_stream *stream = w->job->stream;

    w->decoder = avcodec_alloc_context3(stream->codec);
    w->frame = av_frame_alloc();
    w->packet = av_packet_alloc();
    if (w->decoder == NULL || w->frame == NULL || w->packet == NULL ||
            avcodec_parameters_to_context(w->decoder, stream->par) < 0) {
        return PF_ENOMEM;
    }
    pf_log_own(w->decoder);
    w->decoder->thread_count = w->job->decoder_threads;
    if (w->job->decoder_threads > 1) {
        w->decoder->thread_type = FF_THREAD_FRAME;    /* the pictures stay the same */
        w->decoder->err_recognition |= AV_EF_EXPLODE; /* else some errors go unsaid */
    }
    if (w->job->wish != NULL && w->job->wish->motion != NULL) {
        /* Vectors are as they were written, whatever becomes of the pixels. */
        w->decoder->export_side_data |= AV_CODEC_EXPORT_DATA_MVS;
        w->decoder->skip_loop_filter = AVDISCARD_ALL;
        w->decoder->skip_idct = AVDISCARD_ALL;
    }
    w->decoder->pkt_timebase = stream->time_base;
    /* The decoder's own limit counts its padding; this one only bounds memory. */
    w->decoder->max_pixels = 2 * stream->limits.max_pixels + (1 << 16);
    return avcodec_open2(w->decoder, stream->codec, NULL) < 0 ? PF_EBACKEND : PF_OK;
}

void
pf_worker_close(pf_worker *w)
{
    avcodec_free_context(&w->decoder);
    av_frame_free(&w->frame);
    av_packet_free(&w->packet);
    pf_converter_free(&w->converter);
    free(w->broken);
    free(w->picture);
    if (w->container_open) {
        pf_container_close(&w->container);
    }
}

/* Reads on to packet i of a file that is too large to be held. */
static pf_status
fetch_from_file(pf_worker *w, int64_t i)
{
    const pf_stream *stream = w->job->stream;
    pf_video_error error = {0};
    pf_status st = PF_OK;
    bool got = true;

    if (w->container_open && i < w->next_packet) {
        pf_container_close(&w->container);
        w->container_open = false;
    }
    if (!w->container_open) {
        st = pf_container_open(&w->container, &stream->source, stream->stream_index,
                &stream->limits, w->share == 0 ? w->job->poll : NULL, &error);
        w->container_open = true; /* closed by worker_close, also when half open */
        w->next_packet = 0;
    }
    while (st == PF_OK && w->next_packet <= i) {
        av_packet_unref(w->packet);
        st = pf_container_next(&w->container, w->packet, &got);
        if (st == PF_OK && !got) {
            return PF_EDATA; /* the file became shorter since it was scanned */
        }
        w->next_packet++;
    }
    return st;
}

pf_status
pf_worker_fetch(pf_worker *w, int64_t i)
{
    const pf_packet *entry = &w->job->index->packet[i];
    pf_status st = PF_OK;

    av_packet_unref(w->packet);
    if (!w->job->index->held) {
        st = fetch_from_file(w, i);
    }
    else if (entry->whole == NULL) { /* no reference: the decoder makes its own copy */
        w->packet->data = (uint8_t *)(uintptr_t)entry->data;
        w->packet->size = entry->data_bytes;
        w->packet->flags = entry->av_flags;
    }
    else if (av_packet_ref(w->packet, entry->whole) < 0) {
        st = PF_ENOMEM;
    }
    /* The table index travels through the decoder in place of the timestamp, so that
     * pictures are recognised whatever the timestamps are. */
    w->packet->pts = i;
    w->packet->dts = i;
    w->packet->flags &= ~AV_PKT_FLAG_DISCARD;
    return st;
}

/* Marks what damage in packet i reaches: an unreferenced picture keeps it to itself,
 * any other hands it on up to the next entry point and its leading pictures. */
static pf_status
spread_damage(pf_worker *w, int64_t i)
{
    const pf_index *index = w->job->index;
    const pf_packet *packet = index->packet;
    int64_t k = i + 1;
    int64_t entry_rank;

    if (w->broken == NULL) {
        w->broken = calloc((size_t)index->n_packet, 1);
        if (w->broken == NULL) {
            return PF_ENOMEM;
        }
    }
    if (w->broken[i] == 2) {
        return PF_OK; /* spread already */
    }
    w->broken[i] = 1;
    if ((packet[i].flags & PF_PACKET_UNREFERENCED) != 0) {
        return PF_OK;
    }
    w->broken[i] = 2;
    for (; k < index->n_packet && (packet[k].flags & PF_PACKET_STARTS) == 0; k++) {
        w->broken[k] = 2;
    }
    entry_rank = k < index->n_packet ? packet[k].rank : -1;
    for (k++; k < index->n_packet && (packet[k].flags & PF_PACKET_STARTS) == 0; k++) {
        if (packet[k].rank >= 0 && packet[k].rank < entry_rank) {
            w->broken[k] = 1;
        }
    }
    return PF_OK;
}

/* An error in packet or picture i. Pictures that precede the entry point of a run are
 * expected to break and are not wanted here. */
pf_status
pf_worker_note_error(pf_worker *w, int64_t i)
{
    const pf_job *j = w->job;
    const bool leading = j->index->packet[i].rank >= 0 &&
                         j->index->packet[i].rank < w->run->first_rank &&
                         (j->wish == NULL || pf_plan_find(j->plan, w->run, i) == NULL);

    if (leading) {
        return PF_OK;
    }
    atomic_store(&w->job->damaged, true);
    return j->wish == NULL ? PF_OK : spread_damage(w, i);
}

/* Damage is often reported after pictures that it reached were delivered. */
void
pf_worker_mark_damaged(const pf_worker *w)
{
    const pf_job *j = w->job;

    for (size_t k = 0; w->broken != NULL && k < w->run->n_target; k++) {
        const pf_target *target = &j->plan->target[w->run->first_target + k];
        const int64_t i =
                j->plan->by_place ? j->index->frame_packet[target->key] : target->key;

        if (w->broken[i] != 0 && j->wish->state[target->slot] == PF_FRAME_OK) {
            j->wish->state[target->slot] = PF_FRAME_DAMAGED;
        }
    }
}

size_t
pf_picture_bytes(const pf_geometry *geometry)
{
    return (size_t)pf_geometry_width_px(geometry) *
           (size_t)pf_geometry_height_px(geometry) * 3;
}

/* The converted picture: where the first slot wants it, or in the worker's own. */
static pf_status
convert_picture(pf_worker *w, size_t first_slot, uint8_t **rgb)
{
    const pf_job *j = w->job;

    *rgb = w->picture;
    if (j->wish->sink == NULL) {
        *rgb = j->wish->slot[first_slot];
    }
    else if (w->picture == NULL) {
        *rgb = w->picture = malloc(pf_picture_bytes(j->geometry));
        if (w->picture == NULL) {
            return PF_ENOMEM;
        }
    }
    return pf_convert(&w->converter, w->frame, j->geometry, *rgb);
}

/* What moves in the picture. Pictures of two sides that others refer to are known for
 * what they are by the headers of H.264 alone; elsewhere they are rare. FFmpeg's
 * decoder of MPEG-4 part 2 gives such pictures vectors that are mostly 0 and mean
 * nothing. */
static pf_motion
read_motion(const pf_worker *w, int64_t key)
{
    const pf_job *j = w->job;
    const int64_t i = j->plan->by_place ? j->index->frame_packet[key] : key;
    const bool is_told = j->stream->par->codec_id == AV_CODEC_ID_H264;
    pf_motion motion = {.decode_order = i};

    pf_motion_read(w->frame, &motion);
    if (j->stream->par->codec_id == AV_CODEC_ID_MPEG4 &&
            motion.kind == PF_PICTURE_BOTH) {
        pf_motion_sum(NULL, 0, &motion);
    }
    motion.is_reference =
            is_told ? (j->index->packet[i].flags & PF_PACKET_UNREFERENCED) == 0
                    : motion.kind != PF_PICTURE_BOTH;
    return motion;
}

static void
deliver_motion(pf_worker *w, const pf_target *target, int64_t key)
{
    const pf_wish *wish = w->job->wish;
    const pf_target *end =
            w->job->plan->target + w->run->first_target + w->run->n_target;
    const pf_motion motion = read_motion(w, key);

    for (; target < end && target->key == key; target++) {
        wish->motion[target->slot] = motion;
        wish->state[target->slot] = PF_FRAME_OK;
        w->n_left--;
    }
}

/* A picture as it is, to all slots of a target on. */
static pf_status
deliver_raw(pf_worker *w, const pf_target *target, int64_t key)
{
    const pf_wish *wish = w->job->wish;
    const pf_target *end =
            w->job->plan->target + w->run->first_target + w->run->n_target;
    pf_status st = PF_OK;

    for (; st == PF_OK && target < end && target->key == key; target++) {
        st = wish->raw->take(wish->raw->arg, w->share, target->slot, w->frame);
        wish->state[target->slot] = PF_FRAME_OK;
        w->n_left--;
    }
    return st;
}

/* Delivers a picture to every slot that asks for it. */
pf_status
pf_worker_deliver(pf_worker *w, int64_t key)
{
    const pf_job *j = w->job;
    const pf_wish *wish = j->wish;
    const pf_target *target = pf_plan_find(j->plan, w->run, key);
    const pf_target *end = j->plan->target + w->run->first_target + w->run->n_target;
    uint8_t *rgb;
    pf_status st;

    if (target == NULL || wish->state[target->slot] != PF_FRAME_MISSING) {
        return PF_OK;
    }
    if (wish->motion != NULL) {
        deliver_motion(w, target, key);
        return PF_OK;
    }
    if (wish->raw != NULL) {
        return deliver_raw(w, target, key);
    }
    st = convert_picture(w, target->slot, &rgb);
    for (; st == PF_OK && target < end && target->key == key; target++) {
        if (wish->sink != NULL) {
            st = wish->sink->take(wish->sink->arg, w->share, target->slot, rgb);
        }
        else if (wish->slot[target->slot] != rgb) {
            memcpy(wish->slot[target->slot], rgb, pf_picture_bytes(j->geometry));
        }
        wish->state[target->slot] = PF_FRAME_OK;
        w->n_left--;
    }
    return st;
}

/* decode.c - the decoders: one a thread, fed from the packet table. */
#include "video/decode.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "video/plan.h"

enum {
    MAX_ERRORS_IN_A_ROW = 64,
};

/* What the workers of one call share. */
typedef struct job {
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
    atomic_size_t next_run;
    atomic_bool stop;
    atomic_bool damaged;
} job;

typedef struct worker {
    job *job;
    bool calls_poll;
    AVCodecContext *decoder;
    AVFrame *frame;
    AVPacket *packet;
    pf_converter converter;
    pf_container container; /* open when the packets are not in memory */
    bool container_open;
    int64_t next_packet; /* the one the container gives next */
    int64_t last_sent;
    int64_t place; /* presentable pictures so far in this run */
    const pf_run *run;
    size_t n_left;   /* targets of this run still to come */
    uint8_t *broken; /* (n_packet) pictures reached by damage; NULL: none so far */
    pf_status st;
} worker;

static pf_status
worker_open(worker *w)
{
    const pf_stream *stream = w->job->stream;

    w->decoder = avcodec_alloc_context3(stream->codec);
    w->frame = av_frame_alloc();
    w->packet = av_packet_alloc();
    if (w->decoder == NULL || w->frame == NULL || w->packet == NULL ||
            avcodec_parameters_to_context(w->decoder, stream->par) < 0) {
        return PF_ENOMEM;
    }
    w->decoder->thread_count = 1;
    w->decoder->pkt_timebase = stream->time_base;
    /* The decoder's own limit counts its padding; this one only bounds memory. */
    w->decoder->max_pixels = 2 * stream->limits.max_pixels + (1 << 16);
    return avcodec_open2(w->decoder, stream->codec, NULL) < 0 ? PF_EBACKEND : PF_OK;
}

static void
worker_close(worker *w)
{
    avcodec_free_context(&w->decoder);
    av_frame_free(&w->frame);
    av_packet_free(&w->packet);
    pf_converter_free(&w->converter);
    free(w->broken);
    if (w->container_open) {
        pf_container_close(&w->container);
    }
}

/* Reads on to packet i of a file that is too large to be held. */
static pf_status
fetch_from_file(worker *w, int64_t i)
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
                &stream->limits, w->calls_poll ? w->job->poll : NULL, &error);
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

static pf_status
fetch(worker *w, int64_t i)
{
    const pf_packet *entry = &w->job->index->packet[i];
    pf_status st = PF_OK;

    av_packet_unref(w->packet);
    if (entry->held == NULL) {
        st = fetch_from_file(w, i);
    }
    else if (av_packet_ref(w->packet, entry->held) < 0) {
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
spread_damage(worker *w, int64_t i)
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
static pf_status
note_error(worker *w, int64_t i)
{
    const job *j = w->job;
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
static void
mark_damaged(const worker *w)
{
    const job *j = w->job;

    for (size_t k = 0; w->broken != NULL && k < w->run->n_target; k++) {
        const pf_target *target = &j->plan->target[w->run->first_target + k];
        const int64_t i =
                j->plan->by_place ? j->index->frame_packet[target->key] : target->key;

        if (w->broken[i] != 0 && j->wish->state[target->slot] == PF_FRAME_OK) {
            j->wish->state[target->slot] = PF_FRAME_DAMAGED;
        }
    }
}

static void
note_look(pf_look *look, const AVFrame *frame)
{
    const AVFrameSideData *side;

    if (look->seen) {
        if (frame->width != look->width_px || frame->height != look->height_px) {
            look->size_changes = true;
        }
        return;
    }
    look->seen = true;
    look->width_px = frame->width;
    look->height_px = frame->height;
    look->pixel_format = (enum AVPixelFormat)frame->format;
    look->matrix = frame->colorspace;
    look->range = frame->color_range;
    look->sample_aspect = frame->sample_aspect_ratio;
    side = av_frame_get_side_data(frame, AV_FRAME_DATA_DISPLAYMATRIX);
    if (side != NULL && side->size >= sizeof look->display_matrix) {
        look->has_display_matrix = true;
        memcpy(look->display_matrix, side->data, sizeof look->display_matrix);
    }
}

/* Counting: the picture of packet i is the next one. */
static pf_status
count_picture(job *j, int64_t i)
{
    if (j->n_order == j->n_order_room) {
        const int64_t room = j->n_order_room == 0 ? 1024 : 2 * j->n_order_room;
        size_t n_byte;
        int64_t *grown;

        if (!pf_mul_size((size_t)room, sizeof *grown, &n_byte)) {
            return PF_EOVERFLOW;
        }
        grown = realloc(j->order, n_byte);
        if (grown == NULL) {
            return PF_ENOMEM;
        }
        j->order = grown;
        j->n_order_room = room;
    }
    j->order[j->n_order++] = i;
    return PF_OK;
}

/* Delivers a picture to every slot that asks for it. */
static pf_status
deliver(worker *w, int64_t key)
{
    const job *j = w->job;
    const pf_wish *wish = j->wish;
    const pf_target *target = pf_plan_find(j->plan, w->run, key);
    const pf_target *end = j->plan->target + w->run->first_target + w->run->n_target;
    const pf_target *first = target;
    const size_t n_byte = (size_t)pf_geometry_width_px(j->geometry) *
                          (size_t)pf_geometry_height_px(j->geometry) * 3;
    pf_status st;

    if (target == NULL || wish->state[target->slot] != PF_FRAME_MISSING) {
        return PF_OK;
    }
    st = pf_convert(&w->converter, w->frame, j->geometry, wish->slot[target->slot]);
    if (st != PF_OK) {
        return st;
    }
    for (; target < end && target->key == key; target++) {
        if (target != first) {
            memcpy(wish->slot[target->slot], wish->slot[first->slot], n_byte);
        }
        wish->state[target->slot] = PF_FRAME_OK;
        w->n_left--;
    }
    return PF_OK;
}

static pf_status
take_picture(worker *w)
{
    job *j = w->job;
    const AVFrame *frame = w->frame;
    const bool broken = frame->decode_error_flags != 0 ||
                        (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0;
    int64_t i = frame->pts;
    bool cut;

    if (i < 0 || i >= j->index->n_packet) {
        i = w->last_sent;
    }
    if (broken) {
        const pf_status st = note_error(w, i);

        if (st != PF_OK) {
            return st;
        }
    }
    if (j->look != NULL) {
        note_look(j->look, frame);
    }
    if (j->wish == NULL) {
        return j->counts ? count_picture(j, i) : PF_OK;
    }
    cut = (j->index->packet[i].flags & PF_PACKET_CUT) != 0;
    if (j->plan->by_place) {
        return cut ? PF_OK : deliver(w, w->place++);
    }
    return deliver(w, i);
}

/* Sends packet i, or for -1 the end of the run, and takes what comes out. */
static pf_status
feed(worker *w, int64_t i)
{
    pf_status st = PF_OK;
    int n_error = 0;
    int code;

    if (i >= 0) {
        st = fetch(w, i);
        if (st != PF_OK || w->packet->size == 0) {
            return st; /* an empty packet would mean the end to the decoder */
        }
        w->last_sent = i;
    }
    code = avcodec_send_packet(w->decoder, i >= 0 ? w->packet : NULL);
    if (code == AVERROR(ENOMEM)) {
        return PF_ENOMEM;
    }
    if (code < 0 && code != AVERROR_EOF) {
        st = note_error(w, w->last_sent);
    }
    while (st == PF_OK && n_error < MAX_ERRORS_IN_A_ROW) {
        code = avcodec_receive_frame(w->decoder, w->frame);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
            break;
        }
        if (code == AVERROR(ENOMEM)) {
            return PF_ENOMEM;
        }
        if (code < 0) {
            n_error++;
            st = note_error(w, w->last_sent);
            continue;
        }
        st = take_picture(w);
        av_frame_unref(w->frame);
    }
    return st;
}

static bool
must_stop(const worker *w)
{
    job *j = w->job;

    if (w->calls_poll && j->poll != NULL && j->poll->ask != NULL &&
            j->poll->ask(j->poll->arg) != 0) {
        atomic_store(&j->stop, true);
    }
    return atomic_load(&j->stop);
}

static bool
is_finished(const worker *w)
{
    if (w->job->wish != NULL) {
        return w->n_left == 0;
    }
    return !w->job->counts && w->job->look->seen; /* only a look was wanted */
}

static pf_status
decode_run(worker *w, const pf_run *run)
{
    const job *j = w->job;
    pf_status st = PF_OK;

    w->run = run;
    w->n_left = run->n_target;
    w->place = 0;
    w->last_sent = run->first;
    for (int64_t i = run->first; i <= run->last && !is_finished(w); i++) {
        if (must_stop(w)) {
            return PF_EBACKEND;
        }
        if (j->plan != NULL && j->plan->drop &&
                (j->index->packet[i].flags & PF_PACKET_UNREFERENCED) != 0 &&
                pf_plan_find(j->plan, run, i) == NULL) {
            continue;
        }
        st = feed(w, i);
        if (st != PF_OK) {
            return st;
        }
    }
    if (!is_finished(w)) {
        st = feed(w, -1);
    }
    avcodec_flush_buffers(w->decoder);
    if (j->wish != NULL) {
        mark_damaged(w);
    }
    return st;
}

/* Takes runs until none is left. A worker whose thread did not start comes late, on the
 * thread of another, and finds nothing to do. */
static void
work(void *workers, size_t share)
{
    worker *w = (worker *)workers + share;
    job *j = w->job;

    if (atomic_load(&j->next_run) >= j->plan->n_run) {
        return;
    }
    pf_log_begin(NULL);
    w->st = worker_open(w);
    while (w->st == PF_OK) {
        const size_t k = atomic_fetch_add(&j->next_run, 1);

        if (k >= j->plan->n_run) {
            break;
        }
        w->st = decode_run(w, &j->plan->run[k]);
    }
    if (w->st != PF_OK) {
        atomic_store(&j->stop, true);
    }
    worker_close(w);
    pf_log_end();
}

static pf_status
work_together(job *j, size_t n_thread)
{
    worker *w = calloc(n_thread, sizeof *w);
    pf_status st = PF_OK;

    if (w == NULL) {
        return PF_ENOMEM;
    }
    for (size_t i = 0; i < n_thread; i++) {
        w[i].job = j;
        w[i].calls_poll = i == 0; /* the share that stays on the calling thread */
    }
    pf_parallel_run(n_thread, work, w);
    for (size_t i = 0; i < n_thread; i++) {
        /* the others were only told to stop */
        if (w[i].st != PF_OK && (st == PF_OK || w[i].st != PF_EBACKEND)) {
            st = w[i].st;
        }
    }
    free(w);
    return st;
}

/* One decoder over all packets, without a plan. */
static pf_status
decode_all(job *j)
{
    const pf_run run = {.last = j->index->n_packet - 1, .first_rank = INT64_MIN};
    worker w = {.job = j, .calls_poll = true};
    pf_status st = worker_open(&w);

    if (st == PF_OK) {
        st = decode_run(&w, &run);
    }
    worker_close(&w);
    return st;
}

pf_status
pf_decode_count(
        const pf_stream *stream, pf_index *index, pf_look *look, const pf_poll *poll)
{
    job j = {.stream = stream,
            .index = index,
            .poll = poll,
            .look = look,
            .counts = true};
    pf_status st;

    *look = (pf_look){0};
    st = decode_all(&j);
    if (st == PF_OK) {
        st = pf_index_list(index, j.order, j.n_order);
    }
    free(j.order);
    if (st == PF_OK) {
        index->counted = true;
        index->damaged = index->damaged || atomic_load(&j.damaged);
    }
    return st;
}

pf_status
pf_decode_look(const pf_stream *stream, const pf_index *index, pf_look *look,
        const pf_poll *poll)
{
    job j = {.stream = stream, .index = index, .poll = poll, .look = look};

    *look = (pf_look){0};
    return decode_all(&j);
}

pf_status
pf_decode_frames(const pf_stream *stream, const pf_index *index,
        const pf_geometry *geometry, const pf_wish *wish, bool *damaged)
{
    const size_t n_byte = (size_t)pf_geometry_width_px(geometry) *
                          (size_t)pf_geometry_height_px(geometry) * 3;
    job j = {.stream = stream,
            .index = index,
            .geometry = geometry,
            .wish = wish,
            .poll = wish->poll};
    pf_plan plan;
    size_t n_thread;
    pf_status st;

    if (wish->n_thread < 1) {
        return PF_EINVAL;
    }
    n_thread =
            index->held ? (size_t)wish->n_thread : 1; /* one reader of a large file */
    st = pf_plan_make(
            &plan, index, wish->frame, wish->n_slot, wish->sequential, n_thread == 1);
    if (st != PF_OK) {
        return st;
    }
    j.plan = &plan;
    memset(wish->state, PF_FRAME_MISSING, wish->n_slot);
    if (plan.n_run > 0) {
        st = work_together(&j, n_thread < plan.n_run ? n_thread : plan.n_run);
    }
    *damaged = atomic_load(&j.damaged);
    for (size_t i = 0; st == PF_OK && i < wish->n_slot; i++) {
        if (wish->state[i] == PF_FRAME_MISSING) {
            memset(wish->slot[i], 0, n_byte);
            *damaged = true;
        }
    }
    pf_plan_free(&plan);
    return st;
}

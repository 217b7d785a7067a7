/* decode.c - the decoders: one a thread, fed from the packet table. */
#include "video/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "video/worker.h"

enum {
    MAX_ERRORS_IN_A_ROW = 64,
};

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
count_picture(pf_job *j, int64_t i)
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

/* Black for the slots whose frame did not come. */
static pf_status
fill_missing(const pf_wish *wish, const pf_geometry *geometry, bool *any)
{
    uint8_t *black = NULL;
    pf_status st = PF_OK;

    for (size_t i = 0; st == PF_OK && i < wish->n_slot; i++) {
        if (wish->state[i] != PF_FRAME_MISSING) {
            continue;
        }
        *any = true;
        if (wish->motion != NULL) {
            wish->motion[i] = (pf_motion){0};
            continue;
        }
        if (wish->raw != NULL) {
            st = wish->raw->take(wish->raw->arg, 0, i, NULL);
            continue;
        }
        if (wish->sink == NULL) {
            memset(wish->slot[i], 0, pf_picture_bytes(geometry));
            continue;
        }
        if (black == NULL) {
            black = calloc(pf_picture_bytes(geometry), 1);
        }
        st = black == NULL ? PF_ENOMEM : wish->sink->take(wish->sink->arg, 0, i, black);
    }
    free(black);
    return st;
}

static pf_status
take_picture(pf_worker *w)
{
    pf_job *j = w->job;
    const AVFrame *frame = w->frame;
    const bool broken = frame->decode_error_flags != 0 ||
                        (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0;
    int64_t i = frame->pts;
    bool cut;

    if (i < 0 || i >= j->index->n_packet) {
        i = w->last_sent;
    }
    if (broken) {
        const pf_status st = pf_worker_note_error(w, i);

        if (st != PF_OK) {
            return st;
        }
    }
    if ((int64_t)frame->width * frame->height > j->stream->limits.max_pixels) {
        return PF_EOVERFLOW;
    }
    if (j->look != NULL) {
        note_look(j->look, frame);
    }
    if (j->wish == NULL) {
        return j->counts ? count_picture(j, i) : PF_OK;
    }
    cut = (j->index->packet[i].flags & PF_PACKET_CUT) != 0;
    if (j->plan->by_place) {
        return cut ? PF_OK : pf_worker_deliver(w, w->place++);
    }
    return pf_worker_deliver(w, i);
}

/* Does a run of which packets are left out start at a recovery point? Its leading
 * pictures break, and are marked as corrupt. All others are exact, the stream says, but
 * at the end of the run FFmpeg holds back those too; see decode_run. */
static bool
starts_at_recovery(const pf_job *j, const pf_run *run)
{
    return j->plan != NULL && j->plan->is_needed != NULL &&
           (j->index->packet[run->first].flags & PF_PACKET_RESETS) == 0;
}

/* What FFmpeg has logged that may tell of damage in this run. After a recovery point
 * pictures from before it are released as a matter of course; one that is missed
 * otherwise makes an error when it is referred to. */
static int64_t
count_logged(const pf_worker *w)
{
    const int64_t n_error = pf_log_errors(w->job->decoder_threads > 1);

    return starts_at_recovery(w->job, w->run) ? n_error : n_error + pf_log_releases();
}

/* A decoder that lacks what was left out may say so in its log alone. A plain decode
 * lacks nothing, and many sound streams make it complain. */
static pf_status
heed_log(pf_worker *w)
{
    const int64_t n_logged = count_logged(w);
    const bool is_new = n_logged != w->n_logged;
    const pf_plan *plan = w->job->plan;

    w->n_logged = n_logged;
    if (!is_new || plan == NULL || plan->is_needed == NULL) {
        return PF_OK;
    }
    return pf_worker_note_error(w, w->last_sent);
}

/* Sends packet i, or for -1 the end of the run, and takes what comes out. */
static pf_status
feed(pf_worker *w, int64_t i)
{
    pf_status st = PF_OK;
    int n_error = 0;
    int code;

    if (i >= 0) {
        st = pf_worker_fetch(w, i);
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
        st = pf_worker_note_error(w, w->last_sent);
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
            st = pf_worker_note_error(w, w->last_sent);
            continue;
        }
        st = take_picture(w);
        av_frame_unref(w->frame);
    }
    if (pf_log_oversizes() != w->n_oversize) {
        return PF_EOVERFLOW;
    }
    return st == PF_OK ? heed_log(w) : st;
}

static bool
must_stop(const pf_worker *w)
{
    pf_job *j = w->job;

    if (atomic_load(&j->stop)) {
        return true; /* nor asked again: an answer may be waiting to be raised */
    }
    if (w->share == 0 && j->poll != NULL && j->poll->ask != NULL &&
            j->poll->ask(j->poll->arg) != 0) {
        atomic_store(&j->stop, true);
        return true;
    }
    return false;
}

static bool
is_finished(const pf_worker *w)
{
    if (w->job->wish != NULL) {
        return w->n_left == 0;
    }
    return !w->job->counts && w->job->look->seen; /* only a look was wanted */
}

static pf_status
decode_run(pf_worker *w, const pf_run *run)
{
    const pf_job *j = w->job;
    pf_status st = PF_OK;

    w->run = run;
    w->n_left = run->n_target;
    w->place = 0;
    w->last_sent = run->first;
    if (starts_at_recovery(j, run)) {
        w->decoder->flags |= AV_CODEC_FLAG_OUTPUT_CORRUPT;
    }
    else {
        w->decoder->flags &= ~AV_CODEC_FLAG_OUTPUT_CORRUPT;
    }
    w->n_oversize = pf_log_oversizes();
    w->n_logged = count_logged(w);
    for (int64_t i = run->first; i <= run->last && !is_finished(w); i++) {
        if (must_stop(w)) {
            return PF_EBACKEND;
        }
        if (j->plan != NULL && j->plan->is_needed != NULL &&
                j->plan->is_needed[i] == 0) {
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
        pf_worker_mark_damaged(w);
    }
    return st;
}

/* Takes runs until none is left. A worker whose thread did not start comes late, on the
 * thread of another, and finds nothing to do. */
static void
work(void *workers, size_t share)
{
    pf_worker *w = (pf_worker *)workers + share;
    pf_job *j = w->job;

    if (atomic_load(&j->next_run) >= j->plan->n_run) {
        return;
    }
    pf_log_begin(NULL);
    w->st = pf_worker_open(w);
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
    pf_worker_close(w);
    pf_log_end();
}

/* The calling thread has no run left; others may be at long ones. */
static void
look_out(void *workers)
{
    (void)must_stop(workers);
}

static pf_status
work_together(pf_job *j, size_t n_thread)
{
    pf_worker *w = calloc(n_thread, sizeof *w);
    pf_status st = PF_OK;

    if (w == NULL) {
        return PF_ENOMEM;
    }
    for (size_t i = 0; i < n_thread; i++) {
        w[i].job = j;
        w[i].share = i;
    }
    pf_parallel_run(n_thread, work, look_out, w);
    for (size_t i = 0; i < n_thread; i++) {
        /* the others were only told to stop */
        if (w[i].st != PF_OK && (st == PF_OK || w[i].st != PF_EBACKEND)) {
            st = w[i].st;
        }
    }
    free(w);
    return st;
}

/* One decoder over packets 0..last, without a plan. */
static pf_status
decode_up_to(pf_job *j, int64_t last)
{
    const pf_run run = {.last = last, .first_rank = INT64_MIN};
    pf_worker w = {.job = j};
    pf_status st = pf_worker_open(&w);

    if (st == PF_OK) {
        st = decode_run(&w, &run);
    }
    pf_worker_close(&w);
    return st;
}

pf_status
pf_decode_count(
        const pf_stream *stream, pf_index *index, pf_look *look, const pf_poll *poll)
{
    pf_job j = {.stream = stream,
            .index = index,
            .poll = poll,
            .look = look,
            .counts = true,
            .decoder_threads = 1};
    pf_status st;

    *look = (pf_look){0};
    st = decode_up_to(&j, index->n_packet - 1);
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
    pf_job j = {.stream = stream,
            .index = index,
            .poll = poll,
            .look = look,
            .decoder_threads = 1};
    pf_status st;

    *look = (pf_look){0};
    st = decode_up_to(&j, 0); /* a decoder that is told of the end holds nothing back */
    if (st == PF_OK && !look->seen) {
        st = decode_up_to(&j, index->n_packet - 1);
    }
    return st;
}

/* Threads that no run is left for work inside the decoders of the others; not so for
 * codecs whose decoders then keep quiet about damage that they notice alone. */
static int
decoder_threads(const pf_stream *stream, const pf_index *index, const pf_wish *wish,
        size_t n_worker)
{
    const bool is_plain = wish->sequential || index->counted;

    switch (stream->par->codec_id) {
        case AV_CODEC_ID_VP9:
        case AV_CODEC_ID_AV1:
            return is_plain ? 1 : (int)((size_t)wish->n_thread / n_worker);
        default:
            return 1;
    }
}

pf_status
pf_decode_frames(const pf_stream *stream, const pf_index *index,
        const pf_geometry *geometry, const pf_wish *wish, bool *damaged)
{
    pf_job j = {.stream = stream,
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
        const size_t n_worker = n_thread < plan.n_run ? n_thread : plan.n_run;

        j.decoder_threads = decoder_threads(stream, index, wish, n_worker);
        st = work_together(&j, n_worker);
    }
    *damaged = atomic_load(&j.damaged);
    if (st == PF_OK) {
        st = fill_missing(wish, geometry, damaged);
    }
    pf_plan_free(&plan);
    return st;
}

/* index.c - the packet table and the decoder's output order. */
#include "video/index.h"

#include <stdlib.h>
#include <string.h>

enum {
    POLL_PACKETS = 1 << 9, /* packets between two looks at the poll */
    PACKET_BYTES = 512,    /* of memory beside the payload, about */
};

/* What reads the headers of one stream while its packets pass. */
typedef struct scanner {
    pf_nal nal;
    AVCodecContext *context; /* for the parser; never opened */
    AVCodecParserContext *parser;
    bool reorders;   /* output order differs from stream order */
    bool one_to_one; /* one packet is one picture unless its bytes say otherwise */
    int max_temporal_id;
    bool has_side_data; /* that lasts */
    int64_t n_unmarked; /* packets up to here are no places to start at, the first is */
} scanner;

static pf_syntax
syntax_of(enum AVCodecID codec)
{
    switch (codec) {
        case AV_CODEC_ID_H264:
            return PF_SYNTAX_H264;
        case AV_CODEC_ID_HEVC:
            return PF_SYNTAX_HEVC;
        case AV_CODEC_ID_VP8:
            return PF_SYNTAX_VP8;
        case AV_CODEC_ID_VP9:
            return PF_SYNTAX_VP9;
        case AV_CODEC_ID_AV1:
            return PF_SYNTAX_AV1;
        case AV_CODEC_ID_MJPEG:
            return PF_SYNTAX_MJPEG;
        default:
            return PF_SYNTAX_OTHER;
    }
}

static void
scanner_free(scanner *s)
{
    av_parser_close(s->parser);
    avcodec_free_context(&s->context);
}

static pf_status
scanner_init(scanner *s, const AVCodecParameters *par)
{
    const AVCodecDescriptor *about = avcodec_descriptor_get(par->codec_id);
    const pf_syntax syntax = syntax_of(par->codec_id);

    *s = (scanner){0};
    pf_nal_init(&s->nal, syntax, par->extradata,
            par->extradata_size > 0 ? (size_t)par->extradata_size : 0);
    s->reorders = syntax == PF_SYNTAX_H264 || syntax == PF_SYNTAX_HEVC;
    s->one_to_one = syntax != PF_SYNTAX_OTHER ||
                    (about != NULL && (about->props & AV_CODEC_PROP_INTRA_ONLY) != 0 &&
                            (about->props & AV_CODEC_PROP_REORDER) == 0);
    if (!s->reorders) {
        return PF_OK;
    }
    s->context = avcodec_alloc_context3(NULL);
    s->parser = av_parser_init(par->codec_id);
    if (s->context == NULL || avcodec_parameters_to_context(s->context, par) < 0) {
        scanner_free(s);
        return PF_ENOMEM;
    }
    if (s->parser != NULL) {
        s->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    }
    return PF_OK;
}

/* The picture order count, and whether the packet holds one whole frame. */
static const char *
parse_order(scanner *s, const AVPacket *packet, pf_packet *entry)
{
    uint8_t *out = NULL;
    int out_bytes = 0;

    if (s->parser == NULL) {
        return "this FFmpeg has no parser for its codec";
    }
    s->parser->output_picture_number = INT_MIN;
    (void)av_parser_parse2(s->parser, s->context, &out, &out_bytes, packet->data,
            packet->size, packet->pts, packet->dts, packet->pos);
    entry->order_count = s->parser->output_picture_number;
    if (entry->order_count == INT_MIN) {
        return "a picture header cannot be parsed";
    }
    if (s->nal.syntax == PF_SYNTAX_H264 &&
            s->parser->picture_structure != AV_PICTURE_STRUCTURE_FRAME) {
        return "its fields are coded as separate pictures";
    }
    return NULL;
}

/* Side data that later packets rely on: without this packet they decode differently. */
static bool
side_data_changes(const AVPacket *packet)
{
    static const enum AVPacketSideDataType lasting[] = {
            AV_PKT_DATA_NEW_EXTRADATA, AV_PKT_DATA_PARAM_CHANGE, AV_PKT_DATA_PALETTE};

    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++) {
        if (av_packet_get_side_data(packet, lasting[i], NULL) != NULL) {
            return true;
        }
    }
    return false;
}

/* What a picture takes over may be older than any key picture so far but the first: the
 * places to start decoding at turn out to be none. */
static void
unmark_starts(scanner *s, pf_index *index)
{
    for (int64_t i = s->n_unmarked > 0 ? s->n_unmarked : 1; i < index->n_packet; i++) {
        index->packet[i].flags &= ~(uint32_t)(PF_PACKET_STARTS | PF_PACKET_RESETS);
    }
    s->n_unmarked = index->n_packet;
}

/* Fills in the last entry of the table. */
static void
classify(scanner *s, const AVPacket *packet, pf_index *index)
{
    pf_packet *entry = &index->packet[index->n_packet - 1];
    const char *problem = NULL;
    const size_t n_byte = packet->size > 0 ? (size_t)packet->size : 0;
    const pf_picture picture = pf_nal_read(&s->nal, packet->data, n_byte);
    const bool headers = s->nal.headers_change ? picture.whole_headers : true;

    entry->temporal_id = picture.temporal_id;
    if (picture.temporal_id > s->max_temporal_id) {
        s->max_temporal_id = picture.temporal_id;
    }
    if (s->nal.syntax == PF_SYNTAX_OTHER) {
        if ((packet->flags & AV_PKT_FLAG_KEY) != 0) { /* the container's word */
            entry->flags |= PF_PACKET_STARTS | PF_PACKET_RESETS;
        }
    }
    else if (picture.starts && headers) {
        entry->flags |= PF_PACKET_STARTS;
        entry->flags |= picture.resets ? (uint32_t)PF_PACKET_RESETS : 0;
    }
    if (picture.unreferenced && !picture.carries_headers) {
        entry->flags |= PF_PACKET_UNREFERENCED;
    }
    if (picture.n_shown == 0) {
        entry->flags |= PF_PACKET_HIDDEN;
    }
    entry->flags |= picture.has_slots ? (uint32_t)PF_PACKET_SLOTS : 0;
    entry->flags |= picture.relies_on_last ? (uint32_t)PF_PACKET_RELIES : 0;
    entry->read_slots = picture.read_slots;
    entry->stored_slots = picture.stored_slots;
    if (side_data_changes(packet)) {
        s->has_side_data = true;
    }
    if (n_byte == 0) {
        problem = "a packet is empty";
    }
    else if ((packet->flags & AV_PKT_FLAG_CORRUPT) != 0) {
        problem = "a packet is cut short or damaged";
    }
    else if (picture.n_shown < 0 || picture.n_shown > 1 ||
             (s->reorders && picture.n_shown == 0)) {
        problem = "a packet does not hold exactly one picture";
    }
    else if (s->reorders) {
        problem = parse_order(s, packet, entry);
    }
    if (index->suspect == NULL) {
        index->suspect = problem;
    }
    if (picture.uses_older) {
        unmark_starts(s, index);
    }
}

static pf_packet *
append(pf_index *index)
{
    if (index->n_packet == index->n_packet_room) {
        const int64_t room =
                index->n_packet_room == 0 ? 1024 : 2 * index->n_packet_room;
        size_t n_byte;
        pf_packet *grown;

        if (!pf_mul_size((size_t)room, sizeof *grown, &n_byte)) {
            return NULL;
        }
        grown = realloc(index->packet, n_byte);
        if (grown == NULL) {
            return NULL;
        }
        index->packet = grown;
        index->n_packet_room = room;
    }
    index->packet[index->n_packet] = (pf_packet){.rank = -1};
    return &index->packet[index->n_packet++];
}

static void
let_go(pf_index *index)
{
    for (int64_t i = 0; i < index->n_packet; i++) {
        av_packet_free(&index->packet[i].whole);
        index->packet[i].data = NULL;
    }
    pf_store_free(&index->store);
    index->held = false;
}

/* Keeps what the decoder wants of a packet, until the cache is full: then of none. */
static pf_status
hold(pf_index *index, const AVPacket *packet, const pf_limits *limits)
{
    pf_packet *entry = &index->packet[index->n_packet - 1];

    index->held_bytes += packet->size + PACKET_BYTES;
    if (!index->held) {
        return PF_OK;
    }
    if (index->held_bytes > limits->cache_bytes) {
        let_go(index);
        return PF_OK;
    }
    if (packet->side_data_elems > 0) {
        entry->whole = av_packet_clone(packet);
        return entry->whole == NULL ? PF_ENOMEM : PF_OK;
    }
    entry->data_bytes = packet->size;
    entry->av_flags = packet->flags;
    if (packet->size <= 0) {
        return PF_OK;
    }
    return pf_store_add(
            &index->store, packet->data, (size_t)packet->size, &entry->data);
}

/* Timestamps near the ends of the type are nonsense and would overflow sums. */
static int64_t
sane_time(int64_t pts)
{
    const int64_t limit = INT64_C(1) << 60;

    return pts > limit || pts < -limit ? AV_NOPTS_VALUE : pts;
}

static pf_status
read_packets(pf_index *index, pf_container *container, scanner *s,
        const pf_limits *limits, const pf_poll *poll)
{
    AVPacket *packet = av_packet_alloc();
    pf_status st = packet == NULL ? PF_ENOMEM : PF_OK;
    bool got = st == PF_OK;

    while (got) {
        pf_packet *entry;

        st = pf_container_next(container, packet, &got);
        if (st != PF_OK || !got) {
            break;
        }
        entry = index->n_packet < limits->max_packets ? append(index) : NULL;
        if (entry == NULL) {
            st = index->n_packet < limits->max_packets ? PF_ENOMEM : PF_EOVERFLOW;
            break;
        }
        entry->pts = sane_time(packet->pts);
        entry->dts = sane_time(packet->dts);
        entry->duration_pts = sane_time(packet->duration);
        if ((packet->flags & AV_PKT_FLAG_DISCARD) != 0) {
            entry->flags |= PF_PACKET_CUT;
        }
        classify(s, packet, index);
        st = hold(index, packet, limits);
        if (st == PF_OK && index->n_packet % POLL_PACKETS == 0 && poll->ask != NULL &&
                poll->ask(poll->arg) != 0) {
            st = PF_EBACKEND;
        }
        got = st == PF_OK;
        av_packet_unref(packet);
    }
    av_packet_free(&packet);
    return st;
}

typedef struct sort_key {
    int64_t value;
    int64_t packet;
} sort_key;

static int
compare_keys(const void *a, const void *b)
{
    const sort_key *x = a;
    const sort_key *y = b;

    if (x->value != y->value) {
        return x->value < y->value ? -1 : 1;
    }
    return x->packet < y->packet ? -1 : x->packet > y->packet;
}

/* rank of each packet by picture order count, from one reset to the next */
static pf_status
rank_by_order_count(pf_index *index)
{
    sort_key *key = calloc((size_t)index->n_packet, sizeof *key);
    int64_t from = 0;

    if (key == NULL) {
        return PF_ENOMEM;
    }
    for (int64_t i = 1; i <= index->n_packet; i++) {
        if (i < index->n_packet && (index->packet[i].flags & PF_PACKET_RESETS) == 0) {
            continue;
        }
        for (int64_t k = from; k < i; k++) {
            key[k] = (sort_key){index->packet[k].order_count, k};
        }
        qsort(key + from, (size_t)(i - from), sizeof *key, compare_keys);
        for (int64_t k = from; k < i; k++) {
            index->packet[key[k].packet].rank = k;
            if (k > from && key[k].value == key[k - 1].value) {
                index->suspect = "two pictures have the same order count";
            }
        }
        from = i;
    }
    free(key);
    return PF_OK;
}

/* by_rank[rank] = packet */
static const char *
check_timestamps(const pf_index *index, const int64_t *by_rank)
{
    for (int64_t i = 0; i < index->n_packet; i++) {
        const int64_t pts = index->packet[by_rank[i]].pts;

        if (pts == AV_NOPTS_VALUE) {
            return "timestamps are missing";
        }
        if (i > 0 && pts <= index->packet[by_rank[i - 1]].pts) {
            return "timestamps contradict the picture order";
        }
    }
    return NULL;
}

/* The decoder delays pictures by video_delay; a stream that needs more comes out in
 * another order than the headers say. */
static const char *
check_delay(const pf_index *index, int video_delay)
{
    for (int64_t i = 0; i < index->n_packet; i++) {
        const int64_t rank = index->packet[i].rank;
        int n_later = 0;

        if (rank - i > PF_MAX_REORDER || i - rank > PF_MAX_REORDER) {
            return "pictures are reordered too far";
        }
        for (int64_t k = i - 1; k >= 0 && k >= i - 2 * PF_MAX_REORDER; k--) {
            n_later += index->packet[k].rank > rank;
        }
        if (n_later > video_delay) {
            return "pictures are reordered further than the decoder expects";
        }
    }
    return NULL;
}

pf_status
pf_index_list(pf_index *index, const int64_t *by_rank, int64_t n_picture)
{
    int64_t *frame_packet =
            calloc((size_t)(n_picture > 0 ? n_picture : 1), sizeof *frame_packet);

    if (frame_packet == NULL) {
        return PF_ENOMEM;
    }
    free(index->frame_packet);
    index->frame_packet = frame_packet;
    index->n_frame = 0;
    index->n_cut = 0;
    for (int64_t i = 0; i < n_picture; i++) {
        pf_packet *entry = &index->packet[by_rank[i]];

        entry->rank = i;
        if ((entry->flags & PF_PACKET_CUT) != 0) {
            index->n_cut++;
            continue;
        }
        frame_packet[index->n_frame++] = by_rank[i];
    }
    return PF_OK;
}

static pf_status
order_by_headers(pf_index *index, const scanner *s, int video_delay)
{
    int64_t *by_rank = calloc((size_t)index->n_packet, sizeof *by_rank);
    int64_t n_ranked = 0;
    pf_status st = by_rank == NULL ? PF_ENOMEM : PF_OK;

    if (st == PF_OK && s->reorders) {
        st = rank_by_order_count(index);
    }
    for (int64_t i = 0; st == PF_OK && i < index->n_packet; i++) {
        if (s->reorders) {
            by_rank[index->packet[i].rank] = i;
            n_ranked++;
        }
        else if ((index->packet[i].flags & PF_PACKET_HIDDEN) == 0) {
            index->packet[i].rank = n_ranked;
            by_rank[n_ranked++] = i;
        }
    }
    if (st == PF_OK && s->reorders && index->suspect == NULL) {
        index->suspect = check_timestamps(index, by_rank);
    }
    if (st == PF_OK && s->reorders && index->suspect == NULL) {
        index->suspect = check_delay(index, video_delay);
    }
    if (st == PF_OK && index->suspect == NULL && index->packet[0].rank != 0 &&
            (index->packet[0].flags & PF_PACKET_RESETS) == 0) {
        index->suspect = "the first pictures refer to pictures before the file";
    }
    if (st == PF_OK && index->suspect == NULL) {
        st = pf_index_list(index, by_rank, n_ranked);
    }
    free(by_rank);
    return st;
}

/* Only the top sub-layer's unreferenced pictures are referred to by nobody. */
static void
settle_flags(pf_index *index, const scanner *s)
{
    for (int64_t i = 0; i < index->n_packet; i++) {
        pf_packet *entry = &index->packet[i];

        if (entry->temporal_id < s->max_temporal_id) {
            entry->flags &= ~(uint32_t)PF_PACKET_UNREFERENCED;
        }
        if (s->has_side_data && i > 0) {
            entry->flags &= ~(uint32_t)(PF_PACKET_STARTS | PF_PACKET_UNREFERENCED |
                                        PF_PACKET_SLOTS);
        }
    }
}

pf_status
pf_index_scan(pf_index *index, pf_container *container, const pf_limits *limits,
        const pf_poll *poll)
{
    scanner s;
    pf_status st;

    *index = (pf_index){.held = true};
    st = scanner_init(&s, container->stream->codecpar);
    if (st != PF_OK) {
        return st;
    }
    st = read_packets(index, container, &s, limits, poll);
    if (container->n_read_error > 0) {
        index->damaged = true;
    }
    if (st == PF_OK && index->n_packet > 0) {
        settle_flags(index, &s);
        if (!s.one_to_one) {
            index->suspect = "its codec does not give one picture a packet";
        }
        else if (index->suspect == NULL &&
                 (index->packet[0].flags & PF_PACKET_STARTS) == 0) {
            index->suspect = "it does not start with a key picture";
        }
        if (index->suspect == NULL) {
            st = order_by_headers(index, &s, container->stream->codecpar->video_delay);
        }
    }
    scanner_free(&s);
    return st;
}

void
pf_index_free(pf_index *index)
{
    let_go(index);
    free(index->packet);
    free(index->frame_packet);
    free(index->frame_pts);
    *index = (pf_index){0};
}

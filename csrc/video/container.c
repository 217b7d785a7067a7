/* container.c - opening files and choosing a stream. */
#include "video/container.h"

#include <libavutil/avstring.h>
#include <libavutil/parseutils.h>
#include <stdio.h>
#include <string.h>

enum {
    IO_BYTES = 1 << 16,
    MAX_READ_ERRORS = 256, /* in a row; a damaged file must end too */
    ENDING_BYTES = 24,
};

/* Formats that name other files get none: what is asked for is what is read. */
static int
refuse_open(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
        AVDictionary **options)
{
    (void)format;
    (void)url;
    (void)flags;
    (void)options;
    *io = NULL;
    return AVERROR(EPERM);
}

bool
pf_container_is_video(const AVStream *stream)
{
    const int pictures = AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS |
                         AV_DISPOSITION_STILL_IMAGE;

    return stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
           (stream->disposition & pictures) == 0 &&
           stream->codecpar->codec_id != AV_CODEC_ID_ANSI;
}

/* Formats whose content is elsewhere: their readers open files and sockets, some of
 * them past io_open and the whitelist. */
static bool
names_others(const AVInputFormat *kind)
{
    static const char *const listed[] = {"avisynth", "concat", "dash", "hls", "image2",
            "imf", "rtp", "rtsp", "sap", "sdp", "vapoursynth", "vobsub",
            "webm_dash_manifest"};

    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
        if (av_match_name(listed[i], kind->name) != 0) {
            return true;
        }
    }
    return (kind->flags & AVFMT_NOFILE) != 0;
}

/* "x.mp4" for the ending of a file's name, "" for an odd one or none: the rest of a
 * name could be taken for a pattern. */
static void
ending_of(const pf_source *source, char *ending)
{
    const char *dot = source->data == NULL ? strrchr(source->name, '.') : NULL;
    size_t n_char;

    ending[0] = '\0';
    if (dot == NULL) {
        return;
    }
    n_char = strlen(dot);
    if (n_char + 2 > ENDING_BYTES ||
            strspn(dot + 1, "0123456789abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != n_char - 1) {
        return;
    }
    ending[0] = 'x';
    memcpy(ending + 1, dot, n_char + 1);
}

/* The kind of file by its first bytes, the same for a file and for data. */
static pf_status
probe(pf_container *container, const pf_source *source, const AVInputFormat **kind,
        pf_video_error *error)
{
    char ending[ENDING_BYTES];
    bool by_name = false;
    int score = av_probe_input_buffer2(container->io, kind, "", NULL, 0, 0);

    ending_of(source, ending);
    if (score <= AVPROBE_SCORE_RETRY && ending[0] != '\0') {
        by_name = score < 0;
        (void)avio_seek(container->io, 0, SEEK_SET);
        *kind = NULL;
        score = av_probe_input_buffer2(container->io, kind, ending, NULL, 0, 0);
    }
    if (score < 0 || (by_name && names_others(*kind))) {
        error->av_code = score < 0 ? score : AVERROR_INVALIDDATA;
        error->reason = "it is not a video file that FFmpeg can read";
        return score == AVERROR(ENOMEM) ? PF_ENOMEM : PF_EDATA;
    }
    if (names_others(*kind)) {
        error->reason = "it is a list of other files or a network address, which are "
                        "not opened; give the video itself";
        return PF_EDATA;
    }
    return PF_OK;
}

/* Probing may decode pictures: of streams that are known by then, none that is larger
 * than the limit. */
static int
find_streams(AVFormatContext *format, const pf_limits *limits)
{
    const int64_t most_px = 2 * limits->max_pixels + (1 << 16); /* padding counts */
    const unsigned n_stream = format->nb_streams;
    AVDictionary **options = av_calloc(n_stream > 0 ? n_stream : 1, sizeof *options);
    int code = options == NULL ? AVERROR(ENOMEM) : 0;

    for (unsigned i = 0; code >= 0 && i < n_stream; i++) {
        code = av_dict_set_int(
                &options[i], "max_pixels", most_px < INT_MAX ? most_px : INT_MAX, 0);
    }
    if (code >= 0) {
        code = avformat_find_stream_info(format, options);
    }
    for (unsigned i = 0; options != NULL && i < n_stream; i++) {
        av_dict_free(&options[i]);
    }
    av_free(options);
    return code;
}

/* Does an MP4 header alone say what is asked of a stream here? Its sample table then
 * has been read, with the reordering that it implies; looking for more would decode. */
static bool
header_says_enough(const AVFormatContext *format)
{
    int n_video = 0;

    if (strncmp(format->iformat->name, "mov,", 4) != 0) {
        return false;
    }
    for (unsigned i = 0; i < format->nb_streams; i++) {
        const AVStream *stream = format->streams[i];
        const AVCodecParameters *par = stream->codecpar;

        if (par->codec_type != AVMEDIA_TYPE_VIDEO) {
            continue;
        }
        n_video++;
        if (par->codec_id != AV_CODEC_ID_H264 || par->extradata_size <= 0 ||
                par->width <= 0 || par->height <= 0 || stream->nb_frames <= 0 ||
                stream->duration <= 0 || stream->avg_frame_rate.num <= 0 ||
                stream->avg_frame_rate.den <= 0) {
            return false;
        }
    }
    return n_video == 1;
}

static pf_status
open_io(pf_container *container)
{
    uint8_t *buffer = av_malloc(IO_BYTES);

    if (buffer == NULL) {
        return PF_ENOMEM;
    }
    container->io = avio_alloc_context(buffer, IO_BYTES, 0, &container->cursor,
            pf_cursor_read, NULL, pf_cursor_seek);
    if (container->io == NULL) {
        av_free(buffer);
        return PF_ENOMEM;
    }
    return PF_OK;
}

static pf_status
open_format(pf_container *container, const AVInputFormat *kind, const pf_limits *limits,
        pf_video_error *error)
{
    AVFormatContext *format = avformat_alloc_context();

    if (format == NULL) {
        return PF_ENOMEM;
    }
    format->pb = container->io;
    format->io_open = refuse_open;
    format->protocol_whitelist = av_strdup("none"); /* for those that pass io_open by */
    if (format->protocol_whitelist == NULL) {
        avformat_free_context(format);
        return PF_ENOMEM;
    }
    /* Without a name there is none to derive others from. On failure FFmpeg frees the
     * context and clears the pointer. */
    container->format = format;
    error->av_code = avformat_open_input(&container->format, "", kind, NULL);
    if (error->av_code < 0) {
        error->reason = "it is not a video file that FFmpeg can read";
        return error->av_code == AVERROR(ENOMEM) ? PF_ENOMEM : PF_EDATA;
    }
    if (header_says_enough(container->format)) {
        return PF_OK;
    }
    error->av_code = find_streams(container->format, limits);
    if (error->av_code < 0) {
        error->reason = "its streams cannot be identified";
        return error->av_code == AVERROR(ENOMEM) ? PF_ENOMEM : PF_EDATA;
    }
    return PF_OK;
}

/* true when a is a better choice than b: it has packets, then the larger picture, then
 * the default mark. Muxers give that mark to whatever comes first, so it comes last. */
static bool
is_better(const AVStream *a, const AVStream *b)
{
    const int64_t a_px = (int64_t)a->codecpar->width * a->codecpar->height;
    const int64_t b_px = (int64_t)b->codecpar->width * b->codecpar->height;
    const int a_seen = (a->event_flags & AVSTREAM_EVENT_FLAG_NEW_PACKETS) != 0;
    const int b_seen = (b->event_flags & AVSTREAM_EVENT_FLAG_NEW_PACKETS) != 0;

    if (a_seen != b_seen) {
        return a_seen > b_seen;
    }
    if (a_px != b_px) {
        return a_px > b_px;
    }
    return (a->disposition & AV_DISPOSITION_DEFAULT) >
           (b->disposition & AV_DISPOSITION_DEFAULT);
}

static pf_status
choose_stream(pf_container *container, int stream_index, pf_video_error *error)
{
    AVFormatContext *format = container->format;
    bool any_picture = false;

    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVStream *stream = format->streams[i];
        const bool is_video = pf_container_is_video(stream);

        stream->discard = AVDISCARD_ALL;
        any_picture = any_picture || stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
        if (!is_video || (stream_index >= 0 && (int64_t)stream_index != (int64_t)i)) {
            continue;
        }
        if (container->stream == NULL || is_better(stream, container->stream)) {
            container->stream = stream;
        }
    }
    if (container->stream == NULL) {
        error->reason = stream_index >= 0 ? "it has no video stream of that index"
                        : any_picture     ? "it has cover pictures but no video stream"
                                          : "it has no video stream";
        return PF_EDATA;
    }
    container->stream->discard = AVDISCARD_DEFAULT;
    container->codec = avcodec_find_decoder(container->stream->codecpar->codec_id);
    if (container->codec == NULL) {
        if (error->detail[0] == '\0') {
            char tag[AV_FOURCC_MAX_STRING_SIZE];

            (void)snprintf(error->detail, sizeof error->detail, "codec %s, tag %s",
                    avcodec_get_name(container->stream->codecpar->codec_id),
                    av_fourcc_make_string(tag, container->stream->codecpar->codec_tag));
        }
        error->reason = "this FFmpeg has no decoder for its codec";
        return PF_EBACKEND;
    }
    return PF_OK;
}

pf_status
pf_container_open_streams(pf_container *container, const pf_source *source,
        const pf_limits *limits, const pf_poll *poll, pf_video_error *error)
{
    const AVInputFormat *kind = NULL;
    pf_status st;

    *container = (pf_container){.limits = *limits, .last_dts = INT64_MAX};
    st = pf_cursor_open(&container->cursor, source, limits, poll, error);
    if (st == PF_OK) {
        st = open_io(container);
    }
    if (st == PF_OK) {
        st = probe(container, source, &kind, error);
    }
    if (st == PF_OK) {
        st = open_format(container, kind, limits, error);
    }
    return container->cursor.stopped ? PF_EBACKEND : st;
}

pf_status
pf_container_open(pf_container *container, const pf_source *source, int stream_index,
        const pf_limits *limits, const pf_poll *poll, pf_video_error *error)
{
    const pf_status st =
            pf_container_open_streams(container, source, limits, poll, error);

    return st == PF_OK ? choose_stream(container, stream_index, error) : st;
}

/* Matroska has a duration of the file alone; muxers write that of a stream as a tag. */
static double
matroska_tag_s(const AVStream *stream)
{
    const AVDictionaryEntry *tag = av_dict_get(stream->metadata, "DURATION", NULL, 0);
    int64_t duration_us = 0;

    if (tag == NULL) {
        tag = av_dict_get(stream->metadata, "DURATION-eng", NULL, 0);
    }
    if (tag == NULL || av_parse_time(&duration_us, tag->value, 1) < 0) {
        return 0.0;
    }
    return (double)duration_us / AV_TIME_BASE;
}

double
pf_container_stated_s(const pf_container *container)
{
    const AVFormatContext *format = container->format;
    const AVStream *stream = container->stream;
    const double whole_s = (double)format->duration / AV_TIME_BASE;
    double tag_s;

    if (header_says_enough(format)) {
        return (double)stream->duration * av_q2d(stream->time_base);
    }
    if (format->duration_estimation_method != AVFMT_DURATION_FROM_STREAM ||
            format->duration <= 0) {
        return 0.0;
    }
    if (stream->duration > 0) {
        return (double)stream->duration * av_q2d(stream->time_base);
    }
    if (format->nb_streams == 1) {
        return whole_s;
    }
    tag_s = strncmp(format->iformat->name, "matroska", 8) == 0 ? matroska_tag_s(stream)
                                                               : 0.0;
    return tag_s > 0.0 && tag_s < whole_s ? tag_s : 0.0;
}

/* Counts a packet of the chosen stream and the time it adds, which is never more than
 * is presented, so that a stream within the limits passes. */
static pf_status
count_packet(pf_container *container, const AVPacket *packet)
{
    const pf_limits *limits = &container->limits;
    const int64_t before = container->last_dts;
    const int64_t dts = packet->dts;
    const int64_t most = INT64_C(1) << 60; /* beyond it times are nonsense */

    if (++container->n_packet > limits->max_packets) {
        container->beyond = (pf_beyond){"it has more packets than", "max_frames",
                (double)limits->max_packets, 0.0};
        return PF_EOVERFLOW;
    }
    if (dts == AV_NOPTS_VALUE || dts > most || dts < -most) {
        return PF_OK;
    }
    container->last_dts = dts;
    if (dts > before && (packet->flags & AV_PKT_FLAG_DISCARD) == 0) {
        container->lasts_s +=
                (double)(dts - before) * av_q2d(container->stream->time_base);
    }
    if (limits->max_s > 0.0 && container->lasts_s > limits->max_s) {
        container->beyond =
                (pf_beyond){"it lasts longer than", "max_seconds", limits->max_s, 0.0};
        return PF_EOVERFLOW;
    }
    return PF_OK;
}

pf_status
pf_container_next_any(pf_container *container, AVPacket *packet, bool *got)
{
    int n_failed = 0;

    *got = false;
    while (n_failed < MAX_READ_ERRORS) {
        const int64_t n_logged = pf_log_errors(false);
        const int code = av_read_frame(container->format, packet);

        container->n_read_error +=
                pf_log_errors(false) != n_logged; /* skips what it must */

        if (container->cursor.stopped) {
            return PF_EBACKEND;
        }
        if (code >= 0) {
            *got = true;
            return PF_OK;
        }
        if (code == AVERROR_EOF) {
            return PF_OK;
        }
        if (code == AVERROR(ENOMEM)) {
            return PF_ENOMEM;
        }
        n_failed++;
        container->n_read_error++;
        if (container->io->eof_reached) {
            return PF_OK; /* nothing can follow */
        }
    }
    return PF_OK;
}

pf_status
pf_container_next(pf_container *container, AVPacket *packet, bool *got)
{
    pf_status st;

    do {
        av_packet_unref(packet);
        st = pf_container_next_any(container, packet, got);
    } while (st == PF_OK && *got && packet->stream_index != container->stream->index);
    return st == PF_OK && *got ? count_packet(container, packet) : st;
}

void
pf_container_close(pf_container *container)
{
    avformat_close_input(&container->format);
    if (container->io != NULL) {
        av_freep(&container->io->buffer);
        avio_context_free(&container->io);
    }
    pf_cursor_close(&container->cursor);
    container->stream = NULL;
}

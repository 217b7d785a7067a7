/* container.c - opening files and choosing a stream. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "video/container.h"

#include <errno.h>
#include <fcntl.h>
#include <libavutil/parseutils.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    IO_BYTES = 1 << 16,
    MAX_READ_ERRORS = 256, /* in a row; a damaged file must end too */
};

static int
read_bytes(void *opaque, uint8_t *buffer, int n_byte)
{
    pf_container *container = opaque;
    ssize_t n_read;

    do {
        n_read = pread(container->fd, buffer, (size_t)n_byte, container->at_byte);
    } while (n_read < 0 && errno == EINTR);
    if (n_read < 0) {
        return AVERROR(errno);
    }
    container->at_byte += n_read;
    return n_read == 0 ? AVERROR_EOF : (int)n_read;
}

static int64_t
seek_bytes(void *opaque, int64_t offset, int whence)
{
    pf_container *container = opaque;

    switch (whence & ~AVSEEK_FORCE) {
        case AVSEEK_SIZE:
            return container->file_bytes;
        case SEEK_SET:
            break;
        case SEEK_CUR:
            offset += container->at_byte;
            break;
        case SEEK_END:
            offset += container->file_bytes;
            break;
        default:
            return AVERROR(EINVAL);
    }
    if (offset < 0) {
        return AVERROR(EINVAL);
    }
    container->at_byte = offset;
    return offset;
}

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

static pf_status
open_file(pf_container *container, const char *path, pf_video_error *error)
{
    struct stat about;

    container->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (container->fd < 0 || fstat(container->fd, &about) != 0) {
        error->errno_code = errno;
        return PF_EIO;
    }
    if (!S_ISREG(about.st_mode)) {
        error->reason = S_ISDIR(about.st_mode) ? "it is a directory"
                                               : "it is not a regular file";
        return PF_EDATA;
    }
    if (about.st_size == 0) {
        error->reason = "the file is empty";
        return PF_EDATA;
    }
    container->file_bytes = about.st_size;
    return PF_OK;
}

static pf_status
open_format(pf_container *container, const char *path, pf_video_error *error)
{
    uint8_t *buffer = av_malloc(IO_BYTES);

    if (buffer == NULL) {
        return PF_ENOMEM;
    }
    container->io = avio_alloc_context(
            buffer, IO_BYTES, 0, container, read_bytes, NULL, seek_bytes);
    if (container->io == NULL) {
        av_free(buffer);
        return PF_ENOMEM;
    }
    container->format = avformat_alloc_context();
    if (container->format == NULL) {
        return PF_ENOMEM;
    }
    container->format->pb = container->io;
    container->format->io_open = refuse_open;
    /* On failure FFmpeg frees the context and clears the pointer. */
    error->av_code = avformat_open_input(&container->format, path, NULL, NULL);
    if (error->av_code < 0) {
        error->reason = "it is not a video file that FFmpeg can read";
        return error->av_code == AVERROR(ENOMEM) ? PF_ENOMEM : PF_EDATA;
    }
    error->av_code = avformat_find_stream_info(container->format, NULL);
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
        error->reason = "this FFmpeg has no decoder for its codec";
        return PF_EBACKEND;
    }
    return PF_OK;
}

pf_status
pf_container_open(pf_container *container, const char *path, int stream_index,
        pf_video_error *error)
{
    pf_status st;

    *container = (pf_container){.fd = -1};
    st = open_file(container, path, error);
    if (st == PF_OK) {
        st = open_format(container, path, error);
    }
    if (st == PF_OK) {
        st = choose_stream(container, stream_index, error);
    }
    return st;
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

pf_status
pf_container_next(pf_container *container, AVPacket *packet, bool *got)
{
    int n_failed = 0;

    *got = false;
    while (n_failed < MAX_READ_ERRORS) {
        const int code = av_read_frame(container->format, packet);

        if (code == AVERROR_EOF) {
            return PF_OK;
        }
        if (code == AVERROR(ENOMEM)) {
            return PF_ENOMEM;
        }
        if (code < 0) {
            n_failed++;
            container->n_read_error++;
            if (container->io->eof_reached) {
                return PF_OK; /* nothing can follow */
            }
            continue;
        }
        if (packet->stream_index == container->stream->index) {
            *got = true;
            return PF_OK;
        }
        av_packet_unref(packet);
    }
    return PF_OK;
}

void
pf_container_close(pf_container *container)
{
    avformat_close_input(&container->format);
    if (container->io != NULL) {
        av_freep(&container->io->buffer);
        avio_context_free(&container->io);
    }
    if (container->fd >= 0) {
        (void)close(container->fd);
        container->fd = -1;
    }
    container->stream = NULL;
}

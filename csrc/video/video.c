/* video.c - open, read, close: the stages of csrc/video put together. */
#include "video/video.h"

#include <stdlib.h>
#include <string.h>

static const char *
kind_name(enum AVMediaType kind)
{
    const char *name = av_get_media_type_string(kind);

    return name != NULL ? name : "unknown";
}

static pf_status
copy_streams(pf_video *video, const AVFormatContext *format)
{
    video->stream_info = calloc(format->nb_streams > 0 ? format->nb_streams : 1,
            sizeof *video->stream_info);
    if (video->stream_info == NULL) {
        return PF_ENOMEM;
    }
    for (unsigned i = 0; i < format->nb_streams; i++) {
        const AVStream *stream = format->streams[i];
        const AVCodecParameters *par = stream->codecpar;
        const bool is_video = par->codec_type == AVMEDIA_TYPE_VIDEO;

        video->stream_info[video->n_stream++] = (pf_stream_info){
                .index = (int)i,
                .kind = kind_name(par->codec_type),
                .codec = avcodec_get_name(par->codec_id),
                .width_px = is_video ? par->width : 0,
                .height_px = is_video ? par->height : 0,
                .n_frames_header = stream->nb_frames,
                .is_default = (stream->disposition & AV_DISPOSITION_DEFAULT) != 0,
                .is_picture = is_video && !pf_container_is_video(stream),
        };
    }
    return PF_OK;
}

/* Everything that is still needed once the container is closed. */
static pf_status
copy_container(pf_video *video, const pf_container *container, const pf_limits *limits)
{
    const AVStream *stream = container->stream;
    const int32_t *matrix = pf_compat_stream_matrix(stream);
    AVRational rate = stream->avg_frame_rate;

    video->stream.par = avcodec_parameters_alloc();
    if (video->stream.par == NULL ||
            avcodec_parameters_copy(video->stream.par, stream->codecpar) < 0) {
        return PF_ENOMEM;
    }
    video->stream.source.stamp = container->cursor.stamp;
    video->stream.stream_index = stream->index;
    video->stream.codec = container->codec;
    video->stream.time_base = stream->time_base;
    video->stream.limits = *limits;
    if (rate.num <= 0 || rate.den <= 0) {
        rate = stream->r_frame_rate;
    }
    video->rate = rate.num > 0 && rate.den > 0 ? rate : (AVRational){0, 1};
    video->codec_name = avcodec_get_name(stream->codecpar->codec_id);
    video->n_frames_header = stream->nb_frames;
    video->duration_header_s = pf_container_stated_s(container);
    strncpy(video->container_name, container->format->iformat->name,
            sizeof video->container_name - 1);
    if (matrix != NULL) {
        video->has_matrix = true;
        memcpy(video->display_matrix, matrix, sizeof video->display_matrix);
    }
    return copy_streams(video, container->format);
}

static int64_t
nominal_pts(const pf_video *video)
{
    const AVRational rate = video->rate.num > 0 ? video->rate : (AVRational){25, 1};
    const int64_t pts = av_rescale_q(1, av_inv_q(rate), video->stream.time_base);

    return pts >= 1 && pts < INT64_C(1) << 40 ? pts : 1;
}

static pf_status
beyond_pixels(const pf_limits *limits, int64_t n_pixel, pf_video_error *error)
{
    error->beyond = (pf_beyond){"its pictures have more pixels than", "max_pixels",
            (double)limits->max_pixels, (double)n_pixel};
    return PF_EOVERFLOW;
}

/* The size and orientation of the delivered frames follow the first picture. */
static pf_status
settle_geometry(pf_video *video, pf_video_error *error)
{
    const pf_look *look = &video->look;
    const int64_t n_pixel = (int64_t)look->width_px * look->height_px;

    if (!look->seen && strstr(error->detail, "max pixel count") != NULL) {
        return beyond_pixels(&video->stream.limits, 0, error); /* by the decoder */
    }
    if (!look->seen || video->index.n_frame == 0 || n_pixel < 1) {
        error->reason = "not one frame of it can be decoded";
        return PF_EDATA;
    }
    if (n_pixel > video->stream.limits.max_pixels) {
        return beyond_pixels(&video->stream.limits, n_pixel, error);
    }
    if (video->index.n_frame > video->stream.limits.max_packets) {
        error->beyond = (pf_beyond){"it has more frames than", "max_frames",
                (double)video->stream.limits.max_packets, (double)video->index.n_frame};
        return PF_EOVERFLOW;
    }
    video->geometry.stored_width_px = look->width_px;
    video->geometry.stored_height_px = look->height_px;
    pf_geometry_orient(&video->geometry, look->has_display_matrix ? look->display_matrix
                                         : video->has_matrix ? video->display_matrix
                                                             : NULL);
    return PF_OK;
}

static pf_status
scan(pf_video *video, int stream_index, const pf_limits *limits, const pf_poll *poll,
        pf_video_error *error)
{
    pf_container container;
    pf_status st = pf_container_open(
            &container, &video->stream.source, stream_index, limits, poll, error);

    if (st == PF_OK) {
        st = copy_container(video, &container, limits);
    }
    if (st == PF_OK) {
        const AVCodecParameters *par = video->stream.par;
        const int64_t n_pixel = (int64_t)par->width * par->height;

        if (n_pixel > limits->max_pixels) {
            st = beyond_pixels(limits, n_pixel, error);
        }
    }
    if (st == PF_OK) {
        st = pf_index_scan(&video->index, &container, limits, poll);
        if (st == PF_EOVERFLOW) {
            error->beyond = container.beyond;
        }
    }
    pf_container_close(&container);
    return st;
}

static pf_status
find_order(pf_video *video, const pf_poll *poll)
{
    pf_index *index = &video->index;

    if (index->n_packet == 0) {
        return PF_OK;
    }
    if (index->suspect == NULL) {
        const pf_status st = pf_decode_look(&video->stream, index, &video->look, poll);

        if (st != PF_OK || video->look.seen) {
            return st;
        }
        index->suspect = "its first picture does not decode";
    }
    return pf_decode_count(&video->stream, index, &video->look, poll);
}

/* The times of the frames, and whether they are within the limit. */
static pf_status
settle_times(pf_video *video, pf_video_error *error)
{
    const pf_index *index = &video->index;
    const double max_s = video->stream.limits.max_s;
    const pf_status st = pf_index_times(&video->index, nominal_pts(video));

    if (st == PF_OK && max_s > 0.0 &&
            (double)(index->end_pts - index->frame_pts[0]) *
                            av_q2d(video->stream.time_base) >
                    max_s) {
        error->beyond = (pf_beyond){"it lasts longer than", "max_seconds", max_s, 0.0};
        return PF_EOVERFLOW;
    }
    return st;
}

pf_status
pf_video_open(pf_video *video, const pf_source *source, int stream_index,
        const pf_limits *limits, const pf_poll *poll, pf_video_error *error)
{
    const size_t n_byte = strlen(source->name) + 1;
    pf_status st = PF_OK;

    *video = (pf_video){0};
    *error = (pf_video_error){0};
    video->name = malloc(n_byte);
    if (video->name == NULL) {
        return PF_ENOMEM;
    }
    memcpy(video->name, source->name, n_byte);
    video->stream.source = *source;
    video->stream.source.name = video->name;
    pf_log_begin(error->detail);
    st = scan(video, stream_index, limits, poll, error);
    if (st == PF_OK) {
        st = find_order(video, poll);
        if (st == PF_EOVERFLOW) {
            st = beyond_pixels(limits, 0, error);
        }
        if (st == PF_EBACKEND) {
            error->reason = "FFmpeg cannot open its decoder";
        }
    }
    if (st == PF_OK) {
        st = settle_geometry(video, error);
    }
    if (st == PF_OK) {
        st = settle_times(video, error);
    }
    pf_log_end();
    return st;
}

bool
pf_video_needs_source(const pf_video *video)
{
    return !video->index.held;
}

pf_status
pf_video_read(pf_video *video, const pf_wish *wish, bool *damaged)
{
    const bool is_plain = wish->sequential || video->index.counted;
    pf_wish again = *wish;
    pf_status st = pf_decode_frames(
            &video->stream, &video->index, &video->geometry, wish, damaged);

    if (st != PF_OK || !*damaged || is_plain) {
        return st;
    }
    again.sequential = true;
    st = pf_decode_frames(
            &video->stream, &video->index, &video->geometry, &again, damaged);
    *damaged = true;
    return st;
}

pf_status
pf_video_recount(pf_video *video, const pf_poll *poll, bool *changed)
{
    pf_index *index = &video->index;
    const int64_t n_before = index->n_frame;
    int64_t *before = index->frame_packet;
    pf_look look; /* the geometry stays as announced */
    pf_status st;

    *changed = false;
    if (index->counted) {
        return PF_OK;
    }
    index->frame_packet = NULL;
    pf_log_begin(NULL);
    st = pf_decode_count(&video->stream, index, &look, poll);
    pf_log_end();
    if (st != PF_OK) {
        index->frame_packet = before;
        return st;
    }
    *changed =
            index->n_frame != n_before ||
            memcmp(before, index->frame_packet, (size_t)n_before * sizeof *before) != 0;
    free(before);
    return pf_index_times(index, nominal_pts(video));
}

void
pf_video_close(pf_video *video)
{
    pf_index_free(&video->index);
    avcodec_parameters_free(&video->stream.par);
    free(video->stream_info);
    free(video->name);
    *video = (pf_video){0};
}

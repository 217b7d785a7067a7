/* track.c - times and text of subtitle packets. */
#include "video/track.h"

#include <libavutil/avutil.h>
#include <string.h>

#include "video/markup.h"

/* Beyond it times are nonsense, and sums of two would not be safe. */
static const int64_t most_pts = INT64_C(1) << 60;

static const AVRational microseconds = {1, 1000000};

pf_payload
pf_track_payload(const AVCodecParameters *par)
{
    const AVCodecDescriptor *about;

    switch (par->codec_id) {
        case AV_CODEC_ID_SUBRIP:
        case AV_CODEC_ID_TEXT:
            return PF_PAYLOAD_TEXT;
        case AV_CODEC_ID_WEBVTT:
            return PF_PAYLOAD_WEBVTT;
        case AV_CODEC_ID_MOV_TEXT:
            return PF_PAYLOAD_TIMED_TEXT;
        case AV_CODEC_ID_ASS:
        case AV_CODEC_ID_SSA:
            return PF_PAYLOAD_ASS;
        default:
            break;
    }
    about = avcodec_descriptor_get(par->codec_id);
    return about != NULL && (about->props & AV_CODEC_PROP_TEXT_SUB) != 0
                   ? PF_PAYLOAD_DECODED
                   : PF_PAYLOAD_NONE;
}

pf_status
pf_track_open(pf_track *track, const AVStream *stream)
{
    const AVCodec *codec;

    *track =
            (pf_track){.stream = stream, .payload = pf_track_payload(stream->codecpar)};
    if (track->payload != PF_PAYLOAD_DECODED) {
        return track->payload != PF_PAYLOAD_NONE ? PF_OK : PF_EBACKEND;
    }
    codec = avcodec_find_decoder(stream->codecpar->codec_id);
    if (codec == NULL) {
        return PF_EBACKEND;
    }
    track->decoder = avcodec_alloc_context3(codec);
    if (track->decoder == NULL ||
            avcodec_parameters_to_context(track->decoder, stream->codecpar) < 0) {
        return PF_ENOMEM;
    }
    track->decoder->pkt_timebase = stream->time_base;
    /* Broken UTF-8 is repaired here; FFmpeg would refuse the whole cue. */
    track->decoder->sub_charenc_mode = FF_SUB_CHARENC_MODE_IGNORE;
    return avcodec_open2(track->decoder, codec, NULL) < 0 ? PF_EBACKEND : PF_OK;
}

/* Start and end of a packet; false when it has no time. */
static bool
packet_times(const pf_track *track, const AVPacket *packet, int64_t *start_us,
        int64_t *end_us)
{
    const AVRational base = track->stream->time_base;

    if (packet->pts == AV_NOPTS_VALUE || packet->pts > most_pts ||
            packet->pts < -most_pts || base.num <= 0 || base.den <= 0) {
        return false;
    }
    *start_us = av_rescale_q(packet->pts, base, microseconds);
    *end_us = PF_CUE_NO_END;
    if (packet->duration > 0 && packet->duration < most_pts) {
        /* Not the start plus a rounded duration: cues that meet must go on meeting. */
        *end_us = av_rescale_q(packet->pts + packet->duration, base, microseconds);
    }
    return *start_us < most_pts && *start_us > -most_pts && *end_us < most_pts;
}

/* Strips one payload into a cue. */
static pf_status
add_text(pf_track *track, const char *bytes, size_t n_byte, pf_encoding encoding,
        pf_markup markup, const int64_t time_us[2])
{
    const size_t text_at = track->cues.text.n_byte;
    pf_status st;

    track->scratch.n_byte = 0;
    st = pf_text_put_encoded(
            &track->scratch, bytes, n_byte, encoding, &track->n_invalid);
    if (st == PF_OK) {
        st = pf_markup_strip(
                &track->cues.text, track->scratch.data, track->scratch.n_byte, markup);
    }
    return st == PF_OK ? pf_cues_add(&track->cues, time_us[0], time_us[1], text_at)
                       : st;
}

static pf_status
add_timed_text(
        pf_track *track, const char *bytes, size_t n_byte, const int64_t time_us[2])
{
    const unsigned char *length = (const unsigned char *)bytes;
    size_t text_bytes = n_byte >= 2 ? (size_t)(length[0] << 8 | length[1]) : 0;
    size_t mark_bytes = 0;
    pf_encoding encoding;

    if (n_byte < 2) {
        return add_text(track, bytes, 0, PF_ENCODING_UTF8, PF_MARKUP_TEXT, time_us);
    }
    text_bytes = text_bytes < n_byte - 2 ? text_bytes : n_byte - 2;
    encoding = pf_text_guess(bytes + 2, text_bytes, &mark_bytes);
    return add_text(track, bytes + 2 + mark_bytes, text_bytes - mark_bytes, encoding,
            PF_MARKUP_TEXT, time_us);
}

static pf_status
add_ass(pf_track *track, const char *bytes, size_t n_byte, const int64_t time_us[2])
{
    size_t text_bytes = 0;
    const char *text = pf_markup_ass_text(bytes, n_byte, &text_bytes);

    if (text == NULL) {
        track->n_unreadable++;
        return PF_OK;
    }
    return add_text(track, text, text_bytes, PF_ENCODING_UTF8, PF_MARKUP_ASS, time_us);
}

/* All areas of a decoded subtitle, one below the other, as one cue. */
static pf_status
add_decoded(pf_track *track, const AVSubtitle *subtitle, const int64_t time_us[2])
{
    pf_text joined = {.most_bytes = track->scratch.most_bytes};
    pf_status st = PF_OK;

    for (unsigned i = 0; st == PF_OK && i < subtitle->num_rects; i++) {
        const char *event = subtitle->rects[i]->ass;
        size_t text_bytes = 0;
        const char *text = NULL;

        if (event != NULL) {
            text = pf_markup_ass_text(event, strlen(event), &text_bytes);
        }
        if (text != NULL) {
            st = pf_text_put(&joined, text, text_bytes);
        }
        if (st == PF_OK && text != NULL) {
            st = pf_text_put(&joined, "\\N", 2);
        }
    }
    if (st == PF_OK) {
        st = add_text(track, joined.data, joined.n_byte, PF_ENCODING_UTF8,
                PF_MARKUP_DECODED, time_us);
    }
    pf_text_free(&joined);
    return st;
}

/* Decoders that hold text back, those of closed captions, say when it was shown. */
static void
take_decoded_times(const AVSubtitle *subtitle, int64_t time_us[2])
{
    if (subtitle->pts == AV_NOPTS_VALUE || subtitle->pts > most_pts ||
            subtitle->pts < -most_pts) {
        return;
    }
    time_us[0] = subtitle->pts + INT64_C(1000) * subtitle->start_display_time;
    time_us[1] = subtitle->end_display_time == UINT32_MAX
                         ? PF_CUE_NO_END
                         : subtitle->pts + INT64_C(1000) * subtitle->end_display_time;
}

static pf_status
decode(pf_track *track, AVPacket *packet, const int64_t time_us[2])
{
    AVSubtitle subtitle = {0};
    int64_t shown_us[2] = {time_us[0], time_us[1]};
    int got = 0;
    pf_status st = PF_OK;
    const int code = avcodec_decode_subtitle2(track->decoder, &subtitle, &got, packet);

    if (code == AVERROR(ENOMEM)) {
        return PF_ENOMEM;
    }
    if (code < 0) {
        track->n_unreadable++;
    }
    if (code >= 0 && got != 0) {
        if ((track->decoder->codec->capabilities & AV_CODEC_CAP_DELAY) != 0) {
            take_decoded_times(&subtitle, shown_us);
        }
        st = add_decoded(track, &subtitle, shown_us);
        avsubtitle_free(&subtitle);
    }
    return st;
}

/* Once: the decoder of closed captions gives its last one again and again. */
static pf_status
flush(pf_track *track)
{
    const int64_t time_us[2] = {0, PF_CUE_NO_END};
    AVPacket *nothing;
    pf_status st;

    if (track->decoder == NULL ||
            (track->decoder->codec->capabilities & AV_CODEC_CAP_DELAY) == 0) {
        return PF_OK;
    }
    nothing = av_packet_alloc();
    if (nothing == NULL) {
        return PF_ENOMEM;
    }
    st = decode(track, nothing, time_us);
    av_packet_free(&nothing);
    return st;
}

static pf_status
decode_packet(pf_track *track, const AVPacket *packet, const int64_t time_us[2])
{
    AVPacket *copy = av_packet_clone(packet); /* FFmpeg 5 takes no const packet */
    pf_status st;

    if (copy == NULL) {
        return PF_ENOMEM;
    }
    st = decode(track, copy, time_us);
    av_packet_free(&copy);
    return st;
}

pf_status
pf_track_add(pf_track *track, const AVPacket *packet)
{
    const char *bytes;
    size_t n_byte;
    int64_t time_us[2];

    if (packet == NULL) {
        return flush(track);
    }
    if (packet->size < 0 || !packet_times(track, packet, &time_us[0], &time_us[1])) {
        track->n_unreadable++;
        return PF_OK;
    }
    bytes = packet->data != NULL ? (const char *)packet->data : "";
    n_byte = packet->data != NULL ? (size_t)packet->size : 0;
    switch (track->payload) {
        case PF_PAYLOAD_TEXT:
            return add_text(
                    track, bytes, n_byte, PF_ENCODING_UTF8, PF_MARKUP_TEXT, time_us);
        case PF_PAYLOAD_WEBVTT:
            return add_text(
                    track, bytes, n_byte, PF_ENCODING_UTF8, PF_MARKUP_WEBVTT, time_us);
        case PF_PAYLOAD_TIMED_TEXT:
            return add_timed_text(track, bytes, n_byte, time_us);
        case PF_PAYLOAD_ASS:
            return add_ass(track, bytes, n_byte, time_us);
        case PF_PAYLOAD_DECODED:
            return decode_packet(track, packet, time_us);
        case PF_PAYLOAD_NONE:
            break;
    }
    return PF_EINVAL;
}

void
pf_track_close(pf_track *track)
{
    avcodec_free_context(&track->decoder);
    pf_cues_free(&track->cues);
    pf_text_free(&track->scratch);
}

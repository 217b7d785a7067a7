/* subtitle.c - side files, and the choice among the subtitle streams of a container. */
#include "video/subtitle.h"

#include <stdlib.h>
#include <string.h>

#include "video/markup.h"
#include "video/sidefile.h"
#include "video/track.h"

enum {
    SNIFF_BYTES = 1 << 16, /* enough to see what kind of text a file is */
    POLL_CUES = 256,       /* between two looks at the poll */
    MAX_PIXELS = 1 << 26,  /* for FFmpeg's look at the other streams */
};

/* What the start of a source looks like. */
typedef struct look {
    bool is_text;
    bool is_utf16;
    bool is_side; /* SubRip or WebVTT */
} look;

typedef struct reading {
    pf_subtitles *subtitles;
    const pf_source *source;
    const pf_subtitle_choice *choice;
    const pf_subtitle_limits *limits;
    const pf_poll *poll;
    pf_video_error *error;
    pf_text converted; /* a source in UTF-16, which FFmpeg knows by its mark alone */
    pf_track *track;   /* (subtitles->n_stream); those not read have no stream */
    int64_t n_cue;     /* of all tracks so far */
    size_t text_bytes; /* the same */
} reading;

static bool
asks_to_stop(const reading *r)
{
    return r->poll != NULL && r->poll->ask != NULL && r->poll->ask(r->poll->arg) != 0;
}

static pf_status
too_many_cues(const reading *r)
{
    r->error->beyond = (pf_beyond){
            "it has more cues than", "max_cues", (double)r->limits->max_cues, 0.0};
    return PF_EOVERFLOW;
}

static pf_status
too_much_text(const reading *r)
{
    r->error->beyond = (pf_beyond){"it has more bytes of text than", "max_text_bytes",
            (double)r->limits->max_text_bytes, 0.0};
    return PF_EOVERFLOW;
}

/* ---------------------------------------------------------------- languages */

static char
small_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Whether tag, up to its first "-" or "_", is one of a list with commas. */
static bool
speaks(const char *tag, const char *languages)
{
    const size_t n_tag = strcspn(tag, "-_");
    const char *item = languages;

    while (*item != '\0') {
        const size_t n_item = strcspn(item, ",");
        size_t i = 0;

        while (i < n_item && i < n_tag &&
                small_letter(item[i]) == small_letter(tag[i])) {
            i++;
        }
        if (n_tag > 0 && i == n_tag && i == n_item) {
            return true;
        }
        item += n_item + (item[n_item] == ',' ? 1 : 0);
    }
    return false;
}

static bool
is_wanted(const reading *r, const pf_subtitle_stream *stream)
{
    const char *languages = r->choice->languages;

    if (r->choice->stream_index >= 0 && r->choice->stream_index != stream->index) {
        return false;
    }
    if (languages == NULL ||
            (r->subtitles->is_side_file && stream->language[0] == '\0')) {
        return true;
    }
    return speaks(stream->language, languages);
}

/* ---------------------------------------------------------------- side files */

/* Reads up to n_byte bytes from the start of the source. */
static pf_status
read_start(pf_cursor *cursor, pf_text *text, int64_t n_byte)
{
    char block[1 << 12];
    pf_status st = PF_OK;

    cursor->at_byte = 0;
    while (st == PF_OK && (int64_t)text->n_byte < n_byte) {
        const int64_t n_left = n_byte - (int64_t)text->n_byte;
        const int n_most =
                n_left < (int64_t)sizeof block ? (int)n_left : (int)sizeof block;
        const int n = pf_cursor_read(cursor, (uint8_t *)block, n_most);

        if (n == AVERROR_EOF || n == 0) {
            return PF_OK;
        }
        if (n < 0) {
            return cursor->stopped ? PF_EBACKEND : PF_EIO;
        }
        st = pf_text_put(text, block, (size_t)n);
    }
    return st;
}

/* The first n_byte bytes of the source as UTF-8 without byte order mark. */
static pf_status
read_text(pf_cursor *cursor, int64_t n_byte, pf_text *utf8, int64_t *n_invalid,
        look *seen)
{
    pf_text bytes = {0};
    size_t mark_bytes = 0;
    pf_encoding encoding;
    pf_status st = read_start(cursor, &bytes, n_byte);

    if (st == PF_OK && bytes.n_byte > 0) {
        encoding = pf_text_guess(bytes.data, bytes.n_byte, &mark_bytes);
        seen->is_utf16 = encoding != PF_ENCODING_UTF8;
        seen->is_text =
                seen->is_utf16 || memchr(bytes.data, '\0', bytes.n_byte) == NULL;
        st = pf_text_put_encoded(utf8, bytes.data + mark_bytes,
                bytes.n_byte - mark_bytes, encoding, n_invalid);
    }
    pf_text_free(&bytes);
    return st;
}

/* Looks at the start of the source. */
static pf_status
sniff(pf_cursor *cursor, look *seen)
{
    pf_text utf8 = {0};
    int64_t n_invalid = 0;
    pf_side side;
    const pf_status st = read_text(cursor, SNIFF_BYTES, &utf8, &n_invalid, seen);

    seen->is_side = st == PF_OK && seen->is_text && utf8.n_byte > 0 &&
                    pf_side_begin(&side, utf8.data, utf8.n_byte);
    pf_text_free(&utf8);
    return st;
}

static pf_status
add_side_cues(reading *r, pf_side *side)
{
    pf_cues *cues = &r->subtitles->cues;
    const pf_markup markup = side->is_webvtt ? PF_MARKUP_WEBVTT : PF_MARKUP_TEXT;
    pf_side_cue cue;
    pf_status st = PF_OK;

    while (st == PF_OK && pf_side_next(side, &cue)) {
        const size_t text_at = cues->text.n_byte;

        if (cues->n_seen >= r->limits->max_cues) {
            return too_many_cues(r);
        }
        if (cues->n_seen % POLL_CUES == 0 && asks_to_stop(r)) {
            return PF_EBACKEND;
        }
        st = pf_markup_strip(&cues->text, cue.payload, cue.payload_bytes, markup);
        if (st == PF_OK) {
            st = pf_cues_add(cues, cue.start_us, cue.end_us, text_at);
        }
    }
    r->subtitles->n_unreadable += side->n_unreadable;
    return st;
}

static void
copy_bounded(char *to, size_t to_bytes, const char *from, size_t n_byte)
{
    const size_t n = n_byte < to_bytes - 1 ? n_byte : to_bytes - 1;

    memcpy(to, from, n);
    to[n] = '\0';
}

/* Describes a side file as a container of one stream. */
static pf_status
describe_side(reading *r, const pf_side *side)
{
    pf_subtitles *s = r->subtitles;
    pf_subtitle_stream *stream = calloc(1, sizeof *stream);

    if (stream == NULL) {
        return PF_ENOMEM;
    }
    s->stream = stream;
    s->n_stream = 1;
    s->is_side_file = true;
    stream->codec = side->is_webvtt ? "webvtt" : "subrip";
    stream->is_text = true;
    copy_bounded(s->container_name, sizeof s->container_name,
            side->is_webvtt ? "webvtt" : "srt", side->is_webvtt ? 6 : 3);
    if (side->language != NULL) {
        copy_bounded(stream->language, sizeof stream->language, side->language,
                side->language_bytes);
    }
    if (!is_wanted(r, stream)) {
        r->error->reason = r->choice->stream_index > 0
                                   ? "it has no subtitle stream of that index"
                                   : "it has no subtitles in that language";
        return PF_EDATA;
    }
    return PF_OK;
}

/* Takes the cues from the text of a side file. */
static pf_status
read_side_file(reading *r, const char *utf8, size_t n_byte)
{
    pf_side side;
    pf_status st;

    if (!pf_side_begin(&side, utf8, n_byte)) {
        r->error->reason = "the file changed while it was read";
        return PF_EDATA;
    }
    st = describe_side(r, &side);
    if (st == PF_OK) {
        st = add_side_cues(r, &side);
    }
    if (st == PF_OK) {
        pf_cues_finish(&r->subtitles->cues);
        r->subtitles->stream->n_cue = (int64_t)r->subtitles->cues.n_cue;
    }
    return st;
}

/* Reads the source when it is a side file; *done tells so. Other text in UTF-16 is left
 * in r->converted. */
static pf_status
try_text(reading *r, bool *done)
{
    const pf_limits limits = {.max_packets = INT64_MAX, .max_pixels = MAX_PIXELS};
    pf_text utf8 = {0};
    pf_cursor cursor;
    look seen = {0};
    pf_status st = pf_cursor_open(&cursor, r->source, &limits, r->poll, r->error);

    if (st == PF_OK) {
        st = sniff(&cursor, &seen);
    }
    *done = seen.is_side;
    /* FFmpeg, too, takes files of text into memory as a whole. */
    if (st == PF_OK && seen.is_text && cursor.n_byte > r->limits->max_text_bytes) {
        st = too_much_text(r);
    }
    if (st == PF_OK && (seen.is_side || seen.is_utf16)) {
        st = read_text(&cursor, cursor.n_byte, &utf8, &r->subtitles->n_invalid, &seen);
    }
    pf_cursor_close(&cursor);
    if (st == PF_OK && *done) {
        st = read_side_file(r, utf8.data != NULL ? utf8.data : "", utf8.n_byte);
    }
    else if (st == PF_OK && seen.is_utf16) {
        r->converted = utf8;
        return st;
    }
    pf_text_free(&utf8);
    return st;
}

/* ---------------------------------------------------------------- containers */

static void
describe(pf_subtitle_stream *stream, const AVStream *av)
{
    const AVDictionaryEntry *language = av_dict_get(av->metadata, "language", NULL, 0);
    const AVDictionaryEntry *title = av_dict_get(av->metadata, "title", NULL, 0);

    stream->index = av->index;
    stream->codec = avcodec_get_name(av->codecpar->codec_id);
    stream->n_cue = -1;
    stream->is_default = (av->disposition & AV_DISPOSITION_DEFAULT) != 0;
    stream->is_forced = (av->disposition & AV_DISPOSITION_FORCED) != 0;
    stream->is_text = pf_track_payload(av->codecpar) != PF_PAYLOAD_NONE;
    if (language != NULL) {
        copy_bounded(stream->language, sizeof stream->language, language->value,
                strlen(language->value));
    }
    if (title != NULL) {
        copy_bounded(stream->title, sizeof stream->title, title->value,
                strlen(title->value));
    }
}

/* Lists the subtitle streams and opens a track for each that may be the one. */
static pf_status
open_tracks(reading *r, AVFormatContext *format)
{
    pf_subtitles *s = r->subtitles;
    const size_t room = format->nb_streams > 0 ? format->nb_streams : 1;
    pf_status st = PF_OK;

    s->stream = calloc(room, sizeof *s->stream);
    r->track = calloc(room, sizeof *r->track);
    if (s->stream == NULL || r->track == NULL) {
        return PF_ENOMEM;
    }
    s->is_side_file = format->nb_streams == 1 &&
                      format->streams[0]->codecpar->codec_type == AVMEDIA_TYPE_SUBTITLE;
    for (unsigned i = 0; st == PF_OK && i < format->nb_streams; i++) {
        AVStream *av = format->streams[i];
        pf_subtitle_stream *stream = &s->stream[s->n_stream];

        av->discard = AVDISCARD_ALL;
        if (av->codecpar->codec_type != AVMEDIA_TYPE_SUBTITLE) {
            continue;
        }
        describe(stream, av);
        if (stream->is_text && is_wanted(r, stream)) {
            av->discard = AVDISCARD_DEFAULT;
            st = pf_track_open(&r->track[s->n_stream], av);
            if (st == PF_EBACKEND) {
                stream->is_text = false; /* not by this FFmpeg */
                av->discard = AVDISCARD_ALL;
                r->track[s->n_stream].stream = NULL;
                st = PF_OK;
            }
        }
        s->n_stream++;
    }
    return st;
}

/* Says why no track was opened; PF_OK when one was. */
static pf_status
check_tracks(const reading *r)
{
    const pf_subtitles *s = r->subtitles;
    bool any_of_index = false;
    bool any_wanted = false;

    for (size_t i = 0; i < s->n_stream; i++) {
        if (r->track[i].stream != NULL) {
            return PF_OK;
        }
        any_of_index = any_of_index || r->choice->stream_index < 0 ||
                       s->stream[i].index == r->choice->stream_index;
        any_wanted = any_wanted || is_wanted(r, &s->stream[i]);
    }
    r->error->reason = s->n_stream == 0 ? "it has no subtitles"
                       : !any_of_index  ? "it has no subtitle stream of that index"
                       : !any_wanted
                               ? "it has no subtitles in that language"
                               : "its subtitles are pictures, or of a kind that this "
                                 "FFmpeg does not know; they hold no text";
    return PF_EDATA;
}

/* Adds one packet within what is left of the limits. */
static pf_status
add_packet(reading *r, pf_track *track, const AVPacket *packet)
{
    const size_t most = (size_t)r->limits->max_text_bytes;
    const int64_t n_cue = track->cues.n_seen;
    const size_t text_bytes = track->cues.text.n_byte;
    const size_t others_bytes = r->text_bytes - text_bytes;
    pf_status st;

    if (r->n_cue >= r->limits->max_cues && packet != NULL) {
        return too_many_cues(r);
    }
    track->scratch.most_bytes = most;
    track->cues.text.most_bytes = others_bytes < most ? most - others_bytes : 1;
    st = pf_track_add(track, packet);
    r->n_cue += track->cues.n_seen - n_cue;
    r->text_bytes += track->cues.text.n_byte - text_bytes;
    return st == PF_EOVERFLOW ? too_much_text(r) : st;
}

static pf_track *
track_of(const reading *r, int stream_index)
{
    for (size_t i = 0; i < r->subtitles->n_stream; i++) {
        if (r->track[i].stream != NULL && r->track[i].stream->index == stream_index) {
            return &r->track[i];
        }
    }
    return NULL;
}

static pf_status
read_packets(reading *r, pf_container *container)
{
    AVPacket *packet = av_packet_alloc();
    bool got = packet != NULL;
    pf_status st = got ? PF_OK : PF_ENOMEM;

    for (int64_t n = 0; st == PF_OK && got; n++) {
        st = pf_container_next_any(container, packet, &got);
        if (st == PF_OK && got) {
            pf_track *track = track_of(r, packet->stream_index);

            st = track != NULL ? add_packet(r, track, packet) : PF_OK;
            av_packet_unref(packet);
        }
        if (st == PF_OK && n % POLL_CUES == 0 && asks_to_stop(r)) {
            st = PF_EBACKEND;
        }
    }
    av_packet_free(&packet);
    for (size_t i = 0; st == PF_OK && i < r->subtitles->n_stream; i++) {
        if (r->track[i].stream != NULL) {
            st = add_packet(r, &r->track[i], NULL);
        }
    }
    return st;
}

/* true when a is a better choice than b; see the header */
static bool
is_better(const pf_subtitle_stream *a, const pf_subtitle_stream *b)
{
    if ((a->n_cue > 0) != (b->n_cue > 0)) {
        return a->n_cue > 0;
    }
    if (a->is_forced != b->is_forced) {
        return !a->is_forced;
    }
    if (a->is_default != b->is_default) {
        return a->is_default;
    }
    return a->n_cue > b->n_cue;
}

/* Brings all tracks into order and keeps the best. */
static void
choose(reading *r)
{
    pf_subtitles *s = r->subtitles;
    pf_track *best = NULL;

    for (size_t i = 0; i < s->n_stream; i++) {
        pf_track *track = &r->track[i];

        if (track->stream == NULL) {
            continue;
        }
        pf_cues_finish(&track->cues);
        s->stream[i].n_cue = (int64_t)track->cues.n_cue;
        if (best == NULL || is_better(&s->stream[i], &s->stream[s->chosen])) {
            s->chosen = i;
            best = track;
        }
    }
    if (best != NULL) {
        s->cues = best->cues;
        best->cues = (pf_cues){0};
        s->n_invalid += best->n_invalid;
        s->n_unreadable = best->n_unreadable;
    }
}

static pf_status
read_container(reading *r)
{
    const pf_limits limits = {.max_packets = INT64_MAX, .max_pixels = MAX_PIXELS};
    pf_subtitles *s = r->subtitles;
    pf_source source = *r->source;
    pf_container container;
    pf_status st;

    if (r->converted.n_byte > 0) {
        source = (pf_source){.name = r->source->name,
                .data = (const uint8_t *)r->converted.data,
                .n_byte = (int64_t)r->converted.n_byte};
    }
    st = pf_container_open_streams(&container, &source, &limits, r->poll, r->error);

    if (st == PF_EDATA && r->error->av_code < 0) {
        r->error->reason = "it is neither a subtitle nor a media file that FFmpeg can "
                           "read";
    }
    if (st == PF_OK) {
        const char *name = container.format->iformat->name;

        copy_bounded(s->container_name, sizeof s->container_name, name, strlen(name));
        st = open_tracks(r, container.format);
    }
    if (st == PF_OK) {
        st = check_tracks(r);
    }
    if (st == PF_OK) {
        st = read_packets(r, &container);
    }
    if (st == PF_OK) {
        choose(r);
    }
    for (size_t i = 0; r->track != NULL && i < s->n_stream; i++) {
        pf_track_close(&r->track[i]);
    }
    free(r->track);
    pf_container_close(&container);
    return st;
}

pf_status
pf_subtitles_read(pf_subtitles *subtitles, const pf_source *source,
        const pf_subtitle_choice *choice, const pf_subtitle_limits *limits,
        const pf_poll *poll, pf_video_error *error)
{
    reading r = {.subtitles = subtitles,
            .source = source,
            .choice = choice,
            .limits = limits,
            .poll = poll,
            .error = error};
    bool done = false;
    pf_status st;

    *subtitles = (pf_subtitles){0};
    *error = (pf_video_error){0};
    if (limits->max_cues < 1 || limits->max_text_bytes < 1) {
        return PF_EINVAL;
    }
    pf_log_begin(error->detail);
    st = try_text(&r, &done);
    if (st == PF_OK && !done) {
        st = read_container(&r);
    }
    pf_log_end();
    pf_text_free(&r.converted);
    return st;
}

void
pf_subtitles_free(pf_subtitles *subtitles)
{
    pf_cues_free(&subtitles->cues);
    free(subtitles->stream);
    *subtitles = (pf_subtitles){0};
}

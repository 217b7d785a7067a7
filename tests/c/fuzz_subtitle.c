/* fuzz_subtitle.c - any bytes as a media or subtitle file, and as the text of a cue in
 * every markup; what comes out must be as promised (make fuzz). */
#include "video/subtitle.h"

#include <stdlib.h>
#include <string.h>

#include "video/entity.h"
#include "video/markup.h"
#include "video/sidefile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_byte);

static void
require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Text of a cue: valid UTF-8, not empty, no blank lines, no blanks at the ends of
 * lines, no control characters but \n and \t. */
static void
require_clean(const char *text, size_t n_byte)
{
    pf_text again = {0};
    int64_t n_invalid = 0;

    require(n_byte > 0 && text[0] != '\n' && text[n_byte - 1] != '\n');
    for (size_t i = 0; i < n_byte; i++) {
        const unsigned char c = (unsigned char)text[i];

        require(c >= ' ' || c == '\n' || c == '\t');
        require(c != 0x7F);
        if (c == '\n') {
            require(text[i + 1] != '\n' && text[i + 1] != ' ' && text[i - 1] != ' ');
        }
    }
    require(text[0] != ' ' && text[n_byte - 1] != ' ');
    require(pf_text_put_encoded(&again, text, n_byte, PF_ENCODING_UTF8, &n_invalid) ==
                    PF_OK &&
            n_invalid == 0 && again.n_byte == n_byte);
    pf_text_free(&again);
}

static void
require_order(const pf_subtitles *s, const pf_subtitle_limits *limits)
{
    const pf_cues *cues = &s->cues;

    require(s->chosen < s->n_stream && s->stream[s->chosen].is_text);
    require(s->stream[s->chosen].n_cue == (int64_t)cues->n_cue);
    require(cues->n_seen <= limits->max_cues + 1);
    require((int64_t)cues->n_cue + cues->n_empty + cues->n_duplicate == cues->n_seen);
    for (size_t i = 0; i < cues->n_cue; i++) {
        const pf_cue *cue = &cues->cue[i];

        require(cue->end_us > cue->start_us && cue->place < cues->n_seen);
        require(i == 0 || cue[-1].start_us < cue->start_us ||
                (cue[-1].start_us == cue->start_us && cue[-1].place < cue->place));
        require_clean(cue->text, cue->text_bytes);
    }
}

static void
read_as_file(const uint8_t *data, size_t n_byte, uint32_t knob)
{
    static const char *const languages[] = {NULL, NULL, "en,eng", "", ",,x"};
    const pf_source source = {.name = "data", .data = data, .n_byte = (int64_t)n_byte};
    const pf_subtitle_choice choice = {
            knob % 7 == 0 ? (int)(knob / 7 % 4) : -1, languages[knob / 32 % 5]};
    const pf_subtitle_limits limits = {
            knob % 11 == 0 ? 3 : 5000, knob % 13 == 0 ? 50 : 1 << 22};
    const pf_poll poll = {NULL, NULL};
    pf_subtitles subtitles;
    pf_video_error error;

    if (pf_subtitles_read(&subtitles, &source, &choice, &limits, &poll, &error) ==
            PF_OK) {
        require_order(&subtitles, &limits);
    }
    pf_subtitles_free(&subtitles);
}

static void
read_as_text(const uint8_t *data, size_t n_byte)
{
    const char *bytes = (const char *)data;
    size_t mark_bytes;
    const pf_encoding encoding = pf_text_guess(bytes, n_byte, &mark_bytes);
    pf_text utf8 = {0};
    int64_t n_invalid = 0;
    size_t text_bytes = 0;

    require(pf_text_put_encoded(&utf8, bytes + mark_bytes, n_byte - mark_bytes,
                    encoding, &n_invalid) == PF_OK);
    for (int markup = PF_MARKUP_TEXT; markup <= PF_MARKUP_DECODED; markup++) {
        pf_text out = {0};

        require(pf_markup_strip(&out, utf8.data, utf8.n_byte, (pf_markup)markup) ==
                PF_OK);
        if (out.n_byte > 0) {
            require_clean(out.data, out.n_byte);
        }
        pf_text_free(&out);
    }
    if (utf8.n_byte > 0) {
        (void)pf_markup_ass_text(utf8.data, utf8.n_byte, &text_bytes);
        require(text_bytes <= utf8.n_byte);
    }
    pf_text_free(&utf8);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_byte)
{
    uint32_t knob = 2166136261U;

    pf_log_install();
    for (size_t i = 0; i < n_byte; i += 1 + n_byte / 64) {
        knob = (knob ^ data[i]) * 16777619U;
    }
    read_as_file(data, n_byte, knob >> 8);
    if (n_byte < 4096) {
        read_as_text(data, n_byte);
    }
    return 0;
}

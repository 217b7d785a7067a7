// uses: video
/* test_cues.c - whole subtitle files in memory: their order, limits and languages,
 * stopped half-way, and with each allocation failing once. */
#include "check.h"
#include "full_memory_av.h"

#include <stdlib.h>
#include <string.h>

#include "video/subtitle.h"

static const char srt_file[] =
        "1\n0:01 --> 0:02\n<i>one</i>\n\n2\n0:02 --> 0:03\ntwo\n";
static const char vtt_file[] = "WEBVTT\nLanguage: pt-BR\n\n0:01 --> 0:02\none\n\n"
                               "0:02 --> 0:03\ntwo\n";
static const char ass_file[] =
        "[Script Info]\nScriptType: v4.00+\n[Events]\n"
        "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, "
        "Text\n"
        "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\b1}one\n"
        "Dialogue: 0,0:00:02.00,0:00:03.00,Default,,0,0,0,,two\n";
static const char smi_file[] =
        "<SAMI><BODY><SYNC Start=1000><P>one<SYNC Start=2000><P>two"
        "<SYNC Start=3000><P>&nbsp;</BODY></SAMI>";
static const char *const files[] = {srt_file, vtt_file, ass_file, smi_file};

static const pf_subtitle_limits plenty = {1000, 1 << 20};
static const pf_subtitle_choice any = {-1, NULL};

static pf_status
read_file(pf_subtitles *s, const char *file, const pf_subtitle_choice *choice,
        const pf_subtitle_limits *limits, const pf_poll *poll)
{
    const pf_source source = {.name = "a file",
            .data = (const uint8_t *)file,
            .n_byte = (int64_t)strlen(file)};
    pf_video_error error;
    const pf_status st = pf_subtitles_read(s, &source, choice, limits, poll, &error);

    CHECK(st != PF_EOVERFLOW || error.beyond.limit != NULL);
    CHECK(st != PF_EDATA || error.reason != NULL);
    return st;
}

static bool
has_both(const pf_subtitles *s)
{
    const pf_cue *cue = s->cues.cue;

    return s->cues.n_cue == 2 && s->n_stream == 1 && s->stream->n_cue == 2 &&
           s->is_side_file && cue[0].start_us == 1000000 && cue[0].end_us == 2000000 &&
           cue[0].text_bytes == 3 && memcmp(cue[0].text, "one", 3) == 0 &&
           cue[1].start_us == 2000000 && cue[1].end_us == 3000000 &&
           memcmp(cue[1].text, "two", 3) == 0;
}

static void
test_files(void)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        pf_subtitles s;

        CHECK(read_file(&s, files[i], &any, &plenty, NULL) == PF_OK && has_both(&s));
        pf_subtitles_free(&s);
        CHECK(s.cues.cue == NULL && s.stream == NULL);
    }
}

static void
test_limits_are_inclusive(void)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const int64_t file_bytes = (int64_t)strlen(files[i]);
        const pf_subtitle_limits exact = {2, file_bytes};
        const pf_subtitle_limits few_cues = {1, file_bytes};
        const pf_subtitle_limits few_bytes = {1000, file_bytes - 1};
        pf_subtitles s;

        /* the cue of SAMI that clears the screen counts, too */
        CHECK(i == 3 || read_file(&s, files[i], &any, &exact, NULL) == PF_OK);
        pf_subtitles_free(&s);
        CHECK(read_file(&s, files[i], &any, &few_cues, NULL) == PF_EOVERFLOW);
        pf_subtitles_free(&s);
        CHECK(read_file(&s, files[i], &any, &few_bytes, NULL) == PF_EOVERFLOW);
        pf_subtitles_free(&s);
        CHECK(read_file(&s, files[i], &any, &(pf_subtitle_limits){0, 9}, NULL) ==
                PF_EINVAL);
        pf_subtitles_free(&s);
    }
}

static bool
reads(const char *file, int stream_index, const char *languages)
{
    const pf_subtitle_choice choice = {stream_index, languages};
    pf_subtitles s;
    const pf_status st = read_file(&s, file, &choice, &plenty, NULL);

    CHECK(st == PF_OK || st == PF_EDATA);
    pf_subtitles_free(&s);
    return st == PF_OK;
}

static void
test_languages(void)
{
    CHECK(reads(vtt_file, 0, "pt") && reads(vtt_file, -1, "en,PT"));
    CHECK(reads(vtt_file, 0, ",,pt,") && !reads(vtt_file, 0, "por"));
    CHECK(!reads(vtt_file, 0, "p") && !reads(vtt_file, 0, "ptb"));
    CHECK(!reads(vtt_file, 0, "") && !reads(vtt_file, 0, ","));
    CHECK(!reads(vtt_file, 1, "pt") && !reads(srt_file, 1, NULL));
    CHECK(reads(srt_file, 0, "pt") && reads(ass_file, 0, "pt"));
}

static int
stop_at(void *arg)
{
    int *n_left = arg;

    return (*n_left)-- <= 0;
}

static void
test_the_poll_stops(void)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        pf_status st = PF_EBACKEND;
        int n = 0;

        for (; st == PF_EBACKEND && n < 100; n++) {
            int n_left = n;
            const pf_poll poll = {stop_at, &n_left};
            pf_subtitles s;

            st = read_file(&s, files[i], &any, &plenty, &poll);
            CHECK(st == PF_EBACKEND || (st == PF_OK && has_both(&s)));
            pf_subtitles_free(&s);
        }
        CHECK(st == PF_OK && n > 2);
    }
}

static void
test_each_allocation_fails_once(void)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        long n_before = 0;
        bool failed = true;

        for (; failed && n_before < 500; n_before++) {
            pf_subtitles s;
            pf_status st;

            n_until_failure = n_before;
            st = read_file(&s, files[i], &any, &plenty, NULL);
            failed = n_until_failure < 0;
            n_until_failure = -1;
            CHECK(failed ? st == PF_ENOMEM : st == PF_OK && has_both(&s));
            pf_subtitles_free(&s);
        }
        CHECK(!failed && n_before > 4);
    }
}

static void
add(pf_cues *cues, int64_t start_us, int64_t end_us, const char *text)
{
    const size_t text_at = cues->text.n_byte;

    CHECK(pf_text_put(&cues->text, text, strlen(text)) == PF_OK);
    CHECK(pf_cues_add(cues, start_us, end_us, text_at) == PF_OK);
}

static bool
is_cue(const pf_cue *cue, int64_t start_us, int64_t end_us, bool stated, int64_t place)
{
    return cue->start_us == start_us && cue->end_us == end_us &&
           cue->end_stated == stated && cue->place == place;
}

static void
test_cues(void)
{
    pf_cues cues = {0};

    CHECK(pf_cues_add(&cues, 0, 1, 1) == PF_EINVAL);
    pf_cues_finish(&cues);
    CHECK(cues.n_cue == 0);
    add(&cues, 5, PF_CUE_NO_END, "last");
    add(&cues, 1, 3, "a");
    add(&cues, 1, 3, "b");
    add(&cues, 1, 3, "");
    add(&cues, 1, 3, "a");
    add(&cues, 1, 0, "a");
    add(&cues, -4, -4, "first");
    pf_cues_finish(&cues);
    CHECK(cues.n_cue == 5 && cues.n_seen == 7 && cues.n_empty == 1);
    CHECK(cues.n_duplicate == 1);
    CHECK(is_cue(&cues.cue[0], -4, 1, false, 6));
    CHECK(is_cue(&cues.cue[1], 1, 3, true, 1) && cues.cue[1].text[0] == 'a');
    CHECK(is_cue(&cues.cue[2], 1, 3, true, 2) && cues.cue[2].text[0] == 'b');
    CHECK(is_cue(&cues.cue[3], 1, 5, false, 5));
    CHECK(is_cue(&cues.cue[4], 5, 5 + PF_CUE_MOST_US, false, 0));
    pf_cues_free(&cues);
}

int
main(void)
{
    pf_log_install();
    test_cues();
    test_files();
    test_limits_are_inclusive();
    test_languages();
    test_the_poll_stops();
    test_each_allocation_fails_once();
    return check_report("cues");
}

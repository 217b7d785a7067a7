// uses: video
/* test_subtitle.c - broken UTF-8, markup, entities and time lines as they are found. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "video/entity.h"
#include "video/markup.h"
#include "video/sidefile.h"

/* A copy with exact bounds, so that a read past the end is seen. */
static char *
exact_copy(const char *bytes, size_t n_byte)
{
    char *copy = malloc(n_byte > 0 ? n_byte : 1);

    if (copy != NULL && n_byte > 0) {
        memcpy(copy, bytes, n_byte);
    }
    return copy;
}

static bool
is_text(const pf_text *text, const char *wanted)
{
    const bool same =
            text->n_byte == strlen(wanted) &&
            (text->n_byte == 0 || memcmp(text->data, wanted, text->n_byte) == 0);

    if (!same) {
        fprintf(stderr, "got  \"%.*s\"\nwant \"%s\"\n", (int)text->n_byte, text->data,
                wanted);
    }
    return same;
}

static bool
repairs(const char *bytes, size_t n_byte, pf_encoding encoding, const char *wanted,
        int64_t n_wanted)
{
    char *copy = exact_copy(bytes, n_byte);
    pf_text text = {0};
    int64_t n_invalid = 0;
    const bool good =
            pf_text_put_encoded(&text, copy, n_byte, encoding, &n_invalid) == PF_OK &&
            is_text(&text, wanted) && n_invalid == n_wanted;

    pf_text_free(&text);
    free(copy);
    return good;
}

static void
test_utf8_is_repaired(void)
{
    const pf_encoding utf8 = PF_ENCODING_UTF8;

    CHECK(repairs("", 0, utf8, "", 0));
    CHECK(repairs("a", 1, utf8, "a", 0));
    CHECK(repairs("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9, utf8,
            "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 0));
    /* Latin-1 "é!" and the pieces of table 3-8 of the Unicode standard */
    CHECK(repairs("\xE9!", 2, utf8, "\xEF\xBF\xBD!", 1));
    CHECK(repairs("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", 9, utf8,
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "\xEF\xBF\xBD\xEF\xBF\xBD\x41",
            8));
    CHECK(repairs("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", 9, utf8,
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "\xEF\xBF\xBD\xEF\xBF\xBD\x41",
            8));
    CHECK(repairs("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 9, utf8,
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41", 4));
    CHECK(repairs("\xF4\x90\x80\x80", 4, utf8,
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 4));
    CHECK(repairs("ab\xF0\x9F\x98", 5, utf8, "ab\xEF\xBF\xBD", 1));
}

static void
test_utf16_is_converted(void)
{
    const pf_encoding little = PF_ENCODING_UTF16LE;
    const pf_encoding big = PF_ENCODING_UTF16BE;

    CHECK(repairs("a\0\xE9\0", 4, little, "a\xC3\xA9", 0));
    CHECK(repairs("\0a\0\xE9", 4, big, "a\xC3\xA9", 0));
    CHECK(repairs("\x3D\xD8\x00\xDE", 4, little, "\xF0\x9F\x98\x80", 0));
    CHECK(repairs("\xD8\x3D\xDE\x00", 4, big, "\xF0\x9F\x98\x80", 0));
    CHECK(repairs("\x3D\xD8"
                  "a\0",
            4, little,
            "\xEF\xBF\xBD"
            "a",
            1));
    CHECK(repairs("\x00\xDE", 2, little, "\xEF\xBF\xBD", 1));
    CHECK(repairs("\x3D\xD8", 2, little, "\xEF\xBF\xBD", 1));
    CHECK(repairs("\x3D\xD8\0", 3, little, "\xEF\xBF\xBD", 1));
    CHECK(repairs("\x00\xDE\0", 3, little, "\xEF\xBF\xBD\xEF\xBF\xBD", 2));
    CHECK(repairs("a\0b", 3, little, "a\xEF\xBF\xBD", 1));
}

static void
test_encodings_are_guessed(void)
{
    size_t mark = 9;

    CHECK(pf_text_guess("", 0, &mark) == PF_ENCODING_UTF8 && mark == 0);
    CHECK(pf_text_guess("\xEF\xBB\xBF"
                        "1",
                  4, &mark) == PF_ENCODING_UTF8 &&
            mark == 3);
    CHECK(pf_text_guess("\xFF\xFE"
                        "1",
                  3, &mark) == PF_ENCODING_UTF16LE &&
            mark == 2);
    CHECK(pf_text_guess("\xFE\xFF\0"
                        "1",
                  4, &mark) == PF_ENCODING_UTF16BE &&
            mark == 2);
    CHECK(pf_text_guess("1\0\n\0", 4, &mark) == PF_ENCODING_UTF16LE && mark == 0);
    CHECK(pf_text_guess("\0"
                        "1\0\n",
                  4, &mark) == PF_ENCODING_UTF16BE &&
            mark == 0);
    CHECK(pf_text_guess("1\n00", 4, &mark) == PF_ENCODING_UTF8 && mark == 0);
    CHECK(pf_text_guess("\0\0\0\x1C", 4, &mark) == PF_ENCODING_UTF8 && mark == 0);
}

static void
test_text_keeps_its_limit(void)
{
    pf_text text = {.most_bytes = 5};

    CHECK(pf_text_put(&text, "", 0) == PF_OK && text.n_byte == 0);
    CHECK(pf_text_put(&text, "abc", 3) == PF_OK);
    CHECK(pf_text_put(&text, "def", 3) == PF_EOVERFLOW && is_text(&text, "abc"));
    CHECK(pf_text_put(&text, "x", SIZE_MAX) == PF_EOVERFLOW);
    CHECK(pf_text_put_code(&text, 0x20AC) == PF_EOVERFLOW);
    CHECK(pf_text_put_code(&text, 0xE9) == PF_OK && is_text(&text, "abc\xC3\xA9"));
    CHECK(pf_markup_strip(&text, "f", 1, PF_MARKUP_TEXT) == PF_EOVERFLOW);
    CHECK(is_text(&text, "abc\xC3\xA9"));
    pf_text_free(&text);
    CHECK(text.data == NULL && text.n_byte == 0);
    CHECK(pf_text_put_code(&text, 0xD800) == PF_OK);
    CHECK(pf_text_put_code(&text, 0x110000) == PF_OK);
    CHECK(is_text(&text, "\xEF\xBF\xBD\xEF\xBF\xBD"));
    pf_text_free(&text);
}

static uint32_t
entity(const char *text, size_t *n_byte)
{
    char *copy = exact_copy(text, strlen(text));
    uint32_t code = 0;

    *n_byte = pf_entity_read(copy, strlen(text), &code);
    free(copy);
    return *n_byte > 0 ? code : 0;
}

static void
test_entities(void)
{
    static const char *const none[] = {"", "&", "&;", "&l", "&lt", "&lt ;", "&LT;",
            "&nothing;", "&#;", "&#x;", "&#12", "&#1a;", "&#xg;", "AT&T", "lt;",
            "&thetasymbol;", "&&lt;", "&#-1;"};
    size_t n = 0;

    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        CHECK(entity(none[i], &n) == 0 && n == 0);
    }
    CHECK(entity("&lt;", &n) == '<' && n == 4);
    CHECK(entity("&AElig;x", &n) == 0xC6 && n == 7);
    CHECK(entity("&zwnj;", &n) == 0x200C && n == 6);
    CHECK(entity("&thetasym;", &n) == 0x3D1 && n == 10);
    CHECK(entity("&apos;", &n) == '\'' && entity("&euro;", &n) == 0x20AC);
    CHECK(entity("&#39;", &n) == '\'' && n == 5);
    CHECK(entity("&#X1F600;", &n) == 0x1F600 && n == 9);
    CHECK(entity("&#0;", &n) == PF_REPLACEMENT && entity("&#xD800;", &n) == 0xFFFD);
    CHECK(entity("&#x110000;", &n) == PF_REPLACEMENT && n == 10);
    CHECK(entity("&#99999999999999999999999999;", &n) == PF_REPLACEMENT && n == 29);
    CHECK(entity("&#146;", &n) == 0x2019 && entity("&#129;", &n) == 0x81);
    CHECK(entity("&#00065;", &n) == 'A' && n == 8);
}

static bool
strips(const char *payload, pf_markup markup, const char *wanted)
{
    const size_t n_byte = strlen(payload);
    char *copy = exact_copy(payload, n_byte);
    pf_text out = {0};
    const bool good = pf_markup_strip(&out, copy, n_byte, markup) == PF_OK &&
                      is_text(&out, wanted);

    pf_text_free(&out);
    free(copy);
    return good;
}

static void
test_tags(void)
{
    const pf_markup text = PF_MARKUP_TEXT;
    const pf_markup vtt = PF_MARKUP_WEBVTT;

    CHECK(strips("", text, "") && strips("a", text, "a") && strips("<i>", text, ""));
    CHECK(strips("<i>a</i> <B>b</B>", text, "a b"));
    CHECK(strips("<font color=\"#ff0000\">red</font>", text, "red"));
    CHECK(strips("<a href=\"http://x.y/z\">link</a>", text, "link"));
    CHECK(strips("one<br>two<BR/>three<br />", text, "one\ntwo\nthree"));
    CHECK(strips("<!-- no --> yes <!-- open", text, "yes <!-- open"));
    CHECK(strips("a < b, <3, <<i>>", text, "a < b, <3, <>"));
    CHECK(strips("<laughs> <track>", text, "<laughs> <track>"));
    CHECK(strips("<i", text, "<i") && strips("</i", text, "</i"));
    CHECK(strips("<i<b>x", text, "<ix") && strips("<", text, "<"));
    CHECK(strips("{\\an8}up {y:i}down {sic}", text, "up down {sic}"));
    CHECK(strips("{\\an8 open", text, "{\\an8 open") && strips("{", text, "{"));
    CHECK(strips("C:\\Network", text, "C:\\Network"));
    CHECK(strips("<v Bob>Hi</v> <laughs> <c.yellow>y</c>", vtt, "Hi  y"));
    CHECK(strips("a<00:01.500>b<>c</>d", vtt, "abcd"));
    CHECK(strips("1 < 2 <3 <00:01", vtt, "1 < 2 <3 <00:01"));
}

static void
test_entities_come_last_and_once(void)
{
    CHECK(strips("&lt;i&gt;", PF_MARKUP_TEXT, "<i>"));
    CHECK(strips("&lt;i&gt;", PF_MARKUP_WEBVTT, "<i>"));
    CHECK(strips("&amp;lt;", PF_MARKUP_WEBVTT, "&lt;"));
    CHECK(strips("&amp;amp; AT&T &copy", PF_MARKUP_TEXT, "&amp; AT&T &copy"));
    CHECK(strips("&nbsp;&#10;&nbsp;a&#7;b&nbsp;", PF_MARKUP_TEXT, "ab"));
    CHECK(strips("&#123;\\an8}&#92;N", PF_MARKUP_ASS, "{\\an8}\\N"));
}

static void
test_ass(void)
{
    const pf_markup ass = PF_MARKUP_ASS;
    size_t n = 0;

    CHECK(strips("{\\i1}a{\\i0}\\Nb\\nc\\hd", ass,
            "a\nb c\xC2\xA0"
            "d"));
    CHECK(strips("{comment}a{", ass, "a{") && strips("{}", ass, ""));
    CHECK(strips("a{{b}c}", ass, "ac}"));
    CHECK(strips("\\{a\\}\\\\N\\x\\", ass, "{a}\\\n\\x\\"));
    CHECK(strips("\\\\N \\{", PF_MARKUP_DECODED, "\\N {"));
    CHECK(strips("{\\p1}m 0 0 l 9 9{\\p0}seen{\\pos(1,2)}!", ass, "seen!"));
    CHECK(strips("{\\an7\\p4}m 0 0\\Nl 1 1&lt;", ass, ""));
    CHECK(strips("{\\p0}a{\\pbo3}b{\\p10}c{\\p", ass, "ab"));
    CHECK(strips("<i>a</i>&amp;", ass, "a&"));
    CHECK(pf_markup_ass_text("0,0,Default,,0,0,0,,Hi, you", 27, &n) != NULL && n == 7);
    CHECK(pf_markup_ass_text("0,0,Default,,0,0,0,,", 20, &n) != NULL && n == 0);
    CHECK(pf_markup_ass_text("0,0,Default,,0,0,0,Hi", 21, &n) == NULL);
    CHECK(pf_markup_ass_text("", 0, &n) == NULL);
}

static void
test_lines_are_trimmed(void)
{
    const pf_markup text = PF_MARKUP_TEXT;

    CHECK(strips(" a \r\n\r\n b\rc\n", text, "a\nb\nc"));
    CHECK(strips("\n\n \t\n", text, "") && strips("\xE2\x80\x8B", text, ""));
    CHECK(strips("\xEF\xBB\xBF\xC2\xA0x y\xE3\x80\x80\xE2\x81\xA0", text, "x y"));
    CHECK(strips("\xE2\x80\xAF\xE2\x81\x9F"
                 "a\xE2\x80\x80",
            text, "a"));
    CHECK(strips("\xE2\x80\x94"
                 "a\xE2\x80\x8C",
            text,
            "\xE2\x80\x94"
            "a\xE2\x80\x8C"));
    CHECK(strips("a\x01\x7F\x1B"
                 "b\xC2\x85"
                 "c\td",
            text, "abc\td"));
    CHECK(strips("<i>\n</i>\na\n<b></b>\nb", text, "a\nb"));
}

typedef struct wanted_cue {
    int64_t start_ms;
    int64_t end_ms;
    const char *text;
} wanted_cue;

/* The cues of a side file, stripped, against a list that ends with text NULL. */
static bool
has_cues(const char *file, const wanted_cue *wanted, int64_t n_unreadable)
{
    const size_t n_byte = strlen(file);
    char *copy = exact_copy(file, n_byte);
    pf_side side;
    pf_side_cue cue;
    pf_text out = {0};
    bool good = pf_side_begin(&side, copy, n_byte);

    while (good && pf_side_next(&side, &cue)) {
        out.n_byte = 0;
        good = wanted->text != NULL && cue.start_us == 1000 * wanted->start_ms &&
               cue.end_us == 1000 * wanted->end_ms &&
               pf_markup_strip(&out, cue.payload, cue.payload_bytes,
                       side.is_webvtt ? PF_MARKUP_WEBVTT : PF_MARKUP_TEXT) == PF_OK &&
               is_text(&out, wanted->text);
        wanted++;
    }
    good = good && wanted->text == NULL && side.n_unreadable == n_unreadable;
    good = good && !pf_side_next(&side, &cue);
    pf_text_free(&out);
    free(copy);
    return good;
}

static bool
one_cue(const char *file, int64_t start_ms, int64_t end_ms, const char *text)
{
    const wanted_cue wanted[] = {{start_ms, end_ms, text}, {0, 0, NULL}};

    return has_cues(file, wanted, 0);
}

static bool
is_refused(const char *file)
{
    char *copy = exact_copy(file, strlen(file));
    pf_side side;
    const bool refused = !pf_side_begin(&side, copy, strlen(file));

    free(copy);
    return refused;
}

static void
test_times(void)
{
    CHECK(one_cue("00:00:01,500 --> 00:00:02,250\na", 1500, 2250, "a"));
    CHECK(one_cue("00:00:00,1 --> 00:00:04\na", 100, 4000, "a"));
    CHECK(one_cue("0:5.25 --> 1:0,5000009\na", 5250, 60500, "a"));
    CHECK(one_cue("00:00:5,000 --> 00:00:6,\na", 5000, 6000, "a"));
    CHECK(one_cue("00: 00: 05, 020 -> 00 : 00 : 06 ,5 \na", 5020, 6500, "a"));
    CHECK(one_cue(" 1:2:3-->1:2:4 X1:10 Y2:20\na", 3723000, 3724000, "a"));
    CHECK(one_cue("-00:00:01,000 --> 00:99:99,000\na", -1000, 6039000, "a"));
    CHECK(one_cue("00:00:05,000 --> 00:00:01,000\na", 5000, 1000, "a"));
    CHECK(one_cue("999999999:999999999:999999999 --> 0:0\na", INT64_C(3660999996339000),
            0, "a"));
    CHECK(is_refused("") && is_refused("\n") && is_refused("1\n"));
    CHECK(is_refused("12 --> 13\na") && is_refused("00:01 -> \na"));
    CHECK(is_refused("00:00:00:01 --> 00:00:00:02\na"));
    CHECK(is_refused("1234567890:00 --> 1:00\na"));
    CHECK(is_refused("00:01 ---> 00:02\na") && is_refused("00:01 --> 00:02x\na"));
    CHECK(is_refused("00:01, --> :02\n") && is_refused("[Script Info]\n"));
}

static void
test_subrip_structure(void)
{
    static const wanted_cue two[] = {{1000, 2000, "a"}, {3000, 4000, "b"}, {0}};
    static const wanted_cue number[] = {{1000, 2000, "a\n42"}, {3000, 4000, "b"}, {0}};
    static const wanted_cue empty[] = {{1000, 2000, ""}, {3000, 4000, ""}, {0}};

    CHECK(has_cues("1\n0:1 --> 0:2\na\n\n2\n0:3 --> 0:4\nb\n\n", two, 0));
    CHECK(has_cues("1\r\n0:1 --> 0:2\r\na\r\n\r\n2\r\n0:3 --> 0:4\r\nb", two, 0));
    CHECK(has_cues("1\r0:1 --> 0:2\ra\r\r2\r0:3 --> 0:4\rb", two, 0));
    CHECK(has_cues("1\r\r\n0:1 --> 0:2\r\r\na\r\r\n2\r\r\n0:3 --> 0:4\r\nb", two, 0));
    CHECK(has_cues("1\n0:1 --> 0:2\na\n2\n0:3 --> 0:4\nb", two, 0));
    CHECK(has_cues("1\n\n0:1 --> 0:2\n\na\n\n2\n\n0:3 --> 0:4\n\nb\n\n", two, 0));
    CHECK(has_cues("0:1 --> 0:2\na\n0:3 --> 0:4\nb", two, 0));
    CHECK(has_cues("0:1 --> 0:2\na\n\n0:3 --> 0:4\nb", two, 0));
    CHECK(has_cues("made by x\n\n7\n0:1 --> 0:2\na\n\n7\n0:3 --> 0:4\nb", two, 0));
    CHECK(has_cues("7\n0:1 --> 0:2\na\n42\n\n9\n0:3 --> 0:4\nb", number, 0));
    CHECK(has_cues("7\n0:1 --> 0:2\na\n\n42\n\n0:3 --> 0:4\nb", number, 0));
    CHECK(has_cues("0:1 --> 0:2\na\n42\n0:3 --> 0:4\nb", number, 0));
    CHECK(has_cues("0:1 --> 0:2\na\n42\n\n0:3 --> 0:4\nb", number, 0));
    CHECK(has_cues("1\n0:1 --> 0:2\n2\n0:3 --> 0:4\n\n\n", empty, 0));
    CHECK(one_cue(
            "1\n0:1 --> 0:2\na --> b\n\n-- c\n2", 1000, 2000, "a --> b\n-- c\n2"));
    CHECK(has_cues("1\n0:1 --> 0:2\na\n\n2\n0:2,x --> 0:3\nlost\n\n3\n0:3 --> 0:4\nb",
            two, 1));
    CHECK(has_cues("0:0:0:0 --> 0:2\nlost\n1\n0:1 --> 0:2\na\n2\n0:3 --> 0:4\nb\n"
                   "0:5 --> ?\n0:6 --> ?\nlost",
            two, 3));
}

static void
test_webvtt_structure(void)
{
    static const wanted_cue two[] = {{1000, 2000, "a"}, {3000, 4000, "b\nc"}, {0}};
    const char *with_language = "WEBVTT - title\nKind: captions\nLanguage: pt-BR\n\n"
                                "0:1.000 --> 0:2.000\na\n";
    pf_side side;

    CHECK(has_cues("WEBVTT\n\n00:01.000 --> 00:02.000 align:start\na\n\n"
                   "NOTE 00:09\nlost\n\nid 2\n00:03.000 --> 00:04.000\nb\nc\n\nlost",
            two, 0));
    CHECK(has_cues("WEBVTT\n\nSTYLE\n::cue{}\n\n1\n00:01.000 --> 00:02.000\na\n\n"
                   "2\n00:03.000 --> 00:04.000\nb\nc\n\n3\n",
            two, 0));
    CHECK(has_cues("WEBVTT", &(wanted_cue){0, 0, NULL}, 0));
    CHECK(is_refused("WEBVTTX\n\n"));
    CHECK(pf_side_begin(&side, with_language, strlen(with_language)));
    CHECK(side.language_bytes == 5 && memcmp(side.language, "pt-BR", 5) == 0);
}

/* What grows with the square of its length would not end here. */
static void
test_long_and_hostile_text(void)
{
    static const char *const parts[] = {"{\\", "{", "<b ", "<!--", "&#1", "&lt", "\\",
            "<", "\r", "<00:", "\xE2\x80\x8B", "\n \n"};
    const size_t n_byte = 1 << 18;
    char *payload = malloc(n_byte);

    for (size_t i = 0; payload != NULL && i < sizeof parts / sizeof parts[0]; i++) {
        for (int markup = PF_MARKUP_TEXT; markup <= PF_MARKUP_DECODED; markup++) {
            pf_text out = {0};
            pf_side side;

            for (size_t k = 0; k < n_byte; k++) {
                payload[k] = parts[i][k % strlen(parts[i])];
            }
            CHECK(pf_markup_strip(&out, payload, n_byte / 6 * 6, (pf_markup)markup) ==
                    PF_OK);
            CHECK(out.n_byte <= 2 * n_byte);
            CHECK(!pf_side_begin(&side, payload, n_byte));
            pf_text_free(&out);
        }
    }
    free(payload);
}

int
main(void)
{
    test_utf8_is_repaired();
    test_utf16_is_converted();
    test_encodings_are_guessed();
    test_text_keeps_its_limit();
    test_entities();
    test_tags();
    test_entities_come_last_and_once();
    test_ass();
    test_lines_are_trimmed();
    test_times();
    test_subrip_structure();
    test_webvtt_structure();
    test_long_and_hostile_text();
    return check_report("subtitle");
}

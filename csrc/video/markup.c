/* markup.c - override blocks, tags and entities taken out in one pass. */
#include "video/markup.h"

#include <string.h>

#include "video/entity.h"

enum {
    NO_BREAK_SPACE = 0xA0,
    MAX_TAG_NAME = 8,
};

/* The tags that subtitles use as HTML means them; those that begin a line first. */
static const char *const line_tags[] = {"br", "p", "div", "li", "tr", "hr"};
static const char *const word_tags[] = {"b", "i", "u", "s", "em", "strong", "font",
        "span", "a", "c", "v", "lang", "ruby", "rt", "rp", "tt", "small", "big", "sub",
        "sup", "strike", "del", "ins", "center", "code", "q", "cite", "img", "body",
        "html", "head", "sync", "ul", "ol"};

typedef struct strip {
    const char *text;
    size_t n_byte;
    size_t at;
    pf_markup markup;
    bool draws;      /* inside the drawing of an ASS event */
    bool no_brace;   /* no } follows: looking for one again would take too long */
    bool no_comment; /* the same for --> */
    pf_text *out;
} strip;

static bool
is_ass(const strip *s)
{
    return s->markup == PF_MARKUP_ASS || s->markup == PF_MARKUP_DECODED;
}

static size_t
left(const strip *s)
{
    return s->n_byte - s->at;
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* \p1 and above in an override block begin a drawing, \p0 ends it. */
static void
look_for_drawing(strip *s, const char *block, size_t n_byte)
{
    for (size_t i = 0; i + 2 < n_byte; i++) {
        if (block[i] == '\\' && block[i + 1] == 'p' && is_digit(block[i + 2])) {
            s->draws =
                    block[i + 2] != '0' || (i + 3 < n_byte && is_digit(block[i + 3]));
        }
    }
}

/* Length of the override block at a brace, 0 when it is none. */
static size_t
brace_bytes(strip *s)
{
    const char *here = s->text + s->at;
    const char *end;

    if (!is_ass(s)) {
        const bool is_override = left(s) > 1 && here[1] == '\\';
        const bool is_code = left(s) > 2 && is_letter(here[1]) && here[2] == ':';

        if (!is_override && !is_code) {
            return 0;
        }
    }
    end = s->no_brace ? NULL : memchr(here, '}', left(s));
    if (end == NULL) {
        s->no_brace = true;
        return 0;
    }
    if (is_ass(s)) {
        look_for_drawing(s, here, (size_t)(end - here));
    }
    return (size_t)(end - here) + 1;
}

static bool
is_listed(const char *name, const char *const *list, size_t n_item)
{
    for (size_t i = 0; i < n_item; i++) {
        if (strcmp(name, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* "<!-- ... -->" */
static size_t
comment_bytes(strip *s)
{
    const char *here = s->text + s->at;

    if (left(s) < 4 || memcmp(here, "<!--", 4) != 0 || s->no_comment) {
        return 0;
    }
    for (size_t i = 4; i + 3 <= left(s); i++) {
        if (memcmp(here + i, "-->", 3) == 0) {
            return i + 3;
        }
    }
    s->no_comment = true;
    return 0;
}

/* Reads the name of the tag at a "<" in small letters; the index after it. */
static size_t
read_tag_name(const strip *s, char name[MAX_TAG_NAME + 1])
{
    const char *here = s->text + s->at;
    size_t i = left(s) > 1 && here[1] == '/' ? 2 : 1;
    size_t n_char = 0;

    while (i < left(s) && n_char < MAX_TAG_NAME &&
            (is_letter(here[i]) || (n_char > 0 && is_digit(here[i])))) {
        name[n_char++] = (char)(here[i] | 0x20);
        i++;
    }
    name[n_char] = '\0';
    return i;
}

/* Length of the tag at a "<", 0 when it is none. *new_line: it begins a line. */
static size_t
tag_bytes(const strip *s, bool *new_line)
{
    const char *here = s->text + s->at;
    char name[MAX_TAG_NAME + 1];
    size_t i = read_tag_name(s, name);
    const bool is_line =
            is_listed(name, line_tags, sizeof line_tags / sizeof line_tags[0]);
    const bool is_word =
            is_listed(name, word_tags, sizeof word_tags / sizeof word_tags[0]);

    if (name[0] == '\0') {
        /* A timestamp or an empty tag of WebVTT, or no tag at all. */
        while (i < left(s) && (is_digit(here[i]) || here[i] == ':' || here[i] == '.')) {
            i++;
        }
        return s->markup == PF_MARKUP_WEBVTT && i < left(s) && here[i] == '>' ? i + 1
                                                                              : 0;
    }
    if (s->markup != PF_MARKUP_WEBVTT) {
        const bool name_ends =
                i < left(s) && strchr(" \t\r\n./>", here[i]) != NULL && here[i] != '\0';

        if (!name_ends || (!is_line && !is_word)) {
            return 0;
        }
    }
    while (i < left(s) && here[i] != '>' && here[i] != '<') {
        i++;
    }
    *new_line = is_line;
    return i < left(s) && here[i] == '>' ? i + 1 : 0;
}

/* Length of the escape at a backslash, 0 when it is none; *code is what it stands
 * for. */
static size_t
escape_bytes(const strip *s, uint32_t *code)
{
    if (!is_ass(s) || left(s) < 2) {
        return 0;
    }
    switch (s->text[s->at + 1]) {
        case 'N':
            *code = '\n';
            return 2;
        case 'n':
            *code = ' ';
            return 2;
        case 'h':
            *code = NO_BREAK_SPACE;
            return 2;
        case '{':
        case '}':
            *code = (uint32_t)s->text[s->at + 1];
            return 2;
        case '\\':
            *code = '\\';
            return s->markup == PF_MARKUP_DECODED ? 2 : 0;
        default:
            return 0;
    }
}

/* Length of what is no text here, or 0. *code is the character that it stands for,
 * 0 for none. */
static size_t
markup_bytes(strip *s, uint32_t *code)
{
    bool new_line = false;
    size_t n;

    *code = 0;
    switch (s->text[s->at]) {
        case '{':
            return brace_bytes(s);
        case '<':
            n = comment_bytes(s);
            if (n == 0) {
                n = tag_bytes(s, &new_line);
            }
            *code = new_line ? '\n' : 0;
            return n;
        case '&':
            return pf_entity_read(s->text + s->at, left(s), code);
        case '\\':
            return escape_bytes(s, code);
        case '\r':
            *code = '\n';
            return left(s) > 1 && s->text[s->at + 1] == '\n' ? 2 : 1;
        default:
            return 0;
    }
}

static bool
is_control(uint32_t code)
{
    return (code < 0x20 && code != '\n' && code != '\t') ||
           (code >= 0x7F && code < 0xA0);
}

/* Length of the blank character at the start of n_byte > 0 bytes of UTF-8, or 0. */
static size_t
blank_bytes(const char *bytes, size_t n_byte)
{
    const unsigned char *byte = (const unsigned char *)bytes;

    if (byte[0] == ' ' || byte[0] == '\t') {
        return 1;
    }
    if (n_byte >= 2 && byte[0] == 0xC2 && byte[1] == 0xA0) {
        return 2; /* U+00A0 */
    }
    if (n_byte < 3) {
        return 0;
    }
    if (byte[0] == 0xE2 && byte[1] == 0x80) {
        return byte[2] <= 0x8B || byte[2] == 0xAF ? 3 : 0; /* U+2000-200B, U+202F */
    }
    if (byte[0] == 0xE2 && byte[1] == 0x81) {
        return byte[2] == 0x9F || byte[2] == 0xA0 ? 3 : 0; /* U+205F, U+2060 */
    }
    return memcmp(byte, "\xE3\x80\x80", 3) == 0 || memcmp(byte, "\xEF\xBB\xBF", 3) == 0
                   ? 3
                   : 0; /* U+3000, U+FEFF */
}

/* Length of the blank character that ends the n_byte bytes, or 0. */
static size_t
last_blank_bytes(const char *bytes, size_t n_byte)
{
    for (size_t n = 1; n <= 3 && n <= n_byte; n++) {
        if (blank_bytes(bytes + n_byte - n, n) == n) {
            return n;
        }
    }
    return 0;
}

/* Trims the lines of out from begin on, in place, and leaves out the empty ones. */
static void
trim_lines(pf_text *out, size_t begin)
{
    size_t to = begin;
    size_t at = begin;

    while (at < out->n_byte) {
        const char *end = memchr(out->data + at, '\n', out->n_byte - at);
        const size_t next =
                end != NULL ? (size_t)(end - out->data) + 1 : out->n_byte + 1;
        size_t stop = next - 1;
        size_t n;

        while (at < stop && (n = blank_bytes(out->data + at, stop - at)) > 0) {
            at += n;
        }
        while (at < stop && (n = last_blank_bytes(out->data + at, stop - at)) > 0) {
            stop -= n;
        }
        if (at < stop) {
            if (to > begin) {
                out->data[to++] = '\n';
            }
            memmove(out->data + to, out->data + at, stop - at);
            to += stop - at;
        }
        at = next;
    }
    out->n_byte = to;
}

/* Puts one character of the text, which takes n_byte bytes. */
static pf_status
put_character(strip *s, size_t n_byte)
{
    const unsigned char *byte = (const unsigned char *)s->text + s->at;
    const bool is_c1 = n_byte == 2 && byte[0] == 0xC2 && byte[1] < 0xA0;

    if (s->draws || is_c1 || (n_byte == 1 && is_control(byte[0]))) {
        return PF_OK;
    }
    return pf_text_put(s->out, s->text + s->at, n_byte);
}

static size_t
character_bytes(const strip *s)
{
    const unsigned char lead = (unsigned char)s->text[s->at];
    const size_t n = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;

    return n < left(s) ? n : left(s);
}

pf_status
pf_markup_strip(pf_text *out, const char *utf8, size_t n_byte, pf_markup markup)
{
    strip s = {.text = utf8, .n_byte = n_byte, .markup = markup, .out = out};
    const size_t begin = out->n_byte;
    pf_status st = PF_OK;

    while (st == PF_OK && s.at < n_byte) {
        uint32_t code;
        size_t n = markup_bytes(&s, &code);

        if (n == 0) {
            n = character_bytes(&s);
            st = put_character(&s, n);
        }
        else if (code != 0 && !is_control(code) && !s.draws) {
            st = pf_text_put_code(out, code);
        }
        s.at += n;
    }
    if (st != PF_OK) {
        out->n_byte = begin;
        return st;
    }
    trim_lines(out, begin);
    return PF_OK;
}

const char *
pf_markup_ass_text(const char *event, size_t n_byte, size_t *text_bytes)
{
    const char *text = event;
    size_t n_left = n_byte;

    for (int field = 0; field < 8; field++) {
        const char *comma = n_left > 0 ? memchr(text, ',', n_left) : NULL;

        if (comma == NULL) {
            return NULL;
        }
        n_left -= (size_t)(comma + 1 - text);
        text = comma + 1;
    }
    *text_bytes = n_left;
    return text;
}

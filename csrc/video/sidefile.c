/* sidefile.c - time lines, and what lies between them. */
#include "video/sidefile.h"

#include <string.h>

enum { MAX_DIGITS = 9 };

/* One line without its end; the next one begins at next. */
typedef struct line {
    size_t begin;
    size_t end;
    size_t next;
} line;

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static line
line_at(const pf_side *side, size_t at)
{
    line l = {at, at, at};

    while (l.end < side->n_byte && side->text[l.end] != '\n' &&
            side->text[l.end] != '\r') {
        l.end++;
    }
    l.next = l.end;
    if (l.next < side->n_byte && side->text[l.next] == '\r') {
        const size_t n_left = side->n_byte - l.next;
        const char *here = side->text + l.next;

        /* "\r\r\n" is what a converter of line ends makes of "\r\n". */
        l.next += n_left >= 3 && memcmp(here, "\r\r\n", 3) == 0 ? 3
                  : n_left >= 2 && here[1] == '\n'              ? 2
                                                                : 1;
    }
    else if (l.next < side->n_byte) {
        l.next++;
    }
    return l;
}

static bool
is_empty(const pf_side *side, line l)
{
    while (l.begin < l.end && is_blank(side->text[l.begin])) {
        l.begin++;
    }
    return l.begin == l.end;
}

static size_t
skip_blanks(const char *text, size_t n_byte, size_t i)
{
    while (i < n_byte && is_blank(text[i])) {
        i++;
    }
    return i;
}

/* Reads 1 to MAX_DIGITS digits at *i. */
static bool
read_digits(const char *text, size_t n_byte, size_t *i, int64_t *number)
{
    const size_t first = *i;

    *number = 0;
    while (*i < n_byte && is_digit(text[*i]) && *i - first < MAX_DIGITS) {
        *number = *number * 10 + (text[*i] - '0');
        (*i)++;
    }
    return *i > first && (*i == n_byte || !is_digit(text[*i]));
}

/* Reads the decimal fraction after a separator in microseconds; further digits are cut
 * off. */
static bool
read_fraction(const char *text, size_t n_byte, size_t *i, int64_t *fraction_us)
{
    const size_t first = *i;
    int64_t unit_us = 100000;

    *fraction_us = 0;
    while (*i < n_byte && is_digit(text[*i])) {
        *fraction_us += unit_us * (text[*i] - '0');
        unit_us /= 10;
        (*i)++;
    }
    return *i > first;
}

/* Reads one time at *i. */
static bool
read_time(const char *text, size_t n_byte, size_t *i, int64_t *time_us)
{
    int64_t part[3] = {0}; /* hours, minutes, seconds once all are read */
    int64_t fraction_us = 0;
    bool is_negative;
    int n_part = 0;
    size_t at = skip_blanks(text, n_byte, *i);

    is_negative = at < n_byte && text[at] == '-';
    at += is_negative ? 1 : 0;
    for (;;) {
        part[0] = part[1];
        part[1] = part[2];
        if (!read_digits(text, n_byte, &at, &part[2])) {
            return false;
        }
        n_part++;
        *i = at;
        at = skip_blanks(text, n_byte, at);
        if (at == n_byte || text[at] != ':' || n_part == 3) {
            break;
        }
        at = skip_blanks(text, n_byte, at + 1);
    }
    if (n_part < 2) {
        return false;
    }
    if (at < n_byte && (text[at] == ',' || text[at] == '.')) {
        *i = at + 1;
        at = skip_blanks(text, n_byte, *i);
        if (read_fraction(text, n_byte, &at, &fraction_us)) {
            *i = at;
        }
    }
    *time_us = ((part[0] * 60 + part[1]) * 60 + part[2]) * 1000000 + fraction_us;
    *time_us = is_negative ? -*time_us : *time_us;
    return true;
}

static bool
read_time_line(const pf_side *side, line l, pf_side_cue *cue)
{
    const char *text = side->text + l.begin;
    const size_t n_byte = l.end - l.begin;
    size_t i = 0;
    size_t n_dash = 0;

    if (!read_time(text, n_byte, &i, &cue->start_us)) {
        return false;
    }
    i = skip_blanks(text, n_byte, i);
    while (i < n_byte && text[i] == '-' && n_dash < 2) {
        n_dash++;
        i++;
    }
    if (n_dash == 0 || i == n_byte || text[i] != '>') {
        return false;
    }
    i++;
    if (!read_time(text, n_byte, &i, &cue->end_us)) {
        return false;
    }
    return i == n_byte || is_blank(text[i]);
}

/* "-->" after a digit at the start, and not a time line: one that is spoilt. */
static bool
is_spoilt(const pf_side *side, line l)
{
    const size_t first = skip_blanks(side->text, l.end, l.begin);

    if (first == l.end || !is_digit(side->text[first])) {
        return false;
    }
    for (size_t i = first; i + 3 <= l.end; i++) {
        if (memcmp(side->text + i, "-->", 3) == 0) {
            return true;
        }
    }
    return false;
}

/* A line of digits alone, as a number; -1 otherwise. */
static int64_t
line_number(const pf_side *side, line l)
{
    size_t i = skip_blanks(side->text, l.end, l.begin);
    int64_t number;

    if (!read_digits(side->text, l.end, &i, &number)) {
        return -1;
    }
    return skip_blanks(side->text, l.end, i) == l.end ? number : -1;
}

/* What stands between a time line and the next one. */
typedef struct between {
    line last;        /* the last line that is not empty */
    bool any;         /* there is one */
    bool follows;     /* the next time line follows it directly */
    bool after_blank; /* an empty line, or nothing, is before it */
    bool was_blank;   /* the line before this one was empty, or there was none */
} between;

static void
add_line(const pf_side *side, between *b, line l)
{
    const bool empty = is_empty(side, l);

    if (!empty) {
        b->last = l;
        b->any = true;
        b->after_blank = b->was_blank;
    }
    b->follows = !empty;
    b->was_blank = empty;
}

/* Whether the last line before a time line is the number of the cue to come. */
static int64_t
number_to_come(const pf_side *side, const between *b, bool first)
{
    const int64_t number = b->any ? line_number(side, b->last) : -1;

    if (number < 0) {
        return -1;
    }
    if (b->follows && (first || side->is_numbered || b->after_blank)) {
        return number;
    }
    return first || (side->number >= 0 && number == side->number + 1) ? number : -1;
}

/* Goes on to the next time line, past spoilt ones. Returns where the text before it
 * ends, its number left out. */
static size_t
find_time_line(pf_side *side, bool first)
{
    between b = {.was_blank = true};
    bool ended = false;
    size_t text_end = side->at;

    side->has_next = false;
    while (side->at < side->n_byte) {
        const line l = line_at(side, side->at);
        const bool is_time = read_time_line(side, l, &side->next);

        side->at = l.next;
        if (!is_time && !is_spoilt(side, l)) {
            add_line(side, &b, l);
            continue;
        }
        side->number = number_to_come(side, &b, first);
        if (!ended) {
            text_end = side->number >= 0 ? b.last.begin : l.begin;
            ended = true;
        }
        if (is_time) {
            side->has_next = true;
            return text_end;
        }
        side->n_unreadable++;
        b = (between){.was_blank = true};
    }
    return ended ? text_end : side->n_byte;
}

static bool
is_webvtt_header(const char *text, size_t n_byte)
{
    return n_byte >= 6 && memcmp(text, "WEBVTT", 6) == 0 &&
           (n_byte == 6 || memchr(" \t\r\n", text[6], 4) != NULL);
}

/* "Language: en" among the lines of a WebVTT header. */
static void
read_header(pf_side *side)
{
    line l = line_at(side, 0);

    while (l.next < side->n_byte) {
        const char *here;

        l = line_at(side, l.next);
        here = side->text + l.begin;
        if (is_empty(side, l)) {
            return;
        }
        if (l.end - l.begin > 9 && memcmp(here, "Language:", 9) == 0) {
            const size_t first = skip_blanks(side->text, l.end, l.begin + 9);

            side->language = side->text + first;
            side->language_bytes = l.end - first;
            return;
        }
    }
}

bool
pf_side_begin(pf_side *side, const char *text, size_t n_byte)
{
    *side = (pf_side){.text = text, .n_byte = n_byte, .number = -1};
    side->is_webvtt = is_webvtt_header(text, n_byte);
    if (side->is_webvtt) {
        read_header(side);
    }
    (void)find_time_line(side, true);
    side->is_numbered = side->number >= 0;
    return side->is_webvtt || side->has_next;
}

/* The payload of WebVTT ends at the first empty line. */
static size_t
webvtt_end(const pf_side *side, size_t begin, size_t end)
{
    size_t at = begin;

    while (at < end) {
        const line l = line_at(side, at);

        if (is_empty(side, l)) {
            return l.begin;
        }
        at = l.next;
    }
    return end;
}

bool
pf_side_next(pf_side *side, pf_side_cue *cue)
{
    const size_t begin = side->at;
    size_t end;

    if (!side->has_next) {
        return false;
    }
    *cue = side->next;
    end = find_time_line(side, false);
    if (side->is_webvtt) {
        end = webvtt_end(side, begin, end);
    }
    cue->payload = side->text + begin;
    cue->payload_bytes = end - begin;
    return true;
}

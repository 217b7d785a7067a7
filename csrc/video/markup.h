/* markup.h - the words of a cue without what only a renderer needs. */
#ifndef PF_VIDEO_MARKUP_H
#define PF_VIDEO_MARKUP_H

#include "video/text.h"

/* How a payload marks up its text.
 *
 * TEXT     SubRip, timed text of MP4 and the like, as they are found: the tags of HTML
 *          that subtitles use (<i>, <font ...>, <a href=...>; another word in brackets
 *          stays, it may be "<laughs>"), comments, and what converters leave behind:
 *          {\an8}, {y:i}.
 * WEBVTT   every tag goes, timestamps too: a literal < is &lt; there. {\an8} goes.
 * ASS      {...} goes, drawings go, \N is a new line, \n a space, \h a no-break space,
 *          \{ and \} are braces; tags as in TEXT.
 * DECODED  ASS as FFmpeg's decoders write it for other formats: \\ is a backslash.
 *
 * In all of them entities become characters, once and after everything else, so that
 * "&lt;i&gt;" is the text "<i>" and "&amp;lt;" the text "&lt;". A brace or bracket that
 * is not closed stays. */
typedef enum pf_markup {
    PF_MARKUP_TEXT,
    PF_MARKUP_WEBVTT,
    PF_MARKUP_ASS,
    PF_MARKUP_DECODED
} pf_markup;

/* Appends the words of the payload utf8, which must be valid UTF-8 and lie outside out.
 * Lines end with \n whatever they ended with, lose blanks at both ends and are left out
 * when nothing remains; there is no \n at the end. Blanks are spaces, tabs, no-break
 * and other spaces (U+00A0, U+2000 to U+200A, U+202F, U+205F, U+3000) and the invisible
 * U+200B, U+2060, U+FEFF. Other control characters are left out. */
PF_NODISCARD pf_status pf_markup_strip(
        pf_text *out, const char *utf8, size_t n_byte, pf_markup markup);

/* The text field of an ASS event as FFmpeg passes them on, "ReadOrder,Layer,Style,Name,
 * MarginL,MarginR,MarginV,Effect,Text"; NULL when there are fewer fields. */
const char *pf_markup_ass_text(const char *event, size_t n_byte, size_t *text_bytes);

#endif /* PF_VIDEO_MARKUP_H */

/* text.h - text of unknown quality made into valid UTF-8. */
#ifndef PF_VIDEO_TEXT_H
#define PF_VIDEO_TEXT_H

#include "base/pf.h"

/* A growing string of bytes that owns its memory; not terminated by a 0. Zeroed it is
 * empty and may grow without limit. */
typedef struct pf_text {
    char *data;
    size_t n_byte;
    size_t room_bytes;
    size_t most_bytes; /* 0: no limit */
} pf_text;

typedef enum pf_encoding {
    PF_ENCODING_UTF8,
    PF_ENCODING_UTF16LE,
    PF_ENCODING_UTF16BE
} pf_encoding;

/* What no text of that encoding holds is given as this, U+FFFD. */
#define PF_REPLACEMENT 0xFFFDU

/* Appends bytes that must not lie in text itself. PF_EOVERFLOW: more than most_bytes;
 * nothing is appended then. */
PF_NODISCARD pf_status pf_text_put(pf_text *text, const char *bytes, size_t n_byte);

/* Appends one code point; surrogates and what lies above U+10FFFF as U+FFFD. */
PF_NODISCARD pf_status pf_text_put_code(pf_text *text, uint32_t code);

/* Appends text of the given encoding as UTF-8. Every longest piece that begins no valid
 * character becomes one U+FFFD, as the Unicode standard advises (section 3.9), and is
 * counted in *n_invalid. */
PF_NODISCARD pf_status pf_text_put_encoded(pf_text *text, const char *bytes,
        size_t n_byte, pf_encoding encoding, int64_t *n_invalid);

/* The encoding of the start of a text: by its byte order mark, whose length goes to
 * *mark_bytes, or UTF-16 where every other of the first four bytes is 0 (so do all
 * subtitle formats begin), or UTF-8. */
pf_encoding pf_text_guess(const char *bytes, size_t n_byte, size_t *mark_bytes);

void pf_text_free(pf_text *text);

#endif /* PF_VIDEO_TEXT_H */

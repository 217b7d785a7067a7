/* sidefile.h - the cues of SubRip and WebVTT files, as they are found in the wild.
 *
 * FFmpeg reads embedded streams and the other formats. These two are read here, because
 * a file with one unusual time is refused by it, or loses cues without a word. */
#ifndef PF_VIDEO_SIDEFILE_H
#define PF_VIDEO_SIDEFILE_H

#include "base/pf.h"

/* One cue; payload points into the text that was given. */
typedef struct pf_side_cue {
    int64_t start_us;
    int64_t end_us; /* as written, also when it is before start_us */
    const char *payload;
    size_t payload_bytes;
} pf_side_cue;

typedef struct pf_side {
    bool is_webvtt;
    int64_t n_unreadable; /* time lines that cannot be read; their text is left out */
    const char *language; /* of a WebVTT header, NULL when it states none */
    size_t language_bytes;
    /* the rest is private */
    const char *text;
    size_t n_byte;
    size_t at;
    pf_side_cue next; /* its time line has been read */
    bool has_next;
    bool is_numbered; /* the first cue has a number */
    int64_t number;   /* of the cue `next`, -1: none */
} pf_side;

/* Begins to read text, valid UTF-8 without byte order mark that must outlive the
 * struct. false when it is neither WebVTT nor has a SubRip time line.
 *
 * A time line is "TIME --> TIME", what follows a blank is ignored; "->" and missing
 * blanks are taken too. TIME is [-][hours:]minutes:seconds[,fraction] with 1 to 9
 * digits each, "," or "." and blanks around them. The fraction is read as a decimal
 * one: ",5" is half a second, ",500" too.
 *
 * All lines up to the next time line belong to a cue. SubRip's number before that line
 * does not, nor does anything after an empty line in WebVTT. The last line before a
 * time line is a number when it holds digits alone and follows directly (after an empty
 * line, in a file whose first cue has no number) or counts on from the number before. A
 * line that begins with a digit, holds "-->" and is no time line ends a cue and begins
 * none; it is counted. Lines end with \n, \r\n, \r or \r\r\n. */
bool pf_side_begin(pf_side *side, const char *text, size_t n_byte);

/* The next cue in the order of the file; false at the end. */
bool pf_side_next(pf_side *side, pf_side_cue *cue);

#endif /* PF_VIDEO_SIDEFILE_H */

/* cues.h - a list of timed texts, brought into order. */
#ifndef PF_VIDEO_CUES_H
#define PF_VIDEO_CUES_H

#include "video/text.h"

/* In place of an end that is not stated. */
#define PF_CUE_NO_END INT64_MIN

/* A cue whose end is not stated ends when the next later one starts, but not later than
 * this after its start. */
#define PF_CUE_MOST_US INT64_C(10000000)

typedef struct pf_cue {
    int64_t start_us;
    int64_t end_us;  /* once in order: > start_us */
    bool end_stated; /* once in order: end_us is the file's */
    int64_t place;   /* in the file, counted from 0 with those left out */
    size_t text_at;  /* in the text of the list */
    size_t text_bytes;
    const char *text; /* once in order; valid UTF-8, (text_bytes), not 0-terminated */
} pf_cue;

/* Owns everything. Zeroed it is empty. */
typedef struct pf_cues {
    pf_cue *cue; /* (n_cue) */
    size_t n_cue;
    size_t n_cue_room;
    pf_text text;
    int64_t n_seen;      /* added, the following ones too */
    int64_t n_empty;     /* left out: no text */
    int64_t n_duplicate; /* left out: same start, end and text as another */
} pf_cues;

/* Adds a cue whose text is what was appended to cues->text since it was text_at bytes
 * long; without text it is counted and left out. An end that is not after the start
 * (players show such a cue for no time at all) is no end. */
PF_NODISCARD pf_status pf_cues_add(
        pf_cues *cues, int64_t start_us, int64_t end_us, size_t text_at);

/* Once, after the last was added: leaves out duplicates, the first of them in the file
 * stays; sorts by start, equal ones in the order of the file; sets what end is missing.
 * Overlaps stay as they are. */
void pf_cues_finish(pf_cues *cues);

void pf_cues_free(pf_cues *cues);

#endif /* PF_VIDEO_CUES_H */

/* subtitle.h - the subtitles of a media file or of a subtitle file, as plain text. */
#ifndef PF_VIDEO_SUBTITLE_H
#define PF_VIDEO_SUBTITLE_H

#include "video/container.h"
#include "video/cues.h"

/* What a file may cost. */
typedef struct pf_subtitle_limits {
    int64_t max_cues;       /* of all streams that are read, empty ones too */
    int64_t max_text_bytes; /* of their text, and of a subtitle file as a whole */
} pf_subtitle_limits;

/* Which stream to read. */
typedef struct pf_subtitle_choice {
    int stream_index;      /* -1: the best one */
    const char *languages; /* "en,eng": their language is one of these; NULL: any */
} pf_subtitle_choice;

/* What the container says about one of its subtitle streams. */
typedef struct pf_subtitle_stream {
    int index;
    const char *codec; /* static storage */
    char language[32]; /* as tagged, "" without a tag; of any encoding */
    char title[128];   /* the same */
    int64_t n_cue;     /* found by reading; -1: not read */
    bool is_default;
    bool is_forced; /* only what a viewer of the original needs */
    bool is_text;   /* not pictures, and of a known kind */
} pf_subtitle_stream;

typedef struct pf_subtitles {
    pf_cues cues;         /* in order */
    int64_t n_invalid;    /* pieces that were no text, each now one U+FFFD */
    int64_t n_unreadable; /* cues without a readable time or text, left out */
    char container_name[64];
    pf_subtitle_stream *stream; /* (n_stream) of subtitles; one for a side file */
    size_t n_stream;
    size_t chosen;     /* the place of the one that was read */
    bool is_side_file; /* SubRip, WebVTT or another file of subtitles alone */
} pf_subtitles;

/* Reads the subtitles of source. SubRip and WebVTT files as sidefile.h says, everything
 * else by FFmpeg. Times are those of the container, on the clock of its video stream.
 *
 * The best stream is one of text (of the languages asked for) with any cue, not forced,
 * marked default, with the most cues, of the lowest index; what comes first decides.
 * Subtitle files have one stream, and one language that is often not stated: a choice
 * of languages is then held against it only when it is.
 *
 * On failure error says why: PF_EIO, PF_EDATA, PF_EBACKEND (no decoder, or the poll
 * asked to stop), PF_EOVERFLOW for a limit, PF_ENOMEM. The struct must be freed in
 * every case. */
PF_NODISCARD pf_status pf_subtitles_read(pf_subtitles *subtitles,
        const pf_source *source, const pf_subtitle_choice *choice,
        const pf_subtitle_limits *limits, const pf_poll *poll, pf_video_error *error);

void pf_subtitles_free(pf_subtitles *subtitles);

#endif /* PF_VIDEO_SUBTITLE_H */

/* source.h - where the bytes of a video come from: a file of the system, or memory. */
#ifndef PF_VIDEO_SOURCE_H
#define PF_VIDEO_SOURCE_H

#include "base/pf.h"
#include "video/log.h"

/* A limit that was met. All text in static storage. */
typedef struct pf_beyond {
    const char *reason; /* up to the name of the limit: "it has more bytes than" */
    const char *limit;  /* its name; NULL: none was met */
    double allowed;
    double found; /* 0: more than that, it was not counted to the end */
} pf_beyond;

/* What went wrong, for the message: FFmpeg's code and words, or errno. */
typedef struct pf_video_error {
    int errno_code;            /* of the operating system, 0 when not its fault */
    int av_code;               /* of FFmpeg, 0 when not its fault */
    char detail[PF_LOG_BYTES]; /* the first error that FFmpeg logged */
    const char *reason;        /* ours, in plain words; static storage */
    pf_beyond beyond;
} pf_video_error;

/* What a file may cost. */
typedef struct pf_limits {
    int64_t max_packets;
    int64_t max_pixels;  /* of one picture */
    int64_t cache_bytes; /* larger streams are read from their source at each use */
    int64_t max_bytes;   /* of the file or data; 0: any number */
    double max_s;        /* from the first frame to the end of the last; 0: any */
} pf_limits;

/* Called now and then from the thread that called in; not 0 means stop. */
typedef struct pf_poll {
    int (*ask)(void *arg);
    void *arg;
} pf_poll;

/* What tells a file from another one, or from itself after a change. */
typedef struct pf_file_stamp {
    bool known;
    uint64_t device;
    uint64_t inode;
    int64_t n_byte;
    int64_t changed_ns;
} pf_file_stamp;

typedef struct pf_source {
    const char *name;    /* path of a regular file, or what to call the data */
    const uint8_t *data; /* (n_byte) that stay where they are; NULL: read the file */
    int64_t n_byte;      /* of data */
    pf_file_stamp stamp; /* when known, the file must be this one */
} pf_source;

/* A place in an open source. */
typedef struct pf_cursor {
    const uint8_t *data; /* NULL: fd */
    int fd;              /* -1: none */
    int64_t n_byte;
    int64_t at_byte;
    pf_file_stamp stamp;
    const pf_poll *poll; /* NULL: nobody to ask */
    bool stopped;        /* the poll asked to stop */
} pf_cursor;

/* Opens a source for reading. poll is asked at every read until it says stop; it may be
 * NULL. PF_EIO: the file cannot be opened, error->errno_code says why. PF_EDATA: it is
 * empty, no regular file, or not the one of source->stamp. PF_EOVERFLOW: beyond
 * limits->max_bytes. The cursor must be closed in every case. */
PF_NODISCARD pf_status pf_cursor_open(pf_cursor *cursor, const pf_source *source,
        const pf_limits *limits, const pf_poll *poll, pf_video_error *error);

void pf_cursor_close(pf_cursor *cursor);

/* For avio_alloc_context, with a pf_cursor as opaque. */
int pf_cursor_read(void *cursor, uint8_t *buffer, int n_byte);
int64_t pf_cursor_seek(void *cursor, int64_t offset, int whence);

#endif /* PF_VIDEO_SOURCE_H */

/* source.c - reading a file or memory for FFmpeg, which opens nothing itself. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "video/source.h"

#include <errno.h>
#include <fcntl.h>
#include <libavformat/avio.h>
#include <libavutil/error.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pf_file_stamp
stamp_of(const struct stat *about)
{
    return (pf_file_stamp){.known = true,
            .device = (uint64_t)about->st_dev,
            .inode = (uint64_t)about->st_ino,
            .n_byte = about->st_size,
            .changed_ns = (int64_t)about->st_mtim.tv_sec * 1000000000 +
                          about->st_mtim.tv_nsec};
}

static bool
is_same(const pf_file_stamp *a, const pf_file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->n_byte == b->n_byte &&
           a->changed_ns == b->changed_ns;
}

static pf_status
open_file(pf_cursor *cursor, const pf_source *source, pf_video_error *error)
{
    struct stat about;

    /* a pipe without a writer must not block */
    cursor->fd = open(source->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (cursor->fd < 0 || fstat(cursor->fd, &about) != 0) {
        error->errno_code = errno;
        return PF_EIO;
    }
    if (!S_ISREG(about.st_mode)) {
        error->reason = S_ISDIR(about.st_mode) ? "it is a directory"
                                               : "it is not a regular file";
        return PF_EDATA;
    }
    cursor->n_byte = about.st_size;
    cursor->stamp = stamp_of(&about);
    if (source->stamp.known && !is_same(&source->stamp, &cursor->stamp)) {
        error->reason = "the file changed since it was opened";
        return PF_EDATA;
    }
    return PF_OK;
}

pf_status
pf_cursor_open(pf_cursor *cursor, const pf_source *source, const pf_limits *limits,
        const pf_poll *poll, pf_video_error *error)
{
    *cursor = (pf_cursor){
            .data = source->data, .fd = -1, .n_byte = source->n_byte, .poll = poll};
    if (source->data == NULL) {
        const pf_status st = open_file(cursor, source, error);

        if (st != PF_OK) {
            return st;
        }
    }
    if (cursor->n_byte <= 0) {
        error->reason = source->data == NULL ? "the file is empty" : "it is empty";
        return PF_EDATA;
    }
    if (limits->max_bytes > 0 && cursor->n_byte > limits->max_bytes) {
        error->beyond = (pf_beyond){"it has more bytes than", "max_bytes",
                (double)limits->max_bytes, (double)cursor->n_byte};
        return PF_EOVERFLOW;
    }
    return PF_OK;
}

void
pf_cursor_close(pf_cursor *cursor)
{
    if (cursor->fd >= 0) {
        (void)close(cursor->fd);
        cursor->fd = -1;
    }
    cursor->data = NULL;
}

int
pf_cursor_read(void *opaque, uint8_t *buffer, int n_byte)
{
    pf_cursor *cursor = opaque;
    const int64_t left_bytes = cursor->n_byte - cursor->at_byte;
    ssize_t n_read;

    if (!cursor->stopped && cursor->poll != NULL && cursor->poll->ask != NULL &&
            cursor->poll->ask(cursor->poll->arg) != 0) {
        cursor->stopped = true;
    }
    if (cursor->stopped) {
        return AVERROR_EXIT;
    }
    if (cursor->data != NULL) {
        n_read = left_bytes < n_byte ? left_bytes : n_byte;
        n_read = n_read > 0 ? n_read : 0;
        if (n_read > 0) {
            memcpy(buffer, cursor->data + cursor->at_byte, (size_t)n_read);
        }
    }
    else {
        do {
            n_read = pread(cursor->fd, buffer, (size_t)n_byte, cursor->at_byte);
        } while (n_read < 0 && errno == EINTR);
        if (n_read < 0) {
            return AVERROR(errno);
        }
    }
    cursor->at_byte += n_read;
    return n_read == 0 ? AVERROR_EOF : (int)n_read;
}

int64_t
pf_cursor_seek(void *opaque, int64_t offset, int whence)
{
    pf_cursor *cursor = opaque;
    int64_t base = 0;

    switch (whence & ~AVSEEK_FORCE) {
        case AVSEEK_SIZE:
            return cursor->n_byte;
        case SEEK_SET:
            break;
        case SEEK_CUR:
            base = cursor->at_byte;
            break;
        case SEEK_END:
            base = cursor->n_byte;
            break;
        default:
            return AVERROR(EINVAL);
    }
    if (offset > INT64_MAX - base || base + offset < 0) {
        return AVERROR(EINVAL);
    }
    cursor->at_byte = base + offset;
    return cursor->at_byte;
}

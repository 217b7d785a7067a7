/* log.c - a log callback that keeps quiet in our own threads. */
#include "video/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The only state: what the current thread is doing. FFmpeg gives no other way to tell
 * our demuxers and converters from those of another library in the process. */
static _Thread_local int depth;
static _Thread_local char *first_error;
static _Thread_local int64_t n_error;
static _Thread_local int64_t n_oversize;
static _Thread_local int64_t n_release;

/* Errors of our decoders in threads of FFmpeg's own, whichever decoder it was. */
static _Atomic int64_t n_foreign_error;

/* In other words in another FFmpeg it would count as an error. */
static const char release[] = "mmco: unref short failure";

/* Its address marks our decoders. */
static char ours;

static bool
is_our_decoder(const void *context)
{
    return context != NULL && *(const AVClass *const *)context == avcodec_get_class() &&
           ((const AVCodecContext *)context)->opaque == &ours;
}

static void
keep_or_pass(void *context, int level, const char *format, va_list arguments)
{
    if (depth == 0 && is_our_decoder(context)) {
        if (level <= AV_LOG_ERROR) {
            atomic_fetch_add(&n_foreign_error, 1);
        }
        return;
    }
    if (depth == 0) {
        av_log_default_callback(context, level, format, arguments);
        return;
    }
    if (level <= AV_LOG_ERROR && strncmp(format, release, sizeof release - 1) == 0) {
        n_release++;
    }
    else if (level <= AV_LOG_ERROR) {
        n_error++;
    }
    if (strstr(format, "exceeds specified max pixel count") != NULL) {
        n_oversize++;
    }
    if (level <= AV_LOG_ERROR && first_error != NULL && first_error[0] == '\0') {
        size_t n_char;

        (void)vsnprintf(first_error, PF_LOG_BYTES, format, arguments);
        n_char = strlen(first_error);
        while (n_char > 0 && (unsigned char)first_error[n_char - 1] <= ' ') {
            first_error[--n_char] = '\0';
        }
    }
}

void
pf_log_install(void)
{
    av_log_set_callback(keep_or_pass);
}

void
pf_log_own(AVCodecContext *decoder)
{
    decoder->opaque = &ours;
}

int64_t
pf_log_errors(bool of_all_threads)
{
    return n_error + (of_all_threads ? atomic_load(&n_foreign_error) : 0);
}

int64_t
pf_log_oversizes(void)
{
    return n_oversize;
}

int64_t
pf_log_releases(void)
{
    return n_release;
}

void
pf_log_begin(char *text)
{
    depth++;
    first_error = text;
}

void
pf_log_end(void)
{
    depth--;
    first_error = NULL;
}

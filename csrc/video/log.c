/* log.c - a log callback that keeps quiet in our own threads. */
#include "video/log.h"

#include <stdio.h>
#include <string.h>

#include <libavutil/log.h>

/* The only state: what the current thread is doing. FFmpeg gives no other way to tell
 * our demuxers and converters from those of another library in the process. */
static _Thread_local int depth;
static _Thread_local char *first_error;

static void
keep_or_pass(void *context, int level, const char *format, va_list arguments)
{
    if (depth == 0) {
        av_log_default_callback(context, level, format, arguments);
        return;
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

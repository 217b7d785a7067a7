/* log.h - FFmpeg's messages during our own calls: kept for the error text instead of
 * being printed. Messages of other users of the same FFmpeg are passed on untouched. */
#ifndef PF_VIDEO_LOG_H
#define PF_VIDEO_LOG_H

#include "base/pf.h"
#include "video/compat.h"

#define PF_LOG_BYTES 240

/* Installs the callback; once, at import. Calls no Python. */
void pf_log_install(void);

/* Messages of this decoder are not printed, whatever thread they come from. */
void pf_log_own(AVCodecContext *decoder);

/* Errors that FFmpeg logged so far, between begin and end, on the calling thread; and
 * those of all our decoders on threads that FFmpeg started. Only a difference means
 * something. pf_log_releases counts, and pf_log_errors does not, that H.264 pictures
 * were to be released that the decoder does not hold. */
int64_t pf_log_errors(bool of_all_threads);
int64_t pf_log_releases(void);

/* The same for pictures of more pixels than the decoder was allowed, on the calling
 * thread. FFmpeg drops them like damaged ones. */
int64_t pf_log_oversizes(void);

/* From here to pf_log_end the calling thread's messages are not printed. When text is
 * not NULL the first error among them is stored there (PF_LOG_BYTES bytes). */
void pf_log_begin(char *text);

void pf_log_end(void);

#endif /* PF_VIDEO_LOG_H */

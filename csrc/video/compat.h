/* compat.h - the differences between FFmpeg 5.1 and 9, all of them, and nothing else.
 */
#ifndef PF_VIDEO_COMPAT_H
#define PF_VIDEO_COMPAT_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/motion_vector.h>
#include <libswscale/swscale.h>

/* The display matrix of a stream: 9 values, or NULL. */
static inline const int32_t *
pf_compat_stream_matrix(const AVStream *stream)
{
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
    const AVPacketSideData *side =
            av_packet_side_data_get(stream->codecpar->coded_side_data,
                    stream->codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);

    if (side == NULL || side->size < 9 * sizeof(int32_t)) {
        return NULL;
    }
    return (const int32_t *)(const void *)side->data;
#else
    size_t n_byte = 0;
    const uint8_t *side =
            av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &n_byte);

    return n_byte < 9 * sizeof(int32_t) ? NULL : (const int32_t *)(const void *)side;
#endif
}

#endif /* PF_VIDEO_COMPAT_H */

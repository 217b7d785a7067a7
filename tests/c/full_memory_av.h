/* full_memory_av.h - the same for what FFmpeg allocates at our own calls. */
#ifndef PF_TEST_FULL_MEMORY_AV_H
#define PF_TEST_FULL_MEMORY_AV_H

#include "full_memory.h"
#include "video/compat.h"

void *__real_av_malloc(size_t n_byte);
AVPacket *__real_av_packet_alloc(void);
AVPacket *__real_av_packet_clone(const AVPacket *packet);
AVCodecContext *__real_avcodec_alloc_context3(const AVCodec *codec);
AVFormatContext *__real_avformat_alloc_context(void);
void *__wrap_av_malloc(size_t n_byte);
AVPacket *__wrap_av_packet_alloc(void);
AVPacket *__wrap_av_packet_clone(const AVPacket *packet);
AVCodecContext *__wrap_avcodec_alloc_context3(const AVCodec *codec);
AVFormatContext *__wrap_avformat_alloc_context(void);

void *
__wrap_av_malloc(size_t n_byte)
{
    return fails_now() ? NULL : __real_av_malloc(n_byte);
}

AVPacket *
__wrap_av_packet_alloc(void)
{
    return fails_now() ? NULL : __real_av_packet_alloc();
}

AVPacket *
__wrap_av_packet_clone(const AVPacket *packet)
{
    return fails_now() ? NULL : __real_av_packet_clone(packet);
}

AVCodecContext *
__wrap_avcodec_alloc_context3(const AVCodec *codec)
{
    return fails_now() ? NULL : __real_avcodec_alloc_context3(codec);
}

AVFormatContext *
__wrap_avformat_alloc_context(void)
{
    return fails_now() ? NULL : __real_avformat_alloc_context();
}

#endif /* PF_TEST_FULL_MEMORY_AV_H */

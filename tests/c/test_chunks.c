// uses: video
/* test_chunks.c - planes of decoded pictures, upright, and the chunks they come in. */
#include "check.h"

#include "video/chunks.h"

#include <stdlib.h>
#include <string.h>

enum { MARGIN = 37, POISON = 0xa5 };

static uint64_t random_state = 88172645463325252u;

static uint8_t
next_byte(void)
{
    random_state ^= random_state << 13; /* xorshift64 */
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint8_t)(random_state >> 32);
}

static AVFrame *
make_frame(enum AVPixelFormat format, int width, int height)
{
    AVFrame *frame = av_frame_alloc();

    frame->format = format;
    frame->width = width;
    frame->height = height;
    CHECK(av_frame_get_buffer(frame, 0) == 0);
    for (int i = 0; i < 4 && frame->data[i] != NULL; i++) {
        const int n_row =
                i > 0 && format != AV_PIX_FMT_YUV444P ? (height + 1) / 2 : height;

        for (int k = 0; k < n_row * frame->linesize[i]; k++) {
            frame->data[i][k] = next_byte();
        }
    }
    return frame;
}

/* Memory with a poisoned margin on both sides. */
static uint8_t *
guarded(size_t n_byte)
{
    uint8_t *memory = malloc(n_byte + 2 * MARGIN);

    memset(memory, POISON, n_byte + 2 * MARGIN);
    return memory + MARGIN;
}

static bool
is_guarded(const uint8_t *memory, size_t n_byte)
{
    for (size_t i = 0; i < MARGIN; i++) {
        if (memory[-(ptrdiff_t)i - 1] != POISON || memory[n_byte + i] != POISON) {
            return false;
        }
    }
    return true;
}

/* Upright planes, made RGB, are what pf_convert makes of the picture. */
static void
check_planes(const AVFrame *frame, const pf_geometry *geometry)
{
    const int width = pf_geometry_width_px(geometry);
    const int height = pf_geometry_height_px(geometry);
    const size_t n_luma = (size_t)width * (size_t)height;
    const size_t n_chroma = (size_t)((width + 1) / 2) * (size_t)((height + 1) / 2);
    const size_t n_byte[3] = {n_luma, n_chroma, n_chroma};
    const pf_geometry as_is = {width, height, 0, false};
    uint8_t *plane[3] = {guarded(n_luma), guarded(n_chroma), guarded(n_chroma)};
    uint8_t *expected = guarded(3 * n_luma);
    uint8_t *got = guarded(3 * n_luma);
    AVFrame upright = *frame;
    pf_converter converter = {0};

    pf_copy_planes(frame, geometry, plane);
    upright.format = AV_PIX_FMT_YUV420P;
    upright.width = width;
    upright.height = height;
    upright.color_range = frame->format == AV_PIX_FMT_YUVJ420P ? AVCOL_RANGE_JPEG
                                                               : frame->color_range;
    for (int i = 0; i < 3; i++) {
        CHECK(is_guarded(plane[i], n_byte[i]));
        upright.data[i] = plane[i];
        upright.linesize[i] = i > 0 ? (width + 1) / 2 : width;
    }
    CHECK(pf_convert(&converter, frame, geometry, expected) == PF_OK);
    CHECK(pf_convert(&converter, &upright, &as_is, got) == PF_OK);
    CHECK(memcmp(expected, got, 3 * n_luma) == 0);
    pf_converter_free(&converter);
    for (int i = 0; i < 3; i++) {
        free(plane[i] - MARGIN);
    }
    free(expected - MARGIN);
    free(got - MARGIN);
}

static void
test_planes_are_upright(void)
{
    static const int sizes[][2] = {
            {1, 1}, {2, 2}, {1, 2}, {7, 5}, {8, 5}, {7, 6}, {8, 6}, {31, 17}, {66, 50}};
    static const enum AVPixelFormat formats[] = {AV_PIX_FMT_YUV420P,
            AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_NV12, AV_PIX_FMT_NV21, AV_PIX_FMT_YUVA420P};
    int n_taken = 0;

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes * 5; k++) {
        const int *size = sizes[k / 5];
        AVFrame *frame = make_frame(formats[k % 5], size[0], size[1]);

        for (int turn = 0; turn < 8; turn++) {
            const pf_geometry geometry = {size[0], size[1], turn % 4, turn >= 4};
            /* clockwise by 90 the lines are reversed, by 270 the columns, and a mirror
             * takes back one of these or adds the other */
            static const int flips_x[] = {0, 0, 1, 1, 1, 0, 0, 1};
            static const int flips_y[] = {0, 1, 1, 0, 0, 0, 1, 1};
            const bool can = (flips_x[turn] == 0 || size[0] % 2 == 0) &&
                             (flips_y[turn] == 0 || size[1] % 2 == 0);
            pf_planar planar;

            frame->colorspace = turn % 2 != 0 ? AVCOL_SPC_BT709 : AVCOL_SPC_UNSPECIFIED;
            CHECK(pf_planar_of(frame, &geometry, &planar) == can);
            if (can) {
                CHECK(planar.matrix ==
                        (turn % 2 != 0 ? PF_MATRIX_BT709 : PF_MATRIX_BT601));
                CHECK(planar.full_range == (formats[k % 5] == AV_PIX_FMT_YUVJ420P));
                check_planes(frame, &geometry);
                n_taken++;
            }
        }
        av_frame_free(&frame);
    }
    CHECK(n_taken > 100);
}

static void
test_other_pictures_are_refused(void)
{
    static const enum AVPixelFormat formats[] = {AV_PIX_FMT_YUV444P, AV_PIX_FMT_GRAY8,
            AV_PIX_FMT_RGB24, AV_PIX_FMT_YUV420P10LE, AV_PIX_FMT_YUV422P};
    const pf_geometry geometry = {16, 16, 0, false};
    const pf_geometry larger = {16, 18, 0, false};
    pf_planar planar;
    AVFrame *frame;

    for (int k = 0; k < 5; k++) {
        frame = av_frame_alloc();
        frame->format = formats[k];
        frame->width = 16;
        frame->height = 16;
        CHECK(av_frame_get_buffer(frame, 0) == 0);
        CHECK(!pf_planar_of(frame, &geometry, &planar));
        av_frame_free(&frame);
    }
    frame = make_frame(AV_PIX_FMT_YUV420P, 16, 16);
    CHECK(pf_planar_of(frame, &geometry, &planar));
    CHECK(!pf_planar_of(frame, &larger, &planar));
    av_frame_free(&frame);
}

static void
test_black_is_black(void)
{
    const pf_geometry geometry = {6, 5, 1, false}; /* upright: 5 wide, 6 high */
    AVFrame *frame = make_frame(AV_PIX_FMT_YUV420P, 5, 6);
    const pf_geometry as_is = {5, 6, 0, false};

    for (int full = 0; full < 2; full++) {
        uint8_t *plane[3] = {guarded(30), guarded(9), guarded(9)};
        uint8_t rgb[90];
        pf_converter converter = {0};
        int n_lit = 0;

        pf_black_planes(&geometry, full != 0, plane);
        for (int i = 0; i < 3; i++) {
            CHECK(is_guarded(plane[i], i == 0 ? 30 : 9));
            for (int y = 0; y < (i == 0 ? 6 : 3); y++) {
                const size_t n = i == 0 ? 5 : 3;

                memcpy(frame->data[i] + y * frame->linesize[i],
                        plane[i] + (size_t)y * n, n);
            }
            free(plane[i] - MARGIN);
        }
        frame->color_range = full != 0 ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
        CHECK(pf_convert(&converter, frame, &as_is, rgb) == PF_OK);
        for (int i = 0; i < 90; i++) {
            n_lit += rgb[i] != 0;
        }
        CHECK(n_lit == 0);
        pf_converter_free(&converter);
    }
    av_frame_free(&frame);
}

/* What a reader of chunks saw. */
typedef struct seen {
    const pf_chunk *chunk;
    size_t picture_bytes;
    size_t n_call;
    size_t n_picture;
    size_t last_chunk;
    uint8_t first_byte[16]; /* of each slot */
    size_t stop_at;         /* calls after which no more is wanted; 0: never */
} seen;

static pf_status
look(void *arg, size_t chunk, const int64_t *slot, size_t n_picture,
        const pf_planar *planar)
{
    seen *s = arg;

    CHECK(planar->matrix == PF_MATRIX_BT601);
    s->n_call++;
    s->n_picture += n_picture;
    s->last_chunk = chunk;
    for (size_t i = 0; i < n_picture; i++) {
        s->first_byte[slot[i]] = s->chunk[chunk].plane[0][i * s->picture_bytes];
    }
    return s->stop_at == s->n_call ? PF_EBACKEND : PF_OK;
}

static void
test_chunks_take_turns(void)
{
    const pf_geometry geometry = {4, 2, 0, false};
    uint8_t memory[2][3][24];
    const pf_chunk chunk[2] = {{{memory[0][0], memory[0][1], memory[0][2]}},
            {{memory[1][0], memory[1][1], memory[1][2]}}};
    seen s = {.chunk = chunk, .picture_bytes = 8};
    pf_chunks chunks = {.geometry = &geometry,
            .chunk = chunk,
            .n_chunk = 2,
            .room = 3,
            .full = look,
            .arg = &s};
    AVFrame *frame = make_frame(AV_PIX_FMT_YUV420P, 4, 2);

    CHECK(pf_chunks_init(&chunks, 7) == PF_OK);
    for (size_t slot = 7; slot-- > 1;) {
        frame->data[0][0] = (uint8_t)(100 + slot);
        CHECK(pf_chunks_take(&chunks, slot % 2, slot, frame) == PF_OK);
        CHECK(s.n_call == (7 - slot) / 3);
    }
    CHECK(s.last_chunk == 1 && s.n_picture == 6);
    CHECK(pf_chunks_take(&chunks, 0, 0, NULL) == PF_OK);
    CHECK(pf_chunks_finish(&chunks) == PF_OK);
    CHECK(s.n_call == 3 && s.last_chunk == 0 && s.n_picture == 7);
    CHECK(s.first_byte[0] == 16); /* black */
    for (size_t slot = 1; slot < 7; slot++) {
        CHECK(s.first_byte[slot] == 100 + slot);
    }
    CHECK(pf_chunks_finish(&chunks) == PF_OK);
    CHECK(s.n_call == 3); /* nothing was left */
    pf_chunks_free(&chunks);
    av_frame_free(&frame);
}

static void
test_one_chunk_keeps_the_order(void)
{
    const pf_geometry geometry = {4, 2, 0, false};
    uint8_t *rgb = guarded((size_t)3 * 24);
    const pf_chunk chunk = {{rgb, NULL, NULL}};
    seen s = {.chunk = &chunk, .picture_bytes = 24};
    pf_chunks chunks = {.geometry = &geometry,
            .chunk = &chunk,
            .n_chunk = 1,
            .room = 3,
            .full = look,
            .arg = &s,
            .is_rgb = true};

    CHECK(pf_chunks_init(&chunks, 3) == PF_OK);
    for (size_t i = 0; i < 3; i++) {
        uint8_t picture[24];

        memset(picture, (int)(50 + 2 - i), sizeof picture);
        CHECK(pf_chunks_take_rgb(&chunks, 0, 2 - i, picture) == PF_OK);
    }
    CHECK(s.n_call == 0);
    CHECK(pf_chunks_finish(&chunks) == PF_OK);
    CHECK(s.n_call == 1 && s.n_picture == 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK(s.first_byte[i] == 50 + i && rgb[24 * i + 23] == 50 + i);
    }
    CHECK(is_guarded(rgb, 72));
    pf_chunks_free(&chunks);
    free(rgb - MARGIN);
}

static void
test_what_ends_it(void)
{
    const pf_geometry geometry = {4, 2, 0, false};
    uint8_t memory[3][8];
    const pf_chunk chunk = {{memory[0], memory[1], memory[2]}};
    seen s = {.chunk = &chunk, .picture_bytes = 8, .stop_at = 2};
    pf_chunks chunks = {.geometry = &geometry,
            .chunk = &chunk,
            .n_chunk = 1,
            .room = 1,
            .full = look,
            .arg = &s};
    AVFrame *frame = make_frame(AV_PIX_FMT_YUV420P, 4, 2);

    CHECK(pf_chunks_init(&chunks, 5) == PF_OK);
    CHECK(pf_chunks_take(&chunks, 0, 0, frame) == PF_OK);
    CHECK(pf_chunks_take(&chunks, 0, 1, frame) == PF_EBACKEND);
    CHECK(!chunks.is_refused);
    frame->colorspace = AVCOL_SPC_BT709; /* no longer that of the first */
    CHECK(pf_chunks_take(&chunks, 0, 2, frame) == PF_EBACKEND);
    CHECK(chunks.is_refused);
    CHECK(s.n_call == 2);
    pf_chunks_free(&chunks);
    chunks.room = 0;
    CHECK(pf_chunks_init(&chunks, 5) == PF_EINVAL);
    av_frame_free(&frame);
}

int
main(void)
{
    test_planes_are_upright();
    test_other_pictures_are_refused();
    test_black_is_black();
    test_chunks_take_turns();
    test_one_chunk_keeps_the_order();
    test_what_ends_it();
    return check_report("chunks");
}

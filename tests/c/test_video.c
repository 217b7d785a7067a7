/* test_video.c - headers of compressed pictures, colour rows, plans, orientation. */
#include "check.h"

#include "video/convert.h"
#include "video/nal.h"
#include "video/plan.h"

#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t
next_random(void)
{
    random_state ^= random_state << 13; /* xorshift64 */
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Any bytes are accepted, and none outside the buffer is touched (ASan). */
static void
test_headers_of_random_bytes(void)
{
    static const pf_syntax syntaxes[] = {PF_SYNTAX_OTHER, PF_SYNTAX_H264,
            PF_SYNTAX_HEVC, PF_SYNTAX_VP8, PF_SYNTAX_VP9, PF_SYNTAX_AV1};
    int64_t n_bad = 0;

    for (int round = 0; round < 20000; round++) {
        const size_t n_byte = next_random() % 67;
        uint8_t *data = malloc(n_byte > 0 ? n_byte : 1);
        pf_nal nal;
        pf_picture picture;

        for (size_t i = 0; i < n_byte; i++) {
            /* few values, so that start codes and lengths are frequent */
            data[i] = (uint8_t)(next_random() % 5 == 0 ? next_random()
                                                       : next_random() % 3);
        }
        pf_nal_init(&nal, syntaxes[round % 6], data, n_byte);
        picture = pf_nal_read(&nal, data, n_byte);
        n_bad += picture.n_shown < -1 || picture.temporal_id < 0 ||
                 (picture.resets && !picture.starts);
        nal.length_bytes = (int)(next_random() % 5);
        picture = pf_nal_read(&nal, data, n_byte);
        n_bad += picture.n_shown < -1;
        free(data);
    }
    CHECK(n_bad == 0);
}

static pf_picture
read_h264(const uint8_t *data, size_t n_byte)
{
    pf_nal nal;

    pf_nal_init(&nal, PF_SYNTAX_H264, NULL, 0);
    return pf_nal_read(&nal, data, n_byte);
}

static void
test_h264_headers(void)
{
    /* first_mb 0 ('1'), slice_type 7 = I ('0001000') */
    static const uint8_t idr[] = {0, 0, 1, 0x65, 0x88, 0x80};
    static const uint8_t unreferenced[] = {0, 0, 1, 0x01, 0x9a, 0};
    static const uint8_t referenced[] = {0, 0, 0, 1, 0x41, 0x9a, 0};
    static const uint8_t with_headers[] = {
            0, 0, 1, 0x67, 66, 0, 30, 0, 0, 1, 0x68, 1, 0, 0, 1, 0x65, 0x88, 0x80};
    /* SEI 6, 1 byte: count 0 ('1'), exact ('1'), link not broken ('0'), group '00' */
    static const uint8_t recovery[] = {
            0, 0, 1, 0x06, 6, 1, 0xc4, 0x80, 0, 0, 1, 0x41, 0x88, 0x80};
    static const uint8_t inexact[] = {
            0, 0, 1, 0x06, 6, 1, 0x84, 0x80, 0, 0, 1, 0x41, 0x88, 0x80};
    static const uint8_t two_pictures[] = {
            0, 0, 1, 0x01, 0x9a, 0, 0, 0, 1, 0x01, 0x9a, 0};
    pf_picture picture = read_h264(idr, sizeof idr);

    CHECK(picture.n_shown == 1 && picture.resets && picture.starts);
    CHECK(!picture.unreferenced && !picture.carries_headers);
    picture = read_h264(unreferenced, sizeof unreferenced);
    CHECK(picture.n_shown == 1 && picture.unreferenced && !picture.starts);
    picture = read_h264(referenced, sizeof referenced);
    CHECK(picture.n_shown == 1 && !picture.unreferenced);
    picture = read_h264(with_headers, sizeof with_headers);
    CHECK(picture.resets && picture.carries_headers && picture.whole_headers);
    picture = read_h264(recovery, sizeof recovery);
    CHECK(picture.starts && !picture.resets);
    picture = read_h264(inexact, sizeof inexact);
    CHECK(!picture.starts);
    picture = read_h264(two_pictures, sizeof two_pictures);
    CHECK(picture.n_shown == 2);
    picture = read_h264(NULL, 0);
    CHECK(picture.n_shown == -1);
}

static void
test_h264_lengths_and_changing_headers(void)
{
    static const uint8_t avcc[] = {
            1, 66, 0, 30, 0xff, 0xe1, 0, 4, 0x67, 66, 0, 30, 1, 0, 2, 0x68, 1};
    static const uint8_t good[] = {0, 0, 0, 3, 0x65, 0x88, 0x80};
    static const uint8_t too_long[] = {0, 0, 0, 9, 0x65, 0x88, 0x80};
    static const uint8_t same_pps[] = {
            0, 0, 0, 2, 0x68, 1, 0, 0, 0, 3, 0x65, 0x88, 0x80};
    static const uint8_t other_pps[] = {
            0, 0, 0, 2, 0x68, 2, 0, 0, 0, 3, 0x65, 0x88, 0x80};
    pf_nal nal;

    pf_nal_init(&nal, PF_SYNTAX_H264, avcc, sizeof avcc);
    CHECK(nal.length_bytes == 4 && nal.n_header == 2);
    CHECK(pf_nal_read(&nal, good, sizeof good).n_shown == 1);
    CHECK(pf_nal_read(&nal, too_long, sizeof too_long).n_shown == -1);
    CHECK(pf_nal_read(&nal, same_pps, sizeof same_pps).carries_headers);
    CHECK(!nal.headers_change);
    CHECK(pf_nal_read(&nal, other_pps, sizeof other_pps).n_shown == 1);
    CHECK(nal.headers_change);
}

static void
test_other_headers(void)
{
    static const uint8_t cra[] = {0, 0, 1, 21 << 1, 1, 0x80};
    static const uint8_t idr[] = {0, 0, 1, 19 << 1, 1, 0x80};
    static const uint8_t trail_n[] = {0, 0, 1, 0, 3, 0x80};
    static const uint8_t end[] = {0, 0, 1, 1 << 1, 1, 0x80, 0, 0, 1, 36 << 1, 1};
    static const uint8_t hidden[] = {0, 0, 1, 34 << 1, 1, 0xd0}; /* '1' '1' '0' '1' */
    static const uint8_t vp9_key[] = {0x82, 0x49, 0x83, 0x42};
    static const uint8_t vp9_existing[] = {0x88};
    static const uint8_t vp9_super[] = {0x84, 0, 0x86, 0, 0xc1, 2, 2, 0xc1};
    static const uint8_t av1_key[] = {0x12, 0, 0x0a, 1, 0, 0x32, 2, 0x10, 0};
    static const uint8_t av1_hidden[] = {0x12, 0, 0x32, 1, 0x20, 0x1a, 1, 0x80};
    pf_nal nal;
    pf_picture picture;

    pf_nal_init(&nal, PF_SYNTAX_HEVC, NULL, 0);
    picture = pf_nal_read(&nal, cra, sizeof cra);
    CHECK(picture.starts && !picture.resets && picture.n_shown == 1);
    picture = pf_nal_read(&nal, idr, sizeof idr);
    CHECK(picture.starts && picture.resets);
    picture = pf_nal_read(&nal, trail_n, sizeof trail_n);
    CHECK(picture.unreferenced && picture.temporal_id == 2);
    CHECK(pf_nal_read(&nal, end, sizeof end).n_shown == -1);
    CHECK(!nal.hidden_pictures);
    (void)pf_nal_read(&nal, hidden, sizeof hidden);
    CHECK(nal.hidden_pictures);
    CHECK(pf_nal_read(&nal, idr, sizeof idr).n_shown == -1);

    pf_nal_init(&nal, PF_SYNTAX_VP9, NULL, 0);
    picture = pf_nal_read(&nal, vp9_key, sizeof vp9_key);
    CHECK(picture.n_shown == 1 && picture.resets);
    CHECK(pf_nal_read(&nal, vp9_existing, sizeof vp9_existing).n_shown == 1);
    CHECK(pf_nal_read(&nal, vp9_super, sizeof vp9_super).n_shown == 1);

    pf_nal_init(&nal, PF_SYNTAX_AV1, NULL, 0);
    picture = pf_nal_read(&nal, av1_key, sizeof av1_key);
    CHECK(picture.n_shown == 1 && picture.resets && picture.carries_headers);
    picture = pf_nal_read(&nal, av1_hidden, sizeof av1_hidden);
    CHECK(picture.n_shown == 1 && !picture.resets);

    pf_nal_init(&nal, PF_SYNTAX_VP8, NULL, 0);
    CHECK(pf_nal_read(&nal, (const uint8_t *)"\x10\0\0", 3).resets);
    CHECK(pf_nal_read(&nal, (const uint8_t *)"\x01\0\0", 3).n_shown == 0);
}

/* Pictures whose headers lean on what pictures before a key picture left behind. */
static void
test_false_starts(void)
{
    /* the first bits behind the heads, at even odds: a zero bit keeps the value low */
    static const uint8_t key[] = {0x10, 0, 0, 0x9d, 1, 0x2a, 8, 0, 8, 0, 0, 0};
    static const uint8_t old_map[] = {0x11, 0, 0, 0xa0, 0, 0};
    static const uint8_t new_map[] = {0x11, 0, 0, 0xff, 0xff, 0};
    static const uint8_t no_map[] = {0x11, 0, 0, 0x10, 0, 0};
    static const uint8_t whole[] = {
            0xff, 0xd8, 0xff, 0xdb, 0, 2, 0xff, 0xc4, 0, 2, 0xff, 0xda};
    static const uint8_t no_codes[] = {0xff, 0xd8, 0xff, 0xdb, 0, 2, 0xff, 0xda};
    static const uint8_t no_steps[] = {0xff, 0xd8, 0xff, 0xc4, 0, 2, 0xff, 0xda};
    pf_nal nal;

    pf_nal_init(&nal, PF_SYNTAX_VP8, NULL, 0);
    CHECK(pf_nal_read(&nal, key, sizeof key).starts);
    CHECK(!pf_nal_read(&nal, no_map, sizeof no_map).uses_older);
    CHECK(pf_nal_read(&nal, old_map, sizeof old_map).uses_older);
    CHECK(!pf_nal_read(&nal, new_map, sizeof new_map).uses_older);
    CHECK(!pf_nal_read(&nal, old_map, sizeof old_map).uses_older);
    CHECK(!pf_nal_read(&nal, key, sizeof key).uses_older);
    CHECK(pf_nal_read(&nal, old_map, sizeof old_map).uses_older);

    pf_nal_init(&nal, PF_SYNTAX_MJPEG, NULL, 0);
    CHECK(pf_nal_read(&nal, whole, sizeof whole).starts);
    CHECK(!pf_nal_read(&nal, no_codes, sizeof no_codes).starts);
    CHECK(!pf_nal_read(&nal, no_steps, sizeof no_steps).starts);
    CHECK(pf_nal_read(&nal, whole, sizeof whole).starts);
    pf_nal_init(&nal, PF_SYNTAX_MJPEG, NULL, 0);
    CHECK(pf_nal_read(&nal, no_codes, sizeof no_codes).starts); /* the usual ones */
    CHECK(pf_nal_read(&nal, no_codes, sizeof no_codes).starts);
    CHECK(pf_nal_read(&nal, no_codes, 3).n_shown == 1);
}

enum { MARGIN = 64, MAX_WIDTH = 131 };

static void
test_colour_rows_stay_inside(void)
{
    static const int widths[] = {0, 1, 2, 3, 16, 67, MAX_WIDTH};
    const pf_luma_weights weights = {0.299, 0.114};
    pf_colour colour;

    CHECK(pf_colour_init(&colour, weights, false, 7) == PF_EINVAL);
    CHECK(pf_colour_init(&colour, weights, false, 13) == PF_EINVAL);
    for (int round = 0; round < 7 * 12; round++) {
        const int depth = round % 2 == 0 ? 8 : 10;
        const int width = widths[round / 12];
        const int x_shift = round / 2 % 3;
        const size_t n_byte = depth > 8 ? 2 : 1;
        const size_t n_chroma = ((size_t)width + (1u << x_shift) - 1) >> x_shift;
        uint8_t *plane[3];
        pf_component component[3];
        uint8_t rgb[MARGIN + 3 * MAX_WIDTH + MARGIN];
        int n_touched = 0;

        CHECK(pf_colour_init(&colour, weights, round % 5 == 0, depth) == PF_OK);
        for (int i = 0; i < 3; i++) {
            const size_t n = (i == 0 ? (size_t)width : n_chroma) * n_byte;

            plane[i] = malloc(n > 0 ? n : 1); /* exactly: ASan sees a read too far */
            memset(plane[i], 0xff, n);
            component[i] = (pf_component){
                    plane[i], 0, (ptrdiff_t)n_byte, i > 0 ? x_shift : 0, 0, 0};
        }
        if (round % 4 == 3) {
            component[1].data = NULL; /* grey */
        }
        memset(rgb, 0xa5, sizeof rgb);
        pf_colour_row(&colour, component, 0, width, rgb + MARGIN);
        for (size_t k = 0; k < sizeof rgb; k++) {
            const bool inside = k >= MARGIN && k < MARGIN + 3 * (size_t)width;

            n_touched += !inside && rgb[k] != 0xa5;
        }
        CHECK(n_touched == 0);
        for (int i = 0; i < 3; i++) {
            free(plane[i]);
        }
    }
}

/* With and without vectors, and pixel by pixel: the same bytes. */
static void
test_colour_rows_agree_on_every_machine(void)
{
    enum { WIDTH = 1030 }; /* more than one chunk, and a rest */
    uint8_t y[WIDTH], u[WIDTH / 2], v[WIDTH / 2], wide[3][WIDTH];
    uint8_t fast[3 * WIDTH], plain[3 * WIDTH], single[3 * WIDTH];
    const pf_component shared[3] = {
            {y, 0, 1, 0, 0, 0}, {u, 0, 1, 1, 0, 0}, {v, 0, 1, 1, 0, 0}};
    const pf_component apart[3] = {{wide[0], 0, 1, 0, 0, 0}, {wide[1], 0, 1, 0, 0, 0},
            {wide[2], 0, 1, 0, 0, 0}};
    pf_colour colour;

    for (int round = 0; round < 40; round++) {
        const int64_t width_px = WIDTH - round % 4;
        const size_t n_byte = 3 * (size_t)width_px;

        CHECK(pf_colour_init(&colour, (pf_luma_weights){0.2126, 0.0722}, round % 2 == 0,
                      8) == PF_OK);
        for (int i = 0; i < WIDTH; i++) {
            y[i] = (uint8_t)next_random();
            u[i / 2] = (uint8_t)next_random();
            v[i / 2] = (uint8_t)next_random();
        }
        for (int i = 0; i < WIDTH; i++) {
            wide[0][i] = y[i];
            wide[1][i] = u[i / 2];
            wide[2][i] = v[i / 2];
        }
        pf_colour_row(&colour, shared, 0, width_px, fast);
        pf_colour_row(&colour, apart, 0, width_px, single);
        colour.has_avx2 = false;
        pf_colour_row(&colour, shared, 0, width_px, plain);
        CHECK(memcmp(fast, plain, n_byte) == 0 && memcmp(fast, single, n_byte) == 0);
    }
}

static void
test_orientations(void)
{
    const int32_t one = 1 << 16;
    const int32_t upright[9] = {one, 0, 0, 0, one, 0, 0, 0, 1 << 30};
    const int32_t clockwise[9] = {0, one, 0, -one, 0, 0, 0, 0, 1 << 30};
    const int32_t flipped[9] = {one, 0, 0, 0, -one, 0, 0, 0, 1 << 30};
    const int32_t askew[9] = {one, one / 2, 0, -one / 2, one, 0, 0, 0, 1 << 30};
    const int32_t nothing[9] = {0};
    pf_geometry g = {.stored_width_px = 4, .stored_height_px = 3};

    pf_geometry_orient(&g, NULL);
    CHECK(g.quarter_turns == 0 && !g.mirrored);
    pf_geometry_orient(&g, upright);
    CHECK(g.quarter_turns == 0 && !g.mirrored);
    pf_geometry_orient(&g, clockwise);
    CHECK(g.quarter_turns == 1 && !g.mirrored);
    CHECK(pf_geometry_width_px(&g) == 3 && pf_geometry_height_px(&g) == 4);
    pf_geometry_orient(&g, flipped); /* top to bottom = half a turn, then a mirror */
    CHECK(g.quarter_turns == 2 && g.mirrored);
    pf_geometry_orient(&g, askew);
    CHECK(g.quarter_turns == 0 && !g.mirrored);
    pf_geometry_orient(&g, nothing);
    CHECK(g.quarter_turns == 0 && !g.mirrored);
}

/* Packets I0 P1 b2 | I3 b4 P5: b4 is shown before I3 and refers to P1. */
static void
test_leading_pictures_start_in_the_group_before(void)
{
    pf_packet packet[6] = {
            {.rank = 0, .flags = PF_PACKET_STARTS | PF_PACKET_RESETS},
            {.rank = 2},
            {.rank = 1, .flags = PF_PACKET_UNREFERENCED},
            {.rank = 4, .flags = PF_PACKET_STARTS},
            {.rank = 3, .flags = PF_PACKET_UNREFERENCED},
            {.rank = 5},
    };
    int64_t frame_packet[6] = {0, 2, 1, 4, 3, 5};
    const pf_index index = {.packet = packet,
            .n_packet = 6,
            .held = true,
            .frame_packet = frame_packet,
            .n_frame = 6};
    const int64_t leading[] = {3};
    const int64_t after[] = {5, 4, 5};
    const int64_t both[] = {3, 5};
    const int64_t outside[] = {6};
    pf_plan plan;

    CHECK(pf_plan_make(&plan, &index, leading, 1, false, true) == PF_OK);
    CHECK(plan.n_run == 1 && plan.run[0].first == 0 && plan.run[0].last == 4);
    pf_plan_free(&plan);
    CHECK(pf_plan_make(&plan, &index, after, 3, false, true) == PF_OK);
    CHECK(plan.n_run == 1 && plan.run[0].first == 3 && plan.run[0].last == 5);
    CHECK(pf_plan_find(&plan, plan.run, 5)->slot == 0);
    CHECK(pf_plan_find(&plan, plan.run, 4) == NULL);
    pf_plan_free(&plan);
    CHECK(pf_plan_make(&plan, &index, both, 2, false, false) == PF_OK);
    CHECK(plan.n_run == 2 && plan.run[0].first == 0 && plan.run[1].first == 3);
    pf_plan_free(&plan);
    CHECK(pf_plan_make(&plan, &index, both, 2, false, true) == PF_OK);
    CHECK(plan.n_run == 1 && plan.run[0].last == 5);
    pf_plan_free(&plan);
    CHECK(pf_plan_make(&plan, &index, both, 2, true, true) == PF_OK);
    CHECK(plan.n_run == 1 && plan.is_needed == NULL && plan.run[0].last == 5);
    pf_plan_free(&plan);
    CHECK(pf_plan_make(&plan, &index, outside, 1, false, true) == PF_EINVAL);
    CHECK(pf_plan_make(&plan, &index, outside, 0, false, true) == PF_OK);
    CHECK(plan.n_run == 0);
}

int
main(void)
{
    test_headers_of_random_bytes();
    test_h264_headers();
    test_h264_lengths_and_changing_headers();
    test_other_headers();
    test_false_starts();
    test_colour_rows_stay_inside();
    test_colour_rows_agree_on_every_machine();
    test_orientations();
    test_leading_pictures_start_in_the_group_before();
    return check_report("video");
}

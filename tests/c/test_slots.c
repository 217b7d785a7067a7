// uses: video
/* test_slots.c - which packets of VP9 and AV1 a wanted picture needs. */
#include "video/nal.h"
#include "video/plan.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

/* A header under construction: fields of up to 32 bits, high bit first. */
typedef struct writer {
    uint8_t data[64];
    size_t n_bit;
} writer;

static void
put(writer *w, int n_bit, uint32_t value)
{
    for (int i = n_bit - 1; i >= 0; i--, w->n_bit++) {
        if ((value >> i & 1u) != 0) {
            w->data[w->n_bit >> 3] |= (uint8_t)(128u >> (w->n_bit & 7));
        }
    }
}

static pf_picture
read_packet(pf_nal *nal, const writer *w)
{
    return pf_nal_read(nal, w->data, (w->n_bit + 7) / 8);
}

static bool
uses(pf_picture picture, int read_slots, int stored_slots)
{
    return picture.has_slots && picture.read_slots == read_slots &&
           picture.stored_slots == stored_slots;
}

/* A VP9 inter frame that reads slots 1, 1 and 4. */
static pf_picture
vp9_inter(pf_nal *nal, bool shown, bool resilient, uint32_t stored)
{
    writer w = {{0}, 0};

    put(&w, 4, 8); /* marker, profile 0 */
    put(&w, 1, 0); /* show_existing_frame */
    put(&w, 1, 1); /* not a key frame */
    put(&w, 1, shown);
    put(&w, 1, resilient);
    put(&w, shown ? 0 : 1, 0);     /* intra_only */
    put(&w, resilient ? 0 : 2, 0); /* reset_frame_context */
    put(&w, 8, stored);
    for (int i = 0; i < 3; i++) {
        put(&w, 3, i < 2 ? 1 : 4);
        put(&w, 1, i == 1);
    }
    put(&w, 8, 0xff);
    return read_packet(nal, &w);
}

static void
test_vp9_slots(void)
{
    static const uint8_t key[] = {0x82, 0x49, 0x83, 0x42};
    static const uint8_t intra_only[] = {0x84, 0x80, 0x49, 0x83, 0x42};
    static const uint8_t existing[] = {0x8d};
    pf_picture picture;
    pf_nal nal;

    pf_nal_init(&nal, PF_SYNTAX_VP9, NULL, 0);
    picture = pf_nal_read(&nal, key, sizeof key);
    CHECK(uses(picture, 0, 0xff) && !picture.relies_on_last);
    picture = vp9_inter(&nal, true, false, 0x24);
    CHECK(uses(picture, 0x12, 0x24) && picture.relies_on_last);
    picture = vp9_inter(&nal, true, true, 0);
    CHECK(uses(picture, 0x12, 0) && !picture.relies_on_last);
    picture = vp9_inter(&nal, false, true, 0x80);
    CHECK(uses(picture, 0x12, 0x80) && picture.n_shown == 0);
    picture = pf_nal_read(&nal, existing, sizeof existing);
    CHECK(uses(picture, 1 << 5, 0) && picture.n_shown == 1 && picture.relies_on_last);
    picture = pf_nal_read(&nal, intra_only, sizeof intra_only);
    CHECK(uses(picture, 0xff, 0xff) && picture.relies_on_last);
}

typedef struct sequence {
    bool has_timing;
    bool has_model;
    int id_change_bits; /* 0: no frame numbers */
    int order_bits;
    bool chosen_tools; /* screen content tools: by each frame, otherwise never */
} sequence;

enum { ID_BITS = 15, N_POINT = 2 };

/* One OBU with a size field of one byte. */
static void
put_unit(writer *w, uint32_t kind, const writer *payload)
{
    const size_t n_byte = payload->n_bit / 8 + 1; /* with a trailing one bit */

    put(w, 8, kind << 3 | 2);
    put(w, 8, (uint32_t)n_byte);
    for (size_t i = 0; i < n_byte; i++) {
        put(w, 8, payload->data[i]);
    }
}

static void
put_sequence(writer *w, const sequence *s)
{
    writer p = {{0}, 0};

    put(&p, 3, 0); /* profile */
    put(&p, 2, 0); /* still picture, reduced header */
    put(&p, 1, s->has_timing);
    if (s->has_timing) {
        put(&p, 32, 1);
        put(&p, 32, 25);
        put(&p, 1, 1); /* equal_picture_interval, then uvlc 6 - 1 */
        put(&p, 5, 6);
        put(&p, 1, s->has_model);
    }
    put(&p, 1, 1); /* initial_display_delay_present_flag */
    put(&p, 5, N_POINT - 1);
    for (int i = 0; i < N_POINT; i++) {
        put(&p, 12, 0);
        put(&p, 5, i == 0 ? 5 : 9);
        put(&p, i == 0 ? 0 : 1, 1); /* tier of the higher levels */
        put(&p, 1, i == 0);
        put(&p, i == 0 ? 4 : 0, 9);
    }
    put(&p, 4, 7);
    put(&p, 4, 6);
    put(&p, 8, 159);
    put(&p, 7, 95);
    put(&p, 1, s->id_change_bits > 0);
    if (s->id_change_bits > 0) {
        put(&p, 4, (uint32_t)s->id_change_bits - 2);
        put(&p, 3, (uint32_t)(ID_BITS - s->id_change_bits - 1));
    }
    put(&p, 7, 0x55);
    put(&p, 1, s->order_bits > 0);
    put(&p, s->order_bits > 0 ? 2 : 0, 3);
    put(&p, 1, s->chosen_tools);
    put(&p, s->chosen_tools ? 0 : 1, 0);
    put(&p, s->chosen_tools ? 1 : 0, 1); /* whole vectors: by each frame */
    put(&p, s->order_bits > 0 ? 3 : 0, (uint32_t)s->order_bits - 1);
    put(&p, 8, 0xa5); /* what follows is not read */
    put_unit(w, 1, &p);
}

typedef struct frame {
    uint32_t kind; /* 0 key, 1 inter, 2 intra only, 3 switch */
    bool shown;
    bool resilient;
    bool short_signaling;
    uint32_t stored;
} frame;

/* An inter frame reads slots 0 to 2. */
static void
put_frame(writer *w, const sequence *s, const frame *f)
{
    const bool is_shown_key = f->kind == 0 && f->shown;
    writer p = {{0}, 0};

    put(&p, 1, 0);
    put(&p, 2, f->kind);
    put(&p, 1, f->shown);
    put(&p, f->shown ? 0 : 1, 1);
    put(&p, f->kind == 3 || is_shown_key ? 0 : 1, f->resilient);
    put(&p, 1, 0);
    put(&p, s->chosen_tools ? 2 : 0, 2); /* tools, but vectors of any kind */
    put(&p, s->id_change_bits > 0 ? ID_BITS : 0, 0x1234);
    put(&p, f->kind == 3 ? 0 : 1, 0);
    put(&p, s->order_bits, 0);
    put(&p, f->kind == 1 && !f->resilient ? 3 : 0, 7);
    put(&p, f->kind == 3 || is_shown_key ? 0 : 8, f->stored);
    if (f->kind == 1 || f->kind == 3) {
        for (int i = 0; f->resilient && i < 8; i++) {
            put(&p, s->order_bits, 1);
        }
        put(&p, s->order_bits > 0 ? 1 : 0, f->short_signaling);
        for (uint32_t i = 0; i < 7 && !f->short_signaling; i++) {
            put(&p, 3, i % 3);
            put(&p, s->id_change_bits, 1);
        }
    }
    put(&p, 8, 0xff);
    put_unit(w, 6, &p);
}

static pf_picture
av1_frame(pf_nal *nal, const sequence *s, frame f)
{
    writer w = {{0}, 0};

    put_frame(&w, s, &f);
    return read_packet(nal, &w);
}

static pf_picture
av1_existing(pf_nal *nal, uint32_t slot)
{
    writer p = {{0}, 0};
    writer w = {{0}, 0};

    put(&p, 1, 1);
    put(&p, 3, slot);
    put_unit(&w, 3, &p);
    return read_packet(nal, &w);
}

static void
check_av1_slots(const sequence *s)
{
    const uint8_t head[4] = {0x81, 0, 0, 0};
    writer w = {{0}, 0};
    pf_picture picture;
    pf_nal nal;

    for (size_t i = 0; i < 4; i++) {
        put(&w, 8, head[i]);
    }
    put_sequence(&w, s);
    pf_nal_init(&nal, PF_SYNTAX_AV1, w.data, w.n_bit / 8);
    CHECK(uses(av1_frame(&nal, s, (frame){0, true, true, false, 0xff}), 0, 0xff));
    CHECK(uses(av1_frame(&nal, s, (frame){1, true, false, false, 0}), 7, 0));
    CHECK(uses(av1_frame(&nal, s, (frame){1, false, true, false, 0x48}), 7, 0x48));
    CHECK(uses(av1_frame(&nal, s, (frame){2, true, false, false, 0x20}), 0, 0x20));
    CHECK(uses(av1_frame(&nal, s, (frame){3, true, true, false, 0}), 7, 0xff));
    if (s->order_bits > 0) {
        picture = av1_frame(&nal, s, (frame){1, true, false, true, 0x04});
        CHECK(uses(picture, 0xff, 0x04)); /* computed from order hints: any */
    }
    CHECK(uses(av1_existing(&nal, 3), 8, 0));
    /* a hidden key frame in slot 6 fills all slots when it is shown */
    CHECK(uses(av1_frame(&nal, s, (frame){0, false, true, false, 0x40}), 0, 0x40));
    CHECK(uses(av1_existing(&nal, 5), 0x20, 0));
    CHECK(uses(av1_existing(&nal, 6), 0x40, 0xff));
    CHECK(uses(av1_existing(&nal, 5), 0x20, 0xff));
    /* two frames in one packet: what the first stores the second need not find */
    w = (writer){{0}, 0};
    put_frame(&w, s, &(frame){1, false, false, false, 0x02});
    put_frame(&w, s, &(frame){1, true, false, false, 0x80});
    picture = read_packet(&nal, &w);
    CHECK(uses(picture, 7, 0x82) && picture.n_shown == 1);
}

static void
test_av1_slots(void)
{
    const sequence plain = {.order_bits = 7, .chosen_tools = true};
    const sequence bare = {0};
    const sequence numbered = {
            .has_timing = true, .id_change_bits = 14, .order_bits = 3};
    const sequence modelled = {.has_timing = true, .has_model = true};
    writer w = {{0}, 0};
    pf_nal nal;

    check_av1_slots(&plain);
    check_av1_slots(&bare);
    check_av1_slots(&numbered);
    pf_nal_init(&nal, PF_SYNTAX_AV1, NULL, 0);
    CHECK(!av1_frame(&nal, &plain, (frame){1, true, false, false, 0}).has_slots);
    put_sequence(&w, &modelled);
    put_frame(&w, &plain, &(frame){0, true, true, false, 0});
    CHECK(!read_packet(&nal, &w).has_slots); /* not followed: all is needed */
}

static void
check_needed(const pf_index *index, const int64_t *frame, size_t n_frame,
        const char *expected)
{
    pf_plan plan;

    CHECK(pf_plan_make(&plan, index, frame, n_frame, false, true) == PF_OK);
    for (int64_t i = 0; i < index->n_packet; i++) {
        CHECK((plan.is_needed[i] != 0) == (expected[i] == 'x'));
    }
    pf_plan_free(&plan);
}

/* A pyramid: 0 key, 1 a far picture, 2 between, 3 and 4 beside it, 5 and 6 at rest on
 * each other, 7 a key frame, 8 after it. */
static void
test_needed_packets(void)
{
    pf_packet packet[9];
    int64_t frame_packet[9];
    const uint32_t known = PF_PACKET_SLOTS;
    const uint32_t key = known | PF_PACKET_STARTS | PF_PACKET_RESETS;
    const struct {
        uint32_t flags;
        uint8_t read, stored;
    } facts[9] = {{key, 0, 0xff}, {known, 1, 2}, {known, 3, 4}, {known, 5, 0},
            {known, 6, 0}, {known, 2, 8}, {known | PF_PACKET_RELIES, 8, 16},
            {key, 0, 0xff}, {known, 1, 1}};
    const pf_index index = {.packet = packet,
            .n_packet = 9,
            .frame_packet = frame_packet,
            .n_frame = 9};

    for (int i = 0; i < 9; i++) {
        packet[i] = (pf_packet){.rank = i,
                .flags = facts[i].flags,
                .read_slots = facts[i].read,
                .stored_slots = facts[i].stored};
        frame_packet[i] = i;
    }
    check_needed(&index, (const int64_t[]){0}, 1, "x........");
    check_needed(&index, (const int64_t[]){1}, 1, "xx.......");
    check_needed(&index, (const int64_t[]){3}, 1, "xxxx.....");
    check_needed(&index, (const int64_t[]){5}, 1, "xx...x...");
    check_needed(&index, (const int64_t[]){6}, 1, "xx...xx..");
    check_needed(&index, (const int64_t[]){8, 4}, 2, "xxx.x..xx");
    packet[5].flags &= ~known; /* unknown: needed, and all before it may be */
    check_needed(&index, (const int64_t[]){6}, 1, "xxx..xx..");
    packet[5].flags |= PF_PACKET_UNREFERENCED;
    packet[6].flags = known;
    check_needed(&index, (const int64_t[]){6}, 1, "x.....x..");
}

int
main(void)
{
    test_vp9_slots();
    test_av1_slots();
    test_needed_packets();
    return check_report("slots");
}

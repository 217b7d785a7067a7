/* vpx.c - readers of VP8, VP9, AV1 and JPEG picture headers. */
#include "video/nal.h"

#include "video/bits.h"

/* A frame of the packet reads some slots and is then stored in some. */
static void
use_slots(pf_picture *picture, uint32_t read, uint32_t stored)
{
    picture->read_slots |= (uint8_t)(read & ~(uint32_t)picture->stored_slots);
    picture->stored_slots |= (uint8_t)stored;
}

/* The arithmetic decoder of VP8 for fields whose bits are even odds. */
typedef struct even_decoder {
    const uint8_t *data;
    size_t data_bytes;
    size_t at;
    uint32_t value; /* two bytes */
    uint32_t range;
    int n_shift;
} even_decoder;

static uint32_t
next_byte(even_decoder *d)
{
    return d->at < d->data_bytes ? d->data[d->at++] : 0u;
}

static bool
read_even(even_decoder *d)
{
    const uint32_t split = 1 + (((d->range - 1) * 128) >> 8);
    const bool bit = d->value >= split << 8;

    d->value -= bit ? split << 8 : 0;
    d->range = bit ? d->range - split : split;
    while (d->range < 128) {
        d->value <<= 1;
        d->range <<= 1;
        if (++d->n_shift == 8) {
            d->n_shift = 0;
            d->value |= next_byte(d);
        }
    }
    return bit;
}

pf_picture
pf_vp8_read(bool *has_map, const uint8_t *data, size_t data_bytes)
{
    enum { TAG_BYTES = 3, KEY_BYTES = 10 }; /* with start code and size */
    pf_picture picture = {0};
    even_decoder d = {.data = data, .data_bytes = data_bytes, .range = 255};
    bool is_key;

    if (data_bytes < TAG_BYTES) {
        picture.n_shown = -1;
        return picture;
    }
    picture.n_shown = (data[0] >> 4) & 1;
    is_key = (data[0] & 1) == 0;
    d.at = is_key ? KEY_BYTES : TAG_BYTES;
    d.value = next_byte(&d) << 8;
    d.value |= next_byte(&d);
    if (is_key) {
        (void)read_even(&d); /* colour space */
        (void)read_even(&d); /* clamping type */
        *has_map = false;
    }
    if (read_even(&d)) {                      /* segmentation_enabled */
        *has_map = read_even(&d) || *has_map; /* update_mb_segmentation_map */
        picture.uses_older = !*has_map;
    }
    picture.resets = is_key;
    picture.starts = is_key;
    return picture;
}

pf_picture
pf_mjpeg_read(bool *has_codes, bool is_first, const uint8_t *data, size_t data_bytes)
{
    enum { CODES = 0xc4, SCAN = 0xda, STEPS = 0xdb };
    pf_picture picture = {.n_shown = 1};
    bool has_steps = false;
    bool own_codes = false;
    size_t at = 2; /* after the start of the image */

    while (at + 4 <= data_bytes && data[at] == 0xff && data[at + 1] != SCAN) {
        has_steps = has_steps || data[at + 1] == STEPS;
        own_codes = own_codes || data[at + 1] == CODES;
        at += 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
    }
    *has_codes = is_first ? own_codes : *has_codes || own_codes;
    picture.resets = has_steps && (own_codes || !*has_codes);
    picture.starts = picture.resets;
    return picture;
}

/* The rest of the header of a frame that is no key frame, up to its references. */
static void
read_vp9_slots(pf_picture *picture, pf_bits *b, bool shown, bool resilient)
{
    const bool intra_only = !shown && pf_read_bit(b) == 1;
    uint32_t read = 0;
    uint32_t stored;

    if (!resilient) {
        (void)pf_read_bits(b, 2); /* reset_frame_context */
    }
    if (intra_only) { /* rare, and its header varies */
        use_slots(picture, 0xff, 0xff);
        return;
    }
    stored = pf_read_bits(b, 8);
    for (int i = 0; i < 3; i++) {
        read |= UINT32_C(1) << pf_read_bits(b, 3);
        (void)pf_read_bit(b); /* sign bias */
    }
    use_slots(picture, read, b->overrun ? 0xff : stored);
}

/* One VP9 frame; a superframe holds several. */
static void
read_vp9_frame(pf_picture *picture, const uint8_t *data, size_t data_bytes, bool first)
{
    pf_bits b = {data, data_bytes * 8, 0, false};
    const uint32_t marker = pf_read_bits(&b, 2);
    const uint32_t profile = pf_read_bits(&b, 2); /* low bit first: 3 reads the same */
    bool inter, shown, resilient;

    if (profile == 3) {
        (void)pf_read_bit(&b);
    }
    if (pf_read_bit(&b) == 1) { /* show_existing_frame */
        picture->n_shown++;
        picture->relies_on_last = true;
        use_slots(picture, UINT32_C(1) << pf_read_bits(&b, 3), 0);
        return;
    }
    inter = pf_read_bit(&b) == 1;
    shown = pf_read_bit(&b) == 1;
    resilient = pf_read_bit(&b) == 1;
    if (marker != 2 || b.overrun) {
        picture->n_shown = INT32_MIN / 2;
        return;
    }
    picture->n_shown += shown;
    if (first) {
        picture->relies_on_last = inter && !resilient;
    }
    if (inter) {
        read_vp9_slots(picture, &b, shown, resilient);
    }
    else {
        use_slots(picture, 0, 0xff);
    }
    if (first && !inter) {
        picture->resets = true;
        picture->starts = true;
    }
}

pf_picture
pf_vp9_read(const uint8_t *data, size_t data_bytes)
{
    pf_picture picture = {.has_slots = true};
    const uint8_t last = data_bytes > 0 ? data[data_bytes - 1] : 0;
    const size_t n_frame = (last & 7u) + 1;
    const size_t field_bytes = ((last >> 3) & 3u) + 1;
    const size_t index_bytes = 2 + n_frame * field_bytes;
    const uint8_t *field;
    size_t at = 0;

    if ((last & 0xe0) != 0xc0 || data_bytes < index_bytes ||
            data[data_bytes - index_bytes] != last) {
        read_vp9_frame(&picture, data, data_bytes, true);
        picture.n_shown = picture.n_shown < 0 ? -1 : picture.n_shown;
        return picture;
    }
    field = data + data_bytes - index_bytes + 1;
    for (size_t i = 0; i < n_frame; i++, field += field_bytes) {
        size_t frame_bytes = 0;

        for (size_t k = field_bytes; k > 0; k--) {
            frame_bytes = frame_bytes << 8 | field[k - 1];
        }
        if (frame_bytes == 0 || frame_bytes > data_bytes - index_bytes - at) {
            picture.n_shown = -1;
            return picture;
        }
        read_vp9_frame(&picture, data + at, frame_bytes, i == 0);
        at += frame_bytes;
    }
    picture.n_shown = picture.n_shown < 0 ? -1 : picture.n_shown;
    return picture;
}

/* The size of one OBU's payload and where it starts; false when it does not fit. */
static bool
av1_unit(const uint8_t *data, size_t data_bytes, size_t *from, size_t *unit_bytes)
{
    const bool has_extension = (data[0] & 4) != 0;
    const bool has_size = (data[0] & 2) != 0;
    size_t at = has_extension ? 2 : 1;
    uint64_t value = 0;

    if (at > data_bytes) {
        return false;
    }
    if (!has_size) {
        *from = at;
        *unit_bytes = data_bytes - at;
        return true;
    }
    for (unsigned i = 0; i < 8; i++) {
        if (at >= data_bytes) {
            return false;
        }
        value |= (uint64_t)(data[at] & 127) << (7 * i);
        if ((data[at++] & 128) == 0) {
            *from = at;
            *unit_bytes = (size_t)value;
            return value <= data_bytes - at;
        }
    }
    return false;
}

/* What stands before the fields that are wanted; false when there is a decoder model,
 * whose fields in frame headers are not followed here. */
static bool
skip_av1_timing(pf_bits *b)
{
    bool has_delay;
    int n_point;

    if (pf_read_bit(b) == 1) { /* timing_info_present_flag */
        (void)pf_read_bits(b, 32);
        (void)pf_read_bits(b, 32);
        if (pf_read_bit(b) == 1) {
            (void)pf_read_ue(b); /* the same code as uvlc */
        }
        if (pf_read_bit(b) == 1) { /* decoder_model_info_present_flag */
            return false;
        }
    }
    has_delay = pf_read_bit(b) == 1;
    n_point = 1 + (int)pf_read_bits(b, 5);
    for (int i = 0; i < n_point; i++) {
        (void)pf_read_bits(b, 12);
        if (pf_read_bits(b, 5) > 7) {
            (void)pf_read_bit(b); /* tier */
        }
        if (has_delay && pf_read_bit(b) == 1) {
            (void)pf_read_bits(b, 4);
        }
    }
    return true;
}

enum { CHOSEN_BY_FRAME = 2 };

static void
read_av1_sequence(pf_av1 *av1, const uint8_t *data, size_t data_bytes)
{
    pf_bits b = {data, data_bytes * 8, 0, false};
    int width_bits, height_bits;

    *av1 = (pf_av1){.key_slots = av1->key_slots};
    (void)pf_read_bits(&b, 4);  /* profile, still picture */
    if (pf_read_bit(&b) == 1 || /* reduced_still_picture_header: one picture */
            !skip_av1_timing(&b)) {
        return;
    }
    width_bits = 1 + (int)pf_read_bits(&b, 4);
    height_bits = 1 + (int)pf_read_bits(&b, 4);
    (void)pf_read_bits(&b, width_bits);
    (void)pf_read_bits(&b, height_bits);
    if (pf_read_bit(&b) == 1) { /* frame_id_numbers_present_flag */
        av1->id_change_bits = 2 + (int)pf_read_bits(&b, 4);
        av1->id_bits = av1->id_change_bits + 1 + (int)pf_read_bits(&b, 3);
    }
    (void)pf_read_bits(&b, 7);  /* superblock size and tools */
    if (pf_read_bit(&b) == 1) { /* enable_order_hint */
        (void)pf_read_bits(&b, 2);
        av1->order_bits = 1;
    }
    av1->screen_tools = pf_read_bit(&b) == 1 ? CHOSEN_BY_FRAME : (int)pf_read_bit(&b);
    av1->whole_vectors = CHOSEN_BY_FRAME;
    if (av1->screen_tools > 0 && pf_read_bit(&b) == 0) {
        av1->whole_vectors = (int)pf_read_bit(&b);
    }
    if (av1->order_bits == 1) {
        av1->order_bits = 1 + (int)pf_read_bits(&b, 3);
    }
    av1->known = !b.overrun;
}

/* The slots that an inter frame reads. */
static uint32_t
read_av1_references(const pf_av1 *av1, pf_bits *b, bool resilient)
{
    uint32_t read = 0;

    if (av1->order_bits > 0) {
        for (int i = 0; resilient && i < 8; i++) {
            (void)pf_read_bits(b, av1->order_bits); /* ref_order_hint */
        }
        if (pf_read_bit(b) == 1) { /* frame_refs_short_signaling */
            return 0xff;
        }
    }
    for (int i = 0; i < 7; i++) {
        read |= UINT32_C(1) << pf_read_bits(b, 3);
        (void)pf_read_bits(b, av1->id_change_bits);
    }
    return b->overrun ? 0xff : read;
}

/* What a frame header says of slots. Everything that a frame takes over from earlier
 * ones, probabilities and motion too, it takes from slots. */
static void
read_av1_slots(pf_av1 *av1, pf_picture *picture, const uint8_t *data, size_t data_bytes)
{
    enum { KEY, INTER, INTRA_ONLY, SWITCH };
    pf_bits b = {data, data_bytes * 8, 0, false};
    uint32_t kind, stored;
    bool shown, resilient, screen_tools;

    if (pf_read_bit(&b) == 1) { /* show_existing_frame */
        const uint32_t slot = UINT32_C(1) << pf_read_bits(&b, 3);
        const bool is_key = (av1->key_slots & slot) != 0; /* fills all slots */

        use_slots(picture, slot, is_key ? 0xff : 0);
        av1->key_slots = is_key ? 0xff : av1->key_slots;
        return;
    }
    kind = pf_read_bits(&b, 2);
    shown = pf_read_bit(&b) == 1;
    if (kind == KEY && shown) {
        use_slots(picture, 0, 0xff);
        av1->key_slots = 0xff;
        return;
    }
    if (!shown) {
        (void)pf_read_bit(&b); /* showable_frame */
    }
    resilient = kind == SWITCH || pf_read_bit(&b) == 1;
    (void)pf_read_bit(&b); /* disable_cdf_update */
    screen_tools = av1->screen_tools == CHOSEN_BY_FRAME ? pf_read_bit(&b) == 1
                                                        : av1->screen_tools == 1;
    if (screen_tools && av1->whole_vectors == CHOSEN_BY_FRAME) {
        (void)pf_read_bit(&b);
    }
    (void)pf_read_bits(&b, av1->id_bits);
    if (kind != SWITCH) {
        (void)pf_read_bit(&b); /* frame_size_override_flag */
    }
    (void)pf_read_bits(&b, av1->order_bits);
    if (kind == INTER && !resilient) {
        (void)pf_read_bits(&b, 3); /* primary_ref_frame */
    }
    stored = kind == SWITCH ? 0xff : pf_read_bits(&b, 8);
    use_slots(picture,
            kind == KEY || kind == INTRA_ONLY ? 0
                                              : read_av1_references(av1, &b, resilient),
            b.overrun ? 0xff : stored);
    av1->key_slots =
            (uint8_t)(kind == KEY ? av1->key_slots | stored : av1->key_slots & ~stored);
}

pf_picture
pf_av1_read(pf_av1 *av1, const uint8_t *data, size_t data_bytes)
{
    enum { SEQUENCE_HEADER = 1, FRAME_HEADER = 3, FRAME = 6 };
    pf_picture picture = {0};
    int n_frame = 0;

    for (size_t at = 0; at < data_bytes;) {
        const int kind = (data[at] >> 3) & 15;
        size_t from, unit_bytes;

        if (!av1_unit(data + at, data_bytes - at, &from, &unit_bytes)) {
            picture.n_shown = -1;
            return picture;
        }
        if (kind == SEQUENCE_HEADER) {
            picture.carries_headers = true;
            read_av1_sequence(av1, data + at + from, unit_bytes);
        }
        if ((kind == FRAME_HEADER || kind == FRAME) && unit_bytes > 0) {
            const uint8_t head = data[at + from]; /* show_existing, type, show_frame */

            picture.n_shown += (head & 0x80) != 0 || (head & 0x10) != 0;
            if (n_frame == 0 && (head & 0xf0) == 0x10) {
                picture.resets = picture.carries_headers; /* a shown key frame */
                picture.starts = picture.carries_headers;
            }
            read_av1_slots(av1, &picture, data + at + from, unit_bytes);
            n_frame++;
        }
        at += from + unit_bytes;
    }
    picture.has_slots = av1->known && n_frame > 0;
    return picture;
}

/* vpx.c - readers of VP8, VP9 and AV1 picture headers. */
#include "video/nal.h"

#include "video/bits.h"

pf_picture
pf_vp8_read(const uint8_t *data, size_t data_bytes)
{
    pf_picture picture = {0};

    if (data_bytes < 3) {
        picture.n_shown = -1;
        return picture;
    }
    picture.n_shown = (data[0] >> 4) & 1;
    picture.resets = (data[0] & 1) == 0;
    picture.starts = picture.resets;
    return picture;
}

/* One VP9 frame; a superframe holds several. */
static void
read_vp9_frame(pf_picture *picture, const uint8_t *data, size_t data_bytes, bool first)
{
    pf_bits b = {data, data_bytes * 8, 0, false};
    const uint32_t marker = pf_read_bits(&b, 2);
    const uint32_t profile = pf_read_bits(&b, 2); /* low bit first: 3 reads the same */
    bool inter, shown;

    if (profile == 3) {
        (void)pf_read_bit(&b);
    }
    if (pf_read_bit(&b) == 1) { /* show_existing_frame */
        picture->n_shown++;
        return;
    }
    inter = pf_read_bit(&b) == 1;
    shown = pf_read_bit(&b) == 1;
    if (marker != 2 || b.overrun) {
        picture->n_shown = INT32_MIN / 2;
        return;
    }
    picture->n_shown += shown;
    if (first && !inter) {
        picture->resets = true;
        picture->starts = true;
    }
}

pf_picture
pf_vp9_read(const uint8_t *data, size_t data_bytes)
{
    pf_picture picture = {0};
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

pf_picture
pf_av1_read(const uint8_t *data, size_t data_bytes)
{
    pf_picture picture = {0};
    int n_frame = 0;

    for (size_t at = 0; at < data_bytes;) {
        const int kind = (data[at] >> 3) & 15;
        size_t from, unit_bytes;

        if (!av1_unit(data + at, data_bytes - at, &from, &unit_bytes)) {
            picture.n_shown = -1;
            return picture;
        }
        if (kind == 1) {
            picture.carries_headers = true;
        }
        if ((kind == 3 || kind == 6) && unit_bytes > 0) {
            const uint8_t head = data[at + from]; /* show_existing, type, show_frame */

            picture.n_shown += (head & 0x80) != 0 || (head & 0x10) != 0;
            if (n_frame == 0 && (head & 0xf0) == 0x10) {
                picture.resets = picture.carries_headers; /* a shown key frame */
                picture.starts = picture.carries_headers;
            }
            n_frame++;
        }
        at += from + unit_bytes;
    }
    return picture;
}

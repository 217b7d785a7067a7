/* nal.c - readers of H.264 and HEVC picture headers. */
#include "video/nal.h"

#include <string.h>

#include "base/random.h"
#include "video/bits.h"

/* Copies up to capacity payload bytes without the emulation prevention bytes. */
static size_t
unescape(const uint8_t *data, size_t data_bytes, uint8_t *out, size_t capacity)
{
    size_t n_out = 0;
    int n_zero = 0;

    for (size_t i = 0; i < data_bytes && n_out < capacity; i++) {
        if (n_zero >= 2 && data[i] == 3) {
            n_zero = 0;
            continue;
        }
        n_zero = data[i] == 0 ? n_zero + 1 : 0;
        out[n_out++] = data[i];
    }
    return n_out;
}

/* Remembers a parameter set; one that is new after the first packet is a change. */
static void
note_header(pf_nal *nal, const uint8_t *data, size_t data_bytes)
{
    uint64_t hash;

    while (data_bytes > 0 && data[data_bytes - 1] == 0) {
        data_bytes--; /* trailing zeros belong to the next start code */
    }
    hash = pf_hash_fnv1a64(data, data_bytes);
    for (size_t i = 0; i < nal->n_header; i++) {
        if (nal->header[i] == hash) {
            return;
        }
    }
    if (nal->first_seen || nal->n_header == PF_NAL_MAX_HEADERS) {
        nal->headers_change = true;
    }
    if (nal->n_header < PF_NAL_MAX_HEADERS) {
        nal->header[nal->n_header++] = hash;
    }
}

/* What one packet has shown so far while its NAL units are walked. */
typedef struct walk {
    pf_nal *nal;
    pf_picture picture;
    int n_slice;
    bool has_sps;
    bool has_pps;
    bool all_reset;
    bool all_unreferenced;
    bool all_intra;
    bool recovery_point; /* exact, at this very picture */
    bool random_access;  /* HEVC: every slice is of an IRAP picture */
    bool broken;
} walk;

/* SEI: is there a recovery point that is exact from this picture on? */
static bool
sei_recovers(const uint8_t *data, size_t data_bytes)
{
    uint8_t plain[256];
    size_t n_plain = unescape(data, data_bytes, plain, sizeof plain);
    size_t at = 0;

    while (at + 2 < n_plain) {
        size_t kind = 0;
        size_t payload_bytes = 0;

        while (at < n_plain && plain[at] == 0xff) {
            kind += 255;
            at++;
        }
        kind += at < n_plain ? plain[at++] : 0u;
        while (at < n_plain && plain[at] == 0xff) {
            payload_bytes += 255;
            at++;
        }
        payload_bytes += at < n_plain ? plain[at++] : 0u;
        if (kind == 6 && at < n_plain) {
            pf_bits b = {plain + at, (n_plain - at) * 8, 0, false};
            const uint32_t n_frame = pf_read_ue(&b);
            const bool exact = pf_read_bit(&b) == 1;
            const bool broken_link = pf_read_bit(&b) == 1;

            return !b.overrun && n_frame == 0 && exact && !broken_link;
        }
        if (payload_bytes > n_plain - at) {
            break;
        }
        at += payload_bytes;
    }
    return false;
}

static void
h264_slice(walk *w, const uint8_t *data, size_t data_bytes)
{
    uint8_t plain[16];
    const size_t n_plain = unescape(data + 1, data_bytes - 1, plain, sizeof plain);
    pf_bits b = {plain, n_plain * 8, 0, false};
    const uint32_t first_mb = pf_read_ue(&b);
    const uint32_t slice_type = pf_read_ue(&b);

    if (b.overrun || slice_type > 9) {
        w->broken = true;
    }
    w->n_slice++;
    w->picture.n_shown += first_mb == 0;
    w->all_reset = w->all_reset && (data[0] & 31) == 5;
    w->all_unreferenced = w->all_unreferenced && (data[0] & 0x60) == 0;
    w->all_intra = w->all_intra && (slice_type % 5 == 2 || slice_type % 5 == 4);
}

static void
h264_unit(walk *w, const uint8_t *data, size_t data_bytes)
{
    const int kind = data[0] & 31;

    if ((data[0] & 0x80) != 0) {
        w->broken = true; /* forbidden_zero_bit */
    }
    switch (kind) {
        case 1:
        case 2:
        case 5:
            h264_slice(w, data, data_bytes);
            break;
        case 6:
            w->recovery_point =
                    w->recovery_point || sei_recovers(data + 1, data_bytes - 1);
            break;
        case 7:
        case 8:
        case 13:
        case 15:
            w->has_sps = w->has_sps || kind == 7;
            w->has_pps = w->has_pps || kind == 8;
            w->picture.carries_headers = true;
            note_header(w->nal, data, data_bytes);
            break;
        default:
            break;
    }
}

/* A PPS with output_flag_present_flag: pictures may be decoded and never shown. */
static void
hevc_picture_header(walk *w, const uint8_t *data, size_t data_bytes)
{
    uint8_t plain[16];
    const size_t n_plain = unescape(data + 2, data_bytes - 2, plain, sizeof plain);
    pf_bits b = {plain, n_plain * 8, 0, false};

    (void)pf_read_ue(&b);  /* pps_pic_parameter_set_id */
    (void)pf_read_ue(&b);  /* pps_seq_parameter_set_id */
    (void)pf_read_bit(&b); /* dependent_slice_segments_enabled_flag */
    if (pf_read_bit(&b) == 1 || b.overrun) {
        w->nal->hidden_pictures = true;
    }
}

static void
hevc_unit(walk *w, const uint8_t *data, size_t data_bytes)
{
    int kind, layer, temporal_id;

    if (data_bytes < 3) {
        return; /* end of sequence or stream: no payload, see below */
    }
    kind = (data[0] >> 1) & 63;
    layer = ((data[0] & 1) << 5) | (data[1] >> 3);
    temporal_id = (data[1] & 7) - 1;
    if ((data[0] & 0x80) != 0 || temporal_id < 0) {
        w->broken = true;
        return;
    }
    if (layer != 0) {
        return; /* enhancement layers are not decoded */
    }
    if (kind < 32) {
        w->n_slice++;
        w->picture.n_shown += (data[2] & 0x80) != 0; /* first slice of a picture */
        w->picture.temporal_id = temporal_id;
        w->all_reset = w->all_reset && (kind == 19 || kind == 20);
        w->random_access = w->random_access && (kind == 21 || kind == 19 || kind == 20);
        w->all_unreferenced = w->all_unreferenced && kind < 16 && kind % 2 == 0;
        w->broken = w->broken || (kind >= 16 && kind <= 18) ||
                    (kind > 9 && kind < 16) ||
                    kind > 21; /* broken links skip pictures; the rest is reserved */
        if (kind >= 16 && (data[2] & 0x40) != 0 && w->nal->first_seen) {
            w->broken = true; /* no_output_of_prior_pics_flag: pictures vanish */
        }
    }
    else if (kind <= 34) {
        w->has_sps = w->has_sps || kind == 33;
        w->has_pps = w->has_pps || kind == 34;
        w->picture.carries_headers = true;
        note_header(w->nal, data, data_bytes);
        if (kind == 34) {
            hevc_picture_header(w, data, data_bytes);
        }
    }
}

static void
read_unit(walk *w, const uint8_t *data, size_t data_bytes)
{
    if (data_bytes == 0) {
        return;
    }
    if (w->nal->syntax == PF_SYNTAX_H264) {
        h264_unit(w, data, data_bytes);
        return;
    }
    if (((data[0] >> 1) & 63) == 36 || ((data[0] >> 1) & 63) == 37) {
        w->broken = true; /* end of sequence: the next CRA drops its leading pictures */
    }
    hevc_unit(w, data, data_bytes);
}

/* Units behind a big-endian length. */
static void
walk_lengths(walk *w, const uint8_t *data, size_t data_bytes)
{
    const size_t n_field = (size_t)w->nal->length_bytes;
    size_t at = 0;

    while (data_bytes - at >= n_field) {
        size_t unit_bytes = 0;

        for (size_t i = 0; i < n_field; i++) {
            unit_bytes = unit_bytes << 8 | data[at + i];
        }
        at += n_field;
        if (unit_bytes > data_bytes - at) {
            w->broken = true;
            return;
        }
        read_unit(w, data + at, unit_bytes);
        at += unit_bytes;
    }
    if (at != data_bytes) {
        w->broken = true;
    }
}

/* The offset of the next 00 00 01 from at on, or data_bytes. */
static size_t
find_start_code(const uint8_t *data, size_t data_bytes, size_t at)
{
    while (at + 3 <= data_bytes) {
        const uint8_t *one = memchr(data + at + 2, 1, data_bytes - at - 2);

        if (one == NULL) {
            return data_bytes;
        }
        at = (size_t)(one - data) - 2;
        if (data[at] == 0 && data[at + 1] == 0) {
            return at;
        }
        at++;
    }
    return data_bytes;
}

/* Units between start codes. */
static void
walk_start_codes(walk *w, const uint8_t *data, size_t data_bytes)
{
    size_t at = find_start_code(data, data_bytes, 0);

    if (at == data_bytes) {
        w->broken = true;
        return;
    }
    while (at < data_bytes) {
        const size_t from = at + 3;
        const size_t next = find_start_code(data, data_bytes, from);

        read_unit(w, data + from, next - from);
        at = next;
    }
}

static pf_picture
read_units(pf_nal *nal, const uint8_t *data, size_t data_bytes)
{
    walk w = {.nal = nal,
            .all_reset = true,
            .all_unreferenced = true,
            .all_intra = true,
            .random_access = true};

    if (nal->length_bytes > 0) {
        walk_lengths(&w, data, data_bytes);
    }
    else {
        walk_start_codes(&w, data, data_bytes);
    }
    if (w.n_slice > 0) {
        const bool recovers = nal->syntax == PF_SYNTAX_H264
                                      ? w.recovery_point && w.all_intra
                                      : w.random_access;

        w.picture.resets = w.all_reset;
        w.picture.starts = w.all_reset || recovers;
        w.picture.unreferenced = w.all_unreferenced;
        w.picture.whole_headers = w.has_sps && w.has_pps;
    }
    if (w.broken || nal->hidden_pictures) {
        w.picture.n_shown = -1;
    }
    return w.picture;
}

/* Parameter sets of an avcC or hvcC box: arrays of 16-bit lengths and units. */
static size_t
init_array(pf_nal *nal, const uint8_t *data, size_t data_bytes, size_t n_unit)
{
    walk w = {.nal = nal};
    size_t at = 0;

    for (size_t i = 0; i < n_unit && at + 2 <= data_bytes; i++) {
        const size_t unit_bytes = (size_t)data[at] << 8 | data[at + 1];

        at += 2;
        if (unit_bytes > data_bytes - at) {
            return data_bytes;
        }
        read_unit(&w, data + at, unit_bytes);
        at += unit_bytes;
    }
    return at;
}

static void
init_avcc(pf_nal *nal, const uint8_t *data, size_t data_bytes)
{
    size_t at = 6;

    nal->length_bytes = (data[4] & 3) + 1;
    at += init_array(nal, data + at, data_bytes - at, data[5] & 31u);
    if (at < data_bytes) {
        (void)init_array(nal, data + at + 1, data_bytes - at - 1, data[at]);
    }
}

static void
init_hvcc(pf_nal *nal, const uint8_t *data, size_t data_bytes)
{
    size_t at = 23;

    nal->length_bytes = (data[21] & 3) + 1;
    for (int i = 0; i < data[22] && at + 3 <= data_bytes; i++) {
        const size_t n_unit = (size_t)data[at + 1] << 8 | data[at + 2];

        at += 3;
        at += init_array(nal, data + at, data_bytes - at, n_unit);
    }
}

void
pf_nal_init(
        pf_nal *nal, pf_syntax syntax, const uint8_t *extradata, size_t extradata_bytes)
{
    *nal = (pf_nal){.syntax = syntax};
    if (extradata == NULL || extradata_bytes < 7) {
        return;
    }
    if (syntax == PF_SYNTAX_AV1 && extradata[0] == 0x81) {
        (void)pf_av1_read(&nal->av1, extradata + 4, extradata_bytes - 4);
    }
    if (syntax == PF_SYNTAX_H264 && extradata[0] == 1) {
        init_avcc(nal, extradata, extradata_bytes);
    }
    else if (syntax == PF_SYNTAX_HEVC && extradata_bytes >= 23 &&
             (extradata[0] != 0 || extradata[1] != 0 || extradata[2] > 1)) {
        init_hvcc(nal, extradata, extradata_bytes);
    }
    else if (syntax == PF_SYNTAX_H264 || syntax == PF_SYNTAX_HEVC) {
        walk w = {.nal = nal};

        walk_start_codes(&w, extradata, extradata_bytes);
    }
}

pf_picture
pf_nal_read(pf_nal *nal, const uint8_t *data, size_t data_bytes)
{
    pf_picture picture = {.n_shown = -1};

    if (data == NULL || data_bytes == 0) {
        return picture;
    }
    switch (nal->syntax) {
        case PF_SYNTAX_H264:
        case PF_SYNTAX_HEVC:
            picture = read_units(nal, data, data_bytes);
            break;
        case PF_SYNTAX_VP8:
            picture = pf_vp8_read(&nal->has_map, data, data_bytes);
            break;
        case PF_SYNTAX_VP9:
            picture = pf_vp9_read(data, data_bytes);
            break;
        case PF_SYNTAX_AV1:
            picture = pf_av1_read(&nal->av1, data, data_bytes);
            break;
        case PF_SYNTAX_MJPEG:
            picture =
                    pf_mjpeg_read(&nal->has_codes, !nal->first_seen, data, data_bytes);
            break;
        case PF_SYNTAX_OTHER:
            picture.n_shown = 1;
            break;
    }
    nal->first_seen = true;
    return picture;
}

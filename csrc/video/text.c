/* text.c - growing strings, UTF-8 repaired, UTF-16 converted. */
#include "video/text.h"

#include <stdlib.h>
#include <string.h>

static pf_status
make_room(pf_text *text, size_t n_more)
{
    const size_t most = text->most_bytes > 0 ? text->most_bytes : SIZE_MAX / 4;
    size_t room = text->room_bytes > 0 ? text->room_bytes : 256;
    char *larger;

    if (n_more > most || text->n_byte > most - n_more) {
        return PF_EOVERFLOW;
    }
    if (text->n_byte + n_more <= text->room_bytes) {
        return PF_OK;
    }
    while (room < text->n_byte + n_more) {
        room *= 2;
    }
    larger = realloc(text->data, room);
    if (larger == NULL) {
        return PF_ENOMEM;
    }
    text->data = larger;
    text->room_bytes = room;
    return PF_OK;
}

pf_status
pf_text_put(pf_text *text, const char *bytes, size_t n_byte)
{
    const pf_status st = make_room(text, n_byte);

    if (st == PF_OK && n_byte > 0) {
        memcpy(text->data + text->n_byte, bytes, n_byte);
        text->n_byte += n_byte;
    }
    return st;
}

pf_status
pf_text_put_code(pf_text *text, uint32_t code)
{
    unsigned char utf8[4];
    size_t n_byte = 0;

    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        code = PF_REPLACEMENT;
    }
    if (code < 0x80) {
        utf8[n_byte++] = (unsigned char)code;
    }
    else if (code < 0x800) {
        utf8[n_byte++] = (unsigned char)(0xC0 | code >> 6);
    }
    else if (code < 0x10000) {
        utf8[n_byte++] = (unsigned char)(0xE0 | code >> 12);
        utf8[n_byte++] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
    }
    else {
        utf8[n_byte++] = (unsigned char)(0xF0 | code >> 18);
        utf8[n_byte++] = (unsigned char)(0x80 | (code >> 12 & 0x3F));
        utf8[n_byte++] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
    }
    if (code >= 0x80) {
        utf8[n_byte++] = (unsigned char)(0x80 | (code & 0x3F));
    }
    return pf_text_put(text, (const char *)utf8, n_byte);
}

/* Length of the character at the start of n_byte >= 1 bytes. *valid is false when it is
 * none; the length is then that of the longest piece that begins one, at least 1. */
static size_t
utf8_character(const unsigned char *byte, size_t n_byte, bool *valid)
{
    const unsigned char lead = byte[0];
    const size_t n_more = lead < 0x80 ? 0 : lead >= 0xF0 ? 3U : lead >= 0xE0 ? 2U : 1U;
    /* The second byte excludes overlong forms, surrogates and the top of the range. */
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    size_t i = 1;

    *valid = n_more == 0;
    if (*valid || lead < 0xC2 || lead > 0xF4) {
        return 1;
    }
    if (n_byte > 1 && byte[1] >= low && byte[1] <= high) {
        i = 2;
        while (i <= n_more && i < n_byte && (byte[i] & 0xC0) == 0x80) {
            i++;
        }
    }
    *valid = i == n_more + 1;
    return i;
}

static pf_status
put_utf8(pf_text *text, const char *bytes, size_t n_byte, int64_t *n_invalid)
{
    size_t sound_from = 0;
    size_t i = 0;
    pf_status st = PF_OK;

    while (i < n_byte && st == PF_OK) {
        bool valid;
        const size_t n =
                utf8_character((const unsigned char *)bytes + i, n_byte - i, &valid);

        if (!valid) {
            st = pf_text_put(text, bytes + sound_from, i - sound_from);
            if (st == PF_OK) {
                st = pf_text_put_code(text, PF_REPLACEMENT);
            }
            sound_from = i + n;
            (*n_invalid)++;
        }
        i += n;
    }
    return st == PF_OK ? pf_text_put(text, bytes + sound_from, n_byte - sound_from)
                       : st;
}

static uint32_t
unit16(const char *bytes, bool big_endian)
{
    const unsigned char *byte = (const unsigned char *)bytes;

    return big_endian ? (uint32_t)(byte[0] << 8 | byte[1])
                      : (uint32_t)(byte[1] << 8 | byte[0]);
}

static pf_status
put_utf16(pf_text *text, const char *bytes, size_t n_byte, bool big_endian,
        int64_t *n_invalid)
{
    pf_status st = PF_OK;
    size_t i = 0;

    while (i < n_byte && st == PF_OK) {
        uint32_t code = PF_REPLACEMENT;
        bool valid = n_byte - i >= 2;

        if (valid) {
            code = unit16(bytes + i, big_endian);
            i += 2;
        }
        else {
            i = n_byte;
        }
        if (valid && code >= 0xD800 && code <= 0xDFFF) {
            const bool ends = n_byte - i < 2;
            const uint32_t next = ends ? 0 : unit16(bytes + i, big_endian);

            valid = code < 0xDC00 && next >= 0xDC00 && next <= 0xDFFF;
            if (valid) {
                code = 0x10000 + ((code - 0xD800) << 10) + (next - 0xDC00);
                i += 2;
            }
            else if (code < 0xDC00 && ends) {
                i = n_byte; /* the first half of a pair and what is left of the second
                             */
            }
        }
        *n_invalid += valid ? 0 : 1;
        st = pf_text_put_code(text, code);
    }
    return st;
}

pf_status
pf_text_put_encoded(pf_text *text, const char *bytes, size_t n_byte,
        pf_encoding encoding, int64_t *n_invalid)
{
    if (encoding == PF_ENCODING_UTF8) {
        return put_utf8(text, bytes, n_byte, n_invalid);
    }
    return put_utf16(text, bytes, n_byte, encoding == PF_ENCODING_UTF16BE, n_invalid);
}

pf_encoding
pf_text_guess(const char *bytes, size_t n_byte, size_t *mark_bytes)
{
    *mark_bytes = 0;
    if (n_byte >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
        *mark_bytes = 3;
        return PF_ENCODING_UTF8;
    }
    if (n_byte >= 2 && memcmp(bytes, "\xFF\xFE", 2) == 0) {
        *mark_bytes = 2;
        return PF_ENCODING_UTF16LE;
    }
    if (n_byte >= 2 && memcmp(bytes, "\xFE\xFF", 2) == 0) {
        *mark_bytes = 2;
        return PF_ENCODING_UTF16BE;
    }
    if (n_byte >= 4 && bytes[0] != 0 && bytes[1] == 0 && bytes[2] != 0 &&
            bytes[3] == 0) {
        return PF_ENCODING_UTF16LE;
    }
    if (n_byte >= 4 && bytes[0] == 0 && bytes[1] != 0 && bytes[2] == 0 &&
            bytes[3] != 0) {
        return PF_ENCODING_UTF16BE;
    }
    return PF_ENCODING_UTF8;
}

void
pf_text_free(pf_text *text)
{
    free(text->data);
    *text = (pf_text){0};
}

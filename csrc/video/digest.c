/* digest.c - a fast hash of pictures. */
#include "video/digest.h"

#include <string.h>

/* Invertible in word for a given state, and the other way round. */
static uint64_t
mix(uint64_t state, uint64_t word)
{
    state = (state ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return state ^ (state >> 29);
}

uint64_t
pf_digest(const uint8_t *bytes, size_t n_byte)
{
    uint64_t state = mix(UINT64_C(0x243f6a8885a308d3), n_byte);
    uint64_t word = 0;
    size_t at = 0;

    for (; n_byte - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        state = mix(state, word);
    }
    if (at < n_byte) {
        word = 0;
        memcpy(&word, bytes + at, n_byte - at);
        state = mix(state, word);
    }
    state = (state ^ (state >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return state ^ (state >> 32);
}

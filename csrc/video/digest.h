/* digest.h - 64 bits that tell pictures apart, so that whole videos can be compared
 * without holding a frame. Not against forgery. */
#ifndef PF_VIDEO_DIGEST_H
#define PF_VIDEO_DIGEST_H

#include "base/pf.h"

/* Of n_byte bytes. Two that differ within one aligned group of eight bytes always have
 * different digests; any others are equal by a chance of about 2^-64. */
uint64_t pf_digest(const uint8_t *bytes, size_t n_byte);

#endif /* PF_VIDEO_DIGEST_H */

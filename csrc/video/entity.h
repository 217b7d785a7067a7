/* entity.h - characters written as entities: &lt; &#60; &#x3C; */
#ifndef PF_VIDEO_ENTITY_H
#define PF_VIDEO_ENTITY_H

#include "base/pf.h"

/* Length of the entity at the start of text, 0 when there is none there. The name must
 * be one of HTML 4 or apos, case matters, and the semicolon must be there: "AT&T" and
 * "&copy" are text. *code is a valid code point, U+FFFD for a number that is none. */
size_t pf_entity_read(const char *text, size_t n_byte, uint32_t *code);

#endif /* PF_VIDEO_ENTITY_H */

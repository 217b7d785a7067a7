/* store.h - many small pieces of bytes in few large blocks. */
#ifndef PF_VIDEO_STORE_H
#define PF_VIDEO_STORE_H

#include "base/pf.h"

struct pf_store_block;

/* Zeroed: empty. */
typedef struct pf_store {
    struct pf_store_block *block; /* the newest, which leads to the others */
} pf_store;

/* Copies n_byte bytes (1 or more); the copy lives until the store is freed. PF_ENOMEM,
 * PF_EOVERFLOW. */
PF_NODISCARD pf_status pf_store_add(
        pf_store *store, const uint8_t *data, size_t n_byte, const uint8_t **copy);

/* Safe on an empty or freed store. */
void pf_store_free(pf_store *store);

#endif /* PF_VIDEO_STORE_H */

/* store.c - blocks in a list, filled from front to back. */
#include "video/store.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20 };

struct pf_store_block {
    struct pf_store_block *older;
    size_t n_used;
    size_t n_room;
    uint8_t data[];
};

pf_status
pf_store_add(pf_store *store, const uint8_t *data, size_t n_byte, const uint8_t **copy)
{
    struct pf_store_block *block = store->block;

    if (block == NULL || n_byte > block->n_room - block->n_used) {
        const size_t n_room = n_byte > BLOCK_BYTES ? n_byte : BLOCK_BYTES;

        if (n_room > SIZE_MAX - sizeof *block) {
            return PF_EOVERFLOW;
        }
        block = malloc(sizeof *block + n_room);
        if (block == NULL) {
            return PF_ENOMEM;
        }
        *block = (struct pf_store_block){.older = store->block, .n_room = n_room};
        store->block = block;
    }
    memcpy(block->data + block->n_used, data, n_byte);
    *copy = block->data + block->n_used;
    block->n_used += n_byte;
    return PF_OK;
}

void
pf_store_free(pf_store *store)
{
    while (store->block != NULL) {
        struct pf_store_block *older = store->block->older;

        free(store->block);
        store->block = older;
    }
}

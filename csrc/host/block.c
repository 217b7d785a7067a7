/* block.c - see block.h. */
#include "host/block.h"

enum { ALIGN_BYTES = 256 };

static size_t
room(size_t n_byte)
{
    return (n_byte + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

pf_status
pf_block_open(pf_device *device, pf_block *block, pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    size_t n_byte = 0;
    pf_status st;

    block->memory = 0;
    for (int i = 0; i < PF_BLOCK_PARTS; i++) {
        if (block->part[i].n_byte > SIZE_MAX / 2 - n_byte) {
            return PF_EOVERFLOW;
        }
        n_byte += room(block->part[i].n_byte);
    }
    if (n_byte == 0) {
        return PF_EINVAL;
    }
    st = PF_CALL(
            driver, failure, cuMemAllocAsync, &block->memory, n_byte, block->stream);
    n_byte = 0;
    for (int i = 0; st == PF_OK && i < PF_BLOCK_PARTS; i++) {
        pf_block_part *part = &block->part[i];

        part->address = block->memory + n_byte;
        n_byte += room(part->n_byte);
        if (part->n_byte == 0 || (part->from == NULL && part->to != NULL)) {
            continue;
        }
        st = part->from == NULL
                     ? PF_CALL(driver, failure, cuMemsetD8Async, part->address, 0,
                               part->n_byte, block->stream)
                     : PF_CALL(driver, failure, cuMemcpyHtoDAsync_v2, part->address,
                               part->from, part->n_byte, block->stream);
    }
    return st;
}

pf_status
pf_block_close(pf_device *device, pf_block *block, pf_status st, pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    pf_failure freeing;

    for (int i = 0; st == PF_OK && i < PF_BLOCK_PARTS; i++) {
        const pf_block_part *part = &block->part[i];

        if (part->to != NULL && part->n_byte > 0) {
            st = PF_CALL(driver, failure, cuMemcpyDtoHAsync_v2, part->to, part->address,
                    part->n_byte, block->stream);
        }
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuStreamSynchronize, block->stream);
    }
    if (block->memory != 0) {
        const pf_status freed =
                PF_CALL(driver, &freeing, cuMemFreeAsync, block->memory, block->stream);

        if (st == PF_OK && freed != PF_OK) {
            *failure = freeing;
            st = freed;
        }
    }
    block->memory = 0;
    return st;
}

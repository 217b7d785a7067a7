/* block.h - one piece of device memory for all that a call sends and gets back. */
#ifndef PF_HOST_BLOCK_H
#define PF_HOST_BLOCK_H

#include "host/device.h"

enum { PF_BLOCK_PARTS = 8 };

/* A part is sent when from is set, and fetched when to is set; zeroed when neither is.
 */
typedef struct pf_block_part {
    const void *from;
    void *to;
    size_t n_byte;
    pf_device_address address; /* set by pf_block_open */
} pf_block_part;

typedef struct pf_block {
    pf_device_address memory;
    void *stream;
    pf_block_part part[PF_BLOCK_PARTS]; /* set by the caller; unused ones are 0 */
} pf_block;

/* Between pf_device_enter and pf_device_leave: allocates, and queues what is sent.
 * Must be closed in every case. */
PF_NODISCARD pf_status pf_block_open(
        pf_device *device, pf_block *block, pf_failure *failure);

/* When st is PF_OK, fetches and waits; frees the memory in every case. */
PF_NODISCARD pf_status pf_block_close(
        pf_device *device, pf_block *block, pf_status st, pf_failure *failure);

#endif /* PF_HOST_BLOCK_H */

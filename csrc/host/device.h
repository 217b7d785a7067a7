/* device.h - one GPU: its context, our kernels on it, and tables that stay there. */
#ifndef PF_HOST_DEVICE_H
#define PF_HOST_DEVICE_H

#include "host/driver.h"

#include <pthread.h>
#include <sys/types.h>

/* Kernels, by their names in the image. */
#define PF_KERNELS(X)                                                                  \
    X(pf_pass)                                                                         \
    X(pf_tiled)                                                                        \
    X(pf_turned)                                                                       \
    X(pf_tensor)                                                                       \
    X(pf_option_scores)                                                                \
    X(pf_fuse_passes)                                                                  \
    X(pf_resample_counts)                                                              \
    X(pf_frame_distance)

#define PF_KERNEL_NUMBER(name) PF_KERNEL_##name,
typedef enum pf_kernel_id { PF_KERNELS(PF_KERNEL_NUMBER) PF_N_KERNEL } pf_kernel_id;
#undef PF_KERNEL_NUMBER

/* What a table that is kept is made from: its maker and the maker's numbers. */
enum { PF_TABLE_KEYS = 8 };
typedef struct pf_table_key {
    int64_t part[PF_TABLE_KEYS];
} pf_table_key;

/* A table on the device, and the copy of it (or of a part) that the host keeps. */
typedef struct pf_table {
    pf_table_key key;
    pf_device_address address; /* 0: the place is free */
    void *host;
    int64_t n_item;
    int64_t stride;
    uint64_t last_use;
} pf_table;

/* More than one call can need at a time. */
enum { PF_N_TABLE = 256 };

/* The way of frames of the host: a stream, and room of n_byte bytes on both sides. */
typedef struct pf_lane {
    void *stream;
    unsigned char *pinned; /* page-locked memory of the host */
    pf_device_address memory;
    size_t n_byte;
} pf_lane;

/* One chunk travels in each. */
enum { PF_N_LANE = 2 };

typedef struct pf_device {
    const pf_driver *driver;
    int ordinal;
    int major; /* compute capability */
    int minor;
    int max_shared_bytes; /* of a block, at most */
    int n_multiprocessor;
    char name[96];
    pid_t owner; /* no other process may use it: CUDA does not survive a fork */
    bool lost;
    pthread_mutex_t lock; /* from enter to leave */
    void *context;        /* the primary one, which torch, cupy and cuBLAS use too */
    void *stream;         /* for tables */
    void *kernel[PF_N_KERNEL];
    int shared_bytes[PF_N_KERNEL]; /* that a kernel has been allowed */
    pf_table table[PF_N_TABLE];
    uint64_t n_use;
    pf_lane lane[PF_N_LANE];
    int64_t n_hold; /* calls that want the lanes to stay */
} pf_device;

/* Makes the device ready: retains its primary context, which the caller need not have
 * made. driver must outlive the device, which is never released. PF_EINVAL for an
 * ordinal that is not there. */
PF_NODISCARD pf_status pf_device_open(
        pf_device *device, const pf_driver *driver, int ordinal, pf_failure *failure);

/* Loads our kernels: a fatbin, cubin or PTX, whole in memory. failure->code tells an
 * image that this device cannot use. */
PF_NODISCARD pf_status pf_device_load(
        pf_device *device, const void *image, pf_failure *failure);

/* Makes the context current and keeps other threads out. Nothing else of this header
 * may be called outside of enter and leave, but open and load. PF_EBACKEND after a fork
 * and on a device that was lost. */
PF_NODISCARD pf_status pf_device_enter(pf_device *device, pf_failure *failure);

/* Undoes it, and remembers a device that was lost. Gives back st. */
pf_status pf_device_leave(pf_device *device, pf_status st, const pf_failure *failure);

/* The table of that key, NULL when it is not kept. Stays until pf_device_keep. */
pf_table *pf_device_find(pf_device *device, const pf_table_key *key);

/* Keeps a new table: copies n_byte bytes to the device, whole before the call returns,
 * so any stream may read them. In the place of the one not used for longest when there
 * is none free, after all kernels that may read it. *table is the caller's to fill
 * further. */
PF_NODISCARD pf_status pf_device_keep(pf_device *device, const pf_table_key *key,
        const void *bytes, size_t n_byte, pf_table **table, pf_failure *failure);

/* Lets the stream wait for all that is on the other one now. By itself, not between
 * enter and leave. */
PF_NODISCARD pf_status pf_device_wait(
        pf_device *device, void *stream, void *other, pf_failure *failure);

typedef struct pf_launch {
    pf_kernel_id kernel;
    unsigned grid[3];
    unsigned block[3];
    size_t shared_bytes;
    const void *params; /* the structure that the kernel takes */
    void *stream;
} pf_launch;

PF_NODISCARD pf_status pf_device_launch(
        pf_device *device, const pf_launch *launch, pf_failure *failure);

#endif /* PF_HOST_DEVICE_H */

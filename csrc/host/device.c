/* device.c - contexts, images, launches, and the tables that are kept. */
#include "host/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Numbers of attributes in the driver's interface. */
enum {
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_SHARED_BYTES = 97,
    FUNCTION_SHARED_BYTES = 8,
    DEFAULT_SHARED_BYTES = 48 * 1024,
    STREAM_NON_BLOCKING = 1,
    EVENT_WITHOUT_TIMING = 2
};

static const char *const kernel_names[] = {
#define NAME(name) #name,
        PF_KERNELS(NAME)
#undef NAME
};

static pf_status
describe_device(pf_device *device, int handle, pf_failure *failure)
{
    const struct {
        int attribute;
        int *value;
    } wanted[] = {
            {ATTRIBUTE_MULTIPROCESSORS, &device->n_multiprocessor},
            {ATTRIBUTE_MAJOR, &device->major},
            {ATTRIBUTE_MINOR, &device->minor},
            {ATTRIBUTE_SHARED_BYTES, &device->max_shared_bytes},
    };
    pf_status st = PF_CALL(device->driver, failure, cuDeviceGetName, device->name,
            (int)sizeof device->name, handle);

    for (size_t i = 0; st == PF_OK && i < sizeof wanted / sizeof *wanted; i++) {
        st = PF_CALL(device->driver, failure, cuDeviceGetAttribute, wanted[i].value,
                wanted[i].attribute, handle);
    }
    return st;
}

pf_status
pf_device_open(
        pf_device *device, const pf_driver *driver, int ordinal, pf_failure *failure)
{
    void *popped;
    int handle = 0;
    pf_status st;

    *device = (pf_device){.driver = driver, .ordinal = ordinal, .owner = getpid()};
    if (ordinal < 0 || ordinal >= driver->n_device) {
        (void)pf_failure_say(failure, "there is no CUDA device %d, only %d of them",
                ordinal, driver->n_device);
        return PF_EINVAL;
    }
    if (pthread_mutex_init(&device->lock, NULL) != 0) {
        return PF_ENOMEM;
    }
    st = PF_CALL(driver, failure, cuDeviceGet, &handle, ordinal);
    if (st == PF_OK) {
        st = describe_device(device, handle, failure);
    }
    if (st == PF_OK) {
        st = PF_CALL(
                driver, failure, cuDevicePrimaryCtxRetain, &device->context, handle);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuCtxPushCurrent_v2, device->context);
    }
    if (st == PF_OK) {
        st = PF_CALL(
                driver, failure, cuStreamCreate, &device->stream, STREAM_NON_BLOCKING);
        (void)driver->cuCtxPopCurrent_v2(&popped);
    }
    return st;
}

pf_status
pf_device_load(pf_device *device, const void *image, pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    void *module = NULL;
    pf_status st = pf_device_enter(device, failure);

    if (st != PF_OK) {
        return st;
    }
    st = PF_CALL(driver, failure, cuModuleLoadData, &module, image);
    for (int i = 0; st == PF_OK && i < PF_N_KERNEL; i++) {
        st = PF_CALL(driver, failure, cuModuleGetFunction, &device->kernel[i], module,
                kernel_names[i]);
        device->shared_bytes[i] = DEFAULT_SHARED_BYTES;
    }
    return pf_device_leave(device, st, failure);
}

pf_status
pf_device_enter(pf_device *device, pf_failure *failure)
{
    pf_status st;

    if (device->owner != getpid()) {
        return pf_failure_say(failure,
                "CUDA was started before this process was forked; start it in the "
                "worker alone, or use the 'spawn' start method");
    }
    (void)pthread_mutex_lock(&device->lock);
    if (device->lost) {
        (void)pthread_mutex_unlock(&device->lock);
        return pf_failure_say(failure,
                "CUDA device %d was lost to an earlier fault; the process has to be "
                "started again",
                device->ordinal);
    }
    st = PF_CALL(device->driver, failure, cuCtxPushCurrent_v2, device->context);
    if (st != PF_OK) {
        (void)pthread_mutex_unlock(&device->lock);
    }
    return st;
}

pf_status
pf_device_leave(pf_device *device, pf_status st, const pf_failure *failure)
{
    void *popped;

    (void)device->driver->cuCtxPopCurrent_v2(&popped);
    if (st != PF_OK && (failure->code == PF_CUDA_ILLEGAL_ADDRESS ||
                               failure->code == PF_CUDA_CONTEXT_IS_DESTROYED ||
                               failure->code == PF_CUDA_LAUNCH_FAILED)) {
        device->lost = true;
    }
    (void)pthread_mutex_unlock(&device->lock);
    return st;
}

pf_table *
pf_device_find(pf_device *device, const pf_table_key *key)
{
    for (int i = 0; i < PF_N_TABLE; i++) {
        pf_table *table = &device->table[i];

        if (table->address != 0 && memcmp(&table->key, key, sizeof *key) == 0) {
            table->last_use = ++device->n_use;
            return table;
        }
    }
    return NULL;
}

/* The free place, or the one not used for longest. */
static pf_table *
choose_place(pf_device *device)
{
    pf_table *oldest = &device->table[0];

    for (int i = 1; i < PF_N_TABLE && oldest->address != 0; i++) {
        pf_table *table = &device->table[i];

        if (table->address == 0 || table->last_use < oldest->last_use) {
            oldest = table;
        }
    }
    return oldest;
}

pf_status
pf_device_keep(pf_device *device, const pf_table_key *key, const void *bytes,
        size_t n_byte, pf_table **table, pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    pf_table *place = choose_place(device);
    pf_device_address address = 0;
    pf_status st = PF_OK;

    if (place->address != 0) { /* kernels of any stream may still read it */
        st = pf_driver_check(
                driver, driver->cuCtxSynchronize(), "cuCtxSynchronize", failure);
        if (st == PF_OK) {
            st = PF_CALL(driver, failure, cuMemFree_v2, place->address);
        }
        free(place->host);
    }
    *place = (pf_table){0};
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuMemAlloc_v2, &address, n_byte);
    }
    if (st != PF_OK) {
        return st;
    }
    st = PF_CALL(driver, failure, cuMemcpyHtoDAsync_v2, address, bytes, n_byte,
            device->stream);
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuStreamSynchronize, device->stream);
    }
    if (st != PF_OK) {
        (void)driver->cuMemFree_v2(address);
        return st;
    }
    *place = (pf_table){.key = *key, .address = address, .last_use = ++device->n_use};
    *table = place;
    return PF_OK;
}

pf_status
pf_device_wait(pf_device *device, void *stream, void *other, pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    void *event = NULL;
    pf_status st = pf_device_enter(device, failure);

    if (st != PF_OK) {
        return st;
    }
    st = PF_CALL(driver, failure, cuEventCreate, &event, EVENT_WITHOUT_TIMING);
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuEventRecord, event, other);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuStreamWaitEvent, stream, event, 0);
    }
    if (event != NULL) { /* it stays until it has happened */
        (void)driver->cuEventDestroy_v2(event);
    }
    return pf_device_leave(device, st, failure);
}

pf_status
pf_device_launch(pf_device *device, const pf_launch *launch, pf_failure *failure)
{
    const pf_driver *driver = device->driver;
    const int shared_bytes = (int)launch->shared_bytes;
    void *function = device->kernel[launch->kernel];
    const void *params[] = {launch->params};
    void *passed[1];
    pf_status st = PF_OK;

    if (function == NULL) {
        return pf_failure_say(failure, "no kernels were loaded");
    }
    if (launch->shared_bytes > (size_t)device->max_shared_bytes) {
        return PF_EINVAL;
    }
    if (shared_bytes > device->shared_bytes[launch->kernel]) {
        st = PF_CALL(driver, failure, cuFuncSetAttribute, function,
                FUNCTION_SHARED_BYTES, shared_bytes);
        if (st != PF_OK) {
            return st;
        }
        device->shared_bytes[launch->kernel] = shared_bytes;
    }
    memcpy(passed, params, sizeof passed); /* the driver reads them, but says void * */
    return PF_CALL(driver, failure, cuLaunchKernel, function, launch->grid[0],
            launch->grid[1], launch->grid[2], launch->block[0], launch->block[1],
            launch->block[2], (unsigned)shared_bytes, launch->stream, passed, NULL);
}

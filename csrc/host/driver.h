/* driver.h - the CUDA driver, opened at run time: nothing of CUDA is linked or
 * included.
 */
#ifndef PF_HOST_DRIVER_H
#define PF_HOST_DRIVER_H

#include "base/pf.h"

/* Codes of the driver that decide what happens next. */
enum {
    PF_CUDA_SUCCESS = 0,
    PF_CUDA_OUT_OF_MEMORY = 2,
    PF_CUDA_NO_DEVICE = 100,
    /* an image that this driver or device cannot use; another one may do */
    PF_CUDA_INVALID_IMAGE = 200,
    PF_CUDA_NO_BINARY = 209,
    PF_CUDA_INVALID_PTX = 218,
    PF_CUDA_UNSUPPORTED_PTX = 222,
    /* the context is lost, and with it everything on the device */
    PF_CUDA_ILLEGAL_ADDRESS = 700,
    PF_CUDA_CONTEXT_IS_DESTROYED = 709,
    PF_CUDA_LAUNCH_FAILED = 719,
    /* what a graph cannot hold */
    PF_CUDA_CAPTURE_UNSUPPORTED = 900
};

/* Why a call failed, for the message of an exception. */
typedef struct pf_failure {
    int code; /* of the driver; 0 when something else went wrong */
    char text[240];
} pf_failure;

typedef uintptr_t pf_device_address;

/* The functions that are called, by their names in the library. */
#define PF_DRIVER_FUNCTIONS(X)                                                         \
    X(cuInit, (unsigned flags))                                                        \
    X(cuDriverGetVersion, (int *version))                                              \
    X(cuDeviceGetCount, (int *n_device))                                               \
    X(cuDeviceGet, (int *device, int ordinal))                                         \
    X(cuDeviceGetName, (char *name, int n_byte, int device))                           \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                   \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                          \
    X(cuCtxPushCurrent_v2, (void *context))                                            \
    X(cuCtxPopCurrent_v2, (void **context))                                            \
    X(cuCtxSynchronize, (void))                                                        \
    X(cuModuleLoadData, (void **module, const void *image))                            \
    X(cuModuleGetFunction, (void **function, void *module, const char *name))          \
    X(cuFuncSetAttribute, (void *function, int attribute, int value))                  \
    X(cuMemAlloc_v2, (pf_device_address * address, size_t n_byte))                     \
    X(cuMemFree_v2, (pf_device_address address))                                       \
    X(cuMemAllocAsync, (pf_device_address * address, size_t n_byte, void *stream))     \
    X(cuMemFreeAsync, (pf_device_address address, void *stream))                       \
    X(cuMemAllocHost_v2, (void **memory, size_t n_byte))                               \
    X(cuMemFreeHost, (void *memory))                                                   \
    X(cuMemcpyHtoDAsync_v2,                                                            \
            (pf_device_address to, const void *from, size_t n_byte, void *stream))     \
    X(cuMemcpyDtoHAsync_v2,                                                            \
            (void *to, pf_device_address from, size_t n_byte, void *stream))           \
    X(cuMemsetD8Async,                                                                 \
            (pf_device_address to, unsigned char value, size_t n_byte, void *stream))  \
    X(cuStreamCreate, (void **stream, unsigned flags))                                 \
    X(cuStreamDestroy_v2, (void *stream))                                              \
    X(cuStreamSynchronize, (void *stream))                                             \
    X(cuStreamIsCapturing, (void *stream, int *status))                                \
    X(cuStreamWaitEvent, (void *stream, void *event, unsigned flags))                  \
    X(cuEventCreate, (void **event, unsigned flags))                                   \
    X(cuEventRecord, (void *event, void *stream))                                      \
    X(cuEventDestroy_v2, (void *event))                                                \
    X(cuEventElapsedTime, (float *milliseconds, void *begin, void *end))               \
    X(cuPointerGetAttribute, (void *value, int attribute, pf_device_address address))  \
    X(cuLaunchKernel,                                                                  \
            (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,        \
                    unsigned block_x, unsigned block_y, unsigned block_z,              \
                    unsigned shared_bytes, void *stream, void **params, void **extra)) \
    X(cuGetErrorName, (int code, const char **name))

#define PF_DRIVER_MEMBER(name, parameters) int(*name) parameters;
typedef struct pf_driver {
    void *library;
    PF_DRIVER_FUNCTIONS(PF_DRIVER_MEMBER)
    int version; /* 1000 * major + 10 * minor of the CUDA that it speaks */
    int n_device;
} pf_driver;
#undef PF_DRIVER_MEMBER

/* Opens the library at path and starts the driver. On success it stays open for the
 * life of the process; a closed driver would take the contexts of others with it.
 * PF_EBACKEND with the reason in *failure: no library, no such function, no device. */
PF_NODISCARD pf_status pf_driver_open(
        pf_driver *driver, const char *path, pf_failure *failure);

/* PF_OK for code 0. Otherwise *failure names the call and the code, and the result is
 * PF_ENOMEM (of the device) or PF_EBACKEND. driver->cuGetErrorName may be NULL. */
PF_NODISCARD pf_status pf_driver_check(
        const pf_driver *driver, int code, const char *call, pf_failure *failure);

/* Checks the result of driver->name arguments. */
#define PF_CALL(driver, failure, name, ...)                                            \
    pf_driver_check((driver), (driver)->name(__VA_ARGS__), #name, (failure))

/* Formats failure->text, code 0; returns PF_EBACKEND. */
pf_status pf_failure_say(pf_failure *failure, const char *format, ...);

#endif /* PF_HOST_DRIVER_H */

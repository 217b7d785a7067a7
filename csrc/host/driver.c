/* driver.c - the table of the driver's functions, and what its codes mean. */
#include "host/driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

pf_status
pf_failure_say(pf_failure *failure, const char *format, ...)
{
    va_list values;

    failure->code = 0;
    va_start(values, format);
    (void)vsnprintf(failure->text, sizeof failure->text, format, values);
    va_end(values);
    return PF_EBACKEND;
}

pf_status
pf_driver_check(
        const pf_driver *driver, int code, const char *call, pf_failure *failure)
{
    const char *name = NULL;

    if (code == PF_CUDA_SUCCESS) {
        return PF_OK;
    }
    if (driver->cuGetErrorName == NULL ||
            driver->cuGetErrorName(code, &name) != PF_CUDA_SUCCESS || name == NULL) {
        name = "unknown error";
    }
    (void)pf_failure_say(failure, "%s: %s (%d)", call, name, code);
    failure->code = code;
    return code == PF_CUDA_OUT_OF_MEMORY ? PF_ENOMEM : PF_EBACKEND;
}

/* One function of the library; ISO C has no conversion from an object's address. */
static bool
find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static pf_status
find_functions(pf_driver *driver, const char *path, pf_failure *failure)
{
#define FIND(name, parameters)                                                         \
    if (!find_function(driver->library, #name, &driver->name)) {                       \
        return pf_failure_say(failure,                                                 \
                "%.150s has no %s; the driver is older than CUDA 11.2", path, #name);  \
    }
    PF_DRIVER_FUNCTIONS(FIND)
#undef FIND
    return PF_OK;
}

pf_status
pf_driver_open(pf_driver *driver, const char *path, pf_failure *failure)
{
    pf_status st;

    *driver = (pf_driver){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (driver->library == NULL) {
        return pf_failure_say(failure, "no CUDA driver: %.200s", dlerror());
    }
    st = find_functions(driver, path, failure);
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuInit, 0);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuDriverGetVersion, &driver->version);
    }
    if (st == PF_OK) {
        st = PF_CALL(driver, failure, cuDeviceGetCount, &driver->n_device);
    }
    if (st == PF_OK && driver->n_device < 1) {
        st = pf_driver_check(driver, PF_CUDA_NO_DEVICE, "cuDeviceGetCount", failure);
    }
    return st == PF_ENOMEM ? PF_EBACKEND : st;
}

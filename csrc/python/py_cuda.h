/* py_cuda.h - what the files of phasefusion._cuda share; include glue.h first. */
#ifndef PF_PY_CUDA_H
#define PF_PY_CUDA_H

#include "host/device.h"

/* The device of a capsule, NULL with an exception. */
pf_device *pf_cuda_device_of(PyObject *capsule);

/* Sets the exception and returns NULL: what the driver said as (text, code), in a
 * RuntimeError, or a MemoryError when its memory is full. what names the argument at
 * fault when it said nothing. */
PyObject *pf_cuda_raise(pf_status st, const pf_failure *failure, const char *what);

extern const char pf_cuda_from_dlpack_doc[];
PyObject *pf_cuda_from_dlpack(PyObject *module, PyObject *capsule);

#endif /* PF_PY_CUDA_H */

/* py_cuda.h - what the files of phasefusion._cuda share; include glue.h first. */
#ifndef PF_PY_CUDA_H
#define PF_PY_CUDA_H

#include "host/resize.h"

/* The device of a capsule, NULL with an exception. */
pf_device *pf_cuda_device_of(PyObject *capsule);

/* Sets the exception and returns NULL: what the driver said as (text, code), in a
 * RuntimeError, or a MemoryError when its memory is full. what names the argument at
 * fault when it said nothing. */
PyObject *pf_cuda_raise(pf_status st, const pf_failure *failure, const char *what);

/* 0, or -1 with an exception. */
int pf_cuda_parse_variant(const char *name, pf_variant *variant);

/* Functions of the module. */
extern const char pf_cuda_measure_doc[];
PyObject *pf_cuda_measure(PyObject *module, PyObject *args);
extern const char pf_cuda_from_dlpack_doc[];
PyObject *pf_cuda_from_dlpack(PyObject *module, PyObject *capsule);
extern const char pf_cuda_option_scores_doc[];
PyObject *pf_cuda_option_scores(PyObject *module, PyObject *args);
extern const char pf_cuda_fuse_doc[];
PyObject *pf_cuda_fuse(PyObject *module, PyObject *args);
extern const char pf_cuda_fuse_there_doc[];
PyObject *pf_cuda_fuse_there(PyObject *module, PyObject *args);
extern const char pf_cuda_distance_sums_doc[];
PyObject *pf_cuda_distance_sums(PyObject *module, PyObject *args);
extern const char pf_cuda_blas_doc[];
PyObject *pf_cuda_blas(PyObject *module, PyObject *args);
extern const char pf_cuda_bootstrap_doc[];
PyObject *pf_cuda_bootstrap(PyObject *module, PyObject *args);
extern const char pf_cuda_gram_doc[];
PyObject *pf_cuda_gram(PyObject *module, PyObject *args);

#endif /* PF_PY_CUDA_H */

/* glue.h - what the bindings share; the only place where a pf_status becomes a
 * Python exception. */
#ifndef PF_GLUE_H
#define PF_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* One table of NumPy's API a module: the file that defines PF_IMPORTS_NUMPY fills it
 * in its exec slot, the others of the same module use it. */
#define PY_ARRAY_UNIQUE_SYMBOL pf_numpy_api
#ifndef PF_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "base/pf.h"

/* Arrays travel as PyObject *: under the limited API Py_DECREF and friends are
 * functions, not casting macros. */
#define PF_ARRAY(obj) ((PyArrayObject *)(obj))

/* A function as the value of a module or type slot; ISO C has no direct conversion. */
#define PF_SLOT(function) ((void *)(uintptr_t)(function))

/* What every module's slots end with: it is for one interpreter, as NumPy is, and does
 * without the GIL, for kernels have no state. An empty slot ends the list; Python had
 * the first of these before the second. */
#ifdef Py_mod_multiple_interpreters
#define PF_INTERPRETERS_SLOT                                                           \
    Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED
#else
#define PF_INTERPRETERS_SLOT 0, NULL
#endif
#ifdef Py_mod_gil
#define PF_GIL_SLOT Py_mod_gil, Py_MOD_GIL_NOT_USED
#else
#define PF_GIL_SLOT 0, NULL
#endif

#ifdef PF_IMPORTS_NUMPY
/* The exec of a module that needs nothing but NumPy. */
static inline int
pf_import_numpy(PyObject *module)
{
    (void)module;
    return PyArray_ImportNumPyAPI() < 0 ? -1 : 0;
}
#endif

/* obj as a C-contiguous, aligned array of typenum with n_dim dimensions, a new
 * reference; NULL with an exception that names the argument otherwise. Only safe
 * casts are made. */
static inline PyObject *
pf_array_in(PyObject *obj, int typenum, int n_dim, const char *what)
{
    PyObject *array = PyArray_FROMANY(obj, typenum, 0, 0,
            NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);

    if (array != NULL && n_dim >= 0 && PyArray_NDIM(PF_ARRAY(array)) != n_dim) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimensions, it has %d", what,
                n_dim, PyArray_NDIM(PF_ARRAY(array)));
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

/* Sets the exception for st and returns NULL. what names the argument at fault. */
static inline PyObject *
pf_raise(pf_status st, const char *what)
{
    switch (st) {
        case PF_OK:
            break;
        case PF_ENOMEM:
            return PyErr_NoMemory();
        case PF_EOVERFLOW:
            PyErr_Format(PyExc_OverflowError, "%s is too large", what);
            return NULL;
        case PF_EINVAL:
            PyErr_Format(PyExc_ValueError, "%s is out of range", what);
            return NULL;
        case PF_EDOMAIN:
            PyErr_Format(PyExc_ValueError, "%s holds NaN or Inf", what);
            return NULL;
        case PF_EIO:
            PyErr_Format(PyExc_OSError, "%s cannot be read", what);
            return NULL;
        case PF_EDATA:
            PyErr_Format(PyExc_ValueError, "%s is damaged", what);
            return NULL;
        case PF_EBACKEND:
            PyErr_Format(PyExc_RuntimeError, "%s: backend unavailable", what);
            return NULL;
    }
    PyErr_Format(PyExc_SystemError, "%s: unknown status %d", what, (int)st);
    return NULL;
}

#endif /* PF_GLUE_H */

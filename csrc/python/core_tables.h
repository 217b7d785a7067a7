/* core_tables.h - the method tables that make up phasefusion._core, and how their
 * functions return several arrays. */
#ifndef PF_CORE_TABLES_H
#define PF_CORE_TABLES_H

#include "glue.h"

extern PyMethodDef pf_grid_methods[];
extern PyMethodDef pf_posterior_methods[];
extern PyMethodDef pf_stats_methods[];
extern PyMethodDef pf_resample_methods[];

/* Data of item i of a tuple that the caller has filled with arrays. */
static inline void *
pf_result_data(PyObject *results, Py_ssize_t i)
{
    PyObject *array_borrowed = PyTuple_GetItem(results, i);

    return array_borrowed == NULL ? NULL : PyArray_DATA(PF_ARRAY(array_borrowed));
}

/* A tuple of n_array new int64 arrays of the same shape. */
static inline PyObject *
pf_new_counts(Py_ssize_t n_array, int n_dim, const npy_intp *shape)
{
    PyObject *results = PyTuple_New(n_array);

    for (Py_ssize_t i = 0; results != NULL && i < n_array; i++) {
        PyObject *array = PyArray_SimpleNew(n_dim, shape, NPY_INT64);

        if (array == NULL || PyTuple_SetItem(results, i, array) < 0) {
            Py_CLEAR(results);
        }
    }
    return results;
}

#endif /* PF_CORE_TABLES_H */

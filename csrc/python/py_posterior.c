/* py_posterior.c - bindings of csrc/posterior. */
#include "core_tables.h"

#include "posterior/order.h"
#include "posterior/posterior.h"

/* The results of fuse, in the order in which they are returned. */
enum {
    OUT_POSTERIOR,
    OUT_MARGIN,
    OUT_ANSWER,
    OUT_N_TIED,
    OUT_N_VALID,
    OUT_PASS_ANSWER,
    OUT_PASS_MARGIN,
    OUT_PASS_STATE,
    N_OUT
};

/* A tuple of new arrays for n_item items, and their data in *fused. */
static PyObject *
new_fused(const npy_intp *shape, pf_fused *fused)
{
    const npy_intp by_option[2] = {shape[0], shape[2]};
    const struct {
        const npy_intp *shape;
        int n_dim;
        int type;
    } plan[N_OUT] = {
            [OUT_POSTERIOR] = {by_option, 2, NPY_FLOAT64},
            [OUT_MARGIN] = {shape, 1, NPY_FLOAT64},
            [OUT_ANSWER] = {shape, 1, NPY_INT64},
            [OUT_N_TIED] = {shape, 1, NPY_INT64},
            [OUT_N_VALID] = {shape, 1, NPY_INT64},
            [OUT_PASS_ANSWER] = {shape, 2, NPY_INT64},
            [OUT_PASS_MARGIN] = {shape, 2, NPY_FLOAT64},
            [OUT_PASS_STATE] = {shape, 2, NPY_UINT8},
    };
    void *data[N_OUT];
    PyObject *results = PyTuple_New(N_OUT);

    if (results == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < N_OUT; i++) {
        PyObject *array = PyArray_SimpleNew(plan[i].n_dim, plan[i].shape, plan[i].type);

        if (array == NULL) {
            Py_DECREF(results);
            return NULL;
        }
        data[i] = PyArray_DATA(PF_ARRAY(array));
        if (PyTuple_SetItem(results, i, array) < 0) { /* takes array in any case */
            Py_DECREF(results);
            return NULL;
        }
    }
    *fused = (pf_fused){
            .posterior = data[OUT_POSTERIOR],
            .margin_nats = data[OUT_MARGIN],
            .answer = data[OUT_ANSWER],
            .n_tied = data[OUT_N_TIED],
            .n_valid = data[OUT_N_VALID],
            .pass_answer = data[OUT_PASS_ANSWER],
            .pass_margin_nats = data[OUT_PASS_MARGIN],
            .pass_state = data[OUT_PASS_STATE],
    };
    return results;
}

PyDoc_STRVAR(fuse_doc,
        "fuse(logp, n_options, tie_seeds, pool, missing, /)\n--\n\n"
        "Pool (n, S, K) log-probabilities; see phasefusion.fuse.\n\n"
        "n_options (n,) int64; tie_seeds (n,) uint64; pool 0 linear, 1 loglinear;\n"
        "missing 0 complete, 1 available. Returns posterior, margin, answer, n_tied,\n"
        "n_valid, pass_answer, pass_margin, pass_state.");

/* logp, n_options and tie_seeds as arrays; false with an exception set. */
static bool
pass_arrays(PyObject *const *given, PyObject **arrays)
{
    npy_intp n_item;

    arrays[0] = pf_array_in(given[0], NPY_FLOAT64, 3, "logp");
    arrays[1] = pf_array_in(given[1], NPY_INT64, 1, "n_options");
    arrays[2] = pf_array_in(given[2], NPY_UINT64, 1, "tie_seeds");
    if (arrays[0] == NULL || arrays[1] == NULL || arrays[2] == NULL) {
        return false;
    }
    n_item = PyArray_DIM(PF_ARRAY(arrays[0]), 0);
    if (PyArray_DIM(PF_ARRAY(arrays[1]), 0) != n_item ||
            PyArray_DIM(PF_ARRAY(arrays[2]), 0) != n_item) {
        PyErr_SetString(
                PyExc_ValueError, "n_options and tie_seeds need one entry an item");
        return false;
    }
    return true;
}

static PyObject *
core_fuse(PyObject *module, PyObject *args)
{
    PyObject *given[3];
    PyObject *arrays[3] = {NULL, NULL, NULL};
    PyObject *results = NULL;
    const npy_intp *shape;
    pf_pass_batch batch;
    pf_fused fused;
    pf_status st;
    int pool;
    int missing;

    (void)module;
    if (!PyArg_ParseTuple(
                args, "OOOii:fuse", &given[0], &given[1], &given[2], &pool, &missing)) {
        return NULL;
    }
    if (pool < PF_POOL_LINEAR || pool > PF_POOL_LOGLINEAR) {
        return pf_raise(PF_EINVAL, "pool");
    }
    if (missing < PF_MISSING_COMPLETE || missing > PF_MISSING_AVAILABLE) {
        return pf_raise(PF_EINVAL, "missing");
    }
    if (!pass_arrays(given, arrays)) {
        goto done;
    }
    shape = PyArray_DIMS(PF_ARRAY(arrays[0]));
    batch = (pf_pass_batch){
            .logp = PyArray_DATA(PF_ARRAY(arrays[0])),
            .n_option_item = PyArray_DATA(PF_ARRAY(arrays[1])),
            .tie_seed = PyArray_DATA(PF_ARRAY(arrays[2])),
            .n_item = (size_t)shape[0],
            .n_pass = (size_t)shape[1],
            .n_option = (size_t)shape[2],
    };
    results = new_fused(shape, &fused);
    if (results == NULL) {
        goto done;
    }

    Py_BEGIN_ALLOW_THREADS
    st = pf_posterior_fuse(&batch, (pf_pool)pool, (pf_missing)missing, &fused);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(results);
        pf_raise(st, "the number of passes or options");
    }

done:
    for (int i = 0; i < 3; i++) {
        Py_XDECREF(arrays[i]);
    }
    return results;
}

PyDoc_STRVAR(bad_order_doc,
        "bad_order(orders, /)\n--\n\n"
        "First row of (M, K) int64 that is no permutation, -1 if there is none.");

static PyObject *
core_bad_order(PyObject *module, PyObject *orders_in)
{
    PyObject *orders = pf_array_in(orders_in, NPY_INT64, 2, "orders");
    pf_order_set set;
    size_t bad_row;
    pf_status st;

    (void)module;
    if (orders == NULL) {
        return NULL;
    }
    set = (pf_order_set){
            .order = PyArray_DATA(PF_ARRAY(orders)),
            .n_order = (size_t)PyArray_DIM(PF_ARRAY(orders), 0),
            .n_option = (size_t)PyArray_DIM(PF_ARRAY(orders), 1),
    };
    st = pf_order_check(&set, &bad_row);
    Py_DECREF(orders);
    if (st != PF_OK) {
        return pf_raise(st, "the number of options");
    }
    return PyLong_FromSsize_t(bad_row < set.n_order ? (Py_ssize_t)bad_row : -1);
}

typedef void (*order_map)(const pf_order_set *set, size_t n_outer,
        const double *PF_RESTRICT from, double *PF_RESTRICT to);

/* to_content and to_letters differ by the kernel alone */
static PyObject *
map_values(PyObject *args, order_map map)
{
    PyObject *values_in;
    PyObject *orders_in;
    PyObject *values = NULL;
    PyObject *orders = NULL;
    PyObject *mapped = NULL;
    const npy_intp *shape;
    const double *from;
    double *to;
    pf_order_set set;
    size_t n_outer;
    size_t bad_row;
    pf_status st;

    if (!PyArg_ParseTuple(args, "OO", &values_in, &orders_in)) {
        return NULL;
    }
    values = pf_array_in(values_in, NPY_FLOAT64, 3, "values");
    orders = pf_array_in(orders_in, NPY_INT64, 2, "orders");
    if (values == NULL || orders == NULL) {
        goto done;
    }
    shape = PyArray_DIMS(PF_ARRAY(values));
    set = (pf_order_set){
            .order = PyArray_DATA(PF_ARRAY(orders)),
            .n_order = (size_t)PyArray_DIM(PF_ARRAY(orders), 0),
            .n_option = (size_t)PyArray_DIM(PF_ARRAY(orders), 1),
    };
    st = pf_order_check(&set, &bad_row);
    if (st != PF_OK || bad_row < set.n_order || shape[1] != (npy_intp)set.n_order ||
            shape[2] != (npy_intp)set.n_option) {
        pf_raise(PF_EINVAL, "orders");
        goto done;
    }
    mapped = PyArray_SimpleNew(3, shape, NPY_FLOAT64);
    if (mapped == NULL) {
        goto done;
    }
    n_outer = (size_t)shape[0];
    from = PyArray_DATA(PF_ARRAY(values));
    to = PyArray_DATA(PF_ARRAY(mapped));

    Py_BEGIN_ALLOW_THREADS
    map(&set, n_outer, from, to);
    Py_END_ALLOW_THREADS

done:
    Py_XDECREF(values);
    Py_XDECREF(orders);
    return mapped;
}

PyDoc_STRVAR(to_content_doc,
        "to_content(values, orders, /)\n--\n\n"
        "(n, M, K) letter-space values into content space; see phasefusion.orders.");

static PyObject *
core_to_content(PyObject *module, PyObject *args)
{
    (void)module;
    return map_values(args, pf_order_to_content);
}

PyDoc_STRVAR(to_letters_doc,
        "to_letters(values, orders, /)\n--\n\n"
        "(n, M, K) content-space values into letter space; see phasefusion.orders.");

static PyObject *
core_to_letters(PyObject *module, PyObject *args)
{
    (void)module;
    return map_values(args, pf_order_to_letters);
}

PyMethodDef pf_posterior_methods[] = {
        {"fuse", core_fuse, METH_VARARGS, fuse_doc},
        {"bad_order", core_bad_order, METH_O, bad_order_doc},
        {"to_content", core_to_content, METH_VARARGS, to_content_doc},
        {"to_letters", core_to_letters, METH_VARARGS, to_letters_doc},
        {NULL, NULL, 0, NULL},
};

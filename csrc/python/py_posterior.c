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

typedef struct result_plan {
    const npy_intp *shape;
    int n_dim;
    int type;
    size_t item_bytes; /* of one element */
} result_plan;

/* bytes of one array, rounded up to 64: the next one is as well aligned as the block,
 * which NumPy aligns for every type; false when they do not fit */
static bool
padded_bytes(const result_plan *plan, size_t *n_bytes)
{
    *n_bytes = plan->item_bytes;
    for (int d = 0; d < plan->n_dim; d++) {
        if (!pf_mul_size(*n_bytes, (size_t)plan->shape[d], n_bytes)) {
            return false;
        }
    }
    if (*n_bytes > PY_SSIZE_T_MAX / (2 * N_OUT)) {
        return false;
    }
    *n_bytes = (*n_bytes + 63) / 64 * 64;
    return true;
}

/* One block of memory for all of plan, as an array; where[i] is the place of array i.
 */
static PyObject *
new_block(const result_plan *plan, size_t *where)
{
    npy_intp n_bytes = 0;

    for (int i = 0; i < N_OUT; i++) {
        size_t own_bytes;

        if (!padded_bytes(&plan[i], &own_bytes)) {
            return pf_raise(PF_EOVERFLOW, "logp");
        }
        where[i] = (size_t)n_bytes;
        n_bytes += (npy_intp)own_bytes;
    }
    return PyArray_SimpleNew(1, &n_bytes, NPY_UINT8);
}

/* One array of plan inside block. */
static PyObject *
new_part(PyObject *block, const result_plan *plan, char *data)
{
    PyObject *array = PyArray_New(&PyArray_Type, plan->n_dim, plan->shape, plan->type,
            NULL, data, 0, NPY_ARRAY_CARRAY, NULL);

    if (array == NULL) {
        return NULL;
    }
    Py_INCREF(block); /* taken by the next call in any case */
    if (PyArray_SetBaseObject(PF_ARRAY(array), block) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

/* A tuple of new arrays for n_item items, and their data in *fused. They share one
 * block of memory: many blocks of a megabyte go back to the system when they are freed,
 * and every call would begin with a fault a page. The block lives as long as any of
 * them, so who keeps a small one for long copies it. */
static PyObject *
new_fused(const npy_intp *shape, bool with_passes, pf_fused *fused)
{
    const npy_intp by_option[2] = {shape[0], shape[2]};
    const npy_intp by_pass[2] = {shape[0], with_passes ? shape[1] : 0};
    const result_plan plan[N_OUT] = {
            [OUT_POSTERIOR] = {by_option, 2, NPY_FLOAT64, sizeof(double)},
            [OUT_MARGIN] = {shape, 1, NPY_FLOAT64, sizeof(double)},
            [OUT_ANSWER] = {shape, 1, NPY_INT64, sizeof(int64_t)},
            [OUT_N_TIED] = {shape, 1, NPY_UINT8, 1},
            [OUT_N_VALID] = {shape, 1, NPY_INT64, sizeof(int64_t)},
            [OUT_PASS_ANSWER] = {by_pass, 2, NPY_INT64, sizeof(int64_t)},
            [OUT_PASS_MARGIN] = {by_pass, 2, NPY_FLOAT64, sizeof(double)},
            [OUT_PASS_STATE] = {shape, 2, NPY_UINT8, 1},
    };
    size_t where[N_OUT];
    PyObject *block = new_block(plan, where);
    PyObject *results = block == NULL ? NULL : PyTuple_New(N_OUT);
    char *data;

    if (results == NULL) {
        Py_XDECREF(block);
        return NULL;
    }
    data = PyArray_DATA(PF_ARRAY(block));
    for (Py_ssize_t i = 0; results != NULL && i < N_OUT; i++) {
        PyObject *part = new_part(block, &plan[i], data + where[i]);

        if (part == NULL || PyTuple_SetItem(results, i, part) < 0) {
            Py_CLEAR(results);
        }
    }
    Py_DECREF(block);
    *fused = (pf_fused){
            .posterior = (void *)(data + where[OUT_POSTERIOR]),
            .margin_nats = (void *)(data + where[OUT_MARGIN]),
            .answer = (void *)(data + where[OUT_ANSWER]),
            .n_tied = (void *)(data + where[OUT_N_TIED]),
            .n_valid = (void *)(data + where[OUT_N_VALID]),
            .pass_state = (void *)(data + where[OUT_PASS_STATE]),
    };
    if (with_passes) {
        fused->pass_answer = (void *)(data + where[OUT_PASS_ANSWER]);
        fused->pass_margin_nats = (void *)(data + where[OUT_PASS_MARGIN]);
    }
    return results;
}

PyDoc_STRVAR(fuse_doc,
        "fuse(logp, n_options, tie_seeds, pool, missing, with_passes, /)\n--\n\n"
        "Pool (n, S, K) log-probabilities; see phasefusion.fuse.\n\n"
        "n_options (n,) int64, or None for K; tie_seeds (n,) uint64; pool 0 linear,\n"
        "1 loglinear; missing 0 complete, 1 available. Returns posterior, margin,\n"
        "answer, n_tied, n_valid, pass_answer, pass_margin, pass_state; pass_answer "
        "and\n"
        "pass_margin are (n, 0) unless with_passes.");

/* logp, tie_seeds and n_options (NULL for None) as arrays; false with an exception set.
 */
static bool
pass_arrays(PyObject *const *given, PyObject **arrays)
{
    npy_intp n_item;

    arrays[0] = pf_array_in(given[0], NPY_FLOAT64, 3, "logp");
    arrays[1] = pf_array_in(given[2], NPY_UINT64, 1, "tie_seeds");
    if (arrays[0] == NULL || arrays[1] == NULL) {
        return false;
    }
    n_item = PyArray_DIM(PF_ARRAY(arrays[0]), 0);
    if (given[1] != Py_None) {
        arrays[2] = pf_array_in(given[1], NPY_INT64, 1, "n_options");
        if (arrays[2] == NULL) {
            return false;
        }
    }
    if (PyArray_DIM(PF_ARRAY(arrays[1]), 0) != n_item ||
            (arrays[2] != NULL && PyArray_DIM(PF_ARRAY(arrays[2]), 0) != n_item)) {
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
    int with_passes;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOOiip:fuse", &given[0], &given[1], &given[2], &pool,
                &missing, &with_passes)) {
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
            .n_option_item =
                    arrays[2] == NULL ? NULL : PyArray_DATA(PF_ARRAY(arrays[2])),
            .tie_seed = PyArray_DATA(PF_ARRAY(arrays[1])),
            .n_item = (size_t)shape[0],
            .n_pass = (size_t)shape[1],
            .n_option = (size_t)shape[2],
    };
    results = new_fused(shape, with_passes != 0, &fused);
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

/* The orders of an int64 array of two dimensions, which the set does not own. */
static pf_order_set
order_set(PyObject *orders)
{
    return (pf_order_set){
            .order = PyArray_DATA(PF_ARRAY(orders)),
            .n_order = (size_t)PyArray_DIM(PF_ARRAY(orders), 0),
            .n_option = (size_t)PyArray_DIM(PF_ARRAY(orders), 1),
    };
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
    set = order_set(orders);
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
    set = order_set(orders);
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

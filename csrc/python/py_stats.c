/* py_stats.c - bindings of csrc/stats and of the generator behind all choices. */
#include "core_tables.h"

#include "base/random.h"
#include "stats/consensus.h"
#include "stats/flips.h"

/* Data of item i of a tuple that this file has filled with arrays. */
static void *
result_data(PyObject *results, Py_ssize_t i)
{
    PyObject *array_borrowed = PyTuple_GetItem(results, i);

    return array_borrowed == NULL ? NULL : PyArray_DATA(PF_ARRAY(array_borrowed));
}

/* A tuple of n_array new int64 arrays of the same shape. */
static PyObject *
new_counts(Py_ssize_t n_array, int n_dim, const npy_intp *shape)
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

PyDoc_STRVAR(fnv1a64_doc,
        "fnv1a64(data, /)\n--\n\n"
        "FNV-1a hash of bytes, 64 bits; see phasefusion.stats.fnv1a64.");

static PyObject *
core_fnv1a64(PyObject *module, PyObject *arg)
{
    char *bytes;
    Py_ssize_t n_bytes;

    (void)module;
    if (PyBytes_AsStringAndSize(arg, &bytes, &n_bytes) < 0) {
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(
            pf_hash_fnv1a64((const unsigned char *)bytes, (size_t)n_bytes));
}

PyDoc_STRVAR(tie_seeds_doc, "tie_seeds(item_ids, seed, /)\n--\n\n"
                            "FNV-1a hash of each str of a list XOR seed, uint64 (n,).");

static PyObject *
core_tie_seeds(PyObject *module, PyObject *args)
{
    PyObject *ids_borrowed;
    unsigned long long seed;
    npy_intp n_item;
    PyObject *seeds;
    uint64_t *value;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!K:tie_seeds", &PyList_Type, &ids_borrowed, &seed)) {
        return NULL;
    }
    n_item = PyList_Size(ids_borrowed);
    seeds = PyArray_SimpleNew(1, &n_item, NPY_UINT64);
    if (seeds == NULL) {
        return NULL;
    }
    value = PyArray_DATA(PF_ARRAY(seeds));
    for (npy_intp i = 0; i < n_item; i++) {
        PyObject *id_borrowed = PyList_GetItem(ids_borrowed, i);
        Py_ssize_t n_bytes;
        const char *bytes = id_borrowed == NULL
                                    ? NULL
                                    : PyUnicode_AsUTF8AndSize(id_borrowed, &n_bytes);

        if (bytes == NULL) {
            Py_DECREF(seeds);
            return NULL;
        }
        value[i] =
                seed ^ pf_hash_fnv1a64((const unsigned char *)bytes, (size_t)n_bytes);
    }
    return seeds;
}

PyDoc_STRVAR(splitmix64_doc, "splitmix64(seed, n, /)\n--\n\n"
                             "First n numbers of splitmix64, uint64 (n,); see "
                             "phasefusion.stats.splitmix64.");

static PyObject *
core_splitmix64(PyObject *module, PyObject *args)
{
    unsigned long long seed;
    Py_ssize_t n_draw;
    npy_intp shape;
    PyObject *draws;
    uint64_t *draw;
    pf_rng rng;

    (void)module;
    if (!PyArg_ParseTuple(args, "Kn:splitmix64", &seed, &n_draw)) {
        return NULL;
    }
    if (n_draw < 0) {
        return pf_raise(PF_EINVAL, "n");
    }
    shape = n_draw;
    draws = PyArray_SimpleNew(1, &shape, NPY_UINT64);
    if (draws == NULL) {
        return NULL;
    }
    draw = PyArray_DATA(PF_ARRAY(draws));
    rng.state = seed;
    for (Py_ssize_t i = 0; i < n_draw; i++) {
        draw[i] = pf_rng_next(&rng);
    }
    return draws;
}

PyDoc_STRVAR(permutations_doc,
        "permutations(seed, n_values, n, /)\n--\n\n"
        "n permutations of range(n_values) drawn one after the other, int64\n"
        "(n, n_values), from splitmix64.");

static PyObject *
core_permutations(PyObject *module, PyObject *args)
{
    unsigned long long seed;
    Py_ssize_t n_value;
    Py_ssize_t n_draw;
    npy_intp shape[2];
    PyObject *drawn;
    int64_t *row;
    pf_rng rng;

    (void)module;
    if (!PyArg_ParseTuple(args, "Knn:permutations", &seed, &n_value, &n_draw)) {
        return NULL;
    }
    if (n_value < 0 || n_draw < 0) {
        return pf_raise(PF_EINVAL, "n_values or n");
    }
    shape[0] = n_draw;
    shape[1] = n_value;
    drawn = PyArray_SimpleNew(2, shape, NPY_INT64);
    if (drawn == NULL) {
        return NULL;
    }
    row = PyArray_DATA(PF_ARRAY(drawn));
    rng.state = seed;
    for (Py_ssize_t i = 0; i < n_draw; i++) {
        pf_rng_permutation(&rng, (size_t)n_value, row + i * n_value);
    }
    return drawn;
}

static pf_answer_table
answer_table(PyObject *answers, Py_ssize_t n_answer)
{
    return (pf_answer_table){
            .answer = PyArray_DATA(PF_ARRAY(answers)),
            .n_item = (size_t)PyArray_DIM(PF_ARRAY(answers), 0),
            .n_pass = (size_t)PyArray_DIM(PF_ARRAY(answers), 1),
            .n_answer = n_answer < 0 ? 0 : (size_t)n_answer,
    };
}

PyDoc_STRVAR(flip_counts_doc,
        "flip_counts(answers, n_answers, /)\n--\n\n"
        "n_valid, n_agreeing, n_distinct and n_modal of every row of (n, m) int64.");

static PyObject *
core_flip_counts(PyObject *module, PyObject *args)
{
    PyObject *answers_in;
    PyObject *answers;
    PyObject *results;
    Py_ssize_t n_answer;
    pf_answer_table table;
    pf_flip_counts counts;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "On:flip_counts", &answers_in, &n_answer)) {
        return NULL;
    }
    answers = pf_array_in(answers_in, NPY_INT64, 2, "answers");
    if (answers == NULL) {
        return NULL;
    }
    results = new_counts(4, 1, PyArray_DIMS(PF_ARRAY(answers)));
    if (results == NULL) {
        goto done;
    }
    table = answer_table(answers, n_answer);
    counts = (pf_flip_counts){
            .n_valid = result_data(results, 0),
            .n_agreeing = result_data(results, 1),
            .n_distinct = result_data(results, 2),
            .n_modal = result_data(results, 3),
    };

    Py_BEGIN_ALLOW_THREADS
    st = pf_flips_count(&table, &counts);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(results);
        pf_raise(st, "answers");
    }

done:
    Py_DECREF(answers);
    return results;
}

PyDoc_STRVAR(flip_pairs_doc,
        "flip_pairs(answers, n_answers, use, /)\n--\n\n"
        "n_differ and n_both, (m, m) each, over the rows of (n, m) int64 with use.");

static PyObject *
core_flip_pairs(PyObject *module, PyObject *args)
{
    PyObject *answers_in;
    PyObject *use_in;
    PyObject *answers = NULL;
    PyObject *use = NULL;
    PyObject *results = NULL;
    Py_ssize_t n_answer;
    npy_intp shape[2];
    const unsigned char *used;
    int64_t *n_differ;
    int64_t *n_both;
    pf_answer_table table;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OnO:flip_pairs", &answers_in, &n_answer, &use_in)) {
        return NULL;
    }
    answers = pf_array_in(answers_in, NPY_INT64, 2, "answers");
    use = pf_array_in(use_in, NPY_BOOL, 1, "use");
    if (answers == NULL || use == NULL) {
        goto done;
    }
    if (PyArray_DIM(PF_ARRAY(use), 0) != PyArray_DIM(PF_ARRAY(answers), 0)) {
        PyErr_SetString(PyExc_ValueError, "use needs one entry an item");
        goto done;
    }
    shape[0] = PyArray_DIM(PF_ARRAY(answers), 1);
    shape[1] = shape[0];
    results = new_counts(2, 2, shape);
    if (results == NULL) {
        goto done;
    }
    table = answer_table(answers, n_answer);
    used = PyArray_DATA(PF_ARRAY(use));
    n_differ = result_data(results, 0);
    n_both = result_data(results, 1);

    Py_BEGIN_ALLOW_THREADS
    st = pf_flips_pairs(&table, used, n_differ, n_both);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(results);
        pf_raise(st, "answers");
    }

done:
    Py_XDECREF(answers);
    Py_XDECREF(use);
    return results;
}

PyDoc_STRVAR(expected_any_flip_doc,
        "expected_any_flip(counts, n_draws, /)\n--\n\n"
        "Expected any-flip of n_draws passes for every row of (n, K) int64 counts.");

static PyObject *
core_expected_any_flip(PyObject *module, PyObject *args)
{
    PyObject *counts_in;
    PyObject *counts;
    PyObject *rates;
    long long n_draw;
    const int64_t *count;
    double *rate;
    size_t n_item;
    size_t n_answer;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OL:expected_any_flip", &counts_in, &n_draw)) {
        return NULL;
    }
    counts = pf_array_in(counts_in, NPY_INT64, 2, "counts");
    if (counts == NULL) {
        return NULL;
    }
    rates = PyArray_SimpleNew(1, PyArray_DIMS(PF_ARRAY(counts)), NPY_FLOAT64);
    if (rates == NULL) {
        goto done;
    }
    count = PyArray_DATA(PF_ARRAY(counts));
    rate = PyArray_DATA(PF_ARRAY(rates));
    n_item = (size_t)PyArray_DIM(PF_ARRAY(counts), 0);
    n_answer = (size_t)PyArray_DIM(PF_ARRAY(counts), 1);

    Py_BEGIN_ALLOW_THREADS
    st = pf_flips_expected_any(count, n_item, n_answer, n_draw, rate);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(rates);
        pf_raise(st, "counts or n_draws");
    }

done:
    Py_DECREF(counts);
    return rates;
}

/* The inputs of consensus as arrays; false with an exception set. */
static bool
vote_arrays(PyObject *const *given, PyObject **arrays)
{
    npy_intp n_item;

    arrays[0] = pf_array_in(given[0], NPY_INT64, 2, "votes");
    arrays[1] = pf_array_in(given[1], NPY_INT64, 1, "n_options");
    arrays[2] = pf_array_in(given[2], NPY_UINT64, 1, "tie_seeds");
    if (arrays[0] == NULL || arrays[1] == NULL || arrays[2] == NULL) {
        return false;
    }
    if (given[3] != Py_None) {
        arrays[3] = pf_array_in(given[3], NPY_FLOAT64, 2, "mean_posterior");
        if (arrays[3] == NULL) {
            return false;
        }
    }
    n_item = PyArray_DIM(PF_ARRAY(arrays[0]), 0);
    for (int i = 1; i < 4; i++) {
        if (arrays[i] != NULL && PyArray_DIM(PF_ARRAY(arrays[i]), 0) != n_item) {
            PyErr_SetString(PyExc_ValueError,
                    "n_options, tie_seeds and mean_posterior need one entry an item");
            return false;
        }
    }
    return true;
}

/* answer, n_tied and count of n_item items as a tuple of new arrays */
static PyObject *
new_consensus(npy_intp n_item, npy_intp n_option)
{
    const npy_intp shape[2] = {n_item, n_option};
    PyObject *results = new_counts(3, 1, shape);
    PyObject *count;

    if (results == NULL) {
        return NULL;
    }
    count = PyArray_SimpleNew(2, shape, NPY_INT64);
    if (count == NULL || PyTuple_SetItem(results, 2, count) < 0) {
        Py_CLEAR(results);
    }
    return results;
}

PyDoc_STRVAR(consensus_doc,
        "consensus(votes, n_options, tie_seeds, mean_posterior, width, rule, /)\n--\n\n"
        "answer, n_tied and count (n, width) of (n, m) votes; see\n"
        "phasefusion.stats.consensus. rule 0 posterior, 1 priority, 2 lowest, 3 "
        "first.");

static PyObject *
core_consensus(PyObject *module, PyObject *args)
{
    PyObject *given[4];
    PyObject *arrays[4] = {NULL, NULL, NULL, NULL};
    PyObject *results = NULL;
    Py_ssize_t n_option;
    int rule;
    int64_t *answer;
    int64_t *n_tied;
    int64_t *count;
    pf_vote_table table;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOni:consensus", &given[0], &given[1], &given[2],
                &given[3], &n_option, &rule)) {
        return NULL;
    }
    if (n_option < 1 || n_option > PF_OPTION_MAX || rule < PF_TIE_POSTERIOR ||
            rule > PF_TIE_FIRST) {
        return pf_raise(PF_EINVAL, "width or rule");
    }
    if (!vote_arrays(given, arrays)) {
        goto done;
    }
    if (arrays[3] != NULL && PyArray_DIM(PF_ARRAY(arrays[3]), 1) != n_option) {
        pf_raise(PF_EINVAL, "the width of mean_posterior");
        goto done;
    }
    table = (pf_vote_table){
            .vote = PyArray_DATA(PF_ARRAY(arrays[0])),
            .n_option_item = PyArray_DATA(PF_ARRAY(arrays[1])),
            .tie_seed = PyArray_DATA(PF_ARRAY(arrays[2])),
            .mean_posterior =
                    arrays[3] == NULL ? NULL : PyArray_DATA(PF_ARRAY(arrays[3])),
            .n_item = (size_t)PyArray_DIM(PF_ARRAY(arrays[0]), 0),
            .n_vote = (size_t)PyArray_DIM(PF_ARRAY(arrays[0]), 1),
            .n_option = (size_t)n_option,
    };
    results = new_consensus(PyArray_DIM(PF_ARRAY(arrays[0]), 0), n_option);
    if (results == NULL) {
        goto done;
    }
    answer = result_data(results, 0);
    n_tied = result_data(results, 1);
    count = result_data(results, 2);

    Py_BEGIN_ALLOW_THREADS
    st = pf_consensus_plurality(&table, (pf_tie_rule)rule, answer, n_tied, count);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(results);
        pf_raise(st, "votes");
    }

done:
    for (int i = 0; i < 4; i++) {
        Py_XDECREF(arrays[i]);
    }
    return results;
}

PyMethodDef pf_stats_methods[] = {
        {"fnv1a64", core_fnv1a64, METH_O, fnv1a64_doc},
        {"tie_seeds", core_tie_seeds, METH_VARARGS, tie_seeds_doc},
        {"splitmix64", core_splitmix64, METH_VARARGS, splitmix64_doc},
        {"permutations", core_permutations, METH_VARARGS, permutations_doc},
        {"flip_counts", core_flip_counts, METH_VARARGS, flip_counts_doc},
        {"flip_pairs", core_flip_pairs, METH_VARARGS, flip_pairs_doc},
        {"expected_any_flip", core_expected_any_flip, METH_VARARGS,
                expected_any_flip_doc},
        {"consensus", core_consensus, METH_VARARGS, consensus_doc},
        {NULL, NULL, 0, NULL},
};

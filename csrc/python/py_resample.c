/* py_resample.c - bindings of the statistics that draw, rank or split. */
#include "core_tables.h"

#include <string.h>

#include "stats/matched.h"
#include "stats/ranking.h"
#include "stats/resample.h"

/* is_positive and begins_score as bool arrays of one length; false with an exception
 * set. */
static bool
ranking_arrays(PyObject *const *given, PyObject **arrays, pf_ranking *ranking)
{
    arrays[0] = pf_array_in(given[0], NPY_BOOL, 1, "is_positive");
    arrays[1] = pf_array_in(given[1], NPY_BOOL, 1, "begins_score");
    if (arrays[0] == NULL || arrays[1] == NULL) {
        return false;
    }
    if (PyArray_DIM(PF_ARRAY(arrays[0]), 0) != PyArray_DIM(PF_ARRAY(arrays[1]), 0)) {
        PyErr_SetString(PyExc_ValueError, "begins_score needs one entry an item");
        return false;
    }
    *ranking = (pf_ranking){
            .is_positive = PyArray_DATA(PF_ARRAY(arrays[0])),
            .begins_score = PyArray_DATA(PF_ARRAY(arrays[1])),
            .n_item = (size_t)PyArray_DIM(PF_ARRAY(arrays[0]), 0),
    };
    return true;
}

PyDoc_STRVAR(ranking_placements_doc,
        "ranking_placements(is_positive, begins_score, /)\n--\n\n"
        "Twice the items of the other class below each item of a ranking, int64 (n,).");

static PyObject *
core_ranking_placements(PyObject *module, PyObject *args)
{
    PyObject *given[2];
    PyObject *arrays[2] = {NULL, NULL};
    PyObject *result = NULL;
    pf_ranking ranking;
    int64_t *placement2;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO:ranking_placements", &given[0], &given[1])) {
        return NULL;
    }
    if (!ranking_arrays(given, arrays, &ranking)) {
        goto done;
    }
    result = PyArray_SimpleNew(1, PyArray_DIMS(PF_ARRAY(arrays[0])), NPY_INT64);
    if (result == NULL) {
        goto done;
    }
    placement2 = PyArray_DATA(PF_ARRAY(result));

    Py_BEGIN_ALLOW_THREADS
    st = pf_ranking_placements(&ranking, placement2);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(result);
        pf_raise(st, "is_positive");
    }

done:
    Py_XDECREF(arrays[0]);
    Py_XDECREF(arrays[1]);
    return result;
}

PyDoc_STRVAR(ranking_bootstrap_doc,
        "ranking_bootstrap(is_positive, begins_score, n_resamples, seed, /)\n--\n\n"
        "Area under the ROC curve of resampled items, float64 (n_resamples,).");

static PyObject *
core_ranking_bootstrap(PyObject *module, PyObject *args)
{
    PyObject *given[2];
    PyObject *arrays[2] = {NULL, NULL};
    PyObject *result = NULL;
    Py_ssize_t n_resample;
    unsigned long long seed;
    npy_intp shape;
    pf_ranking ranking;
    double *area;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOnK:ranking_bootstrap", &given[0], &given[1],
                &n_resample, &seed)) {
        return NULL;
    }
    if (n_resample < 0) {
        return pf_raise(PF_EINVAL, "n_resamples");
    }
    if (!ranking_arrays(given, arrays, &ranking)) {
        goto done;
    }
    shape = n_resample;
    result = PyArray_SimpleNew(1, &shape, NPY_FLOAT64);
    if (result == NULL) {
        goto done;
    }
    area = PyArray_DATA(PF_ARRAY(result));

    Py_BEGIN_ALLOW_THREADS
    st = pf_ranking_bootstrap(&ranking, seed, (size_t)n_resample, area);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(result);
        pf_raise(st, "is_positive");
    }

done:
    Py_XDECREF(arrays[0]);
    Py_XDECREF(arrays[1]);
    return result;
}

/* The arrays of resample_sums; false with an exception set. */
static bool
class_arrays(PyObject *const *given, PyObject **arrays, pf_cluster_classes *classes)
{
    npy_intp n_class;

    arrays[0] = pf_array_in(given[0], NPY_FLOAT64, 1, "numerators");
    arrays[1] = pf_array_in(given[1], NPY_FLOAT64, 1, "denominators");
    arrays[2] = pf_array_in(given[2], NPY_INT64, 1, "n_clusters");
    if (arrays[0] == NULL || arrays[1] == NULL || arrays[2] == NULL) {
        return false;
    }
    n_class = PyArray_DIM(PF_ARRAY(arrays[0]), 0);
    for (int i = 1; i < 3; i++) {
        if (PyArray_DIM(PF_ARRAY(arrays[i]), 0) != n_class) {
            PyErr_SetString(PyExc_ValueError,
                    "denominators and n_clusters need one entry a class");
            return false;
        }
    }
    *classes = (pf_cluster_classes){
            .numerator = PyArray_DATA(PF_ARRAY(arrays[0])),
            .denominator = PyArray_DATA(PF_ARRAY(arrays[1])),
            .n_cluster_class = PyArray_DATA(PF_ARRAY(arrays[2])),
            .n_class = (size_t)n_class,
    };
    return true;
}

PyDoc_STRVAR(resample_sums_doc,
        "resample_sums(numerators, denominators, n_clusters, n_resamples, seed, /)\n"
        "--\n\n"
        "Both sums over resampled clusters given by classes, float64 (n_resamples, "
        "2).");

static PyObject *
core_resample_sums(PyObject *module, PyObject *args)
{
    PyObject *given[3];
    PyObject *arrays[3] = {NULL, NULL, NULL};
    PyObject *result = NULL;
    Py_ssize_t n_resample;
    unsigned long long seed;
    npy_intp shape[2];
    pf_cluster_classes classes;
    double *sums;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOOnK:resample_sums", &given[0], &given[1], &given[2],
                &n_resample, &seed)) {
        return NULL;
    }
    if (n_resample < 0) {
        return pf_raise(PF_EINVAL, "n_resamples");
    }
    if (!class_arrays(given, arrays, &classes)) {
        goto done;
    }
    shape[0] = n_resample;
    shape[1] = 2;
    result = PyArray_SimpleNew(2, shape, NPY_FLOAT64);
    if (result == NULL) {
        goto done;
    }
    sums = PyArray_DATA(PF_ARRAY(result));

    Py_BEGIN_ALLOW_THREADS
    st = pf_resample_sums(&classes, seed, (size_t)n_resample, sums);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(result);
        pf_raise(st, "n_clusters");
    }

done:
    for (int i = 0; i < 3; i++) {
        Py_XDECREF(arrays[i]);
    }
    return result;
}

PyDoc_STRVAR(resample_indices_doc,
        "resample_indices(n, n_resamples, seed, /)\n--\n\n"
        "n of n indices drawn with replacement, uint32 (n_resamples, n).");

static PyObject *
core_resample_indices(PyObject *module, PyObject *args)
{
    Py_ssize_t n_cluster;
    Py_ssize_t n_resample;
    unsigned long long seed;
    npy_intp shape[2];
    PyObject *result;
    uint32_t *index;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(
                args, "nnK:resample_indices", &n_cluster, &n_resample, &seed)) {
        return NULL;
    }
    if (n_cluster < 1 || n_resample < 0) {
        return pf_raise(PF_EINVAL, "n or n_resamples");
    }
    shape[0] = n_resample;
    shape[1] = n_cluster;
    result = PyArray_SimpleNew(2, shape, NPY_UINT32);
    if (result == NULL) {
        return NULL;
    }
    index = PyArray_DATA(PF_ARRAY(result));

    Py_BEGIN_ALLOW_THREADS
    st = pf_resample_indices((size_t)n_cluster, seed, (size_t)n_resample, index);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(result);
        pf_raise(st, "n");
    }
    return result;
}

/* The arrays of matched_votes; false with an exception set. */
static bool
matched_arrays(PyObject *const *given, PyObject **arrays)
{
    npy_intp n_item;

    arrays[0] = pf_array_in(given[0], NPY_INT64, 3, "answers");
    arrays[1] = pf_array_in(given[1], NPY_INT64, 1, "n_options");
    arrays[2] = pf_array_in(given[2], NPY_UINT8, 2, "halves");
    if (arrays[0] == NULL || arrays[1] == NULL || arrays[2] == NULL) {
        return false;
    }
    if (given[3] != Py_None) {
        arrays[3] = pf_array_in(given[3], NPY_UINT64, 1, "tie_seeds");
        if (arrays[3] == NULL) {
            return false;
        }
    }
    n_item = PyArray_DIM(PF_ARRAY(arrays[0]), 0);
    if (PyArray_DIM(PF_ARRAY(arrays[1]), 0) != n_item ||
            (arrays[3] != NULL && PyArray_DIM(PF_ARRAY(arrays[3]), 0) != n_item)) {
        PyErr_SetString(
                PyExc_ValueError, "n_options and tie_seeds need one entry an item");
        return false;
    }
    if (PyArray_DIM(PF_ARRAY(arrays[2]), 1) != PyArray_DIM(PF_ARRAY(arrays[0]), 2)) {
        PyErr_SetString(PyExc_ValueError, "halves need one column an order");
        return false;
    }
    return true;
}

/* A tuple of five new arrays for n_item items, and their data in *counts. */
static PyObject *
new_matched_counts(npy_intp n_item, int fractional, pf_matched_counts *counts)
{
    PyObject *results = pf_new_counts(5, 1, &n_item);

    if (results == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 3; i < 5; i++) {
        memset(pf_result_data(results, i), 0, (size_t)n_item * sizeof(int64_t));
    }
    *counts = (pf_matched_counts){
            .n_within = pf_result_data(results, 0),
            .n_across = pf_result_data(results, 1),
            .n_tied = pf_result_data(results, 2),
            .agree_within = fractional ? pf_result_data(results, 3) : NULL,
            .agree_across = fractional ? pf_result_data(results, 4) : NULL,
    };
    return results;
}

PyDoc_STRVAR(matched_votes_doc,
        "matched_votes(answers, n_options, halves, tie_seeds, fractional, /)\n--\n\n"
        "n_within, n_across, n_tied, agree_within and agree_across of every item of\n"
        "(n, S, M) int64 answers over (n_splits, M) uint8 halves; see\n"
        "phasefusion.stats.matched_vote. The last two are 0 without fractional.");

static PyObject *
core_matched_votes(PyObject *module, PyObject *args)
{
    PyObject *given[4];
    PyObject *arrays[4] = {NULL, NULL, NULL, NULL};
    PyObject *results = NULL;
    const npy_intp *shape;
    int fractional;
    pf_matched_table table;
    pf_split_set splits;
    pf_matched_counts counts;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOp:matched_votes", &given[0], &given[1], &given[2],
                &given[3], &fractional)) {
        return NULL;
    }
    if (!matched_arrays(given, arrays)) {
        goto done;
    }
    shape = PyArray_DIMS(PF_ARRAY(arrays[0]));
    results = new_matched_counts(shape[0], fractional, &counts);
    if (results == NULL) {
        goto done;
    }
    table = (pf_matched_table){
            .answer = PyArray_DATA(PF_ARRAY(arrays[0])),
            .n_option_item = PyArray_DATA(PF_ARRAY(arrays[1])),
            .tie_seed = arrays[3] == NULL ? NULL : PyArray_DATA(PF_ARRAY(arrays[3])),
            .n_item = (size_t)shape[0],
            .n_phase = (size_t)shape[1],
            .n_order = (size_t)shape[2],
    };
    splits = (pf_split_set){
            .half = PyArray_DATA(PF_ARRAY(arrays[2])),
            .n_split = (size_t)PyArray_DIM(PF_ARRAY(arrays[2]), 0),
    };

    Py_BEGIN_ALLOW_THREADS
    st = pf_matched_count(&table, &splits, &counts);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(results);
        pf_raise(st, "answers or halves");
    }

done:
    for (int i = 0; i < 4; i++) {
        Py_XDECREF(arrays[i]);
    }
    return results;
}

PyDoc_STRVAR(matched_shuffle_doc,
        "matched_shuffle(answers, item_seeds, seed, /)\n--\n\n"
        "(n, S, M) int64 answers, phases permuted within every item and order.");

static PyObject *
core_matched_shuffle(PyObject *module, PyObject *args)
{
    PyObject *given[2];
    PyObject *answers = NULL;
    PyObject *seeds = NULL;
    PyObject *result = NULL;
    unsigned long long seed;
    const uint64_t *item_seed;
    int64_t *shuffled;
    pf_matched_table table;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOK:matched_shuffle", &given[0], &given[1], &seed)) {
        return NULL;
    }
    answers = pf_array_in(given[0], NPY_INT64, 3, "answers");
    seeds = pf_array_in(given[1], NPY_UINT64, 1, "item_seeds");
    if (answers == NULL || seeds == NULL) {
        goto done;
    }
    if (PyArray_DIM(PF_ARRAY(seeds), 0) != PyArray_DIM(PF_ARRAY(answers), 0)) {
        PyErr_SetString(PyExc_ValueError, "item_seeds needs one entry an item");
        goto done;
    }
    result = PyArray_SimpleNew(3, PyArray_DIMS(PF_ARRAY(answers)), NPY_INT64);
    if (result == NULL) {
        goto done;
    }
    table = (pf_matched_table){
            .answer = PyArray_DATA(PF_ARRAY(answers)),
            .n_item = (size_t)PyArray_DIM(PF_ARRAY(answers), 0),
            .n_phase = (size_t)PyArray_DIM(PF_ARRAY(answers), 1),
            .n_order = (size_t)PyArray_DIM(PF_ARRAY(answers), 2),
    };
    item_seed = PyArray_DATA(PF_ARRAY(seeds));
    shuffled = PyArray_DATA(PF_ARRAY(result));

    Py_BEGIN_ALLOW_THREADS
    pf_matched_shuffle(&table, item_seed, seed, shuffled);
    Py_END_ALLOW_THREADS

done:
    Py_XDECREF(answers);
    Py_XDECREF(seeds);
    return result;
}

PyMethodDef pf_resample_methods[] = {
        {"ranking_placements", core_ranking_placements, METH_VARARGS,
                ranking_placements_doc},
        {"ranking_bootstrap", core_ranking_bootstrap, METH_VARARGS,
                ranking_bootstrap_doc},
        {"resample_sums", core_resample_sums, METH_VARARGS, resample_sums_doc},
        {"resample_indices", core_resample_indices, METH_VARARGS, resample_indices_doc},
        {"matched_votes", core_matched_votes, METH_VARARGS, matched_votes_doc},
        {"matched_shuffle", core_matched_shuffle, METH_VARARGS, matched_shuffle_doc},
        {NULL, NULL, 0, NULL},
};

/* py_cuda_scores.c - posteriors, distances and exact products on a GPU. */
#include "glue.h"

#include <stdlib.h>

#include "host/blas.h"
#include "host/fuse.h"
#include "host/statistics.h"
#include "py_cuda.h"

static const char blas_name[] = "phasefusion.blas";

/* A new array; its data in *data. NULL with an exception. */
static PyObject *
new_array(int n_dim, const npy_intp *shape, int typenum, void **data)
{
    PyObject *array = PyArray_SimpleNew(n_dim, shape, typenum);

    if (array != NULL) {
        *data = PyArray_DATA(PF_ARRAY(array));
    }
    return array;
}

const char pf_cuda_option_scores_doc[] =
        "option_scores($module, device, stream, logits, tokens, orders, /)\n--\n\n"
        "Log-probabilities (n, K) in content order and their mass (n,). logits is\n"
        "(address, type, values from row to row, vocabulary); tokens and orders are\n"
        "int32 (n, K).";

/* Tokens and orders, both int32 (n, K), new references; false with an exception. */
static bool
parse_places(PyObject *const given[2], PyObject *places[2])
{
    places[0] = pf_array_in(given[0], NPY_INT32, 2, "tokens");
    places[1] = pf_array_in(given[1], NPY_INT32, 2, "orders");
    if (places[0] == NULL || places[1] == NULL) {
        return false;
    }
    for (int d = 0; d < 2; d++) {
        if (PyArray_DIM(PF_ARRAY(places[0]), d) !=
                PyArray_DIM(PF_ARRAY(places[1]), d)) {
            PyErr_SetString(PyExc_ValueError, "tokens and orders must have one shape");
            return false;
        }
    }
    return true;
}

/* Runs the kernel for logits that are described but for the places. */
static PyObject *
score_places(pf_device *device, pf_gpu_logits *l, PyObject *const places[2])
{
    const npy_intp *shape = PyArray_DIMS(PF_ARRAY(places[0]));
    void *logprob = NULL, *mass = NULL;
    PyObject *logprobs = new_array(2, shape, NPY_FLOAT64, &logprob);
    PyObject *masses = new_array(1, shape, NPY_FLOAT64, &mass);
    PyObject *result = NULL;
    pf_failure failure = {0};
    pf_status st;

    if (logprobs != NULL && masses != NULL) {
        l->token = PyArray_DATA(PF_ARRAY(places[0]));
        l->order = PyArray_DATA(PF_ARRAY(places[1]));
        l->n_row = shape[0];
        l->n_option = shape[1];
        Py_BEGIN_ALLOW_THREADS
        st = pf_gpu_option_scores(device, l, logprob, mass, &failure);
        Py_END_ALLOW_THREADS

        result = st == PF_OK ? Py_BuildValue("(OO)", logprobs, masses)
                             : pf_cuda_raise(st, &failure, "a token, order or count");
    }
    Py_XDECREF(logprobs);
    Py_XDECREF(masses);
    return result;
}

PyObject *
pf_cuda_option_scores(PyObject *module, PyObject *args)
{
    pf_gpu_logits l = {0};
    pf_device *device;
    PyObject *given[2], *capsule;
    PyObject *places[2] = {NULL, NULL};
    PyObject *result = NULL;
    unsigned long long stream, address;
    long long row_values, n_vocab;
    int type;

    (void)module;
    if (!PyArg_ParseTuple(args, "OK(KiLL)OO:option_scores", &capsule, &stream, &address,
                &type, &row_values, &n_vocab, &given[0], &given[1])) {
        return NULL;
    }
    device = pf_cuda_device_of(capsule);
    if (device != NULL && parse_places(given, places)) {
        l = (pf_gpu_logits){.logits = (pf_device_address)address,
                .type = (pf_gpu_float)type,
                .row_values = row_values,
                .n_vocab = n_vocab,
                .stream = (void *)(uintptr_t)stream};
        result = score_places(device, &l, places);
    }
    Py_XDECREF(places[0]);
    Py_XDECREF(places[1]);
    return result;
}

const char pf_cuda_fuse_doc[] =
        "fuse($module, device, logprobs, tie_seeds, complete, /)\n--\n\n"
        "Linear pool of logprobs (n, P, K): posterior (n, K), and margin, answer,\n"
        "n_tied, n_valid, each (n,).";

/* Runs the kernel; the passes are described but for what is made. */
static PyObject *
fuse_into_arrays(pf_device *device, pf_gpu_passes *p)
{
    static const int types[] = {
            NPY_FLOAT64, NPY_FLOAT64, NPY_INT64, NPY_INT64, NPY_INT64};
    const npy_intp shape[2] = {(npy_intp)p->n_item, (npy_intp)p->n_option};
    pf_failure failure = {0};
    PyObject *made[5] = {NULL}, *result = NULL;
    void *data[5] = {NULL};
    bool ready = true;
    pf_status st;

    for (int i = 0; ready && i < 5; i++) {
        made[i] = new_array(i == 0 ? 2 : 1, shape, types[i], &data[i]);
        ready = made[i] != NULL;
    }
    if (ready) {
        p->posterior = data[0];
        p->margin_nats = data[1];
        p->answer = data[2];
        p->n_tied = data[3];
        p->n_valid = data[4];
        Py_BEGIN_ALLOW_THREADS
        st = pf_gpu_fuse_run(device, p, &failure);
        Py_END_ALLOW_THREADS

        result = st == PF_OK ? Py_BuildValue("(OOOOO)", made[0], made[1], made[2],
                                       made[3], made[4])
                             : pf_cuda_raise(st, &failure, "a count");
    }
    for (int i = 0; i < 5; i++) {
        Py_XDECREF(made[i]);
    }
    return result;
}

PyObject *
pf_cuda_fuse(PyObject *module, PyObject *args)
{
    pf_gpu_passes p = {0};
    PyObject *given[2], *capsule;
    PyObject *logprobs, *seeds, *result = NULL;
    pf_device *device;
    int is_complete;

    (void)module;
    if (!PyArg_ParseTuple(
                args, "OOOp:fuse", &capsule, &given[0], &given[1], &is_complete)) {
        return NULL;
    }
    device = pf_cuda_device_of(capsule);
    logprobs = pf_array_in(given[0], NPY_FLOAT64, 3, "logprobs");
    seeds = pf_array_in(given[1], NPY_UINT64, 1, "tie_seeds");
    if (device != NULL && logprobs != NULL && seeds != NULL) {
        const npy_intp *shape = PyArray_DIMS(PF_ARRAY(logprobs));

        p = (pf_gpu_passes){.logprob = PyArray_DATA(PF_ARRAY(logprobs)),
                .tie_seed = PyArray_DATA(PF_ARRAY(seeds)),
                .n_item = shape[0],
                .n_pass = shape[1],
                .n_option = shape[2],
                .is_complete = is_complete != 0};
        if (PyArray_DIM(PF_ARRAY(seeds), 0) == shape[0]) {
            result = fuse_into_arrays(device, &p);
        }
        else {
            PyErr_SetString(PyExc_ValueError, "tie_seeds must be one an item");
        }
    }
    Py_XDECREF(logprobs);
    Py_XDECREF(seeds);
    return result;
}

const char pf_cuda_fuse_there_doc[] =
        "fuse_there($module, device, stream, logprobs, shape, tie_seeds, complete, "
        "made, /)\n--\n\n"
        "The same with logprobs at an address of the device, of that shape, and the "
        "five\n"
        "results at those of made.";

PyObject *
pf_cuda_fuse_there(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    PyObject *capsule, *given, *seeds;
    pf_device *device;
    unsigned long long stream, from, made[5];
    long long shape[3];
    int is_complete;
    pf_gpu_passes p;
    pf_status st = PF_EINVAL;

    (void)module;
    if (!PyArg_ParseTuple(args, "OKK(LLL)Op(KKKKK):fuse_there", &capsule, &stream,
                &from, &shape[0], &shape[1], &shape[2], &given, &is_complete, &made[0],
                &made[1], &made[2], &made[3], &made[4])) {
        return NULL;
    }
    device = pf_cuda_device_of(capsule);
    seeds = device == NULL ? NULL : pf_array_in(given, NPY_UINT64, 1, "tie_seeds");
    if (seeds == NULL) {
        return NULL;
    }
    p = (pf_gpu_passes){.logprob = (const double *)(uintptr_t)from,
            .tie_seed = PyArray_DATA(PF_ARRAY(seeds)),
            .n_item = shape[0],
            .n_pass = shape[1],
            .n_option = shape[2],
            .is_complete = is_complete != 0,
            .is_there = true,
            .stream = (void *)(uintptr_t)stream,
            .posterior = (double *)(uintptr_t)made[0],
            .margin_nats = (double *)(uintptr_t)made[1],
            .answer = (int64_t *)(uintptr_t)made[2],
            .n_tied = (int64_t *)(uintptr_t)made[3],
            .n_valid = (int64_t *)(uintptr_t)made[4]};
    if (PyArray_DIM(PF_ARRAY(seeds), 0) == shape[0]) {
        Py_BEGIN_ALLOW_THREADS
        st = pf_gpu_fuse_run(device, &p, &failure);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(seeds);
    if (st != PF_OK) {
        return pf_cuda_raise(st, &failure, "a count");
    }
    Py_RETURN_NONE;
}

const char pf_cuda_distance_sums_doc[] =
        "distance_sums($module, device, stream, a, b, n_pairs, n_px, /)\n--\n\n"
        "Sums int64 (n, 3) over pairs of frames at two addresses: |a - b|, (a - b)^2,\n"
        "and pixels of the histograms in other bins.";

PyObject *
pf_cuda_distance_sums(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    pf_gpu_pairs pairs = {0};
    pf_device *device;
    PyObject *capsule, *sums;
    void *data = NULL;
    unsigned long long stream, a, b;
    long long n_pair, n_px;
    npy_intp shape[2] = {0, 3};
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OKKKLL:distance_sums", &capsule, &stream, &a, &b,
                &n_pair, &n_px)) {
        return NULL;
    }
    device = pf_cuda_device_of(capsule);
    if (device == NULL) {
        return NULL;
    }
    shape[0] = n_pair < 0 ? 0 : (npy_intp)n_pair;
    sums = new_array(2, shape, NPY_INT64, &data);
    if (sums == NULL) {
        return NULL;
    }
    pairs = (pf_gpu_pairs){(pf_device_address)a, (pf_device_address)b, n_pair, n_px,
            (void *)(uintptr_t)stream};
    Py_BEGIN_ALLOW_THREADS
    st = pf_gpu_distance_sums(device, &pairs, data, &failure);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_DECREF(sums);
        return pf_cuda_raise(st, &failure, "the number of pairs or pixels");
    }
    return sums;
}

const char pf_cuda_blas_doc[] =
        "blas($module, device, path, /)\n--\n\n"
        "Open the cuBLAS library at path for a device; it is never closed.";

PyObject *
pf_cuda_blas(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    pf_blas *blas;
    pf_device *device;
    PyObject *capsule;
    const char *path;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "Os:blas", &capsule, &path)) {
        return NULL;
    }
    device = pf_cuda_device_of(capsule);
    if (device == NULL) {
        return NULL;
    }
    blas = calloc(1, sizeof *blas);
    if (blas == NULL) {
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    st = pf_blas_open(blas, device, path, &failure);
    Py_END_ALLOW_THREADS

    capsule = st == PF_OK ? PyCapsule_New(blas, blas_name, NULL)
                          : pf_cuda_raise(st, &failure, "cuBLAS");
    if (capsule == NULL) {
        free(blas);
    }
    return capsule;
}

const char pf_cuda_bootstrap_doc[] =
        "bootstrap($module, device, blas, values, seed, n_resamples, /)\n--\n\n"
        "Sums int64 (n_resamples, k) of int16 values (n, k) over n clusters drawn "
        "with\n"
        "replacement. ValueError when the product would not be exact.";

PyObject *
pf_cuda_bootstrap(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    pf_gpu_bootstrap request = {0};
    pf_device *device;
    pf_blas *blas;
    PyObject *device_capsule, *blas_capsule, *given, *values, *sums;
    void *data = NULL;
    unsigned long long seed;
    npy_intp shape[2];
    Py_ssize_t n_resample;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOOKn:bootstrap", &device_capsule, &blas_capsule,
                &given, &seed, &n_resample)) {
        return NULL;
    }
    device = pf_cuda_device_of(device_capsule);
    blas = device == NULL ? NULL : PyCapsule_GetPointer(blas_capsule, blas_name);
    values = blas == NULL ? NULL : pf_array_in(given, NPY_INT16, 2, "values");
    if (values == NULL) {
        return NULL;
    }
    shape[0] = n_resample < 0 ? 0 : n_resample;
    shape[1] = PyArray_DIM(PF_ARRAY(values), 1);
    sums = new_array(2, shape, NPY_INT64, &data);
    if (sums != NULL) {
        request = (pf_gpu_bootstrap){.value = PyArray_DATA(PF_ARRAY(values)),
                .n_cluster = PyArray_DIM(PF_ARRAY(values), 0),
                .n_column = shape[1],
                .seed = seed,
                .n_resample = n_resample,
                .sums = data};
        Py_BEGIN_ALLOW_THREADS
        st = pf_blas_bootstrap(blas, device, &request, &failure);
        Py_END_ALLOW_THREADS

        if (st != PF_OK) {
            Py_CLEAR(sums);
            pf_cuda_raise(st == PF_EDOMAIN ? PF_EINVAL : st, &failure, "values");
        }
    }
    Py_DECREF(values);
    return sums;
}

const char pf_cuda_gram_doc[] = "gram($module, device, blas, x, /)\n--\n\n"
                                "Gram matrices int32 (g, n, n) of int8 x (g, n, d).";

PyObject *
pf_cuda_gram(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    pf_device *device;
    pf_blas *blas;
    PyObject *device_capsule, *blas_capsule, *given, *x, *gram;
    void *data = NULL;
    const int8_t *from;
    int64_t shape[3];
    npy_intp made[3];
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOO:gram", &device_capsule, &blas_capsule, &given)) {
        return NULL;
    }
    device = pf_cuda_device_of(device_capsule);
    blas = device == NULL ? NULL : PyCapsule_GetPointer(blas_capsule, blas_name);
    x = blas == NULL ? NULL : pf_array_in(given, NPY_INT8, 3, "x");
    if (x == NULL) {
        return NULL;
    }
    for (int d = 0; d < 3; d++) {
        shape[d] = PyArray_DIM(PF_ARRAY(x), d);
        made[d] = PyArray_DIM(PF_ARRAY(x), d < 2 ? d : 1);
    }
    from = PyArray_DATA(PF_ARRAY(x));
    gram = new_array(3, made, NPY_INT32, &data);
    if (gram != NULL) {
        Py_BEGIN_ALLOW_THREADS
        st = pf_blas_gram(blas, device, from, shape, data, &failure);
        Py_END_ALLOW_THREADS

        if (st != PF_OK) {
            Py_CLEAR(gram);
            pf_cuda_raise(st, &failure, "the shape of x");
        }
    }
    Py_DECREF(x);
    return gram;
}

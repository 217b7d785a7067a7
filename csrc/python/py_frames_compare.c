/* py_frames_compare.c - the functions of phasefusion._frames that compare frames. */
#include "py_frames.h"

#include "frames/distance.h"
#include "frames/histogram.h"

const char pf_frames_distance_doc[] =
        "distance(a, b, kind, /)\n--\n\n"
        "Distances (n,) of frames (n, pixels, 3) uint8; kind 0 absolute, 1 rms,\n"
        "2 histogram. See phasefusion.stats.visual_distinctness.";

PyObject *
pf_frames_distance(PyObject *module, PyObject *args)
{
    PyObject *given[2];
    PyObject *a = NULL;
    PyObject *b = NULL;
    PyObject *distances = NULL;
    const npy_intp *shape;
    const uint8_t *from_a;
    const uint8_t *from_b;
    double *to;
    pf_status st;
    int kind;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOi:distance", &given[0], &given[1], &kind)) {
        return NULL;
    }
    if (kind < PF_DISTANCE_ABSOLUTE || kind > PF_DISTANCE_HISTOGRAM) {
        return pf_raise(PF_EINVAL, "kind");
    }
    a = pf_array_in(given[0], NPY_UINT8, 3, "a");
    b = pf_array_in(given[1], NPY_UINT8, 3, "b");
    if (a == NULL || b == NULL) {
        goto done;
    }
    shape = PyArray_DIMS(PF_ARRAY(a));
    for (int d = 0; d < 3; d++) {
        if (shape[d] != PyArray_DIM(PF_ARRAY(b), d) || shape[2] != 3) {
            PyErr_SetString(PyExc_ValueError, "a and b must both be (n, pixels, 3)");
            goto done;
        }
    }
    distances = PyArray_SimpleNew(1, shape, NPY_FLOAT64);
    if (distances == NULL) {
        goto done;
    }
    from_a = PyArray_DATA(PF_ARRAY(a));
    from_b = PyArray_DATA(PF_ARRAY(b));
    to = PyArray_DATA(PF_ARRAY(distances));

    Py_BEGIN_ALLOW_THREADS
    st = pf_distance_measure_pairs(
            from_a, from_b, (size_t)shape[0], (size_t)shape[1], (pf_distance)kind, to);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(distances);
        pf_raise(st, "the number of pixels");
    }

done:
    Py_XDECREF(a);
    Py_XDECREF(b);
    return distances;
}

/* A table of counts, uint32 (n_frame, 3, bins); NULL with an exception. */
static PyObject *
new_counts(npy_intp n_frame)
{
    const npy_intp shape[3] = {n_frame, 3, PF_HISTOGRAM_BINS};

    return PyArray_SimpleNew(3, shape, NPY_UINT32);
}

const char pf_frames_histograms_doc[] =
        "histograms(frames, /)\n--\n\n"
        "Pixels of frames, uint8 (n, pixels, 3), by their value: uint32 (n, 3, 32).";

PyObject *
pf_frames_histograms(PyObject *module, PyObject *args)
{
    PyObject *given, *frames, *counts = NULL;
    const uint8_t *rgb;
    size_t n_frame, n_px;
    uint32_t *count;
    pf_status st = PF_OK;

    (void)module;
    if (!PyArg_ParseTuple(args, "O:histograms", &given)) {
        return NULL;
    }
    frames = pf_array_in(given, NPY_UINT8, 3, "frames");
    if (frames == NULL) {
        return NULL;
    }
    if (PyArray_DIM(PF_ARRAY(frames), 2) != 3) {
        PyErr_SetString(PyExc_ValueError, "frames must be (n, pixels, 3)");
        goto done;
    }
    counts = new_counts(PyArray_DIM(PF_ARRAY(frames), 0));
    if (counts == NULL) {
        goto done;
    }
    n_frame = (size_t)PyArray_DIM(PF_ARRAY(frames), 0);
    n_px = (size_t)PyArray_DIM(PF_ARRAY(frames), 1);
    rgb = PyArray_DATA(PF_ARRAY(frames));
    count = PyArray_DATA(PF_ARRAY(counts));

    Py_BEGIN_ALLOW_THREADS
    for (size_t f = 0; st == PF_OK && f < n_frame; f++) {
        st = pf_histogram_count(
                rgb + f * n_px * 3, n_px, count + f * PF_HISTOGRAM_CELLS);
    }
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(counts);
        pf_raise(st, "the number of pixels");
    }

done:
    Py_DECREF(frames);
    return counts;
}

const char pf_frames_histogram_change_doc[] =
        "histogram_change(counts, /)\n--\n\n"
        "Bhattacharyya distance of each histogram, uint32 (n, 3, 32), and the one\n"
        "before it: float64 (n,) in [0, 1], the first 0.";

PyObject *
pf_frames_histogram_change(PyObject *module, PyObject *args)
{
    PyObject *given, *counts, *changes = NULL;
    const npy_intp *shape;
    const uint32_t *count;
    double *change;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "O:histogram_change", &given)) {
        return NULL;
    }
    counts = pf_array_in(given, NPY_UINT32, 3, "counts");
    if (counts == NULL) {
        return NULL;
    }
    shape = PyArray_DIMS(PF_ARRAY(counts));
    if (shape[1] != 3 || shape[2] != PF_HISTOGRAM_BINS) {
        PyErr_SetString(PyExc_ValueError, "counts must be (n, 3, 32)");
        goto done;
    }
    changes = PyArray_SimpleNew(1, shape, NPY_FLOAT64);
    if (changes == NULL) {
        goto done;
    }
    count = PyArray_DATA(PF_ARRAY(counts));
    change = PyArray_DATA(PF_ARRAY(changes));

    Py_BEGIN_ALLOW_THREADS
    st = pf_histogram_change(count, (size_t)shape[0], change);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        Py_CLEAR(changes);
        PyErr_SetString(PyExc_ValueError, "a channel of counts has no pixels");
    }

done:
    Py_DECREF(counts);
    return changes;
}

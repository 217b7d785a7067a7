/* py_video_measure.c - the methods of a reader that measure frames and keep none. */
#include "py_video.h"

#include "frames/histogram.h"
#include "video/digest.h"
#include "video/worker.h"

/* Decode into a sink and end the call: (array, state, flag), or NULL with an exception.
 * The array is what the sink fills, stolen; without one there is an exception already.
 */
static PyObject *
run_and_end(pf_reader *self, pf_read_call *call, const pf_sink *sink, PyObject *array)
{
    PyObject *read = NULL, *result = NULL;

    if (array != NULL) {
        call->wish.sink = sink;
        read = pf_run_call(self, call);
    }
    if (read != NULL) {
        result = Py_BuildValue(
                "(OOO)", array, PyTuple_GetItem(read, 0), PyTuple_GetItem(read, 1));
    }
    Py_XDECREF(read);
    Py_XDECREF(array);
    pf_end_call(call);
    pf_reader_leave(self);
    return result;
}

/* Where the digests of one call go. */
typedef struct digest_sink {
    uint64_t *digest; /* (n_slot) */
    size_t picture_bytes;
} digest_sink;

static pf_status
take_digest(void *arg, size_t share, size_t slot, const uint8_t *rgb)
{
    digest_sink *into = arg;

    (void)share;
    into->digest[slot] = pf_digest(rgb, into->picture_bytes);
    return PF_OK;
}

const char pf_reader_digest_doc[] =
        "digest($self, indices, n_thread, sequential, /)\n--\n\n"
        "Decode frames and give 64 bits of each that tell it from others, uint64\n"
        "(n,), holding one frame a thread; then the state and the flag of read.";

PyObject *
pf_reader_digest(PyObject *object, PyObject *args)
{
    pf_reader *self = (pf_reader *)object;
    PyObject *indices, *digests = NULL;
    int n_thread, sequential;
    pf_read_call call;
    digest_sink into;
    const pf_sink sink = {take_digest, &into};

    if (!PyArg_ParseTuple(args, "Oip:digest", &indices, &n_thread, &sequential) ||
            !pf_reader_enter(self)) {
        return NULL;
    }
    if (pf_begin_call(&call, indices, n_thread, sequential)) {
        const npy_intp n_slot = (npy_intp)call.wish.n_slot;

        digests = PyArray_ZEROS(1, &n_slot, NPY_UINT64, 0);
    }
    if (digests != NULL) {
        into = (digest_sink){PyArray_DATA(PF_ARRAY(digests)),
                pf_picture_bytes(&self->video.geometry)};
    }
    return run_and_end(self, &call, &sink, digests);
}

/* Where the counts of one call go. */
typedef struct histogram_sink {
    uint32_t *count; /* (n_slot, PF_HISTOGRAM_CELLS) */
    size_t picture_px;
} histogram_sink;

static pf_status
take_histogram(void *arg, size_t share, size_t slot, const uint8_t *rgb)
{
    histogram_sink *into = arg;

    (void)share;
    return pf_histogram_count(
            rgb, into->picture_px, into->count + slot * PF_HISTOGRAM_CELLS);
}

const char pf_reader_histograms_doc[] =
        "histograms($self, indices, n_thread, /)\n--\n\n"
        "Decode frames and count their pixels by value, uint32 (n, 3, 32), holding "
        "one\n"
        "frame a thread; then the state and the flag of read.";

PyObject *
pf_reader_histograms(PyObject *object, PyObject *args)
{
    pf_reader *self = (pf_reader *)object;
    PyObject *indices, *counts = NULL;
    int n_thread;
    pf_read_call call;
    histogram_sink into;
    const pf_sink sink = {take_histogram, &into};

    if (!PyArg_ParseTuple(args, "Oi:histograms", &indices, &n_thread) ||
            !pf_reader_enter(self)) {
        return NULL;
    }
    if (pf_begin_call(&call, indices, n_thread, false)) {
        const npy_intp shape[3] = {(npy_intp)call.wish.n_slot, 3, PF_HISTOGRAM_BINS};

        counts = PyArray_ZEROS(3, shape, NPY_UINT32, 0);
    }
    if (counts != NULL) {
        into = (histogram_sink){PyArray_DATA(PF_ARRAY(counts)),
                pf_picture_bytes(&self->video.geometry) / 3};
    }
    return run_and_end(self, &call, &sink, counts);
}

/* Columns of the whole numbers of a picture. */
enum {
    AT_PAST_PX2,
    AT_FUTURE_PX2,
    AT_N_VECTOR,
    AT_DECODE_ORDER,
    AT_KIND,
    AT_IS_REFERENCE,
    N_FACT
};

/* (sums, facts), or NULL with an exception. */
static PyObject *
pack_motion(const pf_motion *motion, npy_intp n_frame)
{
    const npy_intp sums_shape[2] = {n_frame, 2};
    const npy_intp facts_shape[2] = {n_frame, N_FACT};
    PyObject *sums = PyArray_SimpleNew(2, sums_shape, NPY_FLOAT64);
    PyObject *facts = PyArray_SimpleNew(2, facts_shape, NPY_INT64);
    double *sum;
    int64_t *fact;

    if (sums == NULL || facts == NULL) {
        Py_XDECREF(sums);
        Py_XDECREF(facts);
        return NULL;
    }
    sum = PyArray_DATA(PF_ARRAY(sums));
    fact = PyArray_DATA(PF_ARRAY(facts));
    for (npy_intp f = 0; f < n_frame; f++, sum += 2, fact += N_FACT) {
        sum[0] = motion[f].past_px3;
        sum[1] = motion[f].future_px3;
        fact[AT_PAST_PX2] = motion[f].past_px2;
        fact[AT_FUTURE_PX2] = motion[f].future_px2;
        fact[AT_N_VECTOR] = motion[f].n_vector;
        fact[AT_DECODE_ORDER] = motion[f].decode_order;
        fact[AT_KIND] = motion[f].kind;
        fact[AT_IS_REFERENCE] = motion[f].is_reference;
    }
    return Py_BuildValue("(NN)", sums, facts);
}

static void
unpack_motion(const double *sum, const int64_t *fact, npy_intp n_frame, pf_motion *to)
{
    for (npy_intp f = 0; f < n_frame; f++, sum += 2, fact += N_FACT) {
        to[f] = (pf_motion){.past_px3 = sum[0],
                .future_px3 = sum[1],
                .past_px2 = fact[AT_PAST_PX2],
                .future_px2 = fact[AT_FUTURE_PX2],
                .n_vector = fact[AT_N_VECTOR],
                .decode_order = fact[AT_DECODE_ORDER],
                .is_reference = fact[AT_IS_REFERENCE] != 0};
    }
}

const char pf_reader_motion_doc[] =
        "motion($self, indices, n_thread, /)\n--\n\n"
        "Decode frames for their motion vectors alone: sums of area times length,\n"
        "float64 (n, 2), of those from the past and from the future; int64 (n, 6) of\n"
        "the two areas, the number of vectors, the place in decoding order, the kind\n"
        "(0 unknown, 1 intra, 2 from the past, 3 from both) and whether others may\n"
        "refer to it; then the state and the flag of read.";

PyObject *
pf_reader_motion(PyObject *object, PyObject *args)
{
    pf_reader *self = (pf_reader *)object;
    PyObject *indices, *packed = NULL, *read = NULL, *result = NULL;
    int n_thread;
    pf_read_call call;
    size_t n_byte;

    if (!PyArg_ParseTuple(args, "Oi:motion", &indices, &n_thread) ||
            !pf_reader_enter(self)) {
        return NULL;
    }
    if (pf_begin_call(&call, indices, n_thread, false)) {
        if (pf_mul_size(call.wish.n_slot + 1, sizeof *call.wish.motion, &n_byte)) {
            call.wish.motion = PyMem_Calloc(1, n_byte);
        }
        read = call.wish.motion != NULL ? pf_run_call(self, &call) : PyErr_NoMemory();
    }
    if (read != NULL) {
        packed = pack_motion(call.wish.motion, (npy_intp)call.wish.n_slot);
    }
    if (packed != NULL) {
        result = Py_BuildValue("(OOOO)", PyTuple_GetItem(packed, 0),
                PyTuple_GetItem(packed, 1), PyTuple_GetItem(read, 0),
                PyTuple_GetItem(read, 1));
    }
    Py_XDECREF(packed);
    Py_XDECREF(read);
    PyMem_Free(call.wish.motion);
    pf_end_call(&call);
    pf_reader_leave(self);
    return result;
}

/* The energies as arrays, or NULL with an exception. */
static PyObject *
measure_energy(PyObject *sums, PyObject *facts, long long picture_px2)
{
    const npy_intp n_frame = PyArray_DIM(PF_ARRAY(sums), 0);
    pf_motion *motion = PyMem_Calloc((size_t)n_frame + 1, sizeof *motion);
    PyObject *energies = PyArray_SimpleNew(1, &n_frame, NPY_FLOAT64);
    PyObject *flags = PyArray_SimpleNew(1, &n_frame, NPY_BOOL);
    PyObject *result = NULL;
    double *energy;
    uint8_t *measured;
    pf_status st;

    if (motion == NULL || energies == NULL || flags == NULL) {
        result = PyErr_NoMemory();
        goto done;
    }
    unpack_motion(PyArray_DATA(PF_ARRAY(sums)), PyArray_DATA(PF_ARRAY(facts)), n_frame,
            motion);
    energy = PyArray_DATA(PF_ARRAY(energies));
    measured = PyArray_DATA(PF_ARRAY(flags));

    Py_BEGIN_ALLOW_THREADS
    st = pf_motion_energy(motion, (size_t)n_frame, picture_px2, energy, measured);
    Py_END_ALLOW_THREADS

    result = st == PF_OK ? Py_BuildValue("(OO)", energies, flags)
                         : pf_raise(st, st == PF_EDOMAIN ? "sums" : "picture_px2");
done:
    PyMem_Free(motion);
    Py_XDECREF(energies);
    Py_XDECREF(flags);
    return result;
}

const char pf_motion_energy_doc[] =
        "motion_energy($module, sums, facts, picture_px2, /)\n--\n\n"
        "Displacement from picture to picture in pixels, float64 (n,), and whether it\n"
        "was measured, bool (n,), from what Reader.motion gives of all frames in "
        "order.";

PyObject *
pf_video_motion_energy(PyObject *module, PyObject *args)
{
    PyObject *given[2], *sums, *facts = NULL, *result = NULL;
    long long picture_px2;

    (void)module;
    if (!PyArg_ParseTuple(
                args, "OOL:motion_energy", &given[0], &given[1], &picture_px2)) {
        return NULL;
    }
    sums = pf_array_in(given[0], NPY_FLOAT64, 2, "sums");
    if (sums != NULL) {
        facts = pf_array_in(given[1], NPY_INT64, 2, "facts");
    }
    if (facts != NULL && (PyArray_DIM(PF_ARRAY(sums), 1) != 2 ||
                                 PyArray_DIM(PF_ARRAY(facts), 1) != N_FACT ||
                                 PyArray_DIM(PF_ARRAY(facts), 0) !=
                                         PyArray_DIM(PF_ARRAY(sums), 0))) {
        PyErr_SetString(PyExc_ValueError, "sums must be (n, 2) and facts (n, 6)");
    }
    else if (facts != NULL) {
        result = measure_energy(sums, facts, picture_px2);
    }
    Py_XDECREF(sums);
    Py_XDECREF(facts);
    return result;
}

/* py_video_read.c - the methods of a reader that decode frames into arrays. */
#include "py_video.h"

#include <string.h>

#include "frames/fit.h"

void
pf_end_call(pf_read_call *call)
{
    Py_XDECREF(call->indices);
    Py_XDECREF(call->state);
}

bool
pf_begin_call(pf_read_call *call, PyObject *indices, int n_thread, int sequential)
{
    npy_intp n_slot;

    *call = (pf_read_call){.indices = pf_array_in(indices, NPY_INT64, 1, "indices")};
    if (call->indices == NULL) {
        return false;
    }
    if (n_thread < 1) {
        PyErr_SetString(PyExc_ValueError, "n_thread must be at least 1");
        return false;
    }
    n_slot = PyArray_DIM(PF_ARRAY(call->indices), 0);
    call->state = PyArray_SimpleNew(1, &n_slot, NPY_UINT8);
    if (call->state == NULL) {
        return false;
    }
    call->wish = (pf_wish){.frame = PyArray_DATA(PF_ARRAY(call->indices)),
            .n_slot = (size_t)n_slot,
            .state = PyArray_DATA(PF_ARRAY(call->state)),
            .n_thread = n_thread,
            .sequential = sequential != 0};
    return true;
}

static PyObject *
raise_read(pf_reader *self, pf_status st)
{
    PyObject *error_class = pf_video_error_class((PyObject *)self);

    if (PyErr_Occurred()) {
        return NULL; /* the poll: a signal handler raised */
    }
    if (st == PF_EDATA || st == PF_EIO) {
        PyErr_Format(error_class, "%s: the file changed since it was opened",
                self->video.name);
        return NULL;
    }
    if (st == PF_EBACKEND) {
        PyErr_Format(error_class, "%s: FFmpeg cannot decode or convert its pictures",
                self->video.name);
        return NULL;
    }
    if (st == PF_EOVERFLOW) {
        PyErr_Format(error_class,
                "%s: a picture of it has more pixels than max_pixels allows (%lld); "
                "pass "
                "a larger max_pixels to read it all the same",
                self->video.name, (long long)self->video.stream.limits.max_pixels);
        return NULL;
    }
    return pf_raise(st, "indices");
}

PyObject *
pf_run_call(pf_reader *self, pf_read_call *call)
{
    pf_signal_poll signals = pf_signal_poll_start();
    const pf_poll poll = {pf_ask_signals, &signals};
    bool damaged = false;
    pf_status st;

    call->wish.poll = &poll;
    signals.saved = PyEval_SaveThread();
    st = pf_video_read(&self->video, &call->wish, &damaged);
    PyEval_RestoreThread(signals.saved);
    if (st != PF_OK) {
        return raise_read(self, st);
    }
    return Py_BuildValue("(OO)", call->state, damaged ? Py_True : Py_False);
}

/* One slot a frame from a tuple of arrays (k, height, width, 3), uint8, C-contiguous.
 */
static uint8_t **
collect_slots(const pf_reader *self, PyObject *outs, size_t n_slot)
{
    const npy_intp height = pf_geometry_height_px(&self->video.geometry);
    const npy_intp width = pf_geometry_width_px(&self->video.geometry);
    uint8_t **slot = PyMem_Malloc((n_slot > 0 ? n_slot : 1) * sizeof *slot);
    size_t n_filled = 0;

    if (slot == NULL) {
        (void)PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(outs); i++) {
        PyObject *out_borrowed = PyTuple_GetItem(outs, i);
        PyArrayObject *out = PF_ARRAY(out_borrowed);

        if (!PyArray_Check(out_borrowed) || PyArray_NDIM(out) != 4 ||
                PyArray_TYPE(out) != NPY_UINT8 || !PyArray_ISCARRAY(out) ||
                PyArray_DIM(out, 1) != height || PyArray_DIM(out, 2) != width ||
                PyArray_DIM(out, 3) != 3 ||
                (size_t)PyArray_DIM(out, 0) > n_slot - n_filled) {
            PyErr_SetString(PyExc_ValueError, "outs must be writable C-ordered uint8 "
                                              "arrays (k, height, width, 3)");
            PyMem_Free(slot);
            return NULL;
        }
        for (npy_intp k = 0; k < PyArray_DIM(out, 0); k++) {
            slot[n_filled++] = (uint8_t *)PyArray_DATA(out) + k * height * width * 3;
        }
    }
    if (n_filled != n_slot) {
        PyErr_SetString(PyExc_ValueError, "outs do not hold as many frames as indices");
        PyMem_Free(slot);
        return NULL;
    }
    return slot;
}

const char pf_reader_read_doc[] =
        "read($self, indices, outs, n_thread, sequential, /)\n--\n\n"
        "Decode frames into a tuple of uint8 arrays (k, height, width, 3) that "
        "together\n"
        "hold one frame for each of indices (int64). Returns the state of each frame\n"
        "(uint8: 0 sound, 1 damaged, 2 missing) and whether the decoder met an error.";

PyObject *
pf_reader_read(PyObject *object, PyObject *args)
{
    pf_reader *self = (pf_reader *)object;
    PyObject *indices = NULL, *outs = NULL, *result = NULL;
    int n_thread, sequential;
    pf_read_call call;

    if (!PyArg_ParseTuple(args, "OO!ip:read", &indices, &PyTuple_Type, &outs, &n_thread,
                &sequential) ||
            !pf_reader_enter(self)) {
        return NULL;
    }
    if (pf_begin_call(&call, indices, n_thread, sequential)) {
        call.wish.slot = collect_slots(self, outs, call.wish.n_slot);
        result = call.wish.slot == NULL ? NULL : pf_run_call(self, &call);
        PyMem_Free(call.wish.slot);
    }
    pf_end_call(&call);
    pf_reader_leave(self);
    return result;
}

/* Fills *group from a writable array: uint8 (k, h, w, 3), or float32 (k, 3, h, w). */
static bool
describe_group(PyObject *out, bool planes, pf_fit_group *group)
{
    const npy_intp *dims;

    if (!PyArray_Check(out) || PyArray_NDIM(PF_ARRAY(out)) != 4 ||
            PyArray_TYPE(PF_ARRAY(out)) != (planes ? NPY_FLOAT32 : NPY_UINT8) ||
            !PyArray_ISCARRAY(PF_ARRAY(out)) ||
            PyArray_DIM(PF_ARRAY(out), planes ? 1 : 3) != 3) {
        PyErr_SetString(PyExc_ValueError,
                planes ? "outs must be writable C-ordered float32 arrays (k, 3, h, w)"
                       : "outs must be writable C-ordered uint8 arrays (k, h, w, 3)");
        return false;
    }
    dims = PyArray_DIMS(PF_ARRAY(out));
    group->n_slot = (size_t)dims[0];
    group->size = planes ? (pf_size){dims[2], dims[3]} : (pf_size){dims[1], dims[2]};
    group->planes = planes ? PyArray_DATA(PF_ARRAY(out)) : NULL;
    group->rgb = planes ? NULL : PyArray_DATA(PF_ARRAY(out));
    return true;
}

/* One group an array, (n_out,); NULL with an exception. */
static pf_fit_group *
collect_groups(PyObject *outs, bool planes, size_t n_slot)
{
    const Py_ssize_t n_out = PyTuple_Size(outs);
    pf_fit_group *group = PyMem_Malloc(((size_t)n_out + 1) * sizeof *group);
    size_t n_filled = 0;

    if (group == NULL) {
        (void)PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n_out; i++) {
        if (!describe_group(PyTuple_GetItem(outs, i), planes, &group[i])) {
            PyMem_Free(group);
            return NULL;
        }
        n_filled += group[i].n_slot;
    }
    if (n_filled != n_slot) {
        PyErr_SetString(PyExc_ValueError, "outs do not hold as many frames as indices");
        PyMem_Free(group);
        return NULL;
    }
    return group;
}

/* The mean and std of a tuple of six, or nothing for None; false with an exception. */
static bool
parse_normalise(PyObject *six, pf_normalise *normalise)
{
    float mean[3];
    float std[3];
    pf_status st;

    if (six == Py_None) {
        return true;
    }
    if (!PyTuple_Check(six)) {
        PyErr_SetString(PyExc_TypeError, "normalise must be None or six numbers");
        return false;
    }
    if (!PyArg_ParseTuple(six, "ffffff", &mean[0], &mean[1], &mean[2], &std[0], &std[1],
                &std[2])) {
        return false;
    }
    st = pf_normalise_init(normalise, mean, std);
    if (st != PF_OK) {
        (void)pf_raise(st, "mean or std");
    }
    return st == PF_OK;
}

static bool
parse_resize(const char *filter, const char *first_pass, pf_resize_options *options)
{
    options->level = pf_cpu_best();
    if (pf_filter_parse(filter, &options->filter) != PF_OK) {
        PyErr_Format(PyExc_ValueError, "unknown filter '%s'", filter);
        return false;
    }
    if (pf_first_pass_parse(first_pass, &options->first_pass) != PF_OK) {
        PyErr_Format(PyExc_ValueError, "unknown first pass '%s'", first_pass);
        return false;
    }
    return true;
}

/* The decoding with a fit as its sink. */
static PyObject *
run_fitted(pf_reader *self, pf_read_call *call, pf_fit_groups groups,
        const pf_resize_options *options, const pf_normalise *normalise)
{
    const pf_size size = {pf_geometry_height_px(&self->video.geometry),
            pf_geometry_width_px(&self->video.geometry)};
    PyObject *result = NULL;
    pf_fit fit;
    const pf_sink sink = {pf_fit_take, &fit};
    const pf_status st = pf_fit_init(
            &fit, size, groups, options, normalise, (size_t)call->wish.n_thread);

    if (st == PF_OK) {
        call->wish.sink = &sink;
        result = pf_run_call(self, call);
    }
    else {
        (void)pf_raise(st, "the size of the frames or of the output");
    }
    pf_fit_free(&fit);
    return result;
}

const char pf_reader_read_fitted_doc[] =
        "read_fitted($self, indices, outs, normalise, filter, first_pass, n_thread, "
        "/)\n"
        "--\n\n"
        "Decode and resize frames into a tuple of arrays that together hold one frame\n"
        "for each of indices: uint8 (k, h, w, 3) when normalise is None, or float32\n"
        "(k, 3, h, w) normalised by its six numbers, three means and three stds.\n"
        "Returns what read does.";

PyObject *
pf_reader_read_fitted(PyObject *object, PyObject *args)
{
    pf_reader *self = (pf_reader *)object;
    PyObject *indices, *outs, *six, *result = NULL;
    const char *filter, *first_pass;
    pf_fit_group *group = NULL;
    pf_resize_options options;
    pf_normalise normalise;
    pf_read_call call;
    int n_thread;

    if (!PyArg_ParseTuple(args, "OO!Ossi:read_fitted", &indices, &PyTuple_Type, &outs,
                &six, &filter, &first_pass, &n_thread) ||
            !parse_normalise(six, &normalise) ||
            !parse_resize(filter, first_pass, &options) || !pf_reader_enter(self)) {
        return NULL;
    }
    if (pf_begin_call(&call, indices, n_thread, false)) {
        group = collect_groups(outs, six != Py_None, call.wish.n_slot);
    }
    if (group != NULL) {
        const pf_fit_groups groups = {group, (size_t)PyTuple_Size(outs)};

        result = run_fitted(
                self, &call, groups, &options, six == Py_None ? NULL : &normalise);
    }
    PyMem_Free(group);
    pf_end_call(&call);
    pf_reader_leave(self);
    return result;
}

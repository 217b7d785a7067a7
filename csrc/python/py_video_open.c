/* py_video_open.c - opening and releasing the readers of phasefusion._video. */
#define _POSIX_C_SOURCE 200809L
#include "py_video.h"

#include <stdio.h>
#include <unistd.h>

/* "%S: its pictures have more pixels than max_pixels=100 allows ..." */
static void
raise_beyond(PyObject *error_class, PyObject *name, const pf_beyond *beyond)
{
    char allowed[40];
    char found[48] = "";

    (void)snprintf(allowed, sizeof allowed, "%.15g", beyond->allowed);
    if (beyond->found > 0.0) {
        (void)snprintf(found, sizeof found, " (%.15g)", beyond->found);
    }
    PyErr_Format(error_class, "%S: %s %s=%s allows%s; pass a higher %s to read it",
            name, beyond->reason, beyond->limit, allowed, found, beyond->limit);
}

void
pf_raise_open(PyObject *error_class, PyObject *name, pf_status st,
        const pf_video_error *error)
{
    char code[AV_ERROR_MAX_STRING_SIZE] = "";
    const char *said = error->detail;
    PyObject *detail;

    if (PyErr_Occurred()) {
        return; /* the poll: a signal handler raised */
    }
    if (st == PF_ENOMEM) {
        (void)PyErr_NoMemory();
        return;
    }
    if (st == PF_EOVERFLOW && error->beyond.limit != NULL) {
        raise_beyond(error_class, name, &error->beyond);
        return;
    }
    if (error->errno_code != 0) {
        errno = error->errno_code;
        (void)PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name);
        return;
    }
    if (said[0] == '\0' && error->av_code != 0) {
        (void)av_strerror(error->av_code, code, sizeof code);
        said = code;
    }
    detail = PyUnicode_DecodeUTF8(said, (Py_ssize_t)strlen(said), "replace");
    if (detail == NULL) {
        return;
    }
    PyErr_Format(error_class, said[0] != '\0' ? "%S: %s (FFmpeg: %U)" : "%S: %s%U",
            name, error->reason != NULL ? error->reason : "it cannot be read", detail);
    Py_DECREF(detail);
}

/* Pins data, if there are any, and points source at them or at the file. */
static bool
take_source(pf_reader *self, PyObject *data, const char *name, pf_source *source)
{
    *source = (pf_source){.name = name};
    if (data == Py_None) {
        return true;
    }
    if (PyObject_GetBuffer(data, &self->data, PyBUF_SIMPLE) < 0) {
        return false;
    }
    self->has_data = true;
    /* an empty buffer may have no address, which would mean the file */
    source->data = self->data.len > 0 ? self->data.buf : (const uint8_t *)"";
    source->n_byte = self->data.len;
    return true;
}

static void
release_data(pf_reader *self)
{
    if (self->has_data) {
        self->has_data = false;
        PyBuffer_Release(&self->data);
    }
}

PyObject *
pf_reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *path = NULL, *data = NULL, *path_bytes = NULL;
    long long max_packets, max_pixels, cache_bytes, max_bytes;
    double max_s;
    int stream_index;
    pf_reader *self = NULL;
    pf_source source;
    pf_video_error error;
    pf_signal_poll signals = pf_signal_poll_start();
    const pf_poll poll = {pf_ask_signals, &signals};
    pf_status st;

    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Reader takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OOi(LLLLd):Reader", &path, &data, &stream_index,
                &max_packets, &max_pixels, &cache_bytes, &max_bytes, &max_s) ||
            !PyUnicode_FSConverter(path, &path_bytes)) {
        return NULL;
    }
    self = (pf_reader *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        goto done;
    }
    atomic_flag_clear(&self->busy);
    self->pid = (int64_t)getpid();
    if (!take_source(self, data, PyBytes_AsString(path_bytes), &source)) {
        Py_CLEAR(self);
        goto done;
    }
    self->is_open = true;
    signals.saved = PyEval_SaveThread();
    st = pf_video_open(&self->video, &source, stream_index,
            &(pf_limits){max_packets, max_pixels, cache_bytes, max_bytes, max_s}, &poll,
            &error);
    PyEval_RestoreThread(signals.saved);
    if (st != PF_OK) {
        pf_raise_open(pf_video_error_class((PyObject *)self), path, st, &error);
        Py_CLEAR(self);
    }
    else if (!pf_video_needs_source(&self->video)) {
        release_data(self);
    }
done:
    Py_DECREF(path_bytes);
    return (PyObject *)self;
}

void
pf_reader_release(pf_reader *self)
{
    const bool is_ours = self->pid == (int64_t)getpid();
    const bool was_busy = !is_ours && atomic_flag_test_and_set(&self->busy);

    if (self->is_open && !was_busy) {
        pf_video_close(&self->video);
    }
    self->is_open = false;
    release_data(self);
}

/* py_video_subtitle.c - phasefusion._video.read_subtitles. */
#include "py_video.h"

#include "video/subtitle.h"

const char pf_read_subtitles_doc[] =
        "read_subtitles($module, path, data, stream, languages, max_cues,\n"
        "    max_text_bytes, /)\n--\n\n"
        "Subtitles of a file, or of data when they are not None, as a dict. stream -1\n"
        "is the best one; languages is None or codes with commas between them. Its\n"
        "cues are tuples (start_us, end_us, text, end_stated, place) in order.";

/* Text of an unknown encoding, None when it is empty. */
static PyObject *
label(const char *text)
{
    if (text[0] == '\0') {
        Py_RETURN_NONE;
    }
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *
count_or_none(int64_t n)
{
    if (n < 0) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLongLong(n);
}

static PyObject *
streams_list(const pf_subtitles *s)
{
    PyObject *list = PyList_New((Py_ssize_t)s->n_stream);

    for (size_t i = 0; list != NULL && i < s->n_stream; i++) {
        const pf_subtitle_stream *stream = &s->stream[i];
        PyObject *item = Py_BuildValue("isNNNNNN", stream->index, stream->codec,
                label(stream->language), label(stream->title),
                count_or_none(stream->n_cue), PyBool_FromLong(stream->is_default),
                PyBool_FromLong(stream->is_forced), PyBool_FromLong(stream->is_text));

        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
cues_list(const pf_cues *cues)
{
    PyObject *list = PyList_New((Py_ssize_t)cues->n_cue);

    for (size_t i = 0; list != NULL && i < cues->n_cue; i++) {
        const pf_cue *cue = &cues->cue[i];
        PyObject *item = Py_BuildValue("LLs#NL", (long long)cue->start_us,
                (long long)cue->end_us, cue->text, (Py_ssize_t)cue->text_bytes,
                PyBool_FromLong(cue->end_stated), (long long)cue->place);

        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
subtitles_dict(const pf_subtitles *s)
{
    PyObject *streams = streams_list(s);
    PyObject *cues = streams != NULL ? cues_list(&s->cues) : NULL;

    if (cues == NULL) {
        Py_XDECREF(streams);
        return NULL;
    }
    return Py_BuildValue("{s:s,s:n,s:N,s:N,s:N,s:L,s:L,s:L,s:L}", "container",
            s->container_name, "chosen", (Py_ssize_t)s->chosen, "embedded",
            PyBool_FromLong(!s->is_side_file), "streams", streams, "cues", cues,
            "n_invalid", (long long)s->n_invalid, "n_unreadable",
            (long long)s->n_unreadable, "n_empty", (long long)s->cues.n_empty,
            "n_duplicate", (long long)s->cues.n_duplicate);
}

/* Reads with the GIL released. */
static PyObject *
read_source(PyObject *module, PyObject *name, const pf_source *source,
        const pf_subtitle_choice *choice, const pf_subtitle_limits *limits)
{
    pf_signal_poll signals = pf_signal_poll_start();
    const pf_poll poll = {pf_ask_signals, &signals};
    PyObject *result = NULL;
    pf_subtitles subtitles;
    pf_video_error error;
    pf_status st;

    signals.saved = PyEval_SaveThread();
    st = pf_subtitles_read(&subtitles, source, choice, limits, &poll, &error);
    PyEval_RestoreThread(signals.saved);
    if (st == PF_EINVAL) {
        (void)pf_raise(st, "a limit");
    }
    else if (st != PF_OK) {
        pf_raise_open(pf_video_module_error(module), name, st, &error);
    }
    else {
        result = subtitles_dict(&subtitles);
    }
    pf_subtitles_free(&subtitles);
    return result;
}

PyObject *
pf_read_subtitles(PyObject *module, PyObject *args)
{
    PyObject *path = NULL, *data = NULL, *path_bytes = NULL, *result = NULL;
    pf_subtitle_choice choice = {-1, NULL};
    long long max_cues, max_text_bytes;
    Py_buffer view = {0};
    pf_source source = {0};

    if (!PyArg_ParseTuple(args, "OOizLL:read_subtitles", &path, &data,
                &choice.stream_index, &choice.languages, &max_cues, &max_text_bytes) ||
            !PyUnicode_FSConverter(path, &path_bytes)) {
        return NULL;
    }
    source.name = PyBytes_AsString(path_bytes);
    if (data != Py_None) {
        if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) {
            goto done;
        }
        /* an empty buffer may have no address, which would mean the file */
        source.data = view.len > 0 ? view.buf : (const uint8_t *)"";
        source.n_byte = view.len;
    }
    result = read_source(module, path, &source, &choice,
            &(pf_subtitle_limits){max_cues, max_text_bytes});
    PyBuffer_Release(&view); /* nothing when there is none */
done:
    Py_DECREF(path_bytes);
    return result;
}

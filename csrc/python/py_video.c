/* py_video.c - the module phasefusion._video: frames of a video file by index. */
#define _POSIX_C_SOURCE 200809L
#define PF_IMPORTS_NUMPY
#include "py_video.h"

#include <time.h>
#include <unistd.h>

#include <libavutil/pixdesc.h>

typedef struct video_state {
    PyObject *video_error; /* phasefusion.errors.VideoError */
    PyObject *reader_type;
} video_state;

static int64_t
now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

pf_signal_poll
pf_signal_poll_start(void)
{
    return (pf_signal_poll){.last_ns = now_ns()};
}

int
pf_ask_signals(void *arg)
{
    pf_signal_poll *poll = arg;
    const int64_t now = now_ns();
    int stop;

    if (now - poll->last_ns < 100000000) {
        return 0;
    }
    poll->last_ns = now;
    PyEval_RestoreThread(poll->saved);
    stop = PyErr_CheckSignals();
    poll->saved = PyEval_SaveThread();
    return stop;
}

PyObject *
pf_video_module_error(PyObject *module)
{
    video_state *state = PyModule_GetState(module);

    return state != NULL ? state->video_error : PyExc_RuntimeError;
}

PyObject *
pf_video_error_class(PyObject *self)
{
    video_state *state = PyType_GetModuleState(Py_TYPE(self));

    return state != NULL ? state->video_error : PyExc_RuntimeError;
}

static void
reader_dealloc(PyObject *object)
{
    pf_reader *self = (pf_reader *)object;
    PyTypeObject *type = Py_TYPE(object);

    pf_reader_release(self);
    PyObject_Free(object);
    Py_DECREF(type);
}

bool
pf_reader_enter(pf_reader *self)
{
    PyObject *error = pf_video_error_class((PyObject *)self);

    /* first: in a forked child the flag may have been left by a thread that is gone */
    if (self->pid != (int64_t)getpid()) {
        PyErr_Format(error, "%s: opened in process %lld; open it again here, in %lld",
                self->is_open ? self->video.name : "the video", (long long)self->pid,
                (long long)getpid());
        return false;
    }
    if (atomic_flag_test_and_set(&self->busy)) {
        PyErr_SetString(error,
                "the video is being read by another thread; open one Video a thread");
        return false;
    }
    if (!self->is_open) {
        atomic_flag_clear(&self->busy);
        PyErr_SetString(error, "the video is closed");
        return false;
    }
    return true;
}

void
pf_reader_leave(pf_reader *self)
{
    atomic_flag_clear(&self->busy);
}

static PyObject *
reader_close(PyObject *object, PyObject *unused)
{
    pf_reader *self = (pf_reader *)object;

    (void)unused;
    if (self->pid != (int64_t)getpid()) {
        pf_reader_release(self);
        Py_RETURN_NONE;
    }
    if (!self->is_open) {
        Py_RETURN_NONE;
    }
    if (!pf_reader_enter(self)) {
        return NULL;
    }
    pf_reader_release(self);
    pf_reader_leave(self);
    Py_RETURN_NONE;
}

static PyObject *
optional_text(const char *text)
{
    if (text == NULL) {
        Py_RETURN_NONE;
    }
    return PyUnicode_FromString(text);
}

static PyObject *
streams_tuple(const pf_video *video)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)video->n_stream);

    for (size_t i = 0; tuple != NULL && i < video->n_stream; i++) {
        const pf_stream_info *info = &video->stream_info[i];
        PyObject *item = Py_BuildValue("{s:i,s:s,s:s,s:i,s:i,s:L,s:O,s:O}", "index",
                info->index, "kind", info->kind, "codec", info->codec, "width",
                info->width_px, "height", info->height_px, "n_frames_header",
                (long long)info->n_frames_header, "is_default",
                info->is_default ? Py_True : Py_False, "is_picture",
                info->is_picture ? Py_True : Py_False);

        if (item == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, item) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

static PyObject *
info_dict(const pf_video *v)
{
    const pf_index *index = &v->index;
    const pf_look *look = &v->look;
    PyObject *streams = streams_tuple(v);

    if (streams == NULL) {
        return NULL;
    }
    return Py_BuildValue(
            "{s:N,s:s,s:s,s:N,s:i,s:i,s:i,s:O,s:(ii),s:(ii),s:(ii),s:L,s:L,s:L,"
            "s:L,s:L,s:N,s:N,s:O,s:O,s:O,s:N,s:i,s:N,s:d}",
            "path", PyUnicode_DecodeFSDefault(v->name), "container", v->container_name,
            "codec", v->codec_name, "pixel_format",
            optional_text(av_get_pix_fmt_name(look->pixel_format)), "width",
            pf_geometry_width_px(&v->geometry), "height",
            pf_geometry_height_px(&v->geometry), "rotation",
            90 * v->geometry.quarter_turns, "mirrored",
            v->geometry.mirrored ? Py_True : Py_False, "fps", v->rate.num, v->rate.den,
            "time_base", v->stream.time_base.num, v->stream.time_base.den, "sar",
            look->sample_aspect.num, look->sample_aspect.den, "n_frames_header",
            (long long)v->n_frames_header, "n_frames", (long long)index->n_frame,
            "n_packets", (long long)index->n_packet, "n_cut", (long long)index->n_cut,
            "end_pts", (long long)index->end_pts, "color_space",
            optional_text(av_color_space_name(look->matrix)), "color_range",
            optional_text(av_color_range_name(look->range)), "counted",
            index->counted ? Py_True : Py_False, "damaged",
            index->damaged ? Py_True : Py_False, "size_changes",
            look->size_changes ? Py_True : Py_False, "why_counted",
            optional_text(index->suspect), "stream_index", v->stream.stream_index,
            "streams", streams, "duration_s_header", v->duration_header_s);
}

static PyObject *
reader_info(PyObject *object, PyObject *unused)
{
    pf_reader *self = (pf_reader *)object;
    PyObject *dict;

    (void)unused;
    if (!pf_reader_enter(self)) {
        return NULL;
    }
    dict = info_dict(&self->video);
    pf_reader_leave(self);
    return dict;
}

static PyObject *
reader_pts(PyObject *object, PyObject *unused)
{
    pf_reader *self = (pf_reader *)object;
    npy_intp n_frame;
    PyObject *array;

    (void)unused;
    if (!pf_reader_enter(self)) {
        return NULL;
    }
    n_frame = (npy_intp)self->video.index.n_frame;
    array = PyArray_SimpleNew(1, &n_frame, NPY_INT64);
    if (array != NULL && n_frame > 0) {
        memcpy(PyArray_DATA(PF_ARRAY(array)), self->video.index.frame_pts,
                (size_t)n_frame * sizeof(int64_t));
    }
    pf_reader_leave(self);
    return array;
}

static PyObject *
reader_recount(PyObject *object, PyObject *unused)
{
    pf_reader *self = (pf_reader *)object;
    pf_signal_poll signals = pf_signal_poll_start();
    const pf_poll poll = {pf_ask_signals, &signals};
    bool changed = false;
    pf_status st;

    (void)unused;
    if (!pf_reader_enter(self)) {
        return NULL;
    }
    signals.saved = PyEval_SaveThread();
    st = pf_video_recount(&self->video, &poll, &changed);
    PyEval_RestoreThread(signals.saved);
    pf_reader_leave(self);
    if (st != PF_OK) {
        return PyErr_Occurred() ? NULL : pf_raise(st, "video");
    }
    return PyBool_FromLong(changed);
}

PyDoc_STRVAR(reader_doc,
        "Reader(path, data, stream, limits, /)\n--\n\n"
        "One scanned video. data is None for the file of that path, otherwise a "
        "buffer\n"
        "that path is the name of. stream -1 is the best one. limits: max_packets,\n"
        "max_pixels, cache_bytes, max_bytes and max_seconds, the last two 0 for none.");
PyDoc_STRVAR(close_doc, "close($self, /)\n--\n\nRelease everything.");
PyDoc_STRVAR(info_doc, "info($self, /)\n--\n\nWhat the scan found, as a dict.");
PyDoc_STRVAR(pts_doc,
        "pts($self, /)\n--\n\n"
        "Presentation time of every frame, int64 (n_frames,), in time_base units.");
PyDoc_STRVAR(recount_doc,
        "recount($self, /)\n--\n\n"
        "Find the frame order by decoding everything; True when it changed.");
static PyMethodDef reader_methods[] = {
        {"close", reader_close, METH_NOARGS, close_doc},
        {"info", reader_info, METH_NOARGS, info_doc},
        {"pts", reader_pts, METH_NOARGS, pts_doc},
        {"recount", reader_recount, METH_NOARGS, recount_doc},
        {"digest", pf_reader_digest, METH_VARARGS, pf_reader_digest_doc},
        {"histograms", pf_reader_histograms, METH_VARARGS, pf_reader_histograms_doc},
        {"motion", pf_reader_motion, METH_VARARGS, pf_reader_motion_doc},
        {"read", pf_reader_read, METH_VARARGS, pf_reader_read_doc},
        {"read_chunks", pf_reader_read_chunks, METH_VARARGS, pf_reader_read_chunks_doc},
        {"read_fitted", pf_reader_read_fitted, METH_VARARGS, pf_reader_read_fitted_doc},
        {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
        {Py_tp_new, PF_SLOT(pf_reader_new)},
        {Py_tp_dealloc, PF_SLOT(reader_dealloc)},
        {Py_tp_methods, reader_methods},
        {Py_tp_doc, (void *)(uintptr_t)reader_doc},
        {0, NULL},
};

static PyType_Spec reader_spec = {
        .name = "phasefusion._video.Reader",
        .basicsize = sizeof(pf_reader),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = reader_slots,
};

PyDoc_STRVAR(versions_doc,
        "ffmpeg_versions()\n--\n\nVersions of the FFmpeg libraries in use, as a dict.");

static PyObject *
version_text(unsigned version)
{
    return PyUnicode_FromFormat("%d.%d.%d", (int)AV_VERSION_MAJOR(version),
            (int)AV_VERSION_MINOR(version), (int)AV_VERSION_MICRO(version));
}

static PyObject *
ffmpeg_versions(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:s}", "libavformat",
            version_text(avformat_version()), "libavcodec",
            version_text(avcodec_version()), "libavutil",
            version_text(avutil_version()), "libswscale",
            version_text(swscale_version()), "release", av_version_info());
}

PyDoc_STRVAR(parts_doc,
        "ffmpeg_parts()\n--\n\nLicence, container readers and decoders of the FFmpeg "
        "libraries in use.");

static int
append_text(PyObject *list, const char *text)
{
    PyObject *item = PyUnicode_FromString(text);
    const int code = item == NULL ? -1 : PyList_Append(list, item);

    Py_XDECREF(item);
    return code;
}

static PyObject *
ffmpeg_parts(PyObject *module, PyObject *unused)
{
    PyObject *demuxers = PyList_New(0), *decoders = PyList_New(0), *parts = NULL;
    const AVInputFormat *kind;
    const AVCodec *codec;
    void *at = NULL;

    (void)module;
    (void)unused;
    if (demuxers == NULL || decoders == NULL) {
        goto fail;
    }
    while ((kind = av_demuxer_iterate(&at)) != NULL) {
        if (append_text(demuxers, kind->name) < 0) {
            goto fail;
        }
    }
    at = NULL;
    while ((codec = av_codec_iterate(&at)) != NULL) {
        if (av_codec_is_decoder(codec) && append_text(decoders, codec->name) < 0) {
            goto fail;
        }
    }
    parts = Py_BuildValue("{s:s,s:O,s:O}", "license", avcodec_license(), "demuxers",
            demuxers, "decoders", decoders);
fail:
    Py_XDECREF(demuxers);
    Py_XDECREF(decoders);
    return parts;
}

static PyMethodDef video_methods[] = {
        {"ffmpeg_parts", ffmpeg_parts, METH_NOARGS, parts_doc},
        {"ffmpeg_versions", ffmpeg_versions, METH_NOARGS, versions_doc},
        {"motion_energy", pf_video_motion_energy, METH_VARARGS, pf_motion_energy_doc},
        {"read_subtitles", pf_read_subtitles, METH_VARARGS, pf_read_subtitles_doc},
        {NULL, NULL, 0, NULL},
};

static int
video_exec(PyObject *module)
{
    video_state *state = PyModule_GetState(module);
    PyObject *errors;

    if (pf_import_numpy(module) < 0) {
        return -1;
    }
    errors = PyImport_ImportModule("phasefusion.errors");
    if (errors == NULL) {
        return -1;
    }
    state->video_error = PyObject_GetAttrString(errors, "VideoError");
    Py_DECREF(errors);
    if (state->video_error == NULL) {
        return -1;
    }
    state->reader_type = PyType_FromModuleAndSpec(module, &reader_spec, NULL);
    if (state->reader_type == NULL ||
            PyModule_AddObjectRef(module, "Reader", state->reader_type) < 0) {
        return -1;
    }
    pf_log_install();
    return 0;
}

static int
video_traverse(PyObject *module, visitproc visit, void *arg)
{
    video_state *state = PyModule_GetState(module);

    Py_VISIT(state->video_error);
    Py_VISIT(state->reader_type);
    return 0;
}

static int
video_clear(PyObject *module)
{
    video_state *state = PyModule_GetState(module);

    Py_CLEAR(state->video_error);
    Py_CLEAR(state->reader_type);
    return 0;
}

static PyModuleDef_Slot video_slots[] = {
        {Py_mod_exec, PF_SLOT(video_exec)},
        {PF_INTERPRETERS_SLOT},
        {PF_GIL_SLOT},
        {0, NULL},
};

static struct PyModuleDef video_module = {
        PyModuleDef_HEAD_INIT,
        .m_name = "phasefusion._video",
        .m_doc = "Exact frames of a video file.",
        .m_size = sizeof(video_state),
        .m_methods = video_methods,
        .m_slots = video_slots,
        .m_traverse = video_traverse,
        .m_clear = video_clear,
};

PyMODINIT_FUNC PyInit__video(void);

PyMODINIT_FUNC
PyInit__video(void)
{
    return PyModuleDef_Init(&video_module);
}

/* py_frames.c - the module phasefusion._frames: resize, normalise, cut into patches. */
#define PF_IMPORTS_NUMPY
#include "py_frames.h"

#include "base/cpu.h"
#include "frames/batch.h"
#include "frames/patches.h"

/* Fills the table from an array (..., H, W, 3) whose leading strides may be anything.
 * frame has room for all of them. */
static void
list_frames(PyObject *array, const uint8_t **frame, size_t n_frame)
{
    const int n_lead = PyArray_NDIM(PF_ARRAY(array)) - 3;
    npy_intp index[NPY_MAXDIMS] = {0};
    const char *at = PyArray_BYTES(PF_ARRAY(array));

    for (size_t i = 0; i < n_frame; i++) {
        frame[i] = (const uint8_t *)at;
        for (int d = n_lead - 1; d >= 0; d--) {
            const npy_intp stride = PyArray_STRIDE(PF_ARRAY(array), d);

            at += stride;
            if (++index[d] < PyArray_DIM(PF_ARRAY(array), d)) {
                break;
            }
            at -= stride * index[d];
            index[d] = 0;
        }
    }
}

/* frames as the kernels want it: it must be a uint8 array (..., H, W, 3) with
 * contiguous rows. Returns the table of frames, to be freed with PyMem_Free, that
 * batch points to; NULL with an exception on failure. */
static const uint8_t **
describe_frames(PyObject *frames, pf_batch_src *batch)
{
    const int n_lead = PyArray_Check(frames) ? PyArray_NDIM(PF_ARRAY(frames)) - 3 : -1;
    const npy_intp *dims;
    const npy_intp *strides;
    const uint8_t **frame;
    size_t n_frame = 1;
    size_t n_bytes;

    if (n_lead < 0 || PyArray_TYPE(PF_ARRAY(frames)) != NPY_UINT8) {
        PyErr_SetString(
                PyExc_ValueError, "frames must be a uint8 array (..., H, W, 3)");
        return NULL;
    }
    dims = PyArray_DIMS(PF_ARRAY(frames));
    strides = PyArray_STRIDES(PF_ARRAY(frames)) + n_lead;
    for (int d = 0; d < n_lead; d++) {
        if (!pf_mul_size(n_frame, (size_t)dims[d], &n_frame)) {
            pf_raise(PF_EOVERFLOW, "frames");
            return NULL;
        }
    }
    dims += n_lead;
    if (dims[2] != 3 ||
            (n_frame > 0 && /* no frames, any strides */
                    (strides[2] != 1 || (dims[1] > 1 && strides[1] != 3)))) {
        PyErr_SetString(PyExc_ValueError,
                "frames must have 3 as the last axis and contiguous rows");
        return NULL;
    }
    frame = pf_mul_size(n_frame, sizeof *frame, &n_bytes) ? PyMem_Malloc(n_bytes)
                                                          : NULL;
    if (frame == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    list_frames(frames, frame, n_frame);
    *batch = (pf_batch_src){frame, n_frame, {dims[0], dims[1]}, strides[0]};
    return frame;
}

/* The data of out, a writable C-contiguous array of that type with room for n_frame
 * images; size is what one of them holds. NULL with an exception otherwise. */
static void *
describe_out(PyObject *out, int typenum, size_t n_frame, pf_size *size)
{
    const int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    const bool planes = typenum == NPY_FLOAT32;
    const npy_intp *dims;
    size_t n_value;

    if (!PyArray_Check(out) || PyArray_TYPE(PF_ARRAY(out)) != typenum ||
            !PyArray_CHKFLAGS(PF_ARRAY(out), flags) ||
            PyArray_NDIM(PF_ARRAY(out)) < 3) {
        PyErr_Format(PyExc_ValueError,
                "out must be a writable C-contiguous %s array of images",
                planes ? "float32" : "uint8");
        return NULL;
    }
    dims = PyArray_DIMS(PF_ARRAY(out)) + PyArray_NDIM(PF_ARRAY(out)) - 3;
    *size = planes ? (pf_size){dims[1], dims[2]} : (pf_size){dims[0], dims[1]};
    if (dims[planes ? 0 : 2] != 3 ||
            !pf_mul_size(3 * n_frame, (size_t)size->height_px, &n_value) ||
            !pf_mul_size(n_value, (size_t)size->width_px, &n_value) ||
            n_value != (size_t)PyArray_SIZE(PF_ARRAY(out))) {
        PyErr_SetString(PyExc_ValueError, "out must hold one RGB image a frame");
        return NULL;
    }
    return PyArray_DATA(PF_ARRAY(out));
}

struct options {
    const char *filter;
    const char *first_pass;
    const char *level;
    Py_ssize_t n_thread;
};

/* 0, or -1 with an exception. */
static int
parse_options(const struct options *options, pf_resize_options *parsed)
{
    pf_status st;

    if (pf_first_pass_parse(options->first_pass, &parsed->first_pass) != PF_OK) {
        PyErr_Format(PyExc_ValueError, "unknown first pass '%s'", options->first_pass);
        return -1;
    }
    if (pf_filter_parse(options->filter, &parsed->filter) != PF_OK) {
        PyErr_Format(PyExc_ValueError, "unknown filter '%s'", options->filter);
        return -1;
    }
    st = pf_cpu_level_parse(options->level, &parsed->level);
    if (st != PF_OK) {
        pf_raise(st, options->level);
        return -1;
    }
    if (options->n_thread < 1) {
        pf_raise(PF_EINVAL, "threads");
        return -1;
    }
    return 0;
}

/* Plan, run, free; -1 with an exception on failure. size is that of the output. */
static int
run_batch(const pf_batch_src *src, pf_size size, const pf_batch_dst *dst,
        const struct options *options)
{
    pf_resize_plan plan = {0};
    pf_resize_options parsed;
    pf_status st;

    if (parse_options(options, &parsed) < 0) {
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    st = pf_resize_plan_init(&plan, src->size, size, &parsed);
    if (st == PF_OK) {
        st = pf_batch_resize(&plan, src, dst, (size_t)options->n_thread);
    }
    pf_resize_plan_free(&plan);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        pf_raise(st, "the size of the frames or of the output");
        return -1;
    }
    return 0;
}

/* None, or NULL with an exception. normalise NULL makes uint8, otherwise planes. */
static PyObject *
run_arrays(PyObject *frames, PyObject *out, const pf_normalise *normalise,
        const struct options *options)
{
    pf_batch_src src;
    pf_batch_dst dst = {.normalise = normalise};
    pf_size size;
    void *data;
    int failed = -1;
    const uint8_t **frame = describe_frames(frames, &src);

    if (frame == NULL) {
        return NULL;
    }
    data = describe_out(
            out, normalise == NULL ? NPY_UINT8 : NPY_FLOAT32, src.n_frame, &size);
    if (data != NULL) {
        dst.rgb = normalise == NULL ? data : NULL;
        dst.planes = normalise == NULL ? NULL : data;
        failed = run_batch(&src, size, &dst, options);
    }
    PyMem_Free(frame);
    if (failed) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(resize_doc,
        "resize($module, frames, out, filter, first_pass, level, threads, /)\n--\n\n"
        "Resize uint8 frames (..., H, W, 3) into uint8 out (..., h, w, 3).");

static PyObject *
frames_resize(PyObject *module, PyObject *args)
{
    struct options options;
    PyObject *frames;
    PyObject *out;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOsssn:resize", &frames, &out, &options.filter,
                &options.first_pass, &options.level, &options.n_thread)) {
        return NULL;
    }
    return run_arrays(frames, out, NULL, &options);
}

PyDoc_STRVAR(resize_normalize_doc,
        "resize_normalize($module, frames, out, mean, std, filter, first_pass, level, "
        "threads, /)\n"
        "--\n\n"
        "Resize uint8 frames (..., H, W, 3) into normalised float32 planes out\n"
        "(..., 3, h, w).");

static PyObject *
frames_resize_normalize(PyObject *module, PyObject *args)
{
    struct options options;
    PyObject *frames;
    PyObject *out;
    pf_normalise normalise;
    float mean[3];
    float std[3];
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO(fff)(fff)sssn:resize_normalize", &frames, &out,
                &mean[0], &mean[1], &mean[2], &std[0], &std[1], &std[2],
                &options.filter, &options.first_pass, &options.level,
                &options.n_thread)) {
        return NULL;
    }
    st = pf_normalise_init(&normalise, mean, std);
    if (st != PF_OK) {
        return pf_raise(st, "mean or std");
    }
    return run_arrays(frames, out, &normalise, &options);
}

/* The data of rows, a writable C-contiguous float32 array for what that many frames
 * make; NULL with an exception otherwise. */
static float *
describe_rows(
        PyObject *rows, const pf_patch_layout *layout, size_t n_frame, pf_size size)
{
    const int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    pf_patch_grid grid;
    const pf_status st = pf_patches_plan(layout, n_frame, size, &grid);

    if (st != PF_OK) {
        pf_raise(st, "the layout of the patches");
        return NULL;
    }
    if (!PyArray_Check(rows) || PyArray_TYPE(PF_ARRAY(rows)) != NPY_FLOAT32 ||
            !PyArray_CHKFLAGS(PF_ARRAY(rows), flags) ||
            grid.n_value != (size_t)PyArray_SIZE(PF_ARRAY(rows))) {
        PyErr_Format(PyExc_ValueError,
                "rows must be a writable C-contiguous float32 array of %zu values",
                grid.n_value);
        return NULL;
    }
    return PyArray_DATA(PF_ARRAY(rows));
}

/* 0, or -1 with an exception. formula is (divisor, mean, std). */
static int
parse_values(PyObject *table, PyObject *formula, pf_values *values)
{
    float divisor;
    float mean[3];
    float std[3];

    if (!PyArg_ParseTuple(formula, "f(fff)(fff);formula is (divisor, mean, std)",
                &divisor, &mean[0], &mean[1], &mean[2], &std[0], &std[1], &std[2])) {
        return -1;
    }
    table = pf_array_in(table, NPY_FLOAT32, 2, "table");
    if (table == NULL) {
        return -1;
    }
    if (PyArray_DIM(PF_ARRAY(table), 0) != 3 ||
            PyArray_DIM(PF_ARRAY(table), 1) != 256) {
        PyErr_SetString(PyExc_ValueError, "table must have shape (3, 256)");
        Py_DECREF(table);
        return -1;
    }
    pf_values_init(values, PyArray_DATA(PF_ARRAY(table)), divisor, mean, std);
    Py_DECREF(table);
    return 0;
}

PyDoc_STRVAR(patches_from_rgb_doc,
        "patches_from_rgb($module, frames, table, formula, rows, patch, merge, depth, "
        "/)\n"
        "--\n\n"
        "Cut uint8 frames (n, H, W, 3) into float32 rows by way of table (3, 256). "
        "The\n"
        "formula (divisor, mean, std) is used where it gives the same bits.");

static PyObject *
frames_patches_from_rgb(PyObject *module, PyObject *args)
{
    pf_values values;
    pf_patch_layout layout;
    pf_batch_src src;
    PyObject *frames;
    PyObject *table;
    PyObject *formula;
    PyObject *rows;
    float *data;
    const uint8_t **frame;
    pf_status st = PF_OK;
    long long height;
    long long width;
    long long merge;
    long long depth;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOO!O(LL)LL:patches_from_rgb", &frames, &table,
                &PyTuple_Type, &formula, &rows, &height, &width, &merge, &depth) ||
            parse_values(table, formula, &values) < 0) {
        return NULL;
    }
    layout = (pf_patch_layout){{height, width}, merge, depth};
    frame = describe_frames(frames, &src);
    if (frame == NULL) {
        return NULL;
    }
    data = describe_rows(rows, &layout, src.n_frame, src.size);
    if (data != NULL) {
        Py_BEGIN_ALLOW_THREADS
        st = pf_patches_from_rgb(&layout, &src, &values, data);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(frame);
    if (data == NULL || st != PF_OK) {
        return data == NULL ? NULL : pf_raise(st, "frames");
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(patches_from_planes_doc,
        "patches_from_planes($module, planes, rows, patch, merge, depth, /)\n--\n\n"
        "Cut float32 planes (n, 3, H, W) into rows.");

static PyObject *
frames_patches_from_planes(PyObject *module, PyObject *args)
{
    pf_patch_layout layout;
    pf_size size;
    size_t n_frame;
    PyObject *planes;
    PyObject *rows;
    float *data;
    pf_status st = PF_OK;
    long long height;
    long long width;
    long long merge;
    long long depth;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO(LL)LL:patches_from_planes", &planes, &rows, &height,
                &width, &merge, &depth)) {
        return NULL;
    }
    layout = (pf_patch_layout){{height, width}, merge, depth};
    planes = pf_array_in(planes, NPY_FLOAT32, 4, "planes");
    if (planes == NULL) {
        return NULL;
    }
    n_frame = (size_t)PyArray_DIM(PF_ARRAY(planes), 0);
    size = (pf_size){
            PyArray_DIM(PF_ARRAY(planes), 2), PyArray_DIM(PF_ARRAY(planes), 3)};
    if (PyArray_DIM(PF_ARRAY(planes), 1) != 3) {
        PyErr_SetString(PyExc_ValueError, "planes must have shape (n, 3, H, W)");
        data = NULL;
    }
    else {
        data = describe_rows(rows, &layout, n_frame, size);
    }
    if (data != NULL) {
        const float *values = PyArray_DATA(PF_ARRAY(planes));

        Py_BEGIN_ALLOW_THREADS
        st = pf_patches_from_planes(&layout, values, n_frame, size, data);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(planes);
    if (data == NULL || st != PF_OK) {
        return data == NULL ? NULL : pf_raise(st, "planes");
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(cpu_level_doc, "cpu_level($module, /)\n--\n\n"
                            "The fastest instruction set that can be used here.");

static PyObject *
frames_cpu_level(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(pf_cpu_level_name(pf_cpu_best()));
}

static PyMethodDef frames_methods[] = {
        {"cpu_level", frames_cpu_level, METH_NOARGS, cpu_level_doc},
        {"distance", pf_frames_distance, METH_VARARGS, pf_frames_distance_doc},
        {"histogram_change", pf_frames_histogram_change, METH_VARARGS,
                pf_frames_histogram_change_doc},
        {"histograms", pf_frames_histograms, METH_VARARGS, pf_frames_histograms_doc},
        {"patches_from_planes", frames_patches_from_planes, METH_VARARGS,
                patches_from_planes_doc},
        {"patches_from_rgb", frames_patches_from_rgb, METH_VARARGS,
                patches_from_rgb_doc},
        {"resize", frames_resize, METH_VARARGS, resize_doc},
        {"resize_normalize", frames_resize_normalize, METH_VARARGS,
                resize_normalize_doc},
        {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot frames_slots[] = {
        {Py_mod_exec, PF_SLOT(pf_import_numpy)},
        {PF_INTERPRETERS_SLOT},
        {PF_GIL_SLOT},
        {0, NULL},
};

static struct PyModuleDef frames_module = {
        PyModuleDef_HEAD_INIT,
        .m_name = "phasefusion._frames",
        .m_doc = "Exact resize and normalisation of decoded frames.",
        .m_size = 0,
        .m_methods = frames_methods,
        .m_slots = frames_slots,
};

PyMODINIT_FUNC PyInit__frames(void);

PyMODINIT_FUNC
PyInit__frames(void)
{
    return PyModuleDef_Init(&frames_module);
}

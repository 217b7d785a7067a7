/* py_cuda.c - the module phasefusion._cuda: GPUs, when there are any. Nothing of CUDA
 * is touched before `open` is called. */
#define PF_IMPORTS_NUMPY
#include "glue.h"

#include <stdlib.h>
#include <string.h>

#include "host/upload.h"
#include "py_cuda.h"
#include "video/colour.h"

static const char driver_name[] = "phasefusion.driver";
static const char device_name[] = "phasefusion.device";

PyObject *
pf_cuda_raise(pf_status st, const pf_failure *failure, const char *what)
{
    PyObject *said;

    if (failure->text[0] == '\0') {
        return pf_raise(st, what);
    }
    said = Py_BuildValue("(si)", failure->text, failure->code);
    if (said != NULL) {
        PyErr_SetObject(st == PF_ENOMEM ? PyExc_MemoryError : PyExc_RuntimeError, said);
        Py_DECREF(said);
    }
    return NULL;
}

pf_device *
pf_cuda_device_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, device_name);
}

PyDoc_STRVAR(open_doc, "open($module, path, /)\n--\n\n"
                       "Open the CUDA driver library at path; it is never closed.");

static PyObject *
cuda_open(PyObject *module, PyObject *path)
{
    pf_failure failure = {0};
    pf_driver *driver;
    PyObject *bytes;
    PyObject *capsule = NULL;
    const char *text;
    pf_status st;

    (void)module;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    text = PyBytes_AsString(bytes);
    driver = calloc(1, sizeof *driver);
    if (driver == NULL || text == NULL) {
        free(driver);
        Py_DECREF(bytes);
        return text == NULL ? NULL : PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    st = pf_driver_open(driver, text, &failure);
    Py_END_ALLOW_THREADS

    Py_DECREF(bytes);
    if (st == PF_OK) {
        capsule = PyCapsule_New(driver, driver_name, NULL);
    }
    else {
        pf_cuda_raise(st, &failure, "the driver");
    }
    if (capsule == NULL) {
        free(driver);
    }
    return capsule;
}

PyDoc_STRVAR(driver_info_doc,
        "driver_info($module, driver, /)\n--\n\n"
        "Version (1000 * major + 10 * minor), number of devices.");

static PyObject *
cuda_driver_info(PyObject *module, PyObject *capsule)
{
    const pf_driver *driver = PyCapsule_GetPointer(capsule, driver_name);

    (void)module;
    return driver == NULL ? NULL
                          : Py_BuildValue("(ii)", driver->version, driver->n_device);
}

PyDoc_STRVAR(device_doc, "device($module, driver, ordinal, /)\n--\n\n"
                         "Make a device ready; it is never released.");

static PyObject *
cuda_device(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    const pf_driver *driver;
    pf_device *device;
    PyObject *capsule;
    pf_status st;
    int ordinal;

    (void)module;
    if (!PyArg_ParseTuple(args, "Oi:device", &capsule, &ordinal)) {
        return NULL;
    }
    driver = PyCapsule_GetPointer(capsule, driver_name);
    if (driver == NULL) {
        return NULL;
    }
    device = calloc(1, sizeof *device);
    if (device == NULL) {
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    st = pf_device_open(device, driver, ordinal, &failure);
    Py_END_ALLOW_THREADS

    capsule = NULL;
    if (st == PF_OK) {
        capsule = PyCapsule_New(device, device_name, NULL);
    }
    else {
        pf_cuda_raise(st, &failure, "the device");
    }
    if (capsule == NULL) {
        free(device);
    }
    return capsule;
}

PyDoc_STRVAR(device_info_doc,
        "device_info($module, device, /)\n--\n\n"
        "Name, compute capability, shared bytes of a block, multiprocessors.");

static PyObject *
cuda_device_info(PyObject *module, PyObject *capsule)
{
    const pf_device *device = pf_cuda_device_of(capsule);

    (void)module;
    if (device == NULL) {
        return NULL;
    }
    return Py_BuildValue("(s(ii)ii)", device->name, device->major, device->minor,
            device->max_shared_bytes, device->n_multiprocessor);
}

PyDoc_STRVAR(load_doc, "load($module, device, image, /)\n--\n\n"
                       "Load the kernels: a fatbin, a cubin or PTX.");

static PyObject *
cuda_load(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    pf_device *device;
    PyObject *capsule;
    PyObject *image;
    const char *bytes;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO!:load", &capsule, &PyBytes_Type, &image)) {
        return NULL;
    }
    device = pf_cuda_device_of(capsule);
    bytes = PyBytes_AsString(image);
    if (device == NULL || bytes == NULL) {
        return NULL;
    }
    if (PyBytes_Size(image) < 4) {
        return pf_raise(PF_EDATA, "the image");
    }
    Py_BEGIN_ALLOW_THREADS
    st = pf_device_load(device, bytes, &failure);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        return pf_cuda_raise(st, &failure, "the image");
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(device_of_doc, "device_of($module, driver, address, /)\n--\n\n"
                            "The device on which an address lies.");

static PyObject *
cuda_device_of(PyObject *module, PyObject *args)
{
    enum { ATTRIBUTE_DEVICE_ORDINAL = 9 };
    pf_failure failure = {0};
    const pf_driver *driver;
    PyObject *capsule;
    unsigned long long address;
    pf_status st;
    int ordinal = -1;

    (void)module;
    if (!PyArg_ParseTuple(args, "OK:device_of", &capsule, &address)) {
        return NULL;
    }
    driver = PyCapsule_GetPointer(capsule, driver_name);
    if (driver == NULL) {
        return NULL;
    }
    st = PF_CALL(driver, &failure, cuPointerGetAttribute, &ordinal,
            ATTRIBUTE_DEVICE_ORDINAL, (pf_device_address)address);
    return st == PF_OK ? PyLong_FromLong(ordinal)
                       : pf_cuda_raise(st, &failure, "the address");
}

PyDoc_STRVAR(wait_doc, "wait($module, device, stream, other, /)\n--\n\n"
                       "Let a stream wait for all that is on another one now.");

static PyObject *
cuda_wait(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    pf_device *device;
    PyObject *capsule;
    unsigned long long stream;
    unsigned long long other;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OKK:wait", &capsule, &stream, &other)) {
        return NULL;
    }
    device = pf_cuda_device_of(capsule);
    if (device == NULL) {
        return NULL;
    }
    st = pf_device_wait(
            device, (void *)(uintptr_t)stream, (void *)(uintptr_t)other, &failure);
    if (st != PF_OK) {
        return pf_cuda_raise(st, &failure, "the stream");
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(hold_doc, "hold($module, device, /)\n--\n\n"
                       "Let what `resize` needs for frames of the host stay until "
                       "`release`.");

static PyObject *
cuda_hold(PyObject *module, PyObject *capsule)
{
    pf_failure failure = {0};
    pf_device *device = pf_cuda_device_of(capsule);
    pf_status st;

    (void)module;
    if (device == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    st = pf_gpu_hold(device, &failure);
    Py_END_ALLOW_THREADS
    if (st != PF_OK) {
        return pf_cuda_raise(st, &failure, "the device");
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(release_doc, "release($module, device, /)\n--\n\n"
                          "Undo one `hold`; the last one frees everything.");

static PyObject *
cuda_release(PyObject *module, PyObject *capsule)
{
    pf_device *device = pf_cuda_device_of(capsule);

    (void)module;
    if (device == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    pf_gpu_release(device);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(colour_doc, "colour($module, red, blue, full_range, /)\n--\n\n"
                         "Factors of YUV to RGB for luma weights, as `resize` takes "
                         "them.");

static PyObject *
cuda_colour(PyObject *module, PyObject *args)
{
    pf_colour colour;
    pf_luma_weights weights;
    pf_status st;
    int full_range;

    (void)module;
    if (!PyArg_ParseTuple(
                args, "ddp:colour", &weights.red, &weights.blue, &full_range)) {
        return NULL;
    }
    st = pf_colour_init(&colour, weights, full_range != 0, 8);
    if (st != PF_OK) {
        return pf_raise(st, "the weights");
    }
    return Py_BuildValue("(iiiiii)", colour.ky, colour.krv, colour.kgu, colour.kgv,
            colour.kbu, colour.y0);
}

/* Columns of a row of jobs. */
enum { JOB_PLANE = 0, JOB_ROW_BYTES = 3, JOB_SRC = 5, JOB_DST = 7, JOB_RESULT = 9 };
enum { JOB_COLUMNS = 10 };

/* Jobs from an int64 array, to be freed with free; NULL with an exception. */
static pf_gpu_job *
parse_jobs(PyObject *given, size_t *n_job)
{
    PyObject *array = pf_array_in(given, NPY_INT64, 2, "jobs");
    pf_gpu_job *job = NULL;
    const int64_t *row;

    if (array == NULL) {
        return NULL;
    }
    *n_job = (size_t)PyArray_DIM(PF_ARRAY(array), 0);
    if (PyArray_DIM(PF_ARRAY(array), 1) != JOB_COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "jobs must have shape (n, 10)");
    }
    else {
        job = calloc(*n_job + 1, sizeof *job);
        if (job == NULL) {
            PyErr_NoMemory();
        }
    }
    row = PyArray_DATA(PF_ARRAY(array));
    for (size_t i = 0; job != NULL && i < *n_job; i++, row += JOB_COLUMNS) {
        for (int p = 0; p < 3; p++) {
            job[i].plane[p] = (pf_device_address)row[JOB_PLANE + p];
        }
        job[i].row_bytes[0] = row[JOB_ROW_BYTES];
        job[i].row_bytes[1] = row[JOB_ROW_BYTES + 1];
        job[i].src = (pf_size){row[JOB_SRC], row[JOB_SRC + 1]};
        job[i].dst = (pf_size){row[JOB_DST], row[JOB_DST + 1]};
        job[i].result = (pf_device_address)row[JOB_RESULT];
    }
    Py_DECREF(array);
    return job;
}

/* 0, or -1 with an exception. The result is (interleaved, patch height, patch width,
 * merge, depth). */
static int
parse_places(PyObject *given, pf_places *places)
{
    long long side[2];
    long long merge;
    long long depth;
    int interleaved;

    if (!PyArg_ParseTuple(given, "pLLLL;places", &interleaved, &side[0], &side[1],
                &merge, &depth)) {
        return -1;
    }
    *places = (pf_places){interleaved != 0, {{side[0], side[1]}, merge, depth}};
    return 0;
}

/* The table of values, a new reference that request points into; Py_None for bytes;
 * NULL with an exception. */
static PyObject *
parse_table(PyObject *given, pf_gpu_request *request)
{
    const int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;

    request->value_bytes = 1;
    if (given != Py_None) {
        if (!PyArray_Check(given) || PyArray_NDIM(PF_ARRAY(given)) != 2 ||
                PyArray_DIM(PF_ARRAY(given), 0) != 3 ||
                PyArray_DIM(PF_ARRAY(given), 1) != 256 ||
                !PyArray_CHKFLAGS(PF_ARRAY(given), flags) ||
                (PyArray_TYPE(PF_ARRAY(given)) != NPY_UINT16 &&
                        PyArray_TYPE(PF_ARRAY(given)) != NPY_UINT32)) {
            PyErr_SetString(PyExc_ValueError,
                    "table must be a C-contiguous uint16 or uint32 array (3, 256)");
            return NULL;
        }
        request->table = PyArray_DATA(PF_ARRAY(given));
        request->value_bytes = PyArray_TYPE(PF_ARRAY(given)) == NPY_UINT16 ? 2 : 4;
    }
    Py_INCREF(given);
    return given;
}

int
pf_cuda_parse_variant(const char *name, pf_variant *variant)
{
    static const char *const names[] = {
            "auto", "plain", "tiled", "tensor", "tensor-first"};

    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *variant = (pf_variant)i;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown variant '%s'", name);
    return -1;
}

/* Names of the options of a request; 0, or -1 with an exception. */
static int
parse_names(const char *const name[3], pf_gpu_request *request)
{
    if (pf_filter_parse(name[0], &request->filter) != PF_OK) {
        PyErr_Format(PyExc_ValueError, "unknown filter '%s'", name[0]);
        return -1;
    }
    if (pf_first_pass_parse(name[1], &request->first_pass) != PF_OK) {
        PyErr_Format(PyExc_ValueError, "unknown first pass '%s'", name[1]);
        return -1;
    }
    return pf_cuda_parse_variant(name[2], &request->variant);
}

PyDoc_STRVAR(resize_doc,
        "resize($module, device, stream, pixels, colour, jobs, table, places, filter, "
        "first_pass, variant, /)\n"
        "--\n\n"
        "Resize frames. jobs int64 (n, 10): three plane addresses, two row pitches in\n"
        "bytes, source height and width, result height and width, result address.\n"
        "pixels 0 RGB24, 1 NV12, 2 I420. table None for bytes, or the bits (3, 256)\n"
        "that bytes become. places (interleaved, patch height, patch width, merge,\n"
        "depth). stream None: all addresses are the host's, and it is done on return.");

static PyObject *
cuda_resize(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    pf_gpu_request request = {0};
    pf_device *device;
    PyObject *capsule, *stream, *jobs, *table, *places;
    const char *name[3];
    pf_gpu_colour *k = &request.colour;
    pf_gpu_job *job;
    pf_status st = PF_OK;
    int pixels;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOi(iiiiii)OOO!sss:resize", &capsule, &stream, &pixels,
                &k->luma, &k->red_v, &k->green_u, &k->green_v, &k->blue_u,
                &k->luma_zero, &jobs, &table, &PyTuple_Type, &places, &name[0],
                &name[1], &name[2]) ||
            parse_names(name, &request) < 0 ||
            parse_places(places, &request.places) < 0) {
        return NULL;
    }
    if (pixels < PF_PIXELS_RGB24 || pixels > PF_PIXELS_I420) {
        return pf_raise(PF_EINVAL, "pixels");
    }
    request.pixels = (pf_pixels)pixels;
    request.stream = stream == Py_None ? NULL : PyLong_AsVoidPtr(stream);
    device = pf_cuda_device_of(capsule);
    if (device == NULL || PyErr_Occurred()) {
        return NULL;
    }
    table = parse_table(table, &request);
    if (table == NULL) {
        return NULL;
    }
    job = parse_jobs(jobs, &request.n_job);
    request.job = job;
    if (job != NULL && stream == Py_None) {
        const size_t n_group = (size_t)request.places.patch.depth_frames;

        Py_BEGIN_ALLOW_THREADS
        st = pf_gpu_resize_host(device, &request, n_group, &failure);
        Py_END_ALLOW_THREADS
    }
    else if (job != NULL) {
        Py_BEGIN_ALLOW_THREADS
        st = pf_gpu_resize_run(device, &request, &failure);
        Py_END_ALLOW_THREADS
    }
    free(job);
    Py_DECREF(table);
    if (job == NULL || st != PF_OK) {
        return job == NULL ? NULL : pf_cuda_raise(st, &failure, "a size");
    }
    Py_RETURN_NONE;
}

static PyMethodDef cuda_methods[] = {
        {"colour", cuda_colour, METH_VARARGS, colour_doc},
        {"device", cuda_device, METH_VARARGS, device_doc},
        {"device_info", cuda_device_info, METH_O, device_info_doc},
        {"device_of", cuda_device_of, METH_VARARGS, device_of_doc},
        {"driver_info", cuda_driver_info, METH_O, driver_info_doc},
        {"from_dlpack", pf_cuda_from_dlpack, METH_O, pf_cuda_from_dlpack_doc},
        {"load", cuda_load, METH_VARARGS, load_doc},
        {"measure", pf_cuda_measure, METH_VARARGS, pf_cuda_measure_doc},
        {"open", cuda_open, METH_O, open_doc},
        {"resize", cuda_resize, METH_VARARGS, resize_doc},
        {"option_scores", pf_cuda_option_scores, METH_VARARGS,
                pf_cuda_option_scores_doc},
        {"fuse", pf_cuda_fuse, METH_VARARGS, pf_cuda_fuse_doc},
        {"fuse_there", pf_cuda_fuse_there, METH_VARARGS, pf_cuda_fuse_there_doc},
        {"distance_sums", pf_cuda_distance_sums, METH_VARARGS,
                pf_cuda_distance_sums_doc},
        {"blas", pf_cuda_blas, METH_VARARGS, pf_cuda_blas_doc},
        {"bootstrap", pf_cuda_bootstrap, METH_VARARGS, pf_cuda_bootstrap_doc},
        {"gram", pf_cuda_gram, METH_VARARGS, pf_cuda_gram_doc},
        {"hold", cuda_hold, METH_O, hold_doc},
        {"release", cuda_release, METH_O, release_doc},
        {"wait", cuda_wait, METH_VARARGS, wait_doc},
        {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot cuda_slots[] = {
        {Py_mod_exec, PF_SLOT(pf_import_numpy)},
        {PF_INTERPRETERS_SLOT},
        {PF_GIL_SLOT},
        {0, NULL},
};

static struct PyModuleDef cuda_module = {
        PyModuleDef_HEAD_INIT,
        .m_name = "phasefusion._cuda",
        .m_doc = "Exact resize of frames on a GPU.",
        .m_size = 0,
        .m_methods = cuda_methods,
        .m_slots = cuda_slots,
};

PyMODINIT_FUNC PyInit__cuda(void);

PyMODINIT_FUNC
PyInit__cuda(void)
{
    return PyModuleDef_Init(&cuda_module);
}

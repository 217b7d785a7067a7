/* py_video_chunks.c - the method of a reader that hands frames on, some at a time. */
#include "py_video.h"

#include <string.h>

#include "video/chunks.h"

/* Who is told of chunks, and whether it wants no more. */
typedef struct listener {
    PyObject *take; /* borrowed */
    bool is_done;
} listener;

/* take(chunk, slots, matrix, full_range), with the GIL taken for it. */
static pf_status
tell(void *arg, size_t chunk, const int64_t *slot, size_t n_picture,
        const pf_planar *planar)
{
    listener *to = arg;
    const PyGILState_STATE held = PyGILState_Ensure();
    const npy_intp n = (npy_intp)n_picture;
    PyObject *slots = PyArray_SimpleNew(1, &n, NPY_INT64);
    PyObject *said = NULL;

    if (slots != NULL) {
        memcpy(PyArray_DATA(PF_ARRAY(slots)), slot, n_picture * sizeof *slot);
        said = PyObject_CallFunction(to->take, "nOsO", (Py_ssize_t)chunk, slots,
                pf_matrix_name(planar->matrix),
                planar->full_range ? Py_True : Py_False);
    }
    to->is_done = said == NULL || PyObject_IsTrue(said) != 1;
    if (PyErr_Occurred()) {
        PyErr_WriteUnraisable(to->take);
    }
    Py_XDECREF(said);
    Py_XDECREF(slots);
    PyGILState_Release(held);
    return to->is_done ? PF_EBACKEND : PF_OK;
}

/* Is it a writable uint8 array of k pictures of that size, C-ordered? */
static bool
is_plane(PyObject *object, npy_intp k, npy_intp height, npy_intp width, bool rgb)
{
    PyArrayObject *array = PF_ARRAY(object);

    return PyArray_Check(object) && PyArray_TYPE(array) == NPY_UINT8 &&
           PyArray_ISCARRAY(array) && PyArray_NDIM(array) == (rgb ? 4 : 3) &&
           PyArray_DIM(array, 0) == k && PyArray_DIM(array, 1) == height &&
           PyArray_DIM(array, 2) == width && (!rgb || PyArray_DIM(array, 3) == 3);
}

/* Describes one tuple of arrays; false without an exception when it is not right. */
static bool
describe_chunk(const pf_chunks *chunks, PyObject *planes, pf_chunk *chunk)
{
    const npy_intp height = pf_geometry_height_px(chunks->geometry);
    const npy_intp width = pf_geometry_width_px(chunks->geometry);
    const npy_intp k = (npy_intp)chunks->room;

    if (!PyTuple_Check(planes) || PyTuple_Size(planes) != (chunks->is_rgb ? 1 : 3)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(planes); i++) {
        PyObject *plane = PyTuple_GetItem(planes, i);
        const npy_intp rows = i == 0 ? height : (height + 1) / 2;
        const npy_intp columns = i == 0 ? width : (width + 1) / 2;

        if (!is_plane(plane, k, rows, columns, chunks->is_rgb)) {
            return false;
        }
        chunk->plane[i] = PyArray_DATA(PF_ARRAY(plane));
    }
    return true;
}

/* (n_chunk) from a tuple of tuples of arrays; NULL with an exception. */
static pf_chunk *
collect_chunks(pf_chunks *chunks, PyObject *sets)
{
    const Py_ssize_t n = PyTuple_Size(sets);
    PyObject *first = n > 0 ? PyTuple_GetItem(sets, 0) : NULL;
    PyObject *head = NULL;
    pf_chunk *made = NULL;

    if (first != NULL && PyTuple_Check(first) && PyTuple_Size(first) > 0) {
        head = PyTuple_GetItem(first, 0);
        chunks->is_rgb = PyTuple_Size(first) == 1;
    }
    if (head != NULL && PyArray_Check(head) && PyArray_NDIM(PF_ARRAY(head)) > 0) {
        chunks->room = (size_t)PyArray_DIM(PF_ARRAY(head), 0);
        chunks->n_chunk = (size_t)n;
        made = PyMem_Malloc((size_t)n * sizeof *made);
        if (made == NULL) {
            (void)PyErr_NoMemory();
            return NULL;
        }
    }
    for (Py_ssize_t i = 0; made != NULL && i < n; i++) {
        made[i] = (pf_chunk){{NULL, NULL, NULL}};
        if (!describe_chunk(chunks, PyTuple_GetItem(sets, i), &made[i])) {
            PyMem_Free(made);
            made = NULL;
        }
    }
    if (made == NULL) {
        PyErr_SetString(PyExc_ValueError,
                "chunks must be tuples of writable C-ordered uint8 arrays, all alike: "
                "(k, height, width, 3), or (k, height, width) and twice half of it");
    }
    return made;
}

/* Decodes into chunks: the result, None when they are wanted no more or cannot be had,
 * or NULL with an exception. */
static PyObject *
run_chunks(pf_reader *self, pf_read_call *call, pf_chunks *chunks, listener *to)
{
    const pf_sink sink = {pf_chunks_take_rgb, chunks};
    const pf_raw_sink raw = {pf_chunks_take, chunks};
    PyObject *result;

    call->wish.sink = chunks->is_rgb ? &sink : NULL;
    call->wish.raw = chunks->is_rgb ? NULL : &raw;
    result = pf_run_call(self, call);
    if (result != NULL && pf_chunks_finish(chunks) != PF_OK) {
        Py_CLEAR(result);
        Py_RETURN_NONE;
    }
    if (result == NULL && (to->is_done || chunks->is_refused) &&
            PyErr_ExceptionMatches(pf_video_error_class((PyObject *)self))) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return result;
}

const char pf_reader_read_chunks_doc[] =
        "read_chunks($self, indices, chunks, take, n_thread, /)\n--\n\n"
        "Decode frames into memory for k of them at a time. chunks are tuples of "
        "uint8\n"
        "arrays, filled in turn: (k, h, w, 3) alone for RGB, or Y, U and V as "
        "decoded,\n"
        "upright. take(chunk, slots, matrix, full_range) is called for each, from any\n"
        "thread, with the places in indices of its first pictures; it returns True to "
        "go\n"
        "on, when the next chunk may be filled, and must not raise. One chunk of at\n"
        "least all frames is in the order of indices. Returns what read does; None "
        "when\n"
        "take ends it, or a picture has no 8-bit planes with chroma of half the size, "
        "or\n"
        "not those of the picture before it.";

PyObject *
pf_reader_read_chunks(PyObject *object, PyObject *args)
{
    pf_reader *self = (pf_reader *)object;
    PyObject *indices, *sets, *take, *result = NULL;
    pf_chunks chunks = {.geometry = &self->video.geometry, .full = tell};
    pf_chunk *chunk = NULL;
    listener to = {0};
    pf_read_call call;
    int n_thread;

    if (!PyArg_ParseTuple(args, "OO!Oi:read_chunks", &indices, &PyTuple_Type, &sets,
                &take, &n_thread) ||
            !pf_reader_enter(self)) {
        return NULL;
    }
    to.take = take;
    chunks.arg = &to;
    if (pf_begin_call(&call, indices, n_thread, false)) {
        chunk = collect_chunks(&chunks, sets);
    }
    if (chunk != NULL) {
        pf_status st;

        chunks.chunk = chunk;
        st = pf_chunks_init(&chunks, call.wish.n_slot);
        if (st == PF_OK) {
            result = run_chunks(self, &call, &chunks, &to);
            pf_chunks_free(&chunks);
        }
        else {
            (void)pf_raise(st, "the number of frames a chunk");
        }
    }
    PyMem_Free(chunk);
    pf_end_call(&call);
    pf_reader_leave(self);
    return result;
}

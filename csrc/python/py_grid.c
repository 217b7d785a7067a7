/* py_grid.c - bindings of csrc/grid. The samplers and grid_indices keep the GIL: they
 * are done before it could be handed over. */
#include "core_tables.h"

#include "grid/grid.h"
#include "grid/samplers.h"

/* A new int64 array of n_dim dimensions */
static PyObject *
index_array(int n_dim, int64_t rows, int64_t columns)
{
    npy_intp dim[2];

    if (rows > NPY_MAX_INTP || columns > NPY_MAX_INTP) {
        return PyErr_NoMemory();
    }
    dim[0] = (npy_intp)rows;
    dim[1] = (npy_intp)columns;
    return PyArray_SimpleNew(n_dim, dim, NPY_INT64);
}

/* The (S, b) array for grid, or NULL with an exception when grid cannot be */
static PyObject *
grid_array(const pf_grid *grid)
{
    int64_t n_dense;
    pf_status st = pf_grid_count(grid, &n_dense);

    if (st != PF_OK) {
        return pf_raise(st, "budget, phases or origin");
    }
    return index_array(2, grid->n_phase, grid->budget_frames);
}

/* array when st is PF_OK; else its end and an exception about what */
static PyObject *
array_or_error(pf_status st, PyObject *array, const char *what)
{
    if (st == PF_OK) {
        return array;
    }
    Py_DECREF(array);
    return pf_raise(st, what);
}

PyDoc_STRVAR(grid_indices_doc,
        "grid_indices($module, clip_frames, budget, phases, origin_num, origin_den, "
        "/)\n--\n\n"
        "Frame indices (S, b) of every phase; see phasefusion.PhaseGrid.indices.");

static PyObject *
core_grid_indices(PyObject *module, PyObject *args)
{
    long long clip_frames;
    long long budget;
    long long phases;
    long long num;
    long long den;
    pf_grid grid;
    PyObject *index;

    (void)module;
    if (!PyArg_ParseTuple(args, "LLLLL:grid_indices", &clip_frames, &budget, &phases,
                &num, &den)) {
        return NULL;
    }
    grid = (pf_grid){budget, phases, {num, den}};
    index = grid_array(&grid);
    if (index == NULL) {
        return NULL;
    }
    return array_or_error(
            pf_grid_indices(clip_frames, &grid, PyArray_DATA(PF_ARRAY(index))), index,
            "clip_frames");
}

PyDoc_STRVAR(grid_frames_at_doc,
        "grid_frames_at($module, pts, end_pts, budget, phases, origin_num, origin_den, "
        "/)\n--\n\n"
        "The frames (S, b) on screen at the grid's times; see "
        "phasefusion.PhaseGrid.select.");

static PyObject *
core_grid_frames_at(PyObject *module, PyObject *args)
{
    PyObject *pts_borrowed;
    PyObject *pts = NULL;
    PyObject *index = NULL;
    long long end_pts;
    long long budget;
    long long phases;
    long long num;
    long long den;
    pf_timeline timeline;
    pf_grid grid;
    int64_t *frame_index;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "OLLLLL:grid_frames_at", &pts_borrowed, &end_pts,
                &budget, &phases, &num, &den)) {
        return NULL;
    }
    pts = pf_array_in(pts_borrowed, NPY_INT64, 1, "pts");
    if (pts == NULL) {
        return NULL;
    }
    grid = (pf_grid){budget, phases, {num, den}};
    index = grid_array(&grid);
    if (index == NULL) {
        goto fail;
    }
    timeline.pts = PyArray_DATA(PF_ARRAY(pts));
    timeline.clip_frames = PyArray_DIM(PF_ARRAY(pts), 0);
    timeline.end_pts = end_pts;
    frame_index = PyArray_DATA(PF_ARRAY(index));

    Py_BEGIN_ALLOW_THREADS
    st = pf_grid_frames_at(&timeline, &grid, frame_index);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        pf_raise(st, "pts or end_pts");
        goto fail;
    }
    Py_DECREF(pts);
    return index;

fail:
    Py_XDECREF(index);
    Py_DECREF(pts);
    return NULL;
}

PyDoc_STRVAR(sampler_linspace_doc,
        "sampler_linspace($module, first, last, n_index, rounded, /)\n--\n\n"
        "numpy.linspace(first, last, n_index), cut or rounded to int64.");

static PyObject *
core_sampler_linspace(PyObject *module, PyObject *args)
{
    long long first;
    long long last;
    long long n_index;
    int rounded;
    PyObject *index;

    (void)module;
    if (!PyArg_ParseTuple(
                args, "LLLp:sampler_linspace", &first, &last, &n_index, &rounded)) {
        return NULL;
    }
    index = index_array(1, n_index, 0);
    if (index == NULL) {
        return NULL;
    }
    return array_or_error(pf_samplers_linspace(first, last,
                                  rounded ? PF_SAMPLERS_ROUND : PF_SAMPLERS_FLOOR,
                                  n_index, PyArray_DATA(PF_ARRAY(index))),
            index, "first, last or n_index");
}

PyDoc_STRVAR(sampler_torch_linspace_doc,
        "sampler_torch_linspace($module, last, n_index, /)\n--\n\n"
        "torch.linspace(0, last, n_index).round().long().");

static PyObject *
core_sampler_torch_linspace(PyObject *module, PyObject *args)
{
    long long last;
    long long n_index;
    PyObject *index;

    (void)module;
    if (!PyArg_ParseTuple(args, "LL:sampler_torch_linspace", &last, &n_index)) {
        return NULL;
    }
    index = index_array(1, n_index, 0);
    if (index == NULL) {
        return NULL;
    }
    return array_or_error(
            pf_samplers_torch_linspace(last, n_index, PyArray_DATA(PF_ARRAY(index))),
            index, "last or n_index");
}

PyDoc_STRVAR(sampler_torch_arange_doc,
        "sampler_torch_arange($module, start, stop, step, /)\n--\n\n"
        "torch.arange(start, stop, step).int() with float arguments, as int64.");

static PyObject *
core_sampler_torch_arange(PyObject *module, PyObject *args)
{
    pf_samplers_range range;
    int64_t n_index;
    PyObject *index;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "ddd:sampler_torch_arange", &range.start_frames,
                &range.stop_frames, &range.step_frames)) {
        return NULL;
    }
    st = pf_samplers_torch_arange_count(&range, &n_index);
    if (st != PF_OK) {
        return pf_raise(st, "start, stop or step");
    }
    index = index_array(1, n_index, 0);
    if (index == NULL) {
        return NULL;
    }
    return array_or_error(
            pf_samplers_torch_arange(&range, n_index, PyArray_DATA(PF_ARRAY(index))),
            index, "start, stop or step");
}

PyDoc_STRVAR(sampler_multiples_doc,
        "sampler_multiples($module, first, step, n_index, /)\n--\n\n"
        "int((first + i) * step) for i < n_index.");

static PyObject *
core_sampler_multiples(PyObject *module, PyObject *args)
{
    long long first;
    double step;
    long long n_index;
    PyObject *index;

    (void)module;
    if (!PyArg_ParseTuple(args, "LdL:sampler_multiples", &first, &step, &n_index)) {
        return NULL;
    }
    index = index_array(1, n_index, 0);
    if (index == NULL) {
        return NULL;
    }
    return array_or_error(
            pf_samplers_multiples(first, step, n_index, PyArray_DATA(PF_ARRAY(index))),
            index, "first, step or n_index");
}

PyDoc_STRVAR(sampler_segments_doc,
        "sampler_segments($module, last, n_index, /)\n--\n\n"
        "int(seg / 2 + round(seg * i)), seg = last / n_index.");

static PyObject *
core_sampler_segments(PyObject *module, PyObject *args)
{
    long long last;
    long long n_index;
    PyObject *index;

    (void)module;
    if (!PyArg_ParseTuple(args, "LL:sampler_segments", &last, &n_index)) {
        return NULL;
    }
    index = index_array(1, n_index, 0);
    if (index == NULL) {
        return NULL;
    }
    return array_or_error(
            pf_samplers_segments(last, n_index, PyArray_DATA(PF_ARRAY(index))), index,
            "last or n_index");
}

PyMethodDef pf_grid_methods[] = {
        {"grid_indices", core_grid_indices, METH_VARARGS, grid_indices_doc},
        {"grid_frames_at", core_grid_frames_at, METH_VARARGS, grid_frames_at_doc},
        {"sampler_linspace", core_sampler_linspace, METH_VARARGS, sampler_linspace_doc},
        {"sampler_torch_linspace", core_sampler_torch_linspace, METH_VARARGS,
                sampler_torch_linspace_doc},
        {"sampler_torch_arange", core_sampler_torch_arange, METH_VARARGS,
                sampler_torch_arange_doc},
        {"sampler_multiples", core_sampler_multiples, METH_VARARGS,
                sampler_multiples_doc},
        {"sampler_segments", core_sampler_segments, METH_VARARGS, sampler_segments_doc},
        {NULL, NULL, 0, NULL},
};

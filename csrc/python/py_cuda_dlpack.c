/* py_cuda_dlpack.c - takes over a tensor of another framework by DLPack. */
#include "glue.h"

#include "py_cuda.h"

/* The interface's own layout: DLPack, version 0, which every producer still offers. */
typedef struct dl_tensor {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t n_dim;
    uint8_t type_code;
    uint8_t type_bits;
    uint16_t type_lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: C-contiguous */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

static const char fresh_name[] = "dltensor";
static const char used_name[] = "used_dltensor";
static const char kept_name[] = "phasefusion.dltensor";

static void
give_back(PyObject *keeper)
{
    dl_managed *managed = PyCapsule_GetPointer(keeper, kept_name);

    if (managed != NULL && managed->deleter != NULL) {
        managed->deleter(managed);
    }
}

/* A tuple of n integers. */
static PyObject *
tuple_of(const int64_t *values, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);

    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(values[i]);

        if (item == NULL || PyTuple_SetItem(tuple, i, item) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

const char pf_cuda_from_dlpack_doc[] =
        "from_dlpack($module, capsule, /)\n--\n\n"
        "Take a DLPack capsule over: (address, shape, strides in elements or None,\n"
        "(type code, bits, lanes), (device type, device), keeper). The tensor lives "
        "as\n"
        "long as the keeper.";

PyObject *
pf_cuda_from_dlpack(PyObject *module, PyObject *capsule)
{
    dl_managed *managed = PyCapsule_GetPointer(capsule, fresh_name);
    const dl_tensor *t;
    PyObject *shape = NULL;
    PyObject *strides = NULL;
    PyObject *keeper;
    PyObject *result = NULL;

    (void)module;
    if (managed == NULL) {
        return NULL;
    }
    t = &managed->tensor;
    keeper = PyCapsule_New(managed, kept_name, give_back);
    if (keeper == NULL) {
        return NULL;
    }
    if (PyCapsule_SetName(capsule, used_name) < 0) {
        (void)PyCapsule_SetDestructor(keeper, NULL); /* it is still the capsule's */
        Py_DECREF(keeper);
        return NULL;
    }
    shape = tuple_of(t->shape, t->n_dim);
    if (t->strides != NULL) {
        strides = tuple_of(t->strides, t->n_dim);
    }
    else {
        Py_INCREF(Py_None);
        strides = Py_None;
    }
    if (shape != NULL && strides != NULL) {
        const unsigned long long address = (uintptr_t)t->data + t->byte_offset;

        result = Py_BuildValue("(KOO(iii)(ii)O)", address, shape, strides,
                (int)t->type_code, (int)t->type_bits, (int)t->type_lanes,
                (int)t->device_type, (int)t->device_id, keeper);
    }
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_DECREF(keeper);
    return result;
}

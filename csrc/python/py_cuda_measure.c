/* py_cuda_measure.c - times of the variants of the resize, for Python. */
#include "glue.h"

#include "host/measure.h"
#include "py_cuda.h"

const char pf_cuda_measure_doc[] =
        "measure($module, device, variant, source, size, n_frames, /)\n--\n\n"
        "Milliseconds of a resize of n_frames frames, (height, width) to (height, "
        "width).";

PyObject *
pf_cuda_measure(PyObject *module, PyObject *args)
{
    pf_failure failure = {0};
    pf_gpu_trial trial;
    pf_device *device;
    PyObject *capsule;
    const char *variant;
    long long side[4];
    Py_ssize_t n_frame;
    float milliseconds = 0.0F;
    pf_status st;

    (void)module;
    if (!PyArg_ParseTuple(args, "Os(LL)(LL)n:measure", &capsule, &variant, &side[0],
                &side[1], &side[2], &side[3], &n_frame) ||
            pf_cuda_parse_variant(variant, &trial.variant) < 0) {
        return NULL;
    }
    device = pf_cuda_device_of(capsule);
    if (device == NULL) {
        return NULL;
    }
    trial.src = (pf_size){side[0], side[1]};
    trial.dst = (pf_size){side[2], side[3]};
    trial.n_frame = n_frame < 0 ? 0 : (size_t)n_frame;
    Py_BEGIN_ALLOW_THREADS
    st = pf_gpu_measure(device, &trial, &milliseconds, &failure);
    Py_END_ALLOW_THREADS

    if (st != PF_OK) {
        return pf_cuda_raise(st, &failure, "a size");
    }
    return PyFloat_FromDouble((double)milliseconds);
}

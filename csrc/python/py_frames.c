/* py_frames.c - the module phasefusion._frames: resize and normalise. */
#define PF_IMPORTS_NUMPY
#include "glue.h"

static PyMethodDef frames_methods[] = {
        {NULL, NULL, 0, NULL},
};

static int
frames_exec(PyObject *module)
{
    (void)module;
    return PyArray_ImportNumPyAPI() < 0 ? -1 : 0;
}

static PyModuleDef_Slot frames_slots[] = {
        {Py_mod_exec, PF_SLOT(frames_exec)},
#ifdef Py_mod_multiple_interpreters
        {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
        {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
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

/* py_video.c - the module phasefusion._video: decode frames with FFmpeg. */
#define PF_IMPORTS_NUMPY
#include "glue.h"

static PyMethodDef video_methods[] = {
        {NULL, NULL, 0, NULL},
};

static int
video_exec(PyObject *module)
{
    (void)module;
    return PyArray_ImportNumPyAPI() < 0 ? -1 : 0;
}

static PyModuleDef_Slot video_slots[] = {
        {Py_mod_exec, PF_SLOT(video_exec)},
#ifdef Py_mod_multiple_interpreters
        {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
        {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
        {0, NULL},
};

static struct PyModuleDef video_module = {
        PyModuleDef_HEAD_INIT,
        .m_name = "phasefusion._video",
        .m_doc = "Exact frames of a video file.",
        .m_size = 0,
        .m_methods = video_methods,
        .m_slots = video_slots,
};

PyMODINIT_FUNC PyInit__video(void);

PyMODINIT_FUNC
PyInit__video(void)
{
    return PyModuleDef_Init(&video_module);
}

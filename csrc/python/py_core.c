/* py_core.c - the module phasefusion._core: one method table a stage. */
#define PF_IMPORTS_NUMPY
#include "core_tables.h"

static int
core_exec(PyObject *module)
{
    if (pf_import_numpy(module) < 0) {
        return -1;
    }
    if (PyModule_AddFunctions(module, pf_grid_methods) < 0 ||
            PyModule_AddFunctions(module, pf_posterior_methods) < 0 ||
            PyModule_AddFunctions(module, pf_stats_methods) < 0 ||
            PyModule_AddFunctions(module, pf_resample_methods) < 0) {
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot core_slots[] = {
        {Py_mod_exec, PF_SLOT(core_exec)},
        {PF_INTERPRETERS_SLOT},
        {PF_GIL_SLOT},
        {0, NULL},
};

static struct PyModuleDef core_module = {
        PyModuleDef_HEAD_INIT,
        .m_name = "phasefusion._core",
        .m_doc = "Grids, posteriors and statistics: pure functions over NumPy arrays.",
        .m_size = 0,
        .m_slots = core_slots,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&core_module);
}

/* py_grid.c - bindings of csrc/grid. */
#include "core_tables.h"

PyMethodDef pf_grid_methods[] = {
        {NULL, NULL, 0, NULL},
};

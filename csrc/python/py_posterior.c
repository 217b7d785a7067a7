/* py_posterior.c - bindings of csrc/posterior. */
#include "core_tables.h"

PyMethodDef pf_posterior_methods[] = {
        {NULL, NULL, 0, NULL},
};

/* py_stats.c - bindings of csrc/stats. */
#include "core_tables.h"

PyMethodDef pf_stats_methods[] = {
        {NULL, NULL, 0, NULL},
};

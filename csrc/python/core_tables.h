/* core_tables.h - the method tables that make up phasefusion._core. */
#ifndef PF_CORE_TABLES_H
#define PF_CORE_TABLES_H

#include "glue.h"

extern PyMethodDef pf_grid_methods[];
extern PyMethodDef pf_posterior_methods[];
extern PyMethodDef pf_stats_methods[];

#endif /* PF_CORE_TABLES_H */

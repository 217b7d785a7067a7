/* py_frames.h - what the files of the module phasefusion._frames share. */
#ifndef PF_PY_FRAMES_H
#define PF_PY_FRAMES_H

#include "glue.h"

extern const char pf_frames_distance_doc[];
extern const char pf_frames_histogram_change_doc[];
extern const char pf_frames_histograms_doc[];
PyObject *pf_frames_distance(PyObject *module, PyObject *args);
PyObject *pf_frames_histogram_change(PyObject *module, PyObject *args);
PyObject *pf_frames_histograms(PyObject *module, PyObject *args);

#endif /* PF_PY_FRAMES_H */

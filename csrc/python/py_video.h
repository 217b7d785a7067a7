/* py_video.h - what the files of the module phasefusion._video share. */
#ifndef PF_PY_VIDEO_H
#define PF_PY_VIDEO_H

#include "glue.h"

#include <stdatomic.h>

#include "video/video.h"

typedef struct pf_reader {
    PyObject_HEAD pf_video video;
    atomic_flag busy; /* one call at a time */
    bool is_open;
} pf_reader;

/* Lets Ctrl-C through: every tenth of a second the thread that called takes the GIL
 * back for a look at the signals. */
typedef struct pf_signal_poll {
    PyThreadState *saved;
    int64_t last_ns;
} pf_signal_poll;

pf_signal_poll pf_signal_poll_start(void);

/* The ask of a pf_poll whose arg is a pf_signal_poll. */
int pf_ask_signals(void *arg);

/* phasefusion.errors.VideoError; borrowed. self is a reader. */
PyObject *pf_video_error_class(PyObject *self);

/* Takes the reader for one call; false with an exception when it is closed or busy. */
bool pf_reader_enter(pf_reader *self);

void pf_reader_leave(pf_reader *self);

/* Methods that read frames. */
extern const char pf_reader_read_doc[];
extern const char pf_reader_read_fitted_doc[];
PyObject *pf_reader_read(PyObject *object, PyObject *args);
PyObject *pf_reader_read_fitted(PyObject *object, PyObject *args);

#endif /* PF_PY_VIDEO_H */

/* py_video.h - what the files of the module phasefusion._video share. */
#ifndef PF_PY_VIDEO_H
#define PF_PY_VIDEO_H

#include "glue.h"

#include <stdatomic.h>

#include "video/video.h"

typedef struct pf_reader {
    PyObject_HEAD pf_video video;
    Py_buffer data;   /* pinned while has_data */
    int64_t pid;      /* of the process that opened it */
    atomic_flag busy; /* one call at a time */
    bool is_open;
    bool has_data;
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

/* The same, of the module itself. */
PyObject *pf_video_module_error(PyObject *module);

/* Sets the exception, mostly of error_class, for a failed open. name is the path that
 * the user gave, or what the data are called. */
void pf_raise_open(PyObject *error_class, PyObject *name, pf_status st,
        const pf_video_error *error);

/* The value of the slot Py_tp_new. */
PyObject *pf_reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Releases what the reader holds, once. In a forked child that is its own copy; what
 * another thread of the parent was changing at the fork is left alone. */
void pf_reader_release(pf_reader *self);

/* Takes the reader for one call; false with an exception when it is closed, busy or of
 * another process. */
bool pf_reader_enter(pf_reader *self);

void pf_reader_leave(pf_reader *self);

/* One call: what is asked for, and what comes back beside the pixels. */
typedef struct pf_read_call {
    PyObject *indices; /* int64 (n_slot,) */
    PyObject *state;   /* uint8 (n_slot,) */
    pf_wish wish;
} pf_read_call;

/* false with an exception; the call must be ended in every case. */
bool pf_begin_call(pf_read_call *call, PyObject *indices, int n_thread, int sequential);

void pf_end_call(pf_read_call *call);

/* Decodes with the GIL released; (state, damaged), or NULL with an exception. */
PyObject *pf_run_call(pf_reader *self, pf_read_call *call);

/* Methods that read frames. */
extern const char pf_reader_read_doc[];
extern const char pf_reader_read_fitted_doc[];
extern const char pf_reader_read_chunks_doc[];
extern const char pf_reader_digest_doc[];
extern const char pf_reader_histograms_doc[];
extern const char pf_reader_motion_doc[];
PyObject *pf_reader_digest(PyObject *object, PyObject *args);
PyObject *pf_reader_histograms(PyObject *object, PyObject *args);
PyObject *pf_reader_motion(PyObject *object, PyObject *args);
PyObject *pf_reader_read(PyObject *object, PyObject *args);
PyObject *pf_reader_read_fitted(PyObject *object, PyObject *args);
PyObject *pf_reader_read_chunks(PyObject *object, PyObject *args);

/* Functions of the module. */
extern const char pf_motion_energy_doc[];
extern const char pf_read_subtitles_doc[];
PyObject *pf_video_motion_energy(PyObject *module, PyObject *args);
PyObject *pf_read_subtitles(PyObject *module, PyObject *args);

#endif /* PF_PY_VIDEO_H */

/* What context.c and states.c have in common: a context of a model, and the calls on it. */
#ifndef AOTC_PYTHON_CONTEXT_H_
#define AOTC_PYTHON_CONTEXT_H_
#include "native.h"

enum { kMaxRank = 64 };

typedef struct {
  PyObject_HEAD aotc_python_model* model;
  aotc_context* context; /* NULL: closed */
  void* stream;
  PyObject* held; /* GPU: inputs and outputs of what may be under way, or NULL */
  int calls;      /* under way, in any thread */
  int32_t latest; /* method that ran last */
} context;

static inline const aotc_api* api_of(const context* c) { return c->model->library.api; }
static inline PyObject* failed(const context* c, aotc_status status) {
  return aotc_raise(c->model->module, status, api_of(c)->last_error());
}

/* A call begins: 0, or -1 with an exception where the context is closed. Each ends with leave(). */
static inline int enter(context* c) {
  if (!c->context) {
    aotc_raise(c->model->module, AOTC_STATUS_WRONG_STATE, "the context is closed");
    return -1;
  }
  ++c->calls;
  return 0;
}
static inline void leave(context* c) { --c->calls; }

/* Methods of Context (states.c). */
PyObject* aotc_state_reset(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords);
PyObject* aotc_state_read(PyObject* self, PyObject* args);
PyObject* aotc_state_write(PyObject* self, PyObject* args);
PyObject* aotc_states_file(PyObject* self, PyObject* args);
PyObject* aotc_states_from(PyObject* self, PyObject* args);
PyObject* aotc_states_truncate(PyObject* self, PyObject* args);
#endif

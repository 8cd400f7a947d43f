/* States of aotc_runtime._native.Context: read, written, saved, forked. The GIL is not held while the artifact works. */
#include "context.h"

PyObject* aotc_state_reset(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  static const char* const names[] = {"name", NULL};
  context* c = (context*)self;
  PyObject *given[1] = {NULL}, *text = NULL;
  if (aotc_arguments("state_reset", names, 0, args, n, keywords, given) != 0) return NULL;
  if (given[0] && given[0] != Py_None && !(text = PyUnicode_AsUTF8String(given[0]))) return NULL;
  if (enter(c) != 0) {
    Py_XDECREF(text);
    return NULL;
  }
  const char* name = text ? PyBytes_AsString(text) : NULL;
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = api_of(c)->state_reset(c->context, name);
  Py_END_ALLOW_THREADS;
  Py_XDECREF(text);
  leave(c);
  if (status != AOTC_STATUS_OK) return failed(c, status);
  Py_RETURN_NONE;
}

/* The state of that name, or NULL with NotFound set. */
static const aotc_io* state_named(const context* c, PyObject* name) {
  for (int32_t i = 0; i < c->model->states.n; ++i)
    if (PyObject_RichCompareBool(name, c->model->states.io[i].name, Py_EQ) == 1) return &c->model->states.io[i];
  char text[300];
  PyObject* bytes = PyUnicode_Check(name) ? PyUnicode_AsUTF8String(name) : NULL;
  PyErr_Clear();
  snprintf(text, sizeof text, "there is no state '%.200s'", bytes ? PyBytes_AsString(bytes) : "?");
  Py_XDECREF(bytes);
  aotc_raise(c->model->module, AOTC_STATUS_NOT_FOUND, text);
  return NULL;
}

/* Ranges as Python gives them: a sequence of (dim, offset, length), or None. */
typedef struct {
  aotc_state_range at[kMaxRank];
  int32_t n;
} ranges;
static int read_ranges(PyObject* object, ranges* r) {
  r->n = 0;
  if (!object || object == Py_None) return 0;
  const Py_ssize_t n = PySequence_Size(object);
  if (n < 0) return -1;
  if (n > kMaxRank) {
    PyErr_SetString(PyExc_ValueError, "a part of a state has more ranges than a state has dimensions");
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* one = PySequence_GetItem(object, i);
    int dim = 0;
    long long offset = 0, length = 0;
    const int right = one && PyArg_ParseTuple(one, "iLL", &dim, &offset, &length);
    Py_XDECREF(one);
    if (!right) return -1;
    const aotc_state_range range = {dim, 0, offset, length};
    r->at[r->n++] = range;
  }
  return 0;
}

/* 0, or -1 with an exception where the artifact is too old for parts of states. */
static int has_parts(const context* c) {
  if (AOTC_HAS(api_of(c), states_truncate)) return 0;
  aotc_raise(c->model->module, AOTC_STATUS_INCOMPATIBLE, "the artifact is older than parts of states");
  return -1;
}

/* Reads into, or writes from, `object`; returns it. */
static PyObject* move_state(context* c, const aotc_io* io, PyObject* object, const ranges* part, int reads) {
  const aotc_want want = {c->model->module, io, "state", reads, c->stream};
  aotc_view view;
  if ((part->n > 0 && has_parts(c) != 0) || enter(c) != 0) return NULL;
  if (aotc_view_open(object, &want, &view) != 0) {
    leave(c);
    return NULL;
  }
  const aotc_api* api = api_of(c);
  const char* name = io->info.name;
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  if (part->n > 0)
    status = reads ? api->state_read_range(c->context, name, part->at, part->n, &view.tensor)
                   : api->state_write_range(c->context, name, part->at, part->n, &view.tensor);
  else
    status = reads ? api->state_read(c->context, name, &view.tensor) : api->state_write(c->context, name, &view.tensor);
  Py_END_ALLOW_THREADS;
  aotc_view_close(&view);
  leave(c);
  if (status != AOTC_STATUS_OK) return failed(c, status);
  Py_INCREF(object);
  return object;
}

/* _state_read(name, out, part) */
PyObject* aotc_state_read(PyObject* self, PyObject* args) {
  context* c = (context*)self;
  PyObject *name, *out, *given;
  ranges part;
  if (!PyArg_ParseTuple(args, "OOO:state_read", &name, &out, &given) || read_ranges(given, &part) != 0) return NULL;
  const aotc_io* io = state_named(c, name);
  if (!io) return NULL;
  if (out != Py_None) return move_state(c, io, out, &part, 1);
  int64_t shape[kMaxRank];
  for (int32_t i = 0; i < io->info.rank; ++i) shape[i] = io->info.dims[i].value;
  for (int32_t i = 0; i < part.n; ++i) { /* what does not fit the artifact refuses */
    const int32_t dim = part.at[i].dim < 0 ? part.at[i].dim + io->info.rank : part.at[i].dim;
    if (dim >= 0 && dim < io->info.rank && part.at[i].length >= 0 && part.at[i].length <= shape[dim]) shape[dim] = part.at[i].length;
  }
  PyObject* tensor = aotc_tensor_new(c->model->module, aotc_dtype_of(io->info.dtype), shape, io->info.rank);
  PyObject* result = tensor ? move_state(c, io, tensor, &part, 1) : NULL;
  Py_XDECREF(tensor);
  return result;
}

/* _state_write(name, value, part) */
PyObject* aotc_state_write(PyObject* self, PyObject* args) {
  context* c = (context*)self;
  PyObject *name, *value, *given;
  ranges part;
  if (!PyArg_ParseTuple(args, "OOO:state_write", &name, &value, &given) || read_ranges(given, &part) != 0) return NULL;
  const aotc_io* io = state_named(c, name);
  PyObject* object = io ? move_state(c, io, value, &part, 0) : NULL;
  if (!object) return NULL;
  Py_DECREF(object);
  Py_RETURN_NONE;
}

/* The end of a call that was entered. */
static PyObject* done(context* c, aotc_status status) {
  leave(c);
  if (status != AOTC_STATUS_OK) return failed(c, status);
  Py_RETURN_NONE;
}

/* _states_file(file, part, saves) */
PyObject* aotc_states_file(PyObject* self, PyObject* args) {
  context* c = (context*)self;
  PyObject *file, *given;
  ranges part;
  int saves;
  if (!PyArg_ParseTuple(args, "OOp:_states_file", &file, &given, &saves) || read_ranges(given, &part) != 0) return NULL;
  const int fd = PyObject_AsFileDescriptor(file);
  if (fd < 0 || has_parts(c) != 0 || enter(c) != 0) return NULL;
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = saves ? api_of(c)->states_save(c->context, fd, part.at, part.n) : api_of(c)->states_load(c->context, fd, part.at, part.n);
  Py_END_ALLOW_THREADS;
  return done(c, status);
}

/* _states_from(source, part, to): forks where `to` is None, else copies to that part. */
PyObject* aotc_states_from(PyObject* self, PyObject* args) {
  context* c = (context*)self;
  PyObject *object, *given, *given_to;
  ranges part, to;
  if (!PyArg_ParseTuple(args, "OOO:_states_from", &object, &given, &given_to)) return NULL;
  if (read_ranges(given, &part) != 0 || read_ranges(given_to, &to) != 0) return NULL;
  PyObject* module = aotc_module();
  PyObject* type = module ? PyObject_GetAttrString(module, "Context") : NULL;
  const int fits = type ? PyObject_IsInstance(object, type) : -1;
  Py_XDECREF(type);
  Py_XDECREF(module);
  if (fits < 0) return NULL;
  if (fits == 0) return PyErr_Format(PyExc_TypeError, "expected a Context, not '%S'", (PyObject*)Py_TYPE(object));
  context* source = (context*)object;
  if (given_to != Py_None && to.n != part.n) {
    PyErr_SetString(PyExc_ValueError, "the parts have different numbers of ranges");
    return NULL;
  }
  if (has_parts(c) != 0 || enter(c) != 0) return NULL;
  if (enter(source) != 0) {
    leave(c);
    return NULL;
  }
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  if (given_to == Py_None)
    status = api_of(c)->states_fork(c->context, source->context, part.at, part.n);
  else
    status = api_of(c)->states_copy(c->context, to.at, source->context, part.at, part.n);
  Py_END_ALLOW_THREADS;
  leave(source);
  return done(c, status);
}

/* _states_truncate(dim, length, name) */
PyObject* aotc_states_truncate(PyObject* self, PyObject* args) {
  context* c = (context*)self;
  int dim;
  long long length;
  const char* name;
  if (!PyArg_ParseTuple(args, "iLz:_states_truncate", &dim, &length, &name)) return NULL;
  if (has_parts(c) != 0 || enter(c) != 0) return NULL;
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = api_of(c)->states_truncate(c->context, name, dim, length);
  Py_END_ALLOW_THREADS;
  return done(c, status);
}

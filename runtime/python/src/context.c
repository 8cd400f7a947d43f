/* aotc_runtime._native.Context: a context of a model. The GIL is not held while the artifact works. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <time.h>

#include "native.h"

typedef struct {
  PyObject_HEAD aotc_python_model* model;
  aotc_context* context; /* NULL: closed */
  void* stream;
  PyObject* held; /* GPU: inputs and outputs of what may be under way, or NULL */
  int calls;      /* under way, in any thread */
} context;

static const aotc_api* api_of(const context* c) { return c->model->library.api; }
static PyObject* failed(const context* c, aotc_status status) { return aotc_raise(c->model->module, status, api_of(c)->last_error()); }

/* A call begins: 0, or -1 with an exception where the context is closed. Each ends with leave(). */
static int enter(context* c) {
  if (!c->context) {
    aotc_raise(c->model->module, AOTC_STATUS_WRONG_STATE, "the context is closed");
    return -1;
  }
  ++c->calls;
  return 0;
}
static void leave(context* c) { --c->calls; }

static void destroy(context* c) {
  aotc_context* context = c->context;
  c->context = NULL;
  if (context) {
    Py_BEGIN_ALLOW_THREADS;
    api_of(c)->context_destroy(context);
    Py_END_ALLOW_THREADS;
  }
  Py_CLEAR(c->held);
}

static void dealloc(PyObject* self) {
  context* c = (context*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (c->model) destroy(c);
  Py_XDECREF((PyObject*)c->model);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* _native.Context(model, threads, flags, stream) */
static PyObject* create(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static char* names[] = {"model", "threads", "flags", "stream", NULL};
  PyObject* model;
  int threads = 1;
  unsigned int flags = 0;
  unsigned long long stream = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|iIK:Context", names, &model, &threads, &flags, &stream)) return NULL;
  PyObject* module = aotc_module();
  PyObject* model_type = module ? PyObject_GetAttrString(module, "Model") : NULL;
  const int fits = model_type ? PyObject_IsInstance(model, model_type) : -1;
  Py_XDECREF(model_type);
  Py_XDECREF(module);
  if (fits < 0) return NULL;
  if (fits == 0) return PyErr_Format(PyExc_TypeError, "Context() needs a Model, not '%S'", (PyObject*)Py_TYPE(model));
  context* c = (context*)PyType_GenericAlloc(type, 0);
  if (!c) return NULL;
  Py_INCREF(model);
  c->model = (aotc_python_model*)model;
  c->stream = (void*)(uintptr_t)stream;
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = threads;
  options.flags = flags;
  options.stream = c->stream;
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = api_of(c)->context_create(c->model->model, &options, &c->context);
  Py_END_ALLOW_THREADS;
  if (status == AOTC_STATUS_OK) return (PyObject*)c;
  failed(c, status);
  Py_DECREF((PyObject*)c);
  return NULL;
}

/* ---- runs ---- */

enum { kMaxRank = 64 };

/* A tuple of outputs of this package's own, as large as these inputs need. */
static PyObject* make_outputs(context* c, const aotc_views* in) {
  const aotc_python_model* m = c->model;
  const int32_t n = m->n[AOTC_OUTPUT];
  int64_t* sizes = malloc(sizeof(int64_t) * kMaxRank * (size_t)(n ? n : 1));
  int64_t** shapes = malloc(sizeof(int64_t*) * (size_t)(n ? n : 1));
  PyObject* all = sizes && shapes ? PyTuple_New(n) : PyErr_NoMemory();
  if (all) {
    for (int32_t i = 0; i < n; ++i) shapes[i] = sizes + (size_t)i * kMaxRank;
    const aotc_status status = api_of(c)->output_bounds(c->context, in->tensor, in->n, shapes, n);
    if (status != AOTC_STATUS_OK) {
      failed(c, status);
      Py_CLEAR(all);
    }
  }
  for (int32_t i = 0; all && i < n; ++i) {
    const aotc_io_info* info = &m->io[AOTC_OUTPUT][i].info;
    PyObject* one = aotc_tensor_new(m->module, aotc_dtype_of(info->dtype), shapes[i], info->rank);
    if (!one || PyTuple_SetItem(all, i, one) != 0) Py_CLEAR(all);
  }
  free(sizes);
  free(shapes);
  return all;
}

/* Those of `made` whose sizes the run found, narrowed; takes `made`. */
static PyObject* narrowed(context* c, PyObject* made) {
  const aotc_python_model* m = c->model;
  const int32_t n = m->n[AOTC_OUTPUT];
  PyObject* all = PyTuple_New(n);
  for (int32_t i = 0; all && i < n; ++i) {
    const aotc_io_info* info = &m->io[AOTC_OUTPUT][i].info;
    PyObject* one = PyTuple_GetItem(made, i);
    int64_t sizes[kMaxRank];
    if (!info->found) {
      Py_INCREF(one);
    } else {
      const aotc_status status = api_of(c)->output_sizes(c->context, i, sizes);
      one = status == AOTC_STATUS_OK ? aotc_tensor_narrowed(one, sizes) : failed(c, status);
    }
    if (!one || PyTuple_SetItem(all, i, one) != 0) Py_CLEAR(all);
  }
  Py_DECREF(made);
  return all;
}

static int finds_sizes(const aotc_python_model* m) {
  for (int32_t i = 0; i < m->n[AOTC_OUTPUT]; ++i)
    if (m->io[AOTC_OUTPUT][i].info.found) return 1;
  return 0;
}

static int all_on_gpu(const aotc_views* views) {
  for (int32_t i = 0; i < views->n; ++i)
    if (views->tensor[i].device == AOTC_DEVICE_HOST) return 0;
  return 1;
}

/* The call's tensors, opened; where the caller gives no outputs, `made` is some. -1: an exception is set. */
typedef struct {
  aotc_views in, out;
  PyObject* made;
} call;
static int open_call(context* c, PyObject* inputs, PyObject* outputs, call* k) {
  k->made = NULL;
  if (aotc_views_open(inputs, c->model, AOTC_INPUT, c->stream, &k->in) != 0) return -1;
  if (!outputs || outputs == Py_None) outputs = k->made = make_outputs(c, &k->in);
  if (outputs && aotc_views_open(outputs, c->model, AOTC_OUTPUT, c->stream, &k->out) == 0) return 0;
  Py_CLEAR(k->made);
  aotc_views_close(&k->in);
  return -1;
}
static void close_call(call* k) {
  aotc_views_close(&k->in);
  aotc_views_close(&k->out);
}

/* What a GPU may still read and write stays alive until the next run of this context, which is behind it on the stream, or synchronize. */
static void hold(context* c, PyObject* inputs, PyObject* outputs) {
  PyObject* before = c->held;
  c->held = PyTuple_Pack(2, inputs, outputs);
  if (!c->held) PyErr_Clear();
  Py_XDECREF(before);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What may end a run: `timeout` seconds from now, or a word of the memory of `cancel`; each NULL or None: nothing. */
typedef struct {
  aotc_run_options options;
  Py_buffer word;
} stop;
/* 1: something; 0: nothing; -1: an exception is set. */
static int open_stop(const context* c, PyObject* timeout, PyObject* cancel, stop* s) {
  const aotc_run_options none = AOTC_RUN_OPTIONS_INIT;
  s->options = none;
  s->word.obj = NULL;
  if (timeout == Py_None) timeout = NULL;
  if (cancel == Py_None) cancel = NULL;
  if (!timeout && !cancel) return 0;
  if (!AOTC_HAS(api_of(c), run_with)) {
    aotc_raise(c->model->module, AOTC_STATUS_INCOMPATIBLE, "the artifact is older than timeouts and cancelling");
    return -1;
  }
  if (timeout) {
    const double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1 && PyErr_Occurred()) return -1;
    if (!(seconds >= 0)) {
      PyErr_SetString(PyExc_ValueError, "timeout: seconds from now, not less than 0");
      return -1;
    }
    s->options.deadline_ns = now_ns() + (seconds < 1e9 ? (uint64_t)(seconds * 1e9) : (uint64_t)1000000000 * 1000000000);
  }
  if (!cancel) return 1;
  if (PyObject_GetBuffer(cancel, &s->word, 0) != 0) {
    s->word.obj = NULL;
    return -1;
  }
  if (s->word.len < (Py_ssize_t)sizeof(int32_t) || (uintptr_t)s->word.buf % sizeof(int32_t)) {
    PyBuffer_Release(&s->word);
    s->word.obj = NULL;
    PyErr_SetString(PyExc_ValueError, "cancel: expected a Cancel, or memory of an aligned int32");
    return -1;
  }
  s->options.cancel = s->word.buf;
  return 1;
}
static void close_stop(stop* s) {
  if (s->word.obj) PyBuffer_Release(&s->word);
}

static const char* const kRunNames[] = {"inputs", "outputs", "timeout", "cancel", NULL};

static PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  context* c = (context*)self;
  PyObject* given[4] = {NULL, NULL, NULL, NULL};
  call k;
  stop s;
  aotc_status status;
  if (aotc_arguments("run", kRunNames, 1, args, n, keywords, given) != 0 || enter(c) != 0) return NULL;
  const int may_stop = open_stop(c, given[2], given[3], &s);
  if (may_stop < 0 || open_call(c, given[0], given[1], &k) != 0) {
    close_stop(&s);
    leave(c);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = may_stop ? api_of(c)->run_with(c->context, 0, k.in.tensor, k.in.n, k.out.tensor, k.out.n, &s.options)
                    : api_of(c)->run(c->context, k.in.tensor, k.in.n, k.out.tensor, k.out.n);
  Py_END_ALLOW_THREADS;
  close_stop(&s);
  PyObject* result = NULL;
  if (status != AOTC_STATUS_OK) {
    failed(c, status);
    Py_XDECREF(k.made);
  } else if (k.made) {
    result = finds_sizes(c->model) ? narrowed(c, k.made) : k.made;
  } else {
    result = given[1];
    Py_INCREF(result);
    if (k.in.n + k.out.n > 0 && all_on_gpu(&k.in) && all_on_gpu(&k.out)) hold(c, given[0], given[1]);
  }
  close_call(&k);
  leave(c);
  return result;
}

/* _time(inputs, outputs, runs): nanoseconds of each run, a GPU's until it is done */
static PyObject* time_runs(PyObject* self, PyObject* args) {
  context* c = (context*)self;
  PyObject *inputs, *outputs;
  Py_ssize_t runs;
  call k;
  aotc_status status = AOTC_STATUS_OK;
  if (!PyArg_ParseTuple(args, "OOn:_time", &inputs, &outputs, &runs)) return NULL;
  if (runs < 0 || runs > 100000000) return PyErr_Format(PyExc_ValueError, "_time: %zd runs", runs);
  uint64_t* ns = malloc(sizeof(uint64_t) * (size_t)(runs + 1));
  if (!ns) return PyErr_NoMemory();
  if (enter(c) != 0 || (open_call(c, inputs, outputs, &k) != 0 && (leave(c), 1))) {
    free(ns);
    return NULL;
  }
  const aotc_api* api = api_of(c);
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t i = 0; i < runs && status == AOTC_STATUS_OK; ++i) {
    const uint64_t begin = now_ns();
    status = api->run(c->context, k.in.tensor, k.in.n, k.out.tensor, k.out.n);
    if (status == AOTC_STATUS_OK) status = api->synchronize(c->context);
    ns[i] = now_ns() - begin;
  }
  Py_END_ALLOW_THREADS;
  PyObject* list = status == AOTC_STATUS_OK ? PyList_New(runs) : failed(c, status);
  for (Py_ssize_t i = 0; list && i < runs; ++i) {
    PyObject* one = PyLong_FromUnsignedLongLong(ns[i]);
    if (!one || PyList_SetItem(list, i, one) != 0) Py_CLEAR(list);
  }
  free(ns);
  Py_XDECREF(k.made);
  close_call(&k);
  leave(c);
  return list;
}

static PyObject* output_bounds(PyObject* self, PyObject* inputs) {
  context* c = (context*)self;
  aotc_views in;
  if (enter(c) != 0) return NULL;
  PyObject* all = NULL;
  if (aotc_views_open(inputs, c->model, AOTC_INPUT, c->stream, &in) == 0) {
    const int32_t n = c->model->n[AOTC_OUTPUT];
    int64_t* sizes = malloc(sizeof(int64_t) * kMaxRank * (size_t)(n ? n : 1));
    int64_t** shapes = malloc(sizeof(int64_t*) * (size_t)(n ? n : 1));
    if (!sizes || !shapes) {
      PyErr_NoMemory();
    } else {
      for (int32_t i = 0; i < n; ++i) shapes[i] = sizes + (size_t)i * kMaxRank;
      const aotc_status status = api_of(c)->output_bounds(c->context, in.tensor, in.n, shapes, n);
      all = status == AOTC_STATUS_OK ? PyTuple_New(n) : failed(c, status);
      for (int32_t i = 0; all && i < n; ++i) {
        PyObject* shape = aotc_shape_tuple(shapes[i], c->model->io[AOTC_OUTPUT][i].info.rank);
        if (!shape || PyTuple_SetItem(all, i, shape) != 0) Py_CLEAR(all);
      }
    }
    free(sizes);
    free(shapes);
    aotc_views_close(&in);
  }
  leave(c);
  return all;
}

static PyObject* output_sizes(PyObject* self, PyObject* argument) {
  context* c = (context*)self;
  const long i = PyLong_AsLong(argument);
  int64_t sizes[kMaxRank];
  if (i == -1 && PyErr_Occurred()) return NULL;
  if (i < 0 || i >= c->model->n[AOTC_OUTPUT]) return PyErr_Format(PyExc_IndexError, "there is no output %ld", i);
  if (enter(c) != 0) return NULL;
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = api_of(c)->output_sizes(c->context, (int32_t)i, sizes);
  Py_END_ALLOW_THREADS;
  leave(c);
  if (status != AOTC_STATUS_OK) return failed(c, status);
  return aotc_shape_tuple(sizes, c->model->io[AOTC_OUTPUT][i].info.rank);
}

static PyObject* synchronize(PyObject* self, PyObject* unused) {
  (void)unused;
  context* c = (context*)self;
  if (enter(c) != 0) return NULL;
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = api_of(c)->synchronize(c->context);
  Py_END_ALLOW_THREADS;
  leave(c);
  Py_CLEAR(c->held);
  if (status != AOTC_STATUS_OK) return failed(c, status);
  Py_RETURN_NONE;
}

/* ---- states ---- */

static PyObject* state_reset(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
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
  for (int32_t i = 0; i < c->model->n[AOTC_STATE]; ++i)
    if (PyObject_RichCompareBool(name, c->model->io[AOTC_STATE][i].name, Py_EQ) == 1) return &c->model->io[AOTC_STATE][i];
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
static PyObject* state_read(PyObject* self, PyObject* args) {
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
static PyObject* state_write(PyObject* self, PyObject* args) {
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
static PyObject* states_file(PyObject* self, PyObject* args) {
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
static PyObject* states_from(PyObject* self, PyObject* args) {
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
static PyObject* states_truncate(PyObject* self, PyObject* args) {
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

/* ---- what it is ---- */

/* _info(): (workspace_bytes, arena_bytes, scratch_bytes, state_bytes, variant, threads, graphs, weights_version) */
static PyObject* info(PyObject* self, PyObject* unused) {
  (void)unused;
  context* c = (context*)self;
  aotc_context_info i = AOTC_CONTEXT_INFO_INIT;
  if (enter(c) != 0) return NULL;
  const aotc_status status = api_of(c)->context_get_info(c->context, &i);
  leave(c);
  if (status != AOTC_STATUS_OK) return failed(c, status);
  return Py_BuildValue("(KKKKziiK)", (unsigned long long)i.workspace_bytes, (unsigned long long)i.arena_bytes,
                       (unsigned long long)i.scratch_bytes, (unsigned long long)i.state_bytes, i.variant, (int)i.threads, (int)i.graphs,
                       (unsigned long long)i.weights_version);
}

/* _profile(): (label, ns, threads) of each step of the latest run */
static PyObject* profile(PyObject* self, PyObject* unused) {
  (void)unused;
  context* c = (context*)self;
  if (enter(c) != 0) return NULL;
  int32_t n = 0;
  aotc_status status = api_of(c)->context_profile(c->context, NULL, &n);
  aotc_profile_step* steps = calloc((size_t)(n > 0 ? n : 1), sizeof *steps);
  int32_t got = n;
  if (status == AOTC_STATUS_OK && steps) status = api_of(c)->context_profile(c->context, steps, &got);
  leave(c);
  PyObject* list = !steps ? PyErr_NoMemory() : status == AOTC_STATUS_OK ? PyList_New(0) : failed(c, status);
  for (int32_t i = 0; list && i < (got < n ? got : n); ++i) {
    PyObject* one = Py_BuildValue("(zKi)", steps[i].label, (unsigned long long)steps[i].ns, (int)steps[i].threads);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  free(steps);
  return list;
}

static PyObject* close_context(PyObject* self, PyObject* unused) {
  (void)unused;
  context* c = (context*)self;
  if (c->calls > 0) return aotc_raise(c->model->module, AOTC_STATUS_WRONG_STATE, "the context is in use by another thread");
  destroy(c);
  Py_RETURN_NONE;
}

#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"_run", FAST(run), NULL},
    {"_time", time_runs, METH_VARARGS, NULL},
    {"_info", info, METH_NOARGS, NULL},
    {"_profile", profile, METH_NOARGS, NULL},
    {"_state_read", state_read, METH_VARARGS, NULL},
    {"_state_write", state_write, METH_VARARGS, NULL},
    {"_states_file", states_file, METH_VARARGS, NULL},
    {"_states_from", states_from, METH_VARARGS, NULL},
    {"_states_truncate", states_truncate, METH_VARARGS, NULL},
    {"output_bounds", output_bounds, METH_O,
     "output_bounds(inputs, /)\n--\n\nThe shapes of the outputs for inputs of these shapes, a tuple of tuples; of sizes that depend on "
     "data the most."},
    {"output_shapes", output_bounds, METH_O, "output_shapes(inputs, /)\n--\n\noutput_bounds by its name of before, which goes with 0.2."},
    {"output_sizes", output_sizes, METH_O,
     "output_sizes(i, /)\n--\n\nThe shape that output i has after the latest run: less than output_bounds where sizes depend on data."},
    {"synchronize", synchronize, METH_NOARGS,
     "synchronize()\n--\n\nGPU: waits until the runs of this context are done and raises what went wrong in them."},
    {"state_reset", FAST(state_reset), "state_reset(name=None)\n--\n\nThe state, or all of them, back to the initial content."},
    {"close", close_context, METH_NOARGS, "close()\n--\n\nJoins the threads and frees the memory. WrongState while a call is under way."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, create}, {Py_tp_dealloc, dealloc}, {Py_tp_methods, methods}, {0, NULL}};
PyType_Spec aotc_context_spec = {"aotc_runtime._native.Context", sizeof(context), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

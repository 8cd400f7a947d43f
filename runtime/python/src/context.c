/* aotc_runtime._native.Context: a context of a model. The GIL is not held while the artifact works. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <time.h>

#include "context.h"

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

/* The shapes of a method's n outputs for these inputs, kMaxRank sizes each, to be freed. NULL: an error is set. */
static int64_t* bounds(context* c, int32_t method, const aotc_views* in, int32_t n) {
  const aotc_api* api = api_of(c);
  int64_t* sizes = malloc(sizeof(int64_t) * kMaxRank * (size_t)(n ? n : 1));
  int64_t** shapes = malloc(sizeof(int64_t*) * (size_t)(n ? n : 1));
  if (sizes && shapes) {
    for (int32_t i = 0; i < n; ++i) shapes[i] = sizes + (size_t)i * kMaxRank;
    const aotc_status status = method ? api->method_output_bounds(c->context, method, in->tensor, in->n, shapes, n)
                                      : api->output_bounds(c->context, in->tensor, in->n, shapes, n);
    free(shapes);
    if (status == AOTC_STATUS_OK) return sizes;
    failed(c, status);
  } else {
    free(shapes);
    PyErr_NoMemory();
  }
  free(sizes);
  return NULL;
}

/* A tuple of outputs of this package's own, as large as these inputs need. */
static PyObject* make_outputs(context* c, int32_t method, const aotc_views* in) {
  const aotc_ios* out = &c->model->methods[method].of[AOTC_OUTPUT];
  int64_t* shapes = bounds(c, method, in, out->n);
  PyObject* all = shapes ? PyTuple_New(out->n) : NULL;
  for (int32_t i = 0; all && i < out->n; ++i) {
    const aotc_io_info* info = &out->io[i].info;
    PyObject* one = aotc_tensor_new(c->model->module, aotc_dtype_of(info->dtype), shapes + (size_t)i * kMaxRank, info->rank);
    if (!one || PyTuple_SetItem(all, i, one) != 0) Py_CLEAR(all);
  }
  free(shapes);
  return all;
}

/* Those of `made` whose sizes the run found, narrowed; takes `made`. */
static PyObject* narrowed(context* c, const aotc_ios* out, PyObject* made) {
  const int32_t n = out->n;
  PyObject* all = PyTuple_New(n);
  for (int32_t i = 0; all && i < n; ++i) {
    const aotc_io_info* info = &out->io[i].info;
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

static int finds_sizes(const aotc_ios* out) {
  for (int32_t i = 0; i < out->n; ++i)
    if (out->io[i].info.found) return 1;
  return 0;
}

static int all_on_gpu(const aotc_views* views) {
  for (int32_t i = 0; i < views->n; ++i)
    if (views->tensor[i].device == AOTC_DEVICE_HOST) return 0;
  return 1;
}

/* The call's tensors, opened; where the caller gives no outputs, `made` is some. -1: an exception is set. */
typedef struct {
  int32_t method;
  aotc_views in, out;
  PyObject* made;
} call;
static int open_call(context* c, PyObject* method, PyObject* inputs, PyObject* outputs, call* k) {
  k->made = NULL;
  k->method = aotc_method_of(c->model, method);
  if (k->method < 0 || aotc_views_open(inputs, c->model, k->method, AOTC_INPUT, c->stream, &k->in) != 0) return -1;
  if (!outputs || outputs == Py_None) outputs = k->made = make_outputs(c, k->method, &k->in);
  if (outputs && aotc_views_open(outputs, c->model, k->method, AOTC_OUTPUT, c->stream, &k->out) == 0) return 0;
  Py_CLEAR(k->made);
  aotc_views_close(&k->in);
  return -1;
}
static void close_call(call* k) {
  aotc_views_close(&k->in);
  aotc_views_close(&k->out);
}

static aotc_status run_call(context* c, const call* k) {
  const aotc_api* api = api_of(c);
  return k->method ? api->run_method(c->context, k->method, k->in.tensor, k->in.n, k->out.tensor, k->out.n)
                   : api->run(c->context, k->in.tensor, k->in.n, k->out.tensor, k->out.n);
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

/* The options of a run, with what they borrow. */
typedef struct {
  aotc_run_options options;
  Py_buffer word;
  PyObject* traceparent;
} run_options;
/* What may end it: `timeout` seconds from now, or a word of the memory of `cancel`; which request it is for: `traceparent`, a str, of which
 * an older artifact is told nothing. Each NULL or None: nothing. 1: something; 0: nothing; -1: an exception is set. */
static int open_options(const context* c, PyObject* timeout, PyObject* cancel, PyObject* traceparent, run_options* s) {
  const aotc_run_options none = AOTC_RUN_OPTIONS_INIT;
  s->options = none;
  s->word.obj = NULL;
  s->traceparent = NULL;
  if (timeout == Py_None) timeout = NULL;
  if (cancel == Py_None) cancel = NULL;
  if (traceparent && traceparent != Py_None) {
    if (!PyUnicode_Check(traceparent)) {
      PyErr_SetString(PyExc_TypeError, "traceparent: expected a str");
      return -1;
    }
    s->traceparent = PyUnicode_AsUTF8String(traceparent);
    if (!s->traceparent) PyErr_Clear(); /* no header has such characters */
    if (s->traceparent && aotc_api_revision(api_of(c)) >= 6) s->options.traceparent = PyBytes_AsString(s->traceparent);
  }
  if (!timeout && !cancel) return s->options.traceparent ? 1 : 0;
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
static void close_options(run_options* s) {
  if (s->word.obj) PyBuffer_Release(&s->word);
  Py_XDECREF(s->traceparent);
}

static const char* const kRunNames[] = {"inputs", "outputs", "timeout", "cancel", "method", "traceparent", NULL};

static PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  context* c = (context*)self;
  PyObject* given[6] = {NULL, NULL, NULL, NULL, NULL, NULL};
  call k;
  run_options s;
  aotc_status status;
  if (aotc_arguments("run", kRunNames, 1, args, n, keywords, given) != 0 || enter(c) != 0) return NULL;
  const int any = open_options(c, given[2], given[3], given[5], &s);
  if (any < 0 || open_call(c, given[4], given[0], given[1], &k) != 0) {
    close_options(&s);
    leave(c);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = any ? api_of(c)->run_with(c->context, k.method, k.in.tensor, k.in.n, k.out.tensor, k.out.n, &s.options) : run_call(c, &k);
  Py_END_ALLOW_THREADS;
  c->latest = k.method;
  close_options(&s);
  PyObject* result = NULL;
  if (status != AOTC_STATUS_OK) {
    failed(c, status);
    Py_XDECREF(k.made);
  } else if (k.made) {
    const aotc_ios* out = &c->model->methods[k.method].of[AOTC_OUTPUT];
    result = finds_sizes(out) ? narrowed(c, out, k.made) : k.made;
  } else {
    result = given[1];
    Py_INCREF(result);
    if (k.in.n + k.out.n > 0 && all_on_gpu(&k.in) && all_on_gpu(&k.out)) hold(c, given[0], given[1]);
  }
  close_call(&k);
  leave(c);
  return result;
}

/* _time(inputs, outputs, runs, method): nanoseconds of each run, a GPU's until it is done */
static PyObject* time_runs(PyObject* self, PyObject* args) {
  context* c = (context*)self;
  PyObject *inputs, *outputs, *method = NULL;
  Py_ssize_t runs;
  call k;
  aotc_status status = AOTC_STATUS_OK;
  if (!PyArg_ParseTuple(args, "OOn|O:_time", &inputs, &outputs, &runs, &method)) return NULL;
  if (runs < 0 || runs > 100000000) return PyErr_Format(PyExc_ValueError, "_time: %zd runs", runs);
  uint64_t* ns = malloc(sizeof(uint64_t) * (size_t)(runs + 1));
  if (!ns) return PyErr_NoMemory();
  if (enter(c) != 0 || (open_call(c, method, inputs, outputs, &k) != 0 && (leave(c), 1))) {
    free(ns);
    return NULL;
  }
  const aotc_api* api = api_of(c);
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t i = 0; i < runs && status == AOTC_STATUS_OK; ++i) {
    const uint64_t begin = now_ns();
    status = run_call(c, &k);
    if (status == AOTC_STATUS_OK) status = api->synchronize(c->context);
    ns[i] = now_ns() - begin;
  }
  Py_END_ALLOW_THREADS;
  c->latest = k.method;
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

static const char* const kBoundsNames[] = {"inputs", "method", NULL};

static PyObject* output_bounds(PyObject* self, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords) {
  context* c = (context*)self;
  PyObject* given[2] = {NULL, NULL};
  aotc_views in;
  if (aotc_arguments("output_bounds", kBoundsNames, 1, args, n_args, keywords, given) != 0 || enter(c) != 0) return NULL;
  PyObject* all = NULL;
  const int32_t method = aotc_method_of(c->model, given[1]);
  if (method >= 0 && aotc_views_open(given[0], c->model, method, AOTC_INPUT, c->stream, &in) == 0) {
    const aotc_ios* out = &c->model->methods[method].of[AOTC_OUTPUT];
    int64_t* shapes = bounds(c, method, &in, out->n);
    all = shapes ? PyTuple_New(out->n) : NULL;
    for (int32_t i = 0; all && i < out->n; ++i) {
      PyObject* shape = aotc_shape_tuple(shapes + (size_t)i * kMaxRank, out->io[i].info.rank);
      if (!shape || PyTuple_SetItem(all, i, shape) != 0) Py_CLEAR(all);
    }
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
  const aotc_ios* out = &c->model->methods[c->latest].of[AOTC_OUTPUT];
  if (i < 0 || i >= out->n) return PyErr_Format(PyExc_IndexError, "there is no output %ld", i);
  if (enter(c) != 0) return NULL;
  aotc_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = api_of(c)->output_sizes(c->context, (int32_t)i, sizes);
  Py_END_ALLOW_THREADS;
  leave(c);
  if (status != AOTC_STATUS_OK) return failed(c, status);
  return aotc_shape_tuple(sizes, out->io[i].info.rank);
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
    {"_state_read", aotc_state_read, METH_VARARGS, NULL},
    {"_state_write", aotc_state_write, METH_VARARGS, NULL},
    {"_states_file", aotc_states_file, METH_VARARGS, NULL},
    {"_states_from", aotc_states_from, METH_VARARGS, NULL},
    {"_states_truncate", aotc_states_truncate, METH_VARARGS, NULL},
    {"output_bounds", FAST(output_bounds),
     "output_bounds(inputs, method=None)\n--\n\nThe shapes of a method's outputs for inputs of these shapes, a tuple of tuples; of sizes "
     "that "
     "depend on data the most."},
    {"output_shapes", FAST(output_bounds),
     "output_shapes(inputs, method=None)\n--\n\noutput_bounds by its name of before, which goes with 0.2."},
    {"output_sizes", output_sizes, METH_O,
     "output_sizes(i, /)\n--\n\nThe shape that output i has after the latest run: less than output_bounds where sizes depend on data."},
    {"synchronize", synchronize, METH_NOARGS,
     "synchronize()\n--\n\nGPU: waits until the runs of this context are done and raises what went wrong in them."},
    {"state_reset", FAST(aotc_state_reset), "state_reset(name=None)\n--\n\nThe state, or all of them, back to the initial content."},
    {"close", close_context, METH_NOARGS, "close()\n--\n\nJoins the threads and frees the memory. WrongState while a call is under way."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, create}, {Py_tp_dealloc, dealloc}, {Py_tp_methods, methods}, {0, NULL}};
PyType_Spec aotc_context_spec = {"aotc_runtime._native.Context", sizeof(context), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

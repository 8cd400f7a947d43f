/* aotc_runtime._native.Model: an artifact, loaded, and the model that it makes. */
#define _DEFAULT_SOURCE /* syscall of loader.h */
#include <limits.h>
#include <stdlib.h>

#include "native.h"

static void free_ios(aotc_ios* ios) {
  for (int32_t i = 0; ios->io && i < ios->n; ++i) Py_XDECREF(ios->io[i].name);
  free(ios->io);
}

static void dealloc(PyObject* self) {
  aotc_python_model* m = (aotc_python_model*)self;
  PyTypeObject* type = Py_TYPE(self);
  for (int32_t i = 0; m->methods && i < m->n_methods; ++i) {
    Py_XDECREF(m->methods[i].name);
    free_ios(&m->methods[i].of[AOTC_INPUT]);
    free_ios(&m->methods[i].of[AOTC_OUTPUT]);
  }
  free(m->methods);
  free_ios(&m->states);
  if (m->model) m->library.api->model_destroy(m->model);
  aotc_library_close(&m->library);
  Py_XDECREF(m->module);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject* failed(const aotc_python_model* m, aotc_status status) {
  return aotc_raise(m->module, status, m->library.api->last_error());
}

static PyObject* interned(const char* name) {
  PyObject* text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
  if (text) PyUnicode_InternInPlace(&text);
  return text;
}

/* Each -1: an exception is set. */
static int read_ios(aotc_python_model* m, int32_t method, int32_t kind, int32_t n, aotc_ios* ios) {
  const aotc_api* api = m->library.api;
  ios->io = calloc((size_t)n + 1, sizeof(aotc_io));
  if (!ios->io) {
    PyErr_NoMemory();
    return -1;
  }
  ios->n = n;
  for (int32_t i = 0; i < n; ++i) {
    aotc_io* io = &ios->io[i];
    const aotc_io_info init = AOTC_IO_INFO_INIT;
    io->info = init;
    const aotc_status status =
        method ? api->method_io_get(m->model, method, kind, i, &io->info) : api->io_get(m->model, kind, i, &io->info);
    if (status != AOTC_STATUS_OK) {
      failed(m, status);
      return -1;
    }
    if (!(io->name = interned(io->info.name))) return -1;
  }
  return 0;
}

static int read_states(aotc_python_model* m) {
  int32_t n = 0;
  const aotc_status status = m->library.api->io_count(m->model, AOTC_STATE, &n);
  if (status == AOTC_STATUS_OK) return read_ios(m, 0, AOTC_STATE, n, &m->states);
  failed(m, status);
  return -1;
}

static int read_methods(aotc_python_model* m) {
  const aotc_api* api = m->library.api;
  const int named = AOTC_HAS(api, method_get); /* artifacts of before have one */
  int32_t n = 1;
  aotc_status status = named ? api->method_count(m->model, &n) : AOTC_STATUS_OK;
  m->methods = status == AOTC_STATUS_OK ? calloc((size_t)n + 1, sizeof *m->methods) : NULL;
  if (status == AOTC_STATUS_OK && !m->methods) {
    PyErr_NoMemory();
    return -1;
  }
  m->n_methods = m->methods ? n : 0;
  for (int32_t i = 0; i < n && status == AOTC_STATUS_OK; ++i) {
    aotc_python_method* method = &m->methods[i];
    aotc_method_info info = AOTC_METHOD_INFO_INIT;
    info.name = "forward";
    if (named) {
      status = api->method_get(m->model, i, NULL, &info);
    } else if ((status = api->io_count(m->model, AOTC_INPUT, &info.n_inputs)) == AOTC_STATUS_OK) {
      status = api->io_count(m->model, AOTC_OUTPUT, &info.n_outputs);
    }
    if (status == AOTC_STATUS_OK &&
        (!(method->name = interned(info.name)) || read_ios(m, i, AOTC_INPUT, info.n_inputs, &method->of[AOTC_INPUT]) != 0 ||
         read_ios(m, i, AOTC_OUTPUT, info.n_outputs, &method->of[AOTC_OUTPUT]) != 0))
      return -1;
  }
  if (status == AOTC_STATUS_OK) return 0;
  failed(m, status);
  return -1;
}

int32_t aotc_method_of(const aotc_python_model* m, PyObject* name) {
  if (!name || name == Py_None) return 0;
  for (int32_t i = 0; i < m->n_methods; ++i) {
    const int same = PyObject_RichCompareBool(name, m->methods[i].name, Py_EQ);
    if (same < 0) return -1;
    if (same) return i;
  }
  PyErr_Format(PyExc_KeyError, "there is no method %R: Model.methods lists what there is", name);
  return -1;
}

/* Where an artifact comes from: one of a path, a descriptor, memory. */
typedef struct {
  PyObject* path; /* bytes, or NULL */
  int fd;         /* or -1 */
  Py_buffer memory;
} source;

/* -1: an exception is set. */
static int source_open(PyObject* given, source* s) {
  s->path = NULL;
  s->fd = -1;
  s->memory.obj = NULL;
  if (PyLong_Check(given)) {
    const long fd = PyLong_AsLong(given);
    if (fd == -1 && PyErr_Occurred()) return -1;
    if (fd < 0 || fd > INT_MAX) {
      PyErr_Format(PyExc_ValueError, "%ld is no descriptor", fd);
      return -1;
    }
    s->fd = (int)fd;
    return 0;
  }
  if (PyBytes_Check(given) || !PyObject_CheckBuffer(given)) return PyUnicode_FSConverter(given, &s->path) ? 0 : -1;
  if (PyObject_GetBuffer(given, &s->memory, 0) == 0) return 0; /* contiguous bytes */
  s->memory.obj = NULL;
  return -1;
}

static void source_close(source* s) {
  Py_XDECREF(s->path);
  if (s->memory.obj) PyBuffer_Release(&s->memory);
}

/* path: bytes of the path, or NULL. */
static aotc_status open_library(const source* s, const char* path, int32_t device, aotc_library* library) {
  if (path) return aotc_library_open(path, device, library);
  if (s->fd >= 0) return aotc_library_open_fd(s->fd, device, library);
  return aotc_library_open_memory(s->memory.buf, (uint64_t)s->memory.len, device, library);
}

/* _native.Model(artifact, device, flags, weights_path, weights_budget); artifact: a path, a descriptor, or an object whose memory has the
 * file's bytes (not `bytes`, which are a path: a memoryview of them) */
static PyObject* create(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static char* names[] = {"artifact", "device", "flags", "weights", "weights_budget", NULL};
  PyObject *artifact = NULL, *weights = NULL, *weights_given = Py_None;
  int device = AOTC_DEVICE_DEFAULT;
  unsigned int flags = 0;
  unsigned long long weights_budget = 0;
  source from;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|iIOK:Model", names, &artifact, &device, &flags, &weights_given, &weights_budget) ||
      source_open(artifact, &from) != 0)
    return NULL;
  if (weights_given != Py_None && !PyUnicode_FSConverter(weights_given, &weights)) {
    source_close(&from);
    return NULL;
  }
  aotc_python_model* m = (aotc_python_model*)PyType_GenericAlloc(type, 0);
  PyObject* result = NULL;
  if (m && (m->module = aotc_module()) != NULL) {
    const char* path = from.path ? PyBytes_AsString(from.path) : NULL;
    aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
    options.device = device;
    options.flags = flags;
    options.weights_budget = weights_budget;
    options.weights_path = weights ? PyBytes_AsString(weights) : NULL;
    aotc_status status;
    char error[1024];
    Py_BEGIN_ALLOW_THREADS;
    status = open_library(&from, path, device, &m->library);
    if (status != AOTC_STATUS_OK)
      snprintf(error, sizeof error, "%s", m->library.error);
    else if ((status = m->library.api->model_create(&options, &m->model)) != AOTC_STATUS_OK)
      snprintf(error, sizeof error, "%s", m->library.api->last_error());
    Py_END_ALLOW_THREADS;
    if (status != AOTC_STATUS_OK)
      aotc_raise(m->module, status, error);
    else if (read_methods(m) == 0 && read_states(m) == 0)
      result = (PyObject*)m;
  }
  if (!result) Py_XDECREF((PyObject*)m);
  source_close(&from);
  Py_XDECREF(weights);
  return result;
}

static PyObject* dim_tuple(const aotc_dim* dim, const char* found) {
  const char* symbol = found ? found : dim->symbol;
  return Py_BuildValue("(LLLz)", (long long)(found ? -1 : dim->value), (long long)dim->min, (long long)dim->max, symbol);
}

/* _methods(): the names */
static PyObject* method_names(PyObject* self, PyObject* unused) {
  (void)unused;
  const aotc_python_model* m = (aotc_python_model*)self;
  PyObject* all = PyTuple_New(m->n_methods);
  for (int32_t i = 0; all && i < m->n_methods; ++i) {
    Py_INCREF(m->methods[i].name);
    if (PyTuple_SetItem(all, i, m->methods[i].name) != 0) Py_CLEAR(all);
  }
  return all;
}

/* _io(kind, method): (name, dtype, ((value, min, max, symbol), ...), alias_input) of each */
static PyObject* io(PyObject* self, PyObject* args) {
  const aotc_python_model* m = (aotc_python_model*)self;
  int kind, method;
  if (!PyArg_ParseTuple(args, "ii:_io", &kind, &method)) return NULL;
  if (kind < 0 || kind > AOTC_STATE || method < 0 || method >= m->n_methods)
    return PyErr_Format(PyExc_ValueError, "_io: there is no kind %d of method %d", kind, method);
  const aotc_ios* ios = kind == AOTC_STATE ? &m->states : &m->methods[method].of[kind];
  PyObject* all = PyTuple_New(ios->n);
  for (int32_t i = 0; all && i < ios->n; ++i) {
    const aotc_io_info* info = &ios->io[i].info;
    const aotc_dtype* dtype = aotc_dtype_of(info->dtype);
    PyObject* dims = PyTuple_New(info->rank);
    for (int32_t d = 0; dims && d < info->rank; ++d) {
      PyObject* dim = dim_tuple(&info->dims[d], info->found ? info->found[d] : NULL);
      if (!dim || PyTuple_SetItem(dims, d, dim) != 0) Py_CLEAR(dims);
    }
    PyObject* one = dims ? Py_BuildValue("(OsNi)", ios->io[i].name, dtype ? dtype->name : "unknown", dims, (int)info->alias_input) : NULL;
    if (!one || PyTuple_SetItem(all, i, one) != 0) Py_CLEAR(all);
  }
  return all;
}

static PyObject* metadata_json(PyObject* self, PyObject* unused) {
  (void)unused;
  const char* text = ((aotc_python_model*)self)->library.api->metadata_json();
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* info(): (weights_bytes, target, device, n_variants, weights_version) */
static PyObject* info(PyObject* self, PyObject* unused) {
  (void)unused;
  const aotc_python_model* m = (aotc_python_model*)self;
  aotc_model_info i = AOTC_MODEL_INFO_INIT;
  const aotc_status status = m->library.api->model_get_info(m->model, &i);
  if (status != AOTC_STATUS_OK) return failed(m, status);
  return Py_BuildValue("(KziiK)", (unsigned long long)i.weights_bytes, i.target, (int)i.device, (int)i.n_variants,
                       (unsigned long long)i.weights_version);
}

static PyObject* probe(PyObject* self, PyObject* unused) {
  (void)unused;
  const aotc_python_model* m = (aotc_python_model*)self;
  aotc_model_info i = AOTC_MODEL_INFO_INIT;
  aotc_status status;
  char error[1024];
  Py_BEGIN_ALLOW_THREADS;
  status = m->library.api->model_get_info(m->model, &i);
  if (status == AOTC_STATUS_OK) status = m->library.api->probe(i.device);
  if (status != AOTC_STATUS_OK) snprintf(error, sizeof error, "%s", m->library.api->last_error());
  Py_END_ALLOW_THREADS;
  if (status != AOTC_STATUS_OK) return aotc_raise(m->module, status, error), NULL;
  Py_RETURN_NONE;
}

static PyObject* workspace_size(PyObject* self, PyObject* args, PyObject* keywords) {
  static char* names[] = {"inputs", "threads", "method", NULL};
  const aotc_python_model* m = (aotc_python_model*)self;
  const aotc_api* api = m->library.api;
  PyObject *inputs = Py_None, *named = Py_None;
  int threads = 1;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OiO:workspace_size", names, &inputs, &threads, &named)) return NULL;
  const int32_t method = aotc_method_of(m, named);
  if (method < 0) return NULL;
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = threads;
  size_t bytes = 0;
  aotc_views in = {.n = 0, .view = in.few, .tensor = NULL};
  if (inputs != Py_None && aotc_views_open(inputs, m, method, AOTC_INPUT, NULL, &in) != 0) return NULL;
  const aotc_status status = method ? api->method_workspace_size(m->model, method, &options, in.tensor, in.n, &bytes)
                                    : api->workspace_size(m->model, &options, in.tensor, in.n, &bytes);
  if (inputs != Py_None) aotc_views_close(&in);
  return status == AOTC_STATUS_OK ? PyLong_FromSize_t(bytes) : failed(m, status);
}

/* The caller's function that reads weights, and whether it raised. */
typedef struct {
  PyObject* function;
  int raised;
} reader;

/* function(offset, bytes): contiguous memory of that many bytes */
static aotc_status read_weights(void* user, uint64_t offset, void* to, uint64_t bytes) {
  reader* r = user;
  aotc_status status = AOTC_STATUS_INVALID_ARGUMENT;
  Py_buffer got;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject* result = PyObject_CallFunction(r->function, "KK", (unsigned long long)offset, (unsigned long long)bytes);
  if (result && PyObject_GetBuffer(result, &got, 0) == 0) {
    if ((uint64_t)got.len == bytes) {
      memcpy(to, got.buf, (size_t)bytes);
      status = AOTC_STATUS_OK;
    } else {
      PyErr_Format(PyExc_ValueError, "reading weights gave %zd bytes, not %llu", got.len, (unsigned long long)bytes);
    }
    PyBuffer_Release(&got);
  }
  Py_XDECREF(result);
  r->raised = status != AOTC_STATUS_OK;
  PyGILState_Release(gil);
  return status;
}

/* _swap_weights(source, flags): the version. source: None, a path, a descriptor, contiguous memory, or a function */
static PyObject* swap_weights(PyObject* self, PyObject* args) {
  aotc_python_model* m = (aotc_python_model*)self;
  const aotc_api* api = m->library.api;
  PyObject* given;
  unsigned int flags;
  if (!PyArg_ParseTuple(args, "OI:_swap_weights", &given, &flags)) return NULL;
  if (!AOTC_HAS(api, model_swap_weights))
    return aotc_raise(m->module, AOTC_STATUS_INCOMPATIBLE, "the artifact is older than model_swap_weights");
  aotc_weights_source weights = AOTC_WEIGHTS_SOURCE_INIT;
  reader reads = {given, 0};
  source from = {NULL, -1, {0}};
  weights.flags = flags;
  if (PyCallable_Check(given)) {
    weights.read = read_weights;
    weights.user = &reads;
  } else if (given != Py_None) {
    if (source_open(given, &from) != 0) return NULL;
    weights.path = from.path ? PyBytes_AsString(from.path) : NULL;
    if (from.fd >= 0) {
      weights.fd = from.fd;
      weights.flags |= AOTC_WEIGHTS_FD;
    } else if (!from.path) {
      weights.data = from.memory.buf;
      weights.bytes = (uint64_t)from.memory.len;
    }
  }
  uint64_t version = 0;
  aotc_status status;
  char error[1024] = "";
  Py_BEGIN_ALLOW_THREADS;
  status = api->model_swap_weights(m->model, given == Py_None ? NULL : &weights, &version);
  if (status != AOTC_STATUS_OK) snprintf(error, sizeof error, "%s", api->last_error());
  Py_END_ALLOW_THREADS;
  if (given != Py_None && !weights.read) source_close(&from);
  if (reads.raised && PyErr_Occurred()) return NULL;
  if (status != AOTC_STATUS_OK) return aotc_raise(m->module, status, error);
  return PyLong_FromUnsignedLongLong(version);
}

/* _trim(): bytes that were given back */
static PyObject* trim(PyObject* self, PyObject* unused) {
  aotc_python_model* m = (aotc_python_model*)self;
  const aotc_api* api = m->library.api;
  (void)unused;
  if (!AOTC_HAS(api, model_trim)) return aotc_raise(m->module, AOTC_STATUS_INCOMPATIBLE, "the artifact is older than model_trim");
  uint64_t bytes = 0;
  aotc_status status;
  char error[1024] = "";
  Py_BEGIN_ALLOW_THREADS;
  status = api->model_trim(m->model, &bytes);
  if (status != AOTC_STATUS_OK) snprintf(error, sizeof error, "%s", api->last_error());
  Py_END_ALLOW_THREADS;
  if (status != AOTC_STATUS_OK) return aotc_raise(m->module, status, error);
  return PyLong_FromUnsignedLongLong(bytes);
}

static PyMethodDef methods[] = {
    {"_trim", trim, METH_NOARGS, NULL},
    {"_swap_weights", swap_weights, METH_VARARGS, NULL},
    {"_io", io, METH_VARARGS, NULL},
    {"_methods", method_names, METH_NOARGS, NULL},
    {"_info", info, METH_NOARGS, NULL},
    {"_metadata_json", metadata_json, METH_NOARGS, NULL},
    {"probe", probe, METH_NOARGS, "probe()\n--\n\nRaises where the model's device no longer can run it: the message says what it lacks."},
    {"workspace_size", (PyCFunction)(void (*)(void))workspace_size, METH_VARARGS | METH_KEYWORDS,
     "workspace_size(inputs=None, threads=1, method=None)\n--\n\nBytes that a context of so many threads needs for these "
     "inputs of a method; None: for the largest, of the first."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, create}, {Py_tp_dealloc, dealloc}, {Py_tp_methods, methods}, {0, NULL}};
PyType_Spec aotc_model_spec = {"aotc_runtime._native.Model", sizeof(aotc_python_model), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

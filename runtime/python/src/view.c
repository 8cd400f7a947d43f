/* Objects of other libraries as the ABI's tensors: the buffer protocol (NumPy, array, memoryview), DLPack (torch, JAX, CuPy),
 * __array_interface__ (NumPy arrays of element types that buffers have no format for: ml_dtypes). Nothing is copied but what is only read
 * and not dense row-major. */
#include <stdlib.h>

#include "dlpack.h"
#include "native.h"

static int wrong(const aotc_want* want, const char* what) {
  char text[512];
  const char* status = "";
  PyObject* name = PyUnicode_AsUTF8String(want->io->name);
  if (name)
    status = PyBytes_AsString(name);
  else
    PyErr_Clear();
  snprintf(text, sizeof text, "%s '%.200s': %s", want->kind, status, what);
  Py_XDECREF(name);
  aotc_raise(want->module, AOTC_STATUS_INVALID_ARGUMENT, text);
  return -1;
}

static int wrong_type(const aotc_want* want, PyObject* object) {
  PyErr_Format(PyExc_TypeError, "%s '%U': expected an array (buffer protocol or DLPack), not '%S'", want->kind, want->io->name,
               (PyObject*)Py_TYPE(object));
  return -1;
}

static int64_t elements(const int64_t* shape, int32_t rank) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; ++i) n *= shape[i];
  return n;
}

/* Strides in units of which an element has `element`. */
static int is_dense(const int64_t* shape, const int64_t* strides, int32_t rank, int64_t element) {
  if (!strides) return 1;
  int64_t next = element;
  for (int32_t i = rank - 1; i >= 0; --i) {
    if (shape[i] == 0) return 1;
    if (shape[i] != 1 && strides[i] != next) return 0;
    next *= shape[i];
  }
  return 1;
}

static char* gather(char* to, const char* from, const int64_t* shape, const int64_t* strides, int32_t rank, int64_t unit, size_t bytes) {
  if (rank == 0) {
    memcpy(to, from, bytes);
    return to + bytes;
  }
  for (int64_t i = 0; i < shape[0]; ++i) to = gather(to, from + i * strides[0] * unit, shape + 1, strides + 1, rank - 1, unit, bytes);
  return to;
}

/* The tensor of memory with strides of `unit` bytes each, element type and device; copies where it has to and may. */
static int describe(const aotc_want* want, void* data, const int64_t* shape, const int64_t* strides, int64_t unit, int32_t rank,
                    const aotc_dtype* dtype, int32_t device, aotc_view* view) {
  const uint64_t bytes = (uint64_t)elements(shape, rank) * dtype->bytes;
  if (!is_dense(shape, strides, rank, dtype->bytes / unit)) {
    if (want->writable) return wrong(want, "not C-contiguous; results are written in place");
    if (device != AOTC_DEVICE_HOST) return wrong(want, "not contiguous; make a contiguous copy on the device");
    char* copy = malloc(bytes ? bytes : 1);
    if (!copy) {
      PyErr_NoMemory();
      return -1;
    }
    gather(copy, data, shape, strides, rank, unit, dtype->bytes);
    view->own = data = copy;
  }
  view->tensor = aotc_host_tensor(data, shape, rank, dtype->dtype, bytes);
  view->tensor.device = device;
  return 0;
}

/* 1: opened; 0: the object has no buffer; -1: an exception is set. */
static int open_buffer(PyObject* object, const aotc_want* want, aotc_view* view) {
  if (PyObject_GetBuffer(object, &view->buffer, PyBUF_STRIDES | PyBUF_FORMAT | (want->writable ? PyBUF_WRITABLE : 0)) != 0) {
    view->buffer.obj = NULL;
    if (want->writable && PyErr_ExceptionMatches(PyExc_BufferError)) { /* is it read-only, or is there no format for its elements? */
      Py_buffer any;
      PyErr_Clear();
      if (PyObject_GetBuffer(object, &any, PyBUF_STRIDES | PyBUF_FORMAT) == 0) {
        PyBuffer_Release(&any);
        return wrong(want, "the array is read-only");
      }
    }
    PyErr_Clear();
    return 0;
  }
  const Py_buffer* b = &view->buffer;
  const aotc_dtype* dtype = aotc_dtype_of_format(b->format, b->itemsize, want->io->info.dtype);
  if (!dtype) {
    char text[200];
    const aotc_dtype* expected = aotc_dtype_of(want->io->info.dtype);
    snprintf(text, sizeof text, "the array's element type (format '%.40s' of %lld bytes) is none of aotc's; expected %s", b->format,
             (long long)b->itemsize, expected ? expected->name : "another");
    return wrong(want, text);
  }
  return describe(want, b->buf, (const int64_t*)b->shape, (const int64_t*)b->strides, 1, b->ndim, dtype, AOTC_DEVICE_HOST, view) == 0 ? 1
                                                                                                                                      : -1;
}

static PyObject* call_with(PyObject* function, const char* keyword, PyObject* value) { /* takes `value` */
  PyObject *result = NULL, *none = PyTuple_New(0), *keywords = value ? PyDict_New() : NULL;
  if (none && keywords && PyDict_SetItemString(keywords, keyword, value) == 0) result = PyObject_Call(function, none, keywords);
  Py_XDECREF(value);
  Py_XDECREF(keywords);
  Py_XDECREF(none);
  return result;
}

/* The object's capsule. On a GPU its producer makes the data ready for the stream of the run. */
static PyObject* capsule_of(PyObject* object, const aotc_want* want) {
  long type = DL_CPU;
  PyObject* function = PyObject_GetAttrString(object, "__dlpack__");
  PyObject* device = function ? PyObject_CallMethod(object, "__dlpack_device__", NULL) : NULL;
  PyObject* first = device ? PySequence_GetItem(device, 0) : NULL;
  PyObject* capsule = NULL;
  if (first) type = PyLong_AsLong(first);
  if (first && !(type == -1 && PyErr_Occurred())) {
    if (type == DL_CUDA || type == DL_CUDA_MANAGED) {
      const unsigned long long legacy_default = 1;
      capsule = call_with(function, "stream",
                          PyLong_FromUnsignedLongLong(want->stream ? (unsigned long long)(uintptr_t)want->stream : legacy_default));
    } else {
      capsule = PyObject_CallObject(function, NULL);
      if (!capsule && PyErr_ExceptionMatches(PyExc_BufferError)) { /* what is read-only is given to those who know of it */
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        capsule = call_with(function, "max_version", Py_BuildValue("(ii)", 1, 0));
        if (capsule) {
          Py_XDECREF(kind);
          Py_XDECREF(value);
          Py_XDECREF(trace);
        } else {
          PyErr_Clear();
          PyErr_Restore(kind, value, trace);
        }
      }
    }
  }
  Py_XDECREF(first);
  Py_XDECREF(device);
  Py_XDECREF(function);
  return capsule;
}

static int describe_dlpack(const dl_tensor* d, const aotc_want* want, aotc_view* view) {
  const int on_gpu = d->device.type == DL_CUDA || d->device.type == DL_CUDA_MANAGED;
  if (!on_gpu && d->device.type != DL_CPU && d->device.type != DL_CUDA_HOST) return wrong(want, "on a device that aotc does not know");
  const aotc_dtype* dtype = d->dtype.lanes == 1 ? aotc_dtype_of_dlpack(d->dtype.code, d->dtype.bits) : NULL;
  if (!dtype) {
    char text[120];
    snprintf(text, sizeof text, "its element type (DLPack: code %d, %d bits, %d lanes) is none of aotc's", d->dtype.code, d->dtype.bits,
             d->dtype.lanes);
    return wrong(want, text);
  }
  return describe(want, (char*)d->data + d->byte_offset, d->shape, d->strides, dtype->bytes, d->ndim, dtype,
                  on_gpu ? d->device.id : AOTC_DEVICE_HOST, view);
}

/* By the type's exchange table, where it has one: no call of Python. 1: opened; 0: not so (a GPU's tensor is waited for by its stream, and
 * a complex one may be a conjugate that is yet to be computed: __dlpack__ sees to both); -1: an exception is set. */
static int open_exchange(PyObject* object, const aotc_want* want, aotc_view* view) {
  PyObject* capsule = PyObject_GetAttrString((PyObject*)Py_TYPE(object), "__dlpack_c_exchange_api__");
  const dl_exchange* exchange = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
  Py_XDECREF(capsule); /* the table lives as long as its producer */
  PyErr_Clear();
  while (exchange && exchange->major != 1) exchange = exchange->before;
  dl_versioned* managed = NULL;
  if (!exchange) return 0;
  if (exchange->from_object(object, &managed) != 0) return -1;
  view->managed = managed;
  if (managed->major == 1 && managed->tensor.device.type == DL_CPU && managed->tensor.dtype.code != DL_COMPLEX) {
    if (want->writable && (managed->flags & DL_READ_ONLY)) return wrong(want, "the array is read-only");
    return describe_dlpack(&managed->tensor, want, view) == 0 ? 1 : -1;
  }
  view->managed = NULL;
  if (managed->deleter) managed->deleter(managed);
  return 0;
}

static int open_dlpack(PyObject* object, const aotc_want* want, aotc_view* view) {
  const dl_tensor* d = NULL;
  const int exchanged = open_exchange(object, want, view);
  if (exchanged != 0) return exchanged == 1 ? 0 : -1;
  PyObject* capsule = view->keep = capsule_of(object, want);
  if (!capsule) return -1;
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    d = &((const dl_managed*)PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
  } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dl_versioned* m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m->major != 1) return wrong(want, "its DLPack is of a later version than this package knows");
    if (want->writable && (m->flags & DL_READ_ONLY)) return wrong(want, "the array is read-only");
    d = &m->tensor;
  }
  return d ? describe_dlpack(d, want, view) : wrong(want, "__dlpack__ did not give a capsule of DLPack");
}

/* Reads a tuple of integers; their number, or -1 without an exception of its own. */
static Py_ssize_t integers(PyObject* tuple, int64_t* out, Py_ssize_t room) {
  const Py_ssize_t n = tuple && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (n < 0 || n > room) return -1;
  for (Py_ssize_t i = 0; i < n; ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred()) return -1;
  }
  return n;
}

static const aotc_dtype* dtype_attribute(PyObject* object) { /* object.dtype.name */
  PyObject* type = PyObject_GetAttrString(object, "dtype");
  PyObject* name = type ? PyObject_GetAttrString(type, "name") : NULL;
  PyObject* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8String(name) : NULL;
  const aotc_dtype* dtype = text ? aotc_dtype_named(PyBytes_AsString(text)) : NULL;
  Py_XDECREF(text);
  Py_XDECREF(name);
  Py_XDECREF(type);
  PyErr_Clear();
  return dtype;
}

static int open_interface_dict(PyObject* object, PyObject* dict, const aotc_want* want, aotc_view* view) {
  enum { kMaxRank = 64 };
  int64_t shape[kMaxRank], strides[kMaxRank];
  view->keep = object; /* the dict does not have to hold the memory */
  Py_INCREF(object);
  PyObject* data = PyDict_GetItemString(dict, "data");
  PyObject* steps = PyDict_GetItemString(dict, "strides");
  const aotc_dtype* dtype = dtype_attribute(object);
  const Py_ssize_t rank = integers(PyDict_GetItemString(dict, "shape"), shape, kMaxRank);
  const Py_ssize_t n_strides = steps && steps != Py_None ? integers(steps, strides, kMaxRank) : 0;
  void* address = data && PyTuple_Check(data) && PyTuple_Size(data) == 2 ? PyLong_AsVoidPtr(PyTuple_GetItem(data, 0)) : NULL;
  if (PyErr_Occurred()) return -1;
  if (!dtype) return wrong(want, "the array's element type is none of aotc's");
  if (rank < 0 || n_strides < 0 || (n_strides > 0 && n_strides != rank)) return wrong(want, "__array_interface__ is malformed");
  if (want->writable && PyObject_IsTrue(PyTuple_GetItem(data, 1))) return wrong(want, "the array is read-only");
  if (describe(want, address, shape, n_strides > 0 ? strides : NULL, 1, (int32_t)rank, dtype, AOTC_DEVICE_HOST, view) != 0) return -1;
  /* The shape has to outlive this function; a dense copy has its own. */
  int64_t* kept = realloc(view->own, (view->own ? view->tensor.byte_size : 0) + sizeof shape + sizeof(int64_t));
  if (!kept) {
    PyErr_NoMemory();
    return -1;
  }
  if (view->own) view->tensor.data = kept;
  char* behind = (char*)kept + (view->own ? (view->tensor.byte_size + 7) / 8 * 8 : 0);
  view->own = kept;
  memcpy(behind, shape, sizeof(int64_t) * (size_t)rank);
  view->tensor.shape = (const int64_t*)behind;
  return 0;
}

static int open_interface(PyObject* object, const aotc_want* want, aotc_view* view) {
  PyObject* dict = PyObject_GetAttrString(object, "__array_interface__");
  if (!dict) return -1;
  const int failed = PyDict_Check(dict) ? open_interface_dict(object, dict, want, view) : wrong(want, "__array_interface__ is no dict");
  Py_DECREF(dict);
  return failed;
}

int aotc_view_open(PyObject* object, const aotc_want* want, aotc_view* view) {
  view->buffer.obj = NULL;
  view->keep = NULL;
  view->managed = NULL;
  view->own = NULL;
  int opened = PyObject_CheckBuffer(object) ? open_buffer(object, want, view) : 0;
  if (opened == 0) {
    const int buffer = PyObject_CheckBuffer(object); /* NumPy's DLPack knows no more types than its buffers */
    if (!buffer && PyObject_HasAttrString(object, "__dlpack__"))
      opened = open_dlpack(object, want, view) == 0 ? 1 : -1;
    else if (PyObject_HasAttrString(object, "__array_interface__"))
      opened = open_interface(object, want, view) == 0 ? 1 : -1;
    else
      opened = wrong_type(want, object);
  }
  if (opened == 1) return 0;
  aotc_view_close(view);
  return -1;
}

void aotc_view_close(aotc_view* view) {
  if (view->buffer.obj) PyBuffer_Release(&view->buffer);
  Py_CLEAR(view->keep);
  if (view->managed && view->managed->deleter) view->managed->deleter(view->managed);
  view->managed = NULL;
  free(view->own);
  view->own = NULL;
}

static const char* const kKinds[] = {"input", "output"};

static int wrong_number(const aotc_python_model* model, int32_t n, int32_t kind, Py_ssize_t given) {
  char text[120];
  snprintf(text, sizeof text, "%lld %ss given; the model has %d", (long long)given, kKinds[kind], n);
  aotc_raise(model->module, AOTC_STATUS_INVALID_ARGUMENT, text);
  return -1;
}

/* The one of a dict that no name of the model is. */
static int unknown_name(PyObject* dict, const aotc_python_model* model, const aotc_ios* ios, int32_t kind) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value)) {
    int known = 0;
    for (int32_t i = 0; i < ios->n && !known; ++i) known = PyObject_RichCompareBool(key, ios->io[i].name, Py_EQ) == 1;
    if (!known) PyErr_Format(PyExc_KeyError, "there is no %s %R", kKinds[kind], key);
    if (!known) return -1;
  }
  return wrong_number(model, ios->n, kind, PyDict_Size(dict));
}

int aotc_views_open(PyObject* objects, const aotc_python_model* model, int32_t method, int32_t kind, void* stream, aotc_views* views) {
  const aotc_ios* ios = &model->methods[method].of[kind];
  const int32_t n = ios->n;
  const int is_dict = PyDict_Check(objects), is_tuple = PyTuple_Check(objects), is_list = PyList_Check(objects);
  views->n = 0;
  views->view = views->few;
  views->tensor = views->few_tensors;
  if (is_tuple || is_list) {
    const Py_ssize_t given = is_tuple ? PyTuple_Size(objects) : PyList_Size(objects);
    if (given != n) return wrong_number(model, n, kind, given);
  } else if (!is_dict && n != 1) {
    PyErr_Format(PyExc_TypeError, "expected a tuple, a list or a dict of the %d %ss, not '%S'", n, kKinds[kind],
                 (PyObject*)Py_TYPE(objects));
    return -1;
  }
  if (n > AOTC_FEW) {
    views->view = malloc(sizeof(aotc_view) * (size_t)n);
    views->tensor = malloc(sizeof(aotc_tensor) * (size_t)n);
    if (!views->view || !views->tensor) {
      aotc_views_close(views);
      PyErr_NoMemory();
      return -1;
    }
  }
  for (int32_t i = 0; i < n; ++i) {
    const aotc_io* io = &ios->io[i];
    const aotc_want want = {model->module, io, kKinds[kind], kind == AOTC_OUTPUT, stream};
    PyObject* object = objects;
    if (is_tuple)
      object = PyTuple_GetItem(objects, i);
    else if (is_list)
      object = PyList_GetItem(objects, i);
    else if (is_dict)
      object = PyDict_GetItemWithError(objects, io->name);
    if (!object && !PyErr_Occurred()) PyErr_Format(PyExc_KeyError, "the %s %R is missing", kKinds[kind], io->name);
    if (object) Py_INCREF(object); /* a list may change while foreign code makes a capsule */
    const int failed = !object || aotc_view_open(object, &want, &views->view[i]) != 0;
    Py_XDECREF(object); /* the view holds the memory */
    if (failed) {
      aotc_views_close(views);
      return -1;
    }
    views->tensor[i] = views->view[i].tensor;
    views->n = i + 1;
  }
  if (is_dict && PyDict_Size(objects) != n) {
    aotc_views_close(views);
    return unknown_name(objects, model, ios, kind);
  }
  return 0;
}

void aotc_views_close(aotc_views* views) {
  for (int32_t i = 0; i < views->n; ++i) aotc_view_close(&views->view[i]);
  views->n = 0;
  if (views->view != views->few) free(views->view);
  if (views->tensor != views->few_tensors) free(views->tensor);
  views->view = views->few;
  views->tensor = views->few_tensors;
}

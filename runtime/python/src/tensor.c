/* aotc_runtime.Tensor: memory of this package's own, exported by the buffer protocol and DLPack. */
#define _DEFAULT_SOURCE
#include <stdlib.h>

#include "dlpack.h"
#include "native.h"

typedef struct {
  PyObject_HEAD PyObject* whole; /* whose memory it is; NULL: its own */
  void* data;
  const aotc_dtype* dtype;
  int64_t* dims; /* shape, strides in bytes, strides in elements: rank each; one block */
  uint64_t bytes;
  int32_t rank;
} tensor;

static void dealloc(PyObject* self) {
  tensor* t = (tensor*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (t->whole)
    Py_DECREF(t->whole);
  else
    free(t->data);
  free(t->dims);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static tensor* bare(PyTypeObject* type, const aotc_dtype* dtype, const int64_t* shape, int32_t rank) {
  tensor* t = (tensor*)PyType_GenericAlloc(type, 0);
  if (!t) return NULL;
  t->dtype = dtype;
  t->rank = rank;
  t->dims = malloc(sizeof(int64_t) * 3 * (size_t)(rank ? rank : 1));
  if (!t->dims) {
    Py_DECREF(t);
    PyErr_NoMemory();
    return NULL;
  }
  if (rank) memcpy(t->dims, shape, sizeof(int64_t) * (size_t)rank);
  return t;
}

/* Dense strides. -1: too many bytes. */
static int dense(tensor* t) {
  uint64_t elems = 1;
  int empty = 0;
  for (int32_t i = t->rank - 1; i >= 0; --i) {
    t->dims[2 * t->rank + i] = (int64_t)elems;
    t->dims[t->rank + i] = (int64_t)(elems * t->dtype->bytes);
    if (t->dims[i] == 0)
      empty = 1;
    else if (__builtin_mul_overflow(elems, (uint64_t)t->dims[i], &elems) || elems > INT64_MAX / 16)
      return -1;
  }
  t->bytes = empty ? 0 : elems * t->dtype->bytes;
  return 0;
}

static PyObject* allocate(PyTypeObject* type, const aotc_dtype* dtype, const int64_t* shape, int32_t rank) {
  enum { kAlign = 64 };
  tensor* t = bare(type, dtype, shape, rank);
  if (!t) return NULL;
  if (dense(t) != 0 || posix_memalign(&t->data, kAlign, t->bytes ? t->bytes : kAlign) != 0) {
    t->data = NULL;
    Py_DECREF(t);
    return PyErr_NoMemory();
  }
  return (PyObject*)t;
}

static aotc_module_state* state_of(PyObject* module) { return PyModule_GetState(module); }

PyObject* aotc_tensor_new(PyObject* module, const aotc_dtype* dtype, const int64_t* shape, int32_t rank) {
  return allocate((PyTypeObject*)state_of(module)->tensor_type, dtype, shape, rank);
}
void* aotc_tensor_data(PyObject* self) { return ((tensor*)self)->data; }
uint64_t aotc_tensor_bytes(PyObject* self) { return ((tensor*)self)->bytes; }

PyObject* aotc_tensor_narrowed(PyObject* self, const int64_t* sizes) {
  tensor* of = (tensor*)self;
  const int32_t rank = of->rank;
  tensor* t = bare(Py_TYPE(self), of->dtype, sizes, rank);
  if (!t) return NULL;
  if (rank) memcpy(t->dims + rank, of->dims + rank, sizeof(int64_t) * 2 * (size_t)rank);
  t->bytes = t->dtype->bytes;
  for (int32_t i = 0; i < rank; ++i) t->bytes *= (uint64_t)sizes[i];
  t->data = of->data;
  t->whole = of->whole ? of->whole : self;
  Py_INCREF(t->whole);
  return (PyObject*)t;
}

PyObject* aotc_shape_tuple(const int64_t* shape, int32_t rank) {
  PyObject* tuple = PyTuple_New(rank);
  for (int32_t i = 0; tuple && i < rank; ++i) {
    PyObject* size = PyLong_FromLongLong(shape[i]);
    if (!size || PyTuple_SetItem(tuple, i, size) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

/* Tensor(shape, dtype) */
static PyObject* create(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  enum { kMaxRank = 64 };
  static char* names[] = {"shape", "dtype", NULL};
  PyObject* sizes;
  const char* name;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "Os:Tensor", names, &sizes, &name)) return NULL;
  const aotc_dtype* dtype = aotc_dtype_named(name);
  if (!dtype) return PyErr_Format(PyExc_ValueError, "Tensor: there is no element type '%s'", name);
  const Py_ssize_t rank = PySequence_Size(sizes);
  if (rank < 0) return NULL;
  if (rank > kMaxRank) return PyErr_Format(PyExc_ValueError, "Tensor: %zd dimensions; at most %d", rank, kMaxRank);
  int64_t shape[kMaxRank];
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject* size = PySequence_GetItem(sizes, i);
    if (!size) return NULL;
    shape[i] = PyLong_AsLongLong(size);
    Py_DECREF(size);
    if (shape[i] == -1 && PyErr_Occurred()) return NULL;
    if (shape[i] < 0) return PyErr_Format(PyExc_ValueError, "Tensor: dimension %zd is negative", i);
  }
  return allocate(type, dtype, shape, (int32_t)rank);
}

static int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  tensor* t = (tensor*)self;
  const int contiguous = t->whole == NULL;
  if (!contiguous && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
    PyErr_SetString(PyExc_BufferError, "Tensor: not contiguous");
    view->obj = NULL;
    return -1;
  }
  view->buf = t->data;
  view->obj = self;
  Py_INCREF(self);
  view->len = (Py_ssize_t)t->bytes;
  view->itemsize = (Py_ssize_t)t->dtype->bytes;
  view->readonly = 0;
  view->ndim = t->rank;
  view->format = flags & PyBUF_FORMAT ? (char*)t->dtype->format : NULL;
  view->shape = flags & PyBUF_ND ? (Py_ssize_t*)t->dims : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? (Py_ssize_t*)(t->dims + t->rank) : NULL;
  view->suboffsets = NULL;
  view->internal = NULL;
  return 0;
}

/* ---- DLPack ---- */
static void fill(dl_tensor* d, const tensor* t) {
  d->data = t->data;
  d->device.type = DL_CPU;
  d->device.id = 0;
  d->ndim = t->rank;
  d->dtype.code = t->dtype->dlpack_code;
  d->dtype.bits = t->dtype->dlpack_bits;
  d->dtype.lanes = 1;
  d->shape = t->dims;
  d->strides = t->dims + 2 * t->rank;
  d->byte_offset = 0;
}
static void drop_owner(void* owner) {
  const PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject*)owner);
  PyGILState_Release(gil);
}
static void delete_managed(dl_managed* m) {
  drop_owner(m->owner);
  free(m);
}
static void delete_versioned(dl_versioned* m) {
  drop_owner(m->owner);
  free(m);
}
static void drop_capsule(PyObject* capsule) { /* a consumer renames what it takes */
  if (PyCapsule_IsValid(capsule, "dltensor")) delete_managed(PyCapsule_GetPointer(capsule, "dltensor"));
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static PyObject* to_dlpack(PyObject* self, PyObject* args, PyObject* keywords) {
  static char* names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy)) return NULL;
  if (copy == Py_True) return PyErr_Format(PyExc_BufferError, "Tensor: no copies are made");
  long major = 0;
  if (version != Py_None) {
    PyObject* number = PySequence_GetItem(version, 0);
    if (!number) return NULL;
    major = PyLong_AsLong(number);
    Py_DECREF(number);
    if (major == -1 && PyErr_Occurred()) return NULL;
  }
  void* managed = malloc(major >= 1 ? sizeof(dl_versioned) : sizeof(dl_managed));
  if (!managed) return PyErr_NoMemory();
  if (major >= 1) {
    dl_versioned* m = managed;
    m->major = 1;
    m->minor = 1;
    m->owner = self;
    m->deleter = delete_versioned;
    m->flags = 0;
    fill(&m->tensor, (tensor*)self);
  } else {
    dl_managed* m = managed;
    m->owner = self;
    m->deleter = delete_managed;
    fill(&m->tensor, (tensor*)self);
  }
  PyObject* capsule = PyCapsule_New(managed, major >= 1 ? "dltensor_versioned" : "dltensor", drop_capsule);
  if (!capsule) {
    free(managed);
    return NULL;
  }
  Py_INCREF(self);
  return capsule;
}

static PyObject* dlpack_device(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return Py_BuildValue("(ii)", DL_CPU, 0);
}

static PyObject* get_shape(PyObject* self, void* unused) {
  (void)unused;
  return aotc_shape_tuple(((tensor*)self)->dims, ((tensor*)self)->rank);
}
static PyObject* get_dtype(PyObject* self, void* unused) {
  (void)unused;
  return PyUnicode_FromString(((tensor*)self)->dtype->name);
}
static PyObject* get_nbytes(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((tensor*)self)->bytes);
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))to_dlpack, METH_VARARGS | METH_KEYWORDS, "A capsule of DLPack; the memory is shared."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "(kDLCPU, 0)"},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef getters[] = {{"shape", get_shape, NULL, "Sizes of the dimensions.", NULL},
                                {"dtype", get_dtype, NULL, "Name of the element type.", NULL},
                                {"nbytes", get_nbytes, NULL, "Bytes of the elements.", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, create},
                              {Py_tp_dealloc, dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_bf_getbuffer, get_buffer},
                              {Py_tp_doc, "Tensor(shape, dtype): uninitialised host memory, 64-byte aligned."},
                              {0, NULL}};
PyType_Spec aotc_tensor_spec = {"aotc_runtime._native.Tensor", sizeof(tensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

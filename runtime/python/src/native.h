/* The Python extension aotc_runtime._native: an artifact's C ABI as Python objects. C11 over the limited API of Python 3.9, so one binary
 * serves every later CPython, and over the C library that artifacts need. No global state: what a module owns is in aotc_module_state,
 * which every object finds through the module that it holds. */
#ifndef AOTC_PYTHON_NATIVE_H_
#define AOTC_PYTHON_NATIVE_H_
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

#include "aotc/loader.h"

/* In the limited API since 3.11 and 3.10; layout and values are those of every CPython since 3.3 and 3.7. */
#if Py_LIMITED_API + 0 < 0x030b0000
typedef struct {
  void* buf;
  PyObject* obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char* format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void* internal;
} Py_buffer;
int PyObject_GetBuffer(PyObject* object, Py_buffer* view, int flags);
void PyBuffer_Release(Py_buffer* view);
int PyObject_CheckBuffer(PyObject* object);
#define PyBUF_WRITABLE 0x1
#define PyBUF_FORMAT 0x4
#define PyBUF_ND 0x8
#define PyBUF_STRIDES (0x10 | PyBUF_ND)
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2
#endif
#if Py_LIMITED_API + 0 < 0x030a0000
#define METH_FASTCALL 0x0080
#endif

enum { AOTC_PYTHON_STATUSES = 32 };
typedef struct aotc_module_state {
  PyObject* error;                           /* the base class, also of statuses of the future */
  PyObject* of_status[AOTC_PYTHON_STATUSES]; /* its subclass of each status; NULL: none */
  PyObject* tensor_type;
} aotc_module_state;

/* ---- element types and errors (module.c, dtypes.c) ---- */
typedef struct aotc_dtype {
  const char* name;   /* of aotc/dtype.h */
  const char* format; /* of a buffer that an aotc_runtime.Tensor exports */
  uint32_t dtype, bytes;
  uint8_t dlpack_code, dlpack_bits; /* of a whole element */
} aotc_dtype;
/* NULL: no such type. */
const aotc_dtype* aotc_dtype_of(uint32_t dtype);
const aotc_dtype* aotc_dtype_named(const char* name);
const aotc_dtype* aotc_dtype_of_dlpack(uint8_t code, uint8_t bits);
/* Of a buffer's format. Integers that carry the bits of a float without a format of its own (bfloat16, float8) are `expected`, where that
 * is such a type. */
const aotc_dtype* aotc_dtype_of_format(const char* format, Py_ssize_t itemsize, uint32_t expected);

/* Sets the exception of a status; returns NULL. */
PyObject* aotc_raise(PyObject* module, aotc_status status, const char* message);
/* The module that a new object of `type` belongs to: a new reference. */
PyObject* aotc_module(void);

/* ---- models (model.c) ---- */
typedef struct aotc_io {
  PyObject* name;
  aotc_io_info info;
} aotc_io;
typedef struct aotc_ios {
  aotc_io* io;
  int32_t n;
} aotc_ios;
typedef struct aotc_python_method {
  PyObject* name;
  aotc_ios of[2]; /* AOTC_INPUT, AOTC_OUTPUT */
} aotc_python_method;
typedef struct aotc_python_model {
  PyObject_HEAD PyObject* module;
  aotc_library library;
  aotc_model* model;
  aotc_python_method* methods;
  int32_t n_methods;
  aotc_ios states;
} aotc_python_model;
/* The number of the method of that name; NULL or None: the first. -1: an exception is set. */
int32_t aotc_method_of(const aotc_python_model* model, PyObject* name);
extern PyType_Spec aotc_model_spec, aotc_context_spec, aotc_tensor_spec;

/* ---- a call's tensors (view.c) ---- */
typedef struct aotc_view {
  aotc_tensor tensor;
  Py_buffer buffer;             /* obj NULL: none is held */
  PyObject* keep;               /* a capsule of DLPack or whose memory it is, or NULL */
  struct dl_versioned* managed; /* of DLPack's exchange, or NULL */
  void* own;                    /* a dense copy, or a shape: free() */
} aotc_view;
typedef struct aotc_want {
  PyObject* module;
  const aotc_io* io;
  const char* kind; /* "input", "output", "state" */
  int writable;     /* read in place, or written */
  void* stream;     /* GPU: of the run */
} aotc_want;
/* Opens an object that exports a buffer, DLPack or __array_interface__. What is only read and not dense row-major is copied. -1: an
 * exception is set, and nothing is held. */
int aotc_view_open(PyObject* object, const aotc_want* want, aotc_view* view);
void aotc_view_close(aotc_view* view);

enum { AOTC_FEW = 16 };
/* All of a call's inputs or outputs. */
typedef struct aotc_views {
  aotc_view few[AOTC_FEW];
  aotc_tensor few_tensors[AOTC_FEW];
  aotc_view* view;
  aotc_tensor* tensor;
  int32_t n;
} aotc_views;
/* `objects`: a tuple or list in the method's order, a dict by name, or, where there is one, the array itself. kind: AOTC_INPUT,
 * AOTC_OUTPUT. */
int aotc_views_open(PyObject* objects, const aotc_python_model* model, int32_t method, int32_t kind, void* stream, aotc_views* views);
void aotc_views_close(aotc_views* views);

/* ---- tensors of this package's own (tensor.c) ---- */
/* 64-byte aligned memory with a shape: elements are not set. */
PyObject* aotc_tensor_new(PyObject* module, const aotc_dtype* dtype, const int64_t* shape, int32_t rank);
void* aotc_tensor_data(PyObject* tensor);
uint64_t aotc_tensor_bytes(PyObject* tensor);
/* The first sizes[i] of each dimension, the memory shared: how an output looks whose sizes a run found. New reference. */
PyObject* aotc_tensor_narrowed(PyObject* tensor, const int64_t* sizes);

/* A tuple of integers. */
PyObject* aotc_shape_tuple(const int64_t* shape, int32_t rank);
/* Reads the arguments of a METH_FASTCALL | METH_KEYWORDS function into values[names]; unset ones stay. -1: an exception is set. */
int aotc_arguments(const char* function, const char* const* names, int required, PyObject* const* args, Py_ssize_t n, PyObject* keywords,
                   PyObject** values);
#endif

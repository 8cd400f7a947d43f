#include "native.h"

static aotc_module_state* state_of(PyObject* module) { return PyModule_GetState(module); }

static const char kModule[] = "aotc_runtime._native";

PyObject* aotc_module(void) { return PyImport_ImportModule(kModule); }

PyObject* aotc_raise(PyObject* module, aotc_status status, const char* message) {
  const aotc_module_state* state = state_of(module);
  PyObject* type = status >= 0 && status < AOTC_PYTHON_STATUSES ? state->of_status[status] : NULL;
  if (!type) type = state->error;
  PyObject* text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
  PyObject* error = text ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
  PyObject* number = error && type == state->error ? PyLong_FromLong(status) : NULL; /* subclasses have their own */
  if (error && (!number || PyObject_SetAttrString(error, "status", number) == 0)) PyErr_SetObject(type, error);
  Py_XDECREF(number);
  Py_XDECREF(error);
  Py_XDECREF(text);
  return NULL;
}

int aotc_arguments(const char* function, const char* const* names, int required, PyObject* const* args, Py_ssize_t n, PyObject* keywords,
                   PyObject** values) {
  int room = 0;
  while (names[room]) ++room;
  if (n > room) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments (%zd given)", function, room, n);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; ++i) values[i] = args[i];
  const Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t k = 0; k < named; ++k) {
    PyObject* key = PyTuple_GetItem(keywords, k);
    int i = 0;
    while (names[i] && PyUnicode_CompareWithASCIIString(key, names[i]) != 0) ++i;
    if (!names[i] || i < n) {
      PyErr_Format(PyExc_TypeError, names[i] ? "%s() got two values for %R" : "%s() has no argument %R", function, key);
      return -1;
    }
    values[i] = args[n + k];
  }
  for (int i = 0; i < required; ++i) {
    if (values[i]) continue;
    PyErr_Format(PyExc_TypeError, "%s() lacks the argument '%s'", function, names[i]);
    return -1;
  }
  return 0;
}

/* The exception of each status, and the built-in one that it is too. */
typedef struct {
  aotc_status status;
  const char *name, *text;
  PyObject* builtin;
} error_row;

static int add_errors(PyObject* module, aotc_module_state* state) {
  const error_row rows[] = {
      {AOTC_STATUS_INVALID_ARGUMENT, "InvalidArgument", "An argument is malformed: element type, rank, strides, device.", PyExc_ValueError},
      {AOTC_STATUS_SHAPE_MISMATCH, "ShapeMismatch", "A shape is outside what the model was built for.", PyExc_ValueError},
      {AOTC_STATUS_INCOMPATIBLE, "Incompatible", "This machine, or this package's ABI, cannot run the artifact.", NULL},
      {AOTC_STATUS_NOT_FOUND, "NotFound", "There is no such file, or no such state.", PyExc_LookupError},
      {AOTC_STATUS_OUT_OF_MEMORY, "OutOfMemory", "Memory or threads could not be had.", PyExc_MemoryError},
      {AOTC_STATUS_WRONG_STATE, "WrongState", "Not allowed in this state, as a context that another thread uses.", NULL},
      {AOTC_STATUS_DEVICE, "DeviceError", "The device's driver reported an error.", NULL},
      {AOTC_STATUS_INTERNAL, "Internal", "A bug in aotc.", NULL},
      {AOTC_STATUS_INDEX_OUT_OF_RANGE, "IndexOutOfRange", "An index in the input data is outside of a tensor; outputs are undefined.",
       PyExc_IndexError},
      {AOTC_STATUS_DAMAGED, "Damaged", "The artifact or its weights are cut off or damaged.", NULL},
      {AOTC_STATUS_DEVICE_LOST, "DeviceLost", "The device is lost to this process.", NULL},
      {AOTC_STATUS_ASSERTION_FAILED, "AssertionFailed", "A condition of the model (torch._check) does not hold for this data.",
       PyExc_AssertionError},
      {AOTC_STATUS_CANCELLED, "Cancelled", "The run was cancelled by its Cancel.", NULL},
      {AOTC_STATUS_DEADLINE_EXCEEDED, "DeadlineExceeded", "The run did not end within its timeout.", PyExc_TimeoutError},
      {AOTC_STATUS_IO, "FileError", "A descriptor could not be read or written.", PyExc_OSError},
  };
  state->error = PyErr_NewExceptionWithDoc(
      "aotc_runtime.Error", "What an artifact refuses or fails to do. `status` is the number of aotc.h.", PyExc_RuntimeError, NULL);
  if (!state->error || PyModule_AddObject(module, "Error", (Py_INCREF(state->error), state->error)) != 0) return -1;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const error_row* row = &rows[i];
    char name[64];
    snprintf(name, sizeof name, "aotc_runtime.%s", row->name);
    PyObject* bases = row->builtin ? PyTuple_Pack(2, state->error, row->builtin) : PyTuple_Pack(1, state->error);
    PyObject* dict = Py_BuildValue("{s:i}", "status", (int)row->status);
    PyObject* type = bases && dict ? PyErr_NewExceptionWithDoc(name, row->text, bases, dict) : NULL;
    Py_XDECREF(bases);
    Py_XDECREF(dict);
    if (!type) return -1;
    state->of_status[row->status] = type;
    Py_INCREF(type);
    if (PyModule_AddObject(module, row->name, type) != 0) return -1;
  }
  return 0;
}

static PyObject* add_type(PyObject* module, PyType_Spec* spec, const char* name) {
  PyObject* type = PyType_FromSpec(spec);
  if (!type) return NULL;
  Py_INCREF(type);
  return PyModule_AddObject(module, name, type) == 0 ? type : NULL;
}

static int exec(PyObject* module) {
  static const struct {
    const char* name;
    long value;
  } constants[] = {{"HOST", AOTC_DEVICE_HOST},
                   {"DEFAULT_DEVICE", AOTC_DEVICE_DEFAULT},
                   {"INPUT", AOTC_INPUT},
                   {"OUTPUT", AOTC_OUTPUT},
                   {"STATE", AOTC_STATE},
                   {"VERIFY_WEIGHTS", AOTC_MODEL_VERIFY_WEIGHTS},
                   {"LAZY_WEIGHTS", AOTC_MODEL_LAZY_WEIGHTS},
                   {"OWN_WEIGHTS", AOTC_MODEL_OWN_WEIGHTS},
                   {"SHARED_WEIGHTS", AOTC_MODEL_SHARED_WEIGHTS},
                   {"WEIGHTS_VERIFY", AOTC_WEIGHTS_VERIFY},
                   {"FLUSH_DENORMALS", AOTC_CONTEXT_FLUSH_DENORMALS},
                   {"PROFILE", AOTC_CONTEXT_PROFILE},
                   {"GRAPHS", AOTC_CONTEXT_GRAPHS},
                   {"NO_GRAPHS", AOTC_CONTEXT_NO_GRAPHS},
                   {"STEPWISE", AOTC_CONTEXT_STEPWISE},
                   {"FORKS", AOTC_CONTEXT_FORKS},
                   {"ABI_VERSION", AOTC_ABI_VERSION}};
  aotc_module_state* state = state_of(module);
  if (add_errors(module, state) != 0) return -1;
  for (size_t i = 0; i < sizeof constants / sizeof *constants; ++i)
    if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) != 0) return -1;
  PyObject* model = add_type(module, &aotc_model_spec, "Model");
  PyObject* context = model ? add_type(module, &aotc_context_spec, "Context") : NULL;
  state->tensor_type = context ? add_type(module, &aotc_tensor_spec, "Tensor") : NULL;
  Py_XDECREF(model);
  Py_XDECREF(context);
  return state->tensor_type ? 0 : -1;
}

static int traverse(PyObject* module, visitproc visit, void* arg) {
  const aotc_module_state* state = state_of(module);
  Py_VISIT(state->error);
  Py_VISIT(state->tensor_type);
  for (int i = 0; i < AOTC_PYTHON_STATUSES; ++i) Py_VISIT(state->of_status[i]);
  return 0;
}

static int clear(PyObject* module) {
  aotc_module_state* state = state_of(module);
  Py_CLEAR(state->error);
  Py_CLEAR(state->tensor_type);
  for (int i = 0; i < AOTC_PYTHON_STATUSES; ++i) Py_CLEAR(state->of_status[i]);
  return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, exec}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, kModule, NULL, sizeof(aotc_module_state), NULL, slots, traverse, clear, NULL};

__attribute__((visibility("default"))) PyObject* PyInit__native(void) { return PyModuleDef_Init(&definition); }

#pragma once
// C++17 wrapper of the C ABI: lifetimes and error messages. Header-only; works without exceptions. Every call returns a Status; if
// exceptions are enabled, status.check() throws std::runtime_error.
//
//   aotc::host::Model model;
//   aotc::host::Context context;
//   aotc::host::Model::load("model.so", &model).check();
//   aotc::host::ContextOptions options;
//   options.threads = 2;
//   model.context(&context, options).check();
//   context.run({aotc::host::tensor(x.data(), {8, 1024})}, {aotc::host::tensor(y.data(), {8, 10})}).check();
//
// An artifact with several methods (aotc build prefill=a.pt2 decode=b.pt2); calls without a method mean the first:
//
//   aotc::host::Method decode;
//   model.method("decode", &decode).check();
//   context.run(decode, {...}, {...}).check();
//
// An empty Model or Context (default-constructed, moved from, or after a failure) returns AOTC_STATUS_WRONG_STATE and empty lists. load
// reads methods, inputs, outputs and states; if that fails, load fails.
//
// Threads: any number may use a Model at once, one at a time a Context.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "aotc/loader.h"

#if defined(__cpp_exceptions)
#include <stdexcept>
#endif

namespace aotc::host {

struct [[nodiscard]] Status {
  aotc_status code = AOTC_STATUS_OK;
  std::string message;
  explicit operator bool() const { return code == AOTC_STATUS_OK; }
#if defined(__cpp_exceptions)
  void check() const {
    if (code != AOTC_STATUS_OK) throw std::runtime_error(message);
  }
#endif
};

// The element type of a C++ type. C++17 has no type for float16 and bfloat16: set dtype of the aotc_tensor.
template <class T>
struct DtypeOf;
template <>
struct DtypeOf<bool> : std::integral_constant<uint32_t, AOTC_DTYPE_BOOL> {};
template <>
struct DtypeOf<uint8_t> : std::integral_constant<uint32_t, AOTC_DTYPE_U8> {};
template <>
struct DtypeOf<int8_t> : std::integral_constant<uint32_t, AOTC_DTYPE_I8> {};
template <>
struct DtypeOf<int16_t> : std::integral_constant<uint32_t, AOTC_DTYPE_I16> {};
template <>
struct DtypeOf<int32_t> : std::integral_constant<uint32_t, AOTC_DTYPE_I32> {};
template <>
struct DtypeOf<int64_t> : std::integral_constant<uint32_t, AOTC_DTYPE_I64> {};
template <>
struct DtypeOf<float> : std::integral_constant<uint32_t, AOTC_DTYPE_F32> {};
template <>
struct DtypeOf<double> : std::integral_constant<uint32_t, AOTC_DTYPE_F64> {};

/// A dense tensor in host memory. Data and shape are borrowed: they must exist until the call that takes the tensor returns. For a tensor
/// on a GPU, set `device` of the result to the GPU's ordinal.
template <class T>
aotc_tensor tensor(T* data, const std::vector<int64_t>& shape) {
  uint64_t bytes = sizeof(T);
  for (int64_t d : shape) bytes *= static_cast<uint64_t>(d);
  using Element = std::remove_const_t<T>;
  return aotc_host_tensor(const_cast<Element*>(data), shape.data(), static_cast<int32_t>(shape.size()), DtypeOf<Element>::value, bytes);
}

/// A tensor that owns its shape and its strides, if it has any; the data are borrowed.
class Tensor {
 public:
  Tensor(const aotc_tensor& raw, std::vector<int64_t> shape, std::vector<int64_t> strides = {})
      : raw_(raw), shape_(std::move(shape)), strides_(std::move(strides)) {}
  /// The result borrows shape and strides: it is valid until this object changes or is destroyed.
  aotc_tensor view() const& {
    aotc_tensor t = raw_;
    t.shape = shape_.data();
    t.strides = strides_.empty() ? nullptr : strides_.data();
    t.rank = static_cast<int32_t>(shape_.size());
    return t;
  }
  aotc_tensor view() && = delete;

 private:
  aotc_tensor raw_;
  std::vector<int64_t> shape_, strides_;
};

/// tensor(data, {8, 1024}): the tensor keeps a temporary shape.
template <class T>
Tensor tensor(T* data, std::vector<int64_t>&& shape) {
  const aotc_tensor raw = tensor(data, static_cast<const std::vector<int64_t>&>(shape));
  return {raw, std::move(shape)};
}

/// An input with strides (in elements, >= 0, one per dimension) in `bytes` of memory from data on; a run makes a dense copy.
template <class T>
Tensor strided(T* data, std::vector<int64_t> shape, std::vector<int64_t> strides, uint64_t bytes) {
  aotc_tensor raw = tensor(data, static_cast<const std::vector<int64_t>&>(shape));
  raw.byte_size = bytes;
  return {raw, std::move(shape), std::move(strides)};
}

struct TensorInfo {
  std::string name;
  uint32_t dtype;
  std::vector<aotc_dim> dims;  ///< their symbol texts are valid as long as the model
};

struct ContextOptions {
  int32_t threads = 1;  ///< of a run, with the calling thread; -1: all CPUs that the caller may use. Ignored if pool is set
  const aotc_thread_pool* pool = nullptr;
  void* stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_size = 0;
  uint32_t flags = 0;
};

/// A part of a state: `length` elements from `offset` on along dimension `dim` (-1: the last).
inline aotc_state_range range(int32_t dim, int64_t offset, int64_t length) { return {dim, 0, offset, length}; }

/// Deadline, cancel flag and trace id of a run; the statuses are AOTC_STATUS_DEADLINE_EXCEEDED and AOTC_STATUS_CANCELLED.
struct RunOptions {
  std::chrono::steady_clock::time_point deadline{};  ///< the epoch: none
  const std::atomic<int32_t>* cancel = nullptr;      ///< set it to a value other than 0 to end the run. Borrowed for the call
  const char* traceparent = nullptr;                 ///< the W3C header, for tracers; empty or null: none. Borrowed for the call
};
static_assert(sizeof(std::atomic<int32_t>) == sizeof(int32_t) && std::atomic<int32_t>::is_always_lock_free, "read as the ABI reads it");

namespace detail {
struct Library {
  aotc_library lib{};
  ~Library() { aotc_library_close(&lib); }
};
struct MethodEntry {
  std::string name;
  std::vector<TensorInfo> inputs, outputs;
};
struct ModelHandle {
  std::shared_ptr<Library> library;
  aotc_model* model = nullptr;
  std::vector<MethodEntry> methods;  ///< by index
  std::vector<TensorInfo> states;
  ~ModelHandle() {
    if (model) library->lib.api->model_destroy(model);
  }
};
inline Status result(const aotc_api* api, aotc_status code) {
  return code == AOTC_STATUS_OK ? Status{} : Status{code, std::string(api->status_name(code)) + ": " + api->last_error()};
}
inline Status holds_nothing(const char* what, const char* from) {
  return {AOTC_STATUS_WRONG_STATE, std::string("the ") + what + " holds nothing: make it with " + from};
}
/// Which method, of which artifact.
struct MethodOf {
  const aotc_model* model = nullptr;
  int32_t index = 0;
};
/// Whether the artifact's table has methods. An older artifact has only method 0.
inline bool has_methods(const aotc_api& api) { return AOTC_HAS(&api, run_method); }
/// An older artifact's only method is called "forward".
inline Status method_names(const aotc_api& api, const aotc_model* model, std::vector<MethodEntry>* methods) {
  if (!has_methods(api)) return methods->push_back({"forward", {}, {}}), Status{};
  int32_t n = 0;
  if (Status s = result(&api, api.method_count(model, &n)); !s) return s;
  for (int32_t i = 0; i < n; ++i) {
    aotc_method_info info = AOTC_METHOD_INFO_INIT;
    if (Status s = result(&api, api.method_get(model, i, nullptr, &info)); !s) return s;
    methods->push_back({info.name, {}, {}});
  }
  return {};
}
inline Status find_method(const ModelHandle& handle, const std::string& name, MethodOf* out) {
  std::string known;
  for (size_t i = 0; i < handle.methods.size(); ++i) {
    if (handle.methods[i].name == name) return *out = {handle.model, static_cast<int32_t>(i)}, Status{};
    known += (known.empty() ? "" : ", ") + handle.methods[i].name;
  }
  return {AOTC_STATUS_NOT_FOUND, "the artifact has no method '" + name + "'; it has " + known};
}
inline Status io_count(const aotc_api& api, const MethodOf& m, int32_t kind, int32_t* n) {
  if (m.index == 0 || kind == AOTC_STATE) return result(&api, api.io_count(m.model, kind, n));
  aotc_method_info info = AOTC_METHOD_INFO_INIT;
  const Status s = result(&api, api.method_get(m.model, m.index, nullptr, &info));
  *n = kind == AOTC_INPUT ? info.n_inputs : info.n_outputs;
  return s;
}
inline Status io_get(const aotc_api& api, const MethodOf& m, int32_t kind, int32_t i, aotc_io_info* info) {
  return result(&api, m.index == 0 ? api.io_get(m.model, kind, i, info) : api.method_io_get(m.model, m.index, kind, i, info));
}
inline Status run(const aotc_api& api, aotc_context* c, const MethodOf& m, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out,
                  int32_t n_out) {
  return result(&api, m.index == 0 ? api.run(c, in, n_in, out, n_out) : api.run_method(c, m.index, in, n_in, out, n_out));
}
inline Status run_with(const aotc_api& api, aotc_context* c, const MethodOf& m, const std::vector<aotc_tensor>& in,
                       const std::vector<aotc_tensor>& out, const RunOptions& options) {
  const int32_t n_in = static_cast<int32_t>(in.size()), n_out = static_cast<int32_t>(out.size());
  aotc_run_options raw = AOTC_RUN_OPTIONS_INIT;
  if (options.traceparent && *options.traceparent && aotc_api_revision(&api) >= 6) raw.traceparent = options.traceparent;
  raw.deadline_ns = static_cast<uint64_t>(std::chrono::nanoseconds(options.deadline.time_since_epoch()).count());
  raw.cancel = reinterpret_cast<const int32_t*>(options.cancel);
  if (AOTC_HAS(&api, run_with)) return result(&api, api.run_with(c, m.index, in.data(), n_in, out.data(), n_out, &raw));
  if (raw.deadline_ns || raw.cancel) return {AOTC_STATUS_INCOMPATIBLE, "the artifact is older than deadlines and cancelling"};
  return run(api, c, m, in.data(), n_in, out.data(), n_out);
}
inline Status output_bounds(const aotc_api& api, aotc_context* c, const MethodOf& m, const aotc_tensor* in, int32_t n_in,
                            int64_t* const* shapes, int32_t n_out) {
  return result(
      &api, m.index == 0 ? api.output_bounds(c, in, n_in, shapes, n_out) : api.method_output_bounds(c, m.index, in, n_in, shapes, n_out));
}
inline Status infos(const aotc_api& api, const MethodOf& m, int32_t kind, std::vector<TensorInfo>* all) {
  int32_t n = 0;
  if (Status s = io_count(api, m, kind, &n); !s) return s;
  for (int32_t i = 0; i < n; ++i) {
    aotc_io_info info = AOTC_IO_INFO_INIT;
    if (Status s = io_get(api, m, kind, i, &info); !s) return s;
    all->push_back({info.name, info.dtype, {info.dims, info.dims + info.rank}});
  }
  return {};
}
/// Reads the model's methods and states from the artifact.
inline Status describe(ModelHandle* handle) {
  const aotc_api& api = *handle->library->lib.api;
  if (Status s = method_names(api, handle->model, &handle->methods); !s) return s;
  if (handle->methods.empty()) return {AOTC_STATUS_INCOMPATIBLE, "the artifact has no method"};
  for (size_t i = 0; i < handle->methods.size(); ++i) {
    const MethodOf method{handle->model, static_cast<int32_t>(i)};
    if (Status s = infos(api, method, AOTC_INPUT, &handle->methods[i].inputs); !s) return s;
    if (Status s = infos(api, method, AOTC_OUTPUT, &handle->methods[i].outputs); !s) return s;
  }
  return infos(api, {handle->model, 0}, AOTC_STATE, &handle->states);
}
inline std::vector<aotc_tensor> views(const std::vector<Tensor>& tensors) {
  std::vector<aotc_tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.view());
  return out;
}
}  // namespace detail

/// One of the programs of an artifact. Keeps its model alive. Copies are the same method. Calls refuse an empty Method.
class Method {
 public:
  Method() = default;
  std::vector<TensorInfo> inputs() const { return handle_ ? entry().inputs : std::vector<TensorInfo>(); }
  std::vector<TensorInfo> outputs() const { return handle_ ? entry().outputs : std::vector<TensorInfo>(); }
  int32_t index() const { return of_.index; }  ///< as aotc_api takes it
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  friend class Model;
  friend class Context;
  const detail::MethodEntry& entry() const { return handle_->methods[static_cast<size_t>(of_.index)]; }
  std::shared_ptr<detail::ModelHandle> handle_;
  detail::MethodOf of_;
};

/// Workspace, worker threads and states of a sequence of runs. One thread at a time may use it. Keeps its model and artifact alive.
class Context {
 public:
  Context() = default;
  Context(Context&& o) noexcept : model_(std::move(o.model_)), context_(std::exchange(o.context_, nullptr)), latest_(o.latest_) {}
  Context& operator=(Context&& o) noexcept {
    std::swap(model_, o.model_);
    std::swap(context_, o.context_);
    std::swap(latest_, o.latest_);
    return *this;
  }
  ~Context() {
    if (context_) api()->context_destroy(context_);
  }

  Status run(const std::vector<aotc_tensor>& in, const std::vector<aotc_tensor>& out) {
    return run(in.data(), static_cast<int32_t>(in.size()), out.data(), static_cast<int32_t>(out.size()));
  }
  Status run(const std::vector<Tensor>& in, const std::vector<Tensor>& out) { return run(detail::views(in), detail::views(out)); }
  Status run(const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out) {
    if (!context_) return nothing();
    latest_ = 0;
    return detail::result(api(), api()->run(context_, in, n_in, out, n_out));
  }
  /// Runs one method. A method of another model is refused.
  Status run(const Method& method, const std::vector<Tensor>& in, const std::vector<Tensor>& out) {
    return run(method, detail::views(in), detail::views(out));
  }
  Status run(const Method& method, const std::vector<aotc_tensor>& in, const std::vector<aotc_tensor>& out) {
    return run(method, in.data(), static_cast<int32_t>(in.size()), out.data(), static_cast<int32_t>(out.size()));
  }
  Status run(const Method& method, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out) {
    if (Status s = takes(method); !s) return s;
    latest_ = method.of_.index;
    return detail::run(*api(), context_, method.of_, in, n_in, out, n_out);
  }
  /// A run with a deadline, a cancel flag, a trace id (aotc_api.run_with).
  Status run(const std::vector<aotc_tensor>& in, const std::vector<aotc_tensor>& out, const RunOptions& options) {
    if (!context_) return nothing();
    latest_ = 0;
    return detail::run_with(*api(), context_, {model_->model, 0}, in, out, options);
  }
  Status run(const std::vector<Tensor>& in, const std::vector<Tensor>& out, const RunOptions& options) {
    return run(detail::views(in), detail::views(out), options);
  }
  Status run(const Method& method, const std::vector<aotc_tensor>& in, const std::vector<aotc_tensor>& out, const RunOptions& options) {
    if (Status s = takes(method); !s) return s;
    latest_ = method.of_.index;
    return detail::run_with(*api(), context_, method.of_, in, out, options);
  }
  Status run(const Method& method, const std::vector<Tensor>& in, const std::vector<Tensor>& out, const RunOptions& options) {
    return run(method, detail::views(in), detail::views(out), options);
  }
  Status output_bounds(const std::vector<Tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    return output_bounds(detail::views(in), shapes);
  }
  /// The shapes of the output buffers to allocate for inputs of these shapes. Data-dependent sizes are upper bounds.
  Status output_bounds(const std::vector<aotc_tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    if (!context_) return nothing();
    return shapes_of({model_->model, 0}, in, shapes);
  }
  Status output_bounds(const Method& method, const std::vector<Tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    return output_bounds(method, detail::views(in), shapes);
  }
  Status output_bounds(const Method& method, const std::vector<aotc_tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    if (Status s = takes(method); !s) return s;
    return shapes_of(method.of_, in, shapes);
  }
  /// Deprecated names of output_bounds, which aotc 0.2 will remove.
  AOTC_DEPRECATED_("output_bounds")
  Status output_shapes(const std::vector<Tensor>& in, std::vector<std::vector<int64_t>>* shapes) { return output_bounds(in, shapes); }
  AOTC_DEPRECATED_("output_bounds")
  Status output_shapes(const std::vector<aotc_tensor>& in, std::vector<std::vector<int64_t>>* shapes) { return output_bounds(in, shapes); }
  AOTC_DEPRECATED_("output_bounds")
  Status output_shapes(const Method& method, const std::vector<Tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    return output_bounds(method, in, shapes);
  }
  AOTC_DEPRECATED_("output_bounds")
  Status output_shapes(const Method& method, const std::vector<aotc_tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    return output_bounds(method, in, shapes);
  }
  /// The actual shape of output i of the latest run; it differs from output_bounds in data-dependent sizes.
  Status output_sizes(int32_t i, std::vector<int64_t>* sizes) {
    if (!context_) return nothing();
    if (!AOTC_HAS(api(), output_sizes)) return {AOTC_STATUS_INCOMPATIBLE, "the artifact is older than output_sizes"};
    aotc_io_info info = AOTC_IO_INFO_INIT;
    if (Status s = detail::io_get(*api(), {model_->model, latest_}, AOTC_OUTPUT, i, &info); !s) return s;
    sizes->resize(static_cast<size_t>(info.rank) + 1);  // not empty: data() of rank 0
    const Status s = detail::result(api(), api()->output_sizes(context_, i, sizes->data()));
    sizes->pop_back();
    return s;
  }
  Status reset_states() { return context_ ? detail::result(api(), api()->state_reset(context_, nullptr)) : nothing(); }
  Status reset_state(const char* name) { return context_ ? detail::result(api(), api()->state_reset(context_, name)) : nothing(); }
  Status read_state(const char* name, const aotc_tensor& to) {
    return context_ ? detail::result(api(), api()->state_read(context_, name, &to)) : nothing();
  }
  Status read_state(const char* name, const Tensor& to) { return read_state(name, to.view()); }
  Status write_state(const char* name, const aotc_tensor& from) {
    return context_ ? detail::result(api(), api()->state_write(context_, name, &from)) : nothing();
  }
  Status write_state(const char* name, const Tensor& from) { return write_state(name, from.view()); }

  /// Reads or writes the part of a state that ranges select (`range(dim, offset, length)`); the tensor has the part's shape.
  Status read_state(const char* name, const std::vector<aotc_state_range>& part, const aotc_tensor& to) {
    if (Status s = has_parts(); !s) return s;
    return detail::result(api(), api()->state_read_range(context_, name, part.data(), static_cast<int32_t>(part.size()), &to));
  }
  Status read_state(const char* name, const std::vector<aotc_state_range>& part, const Tensor& to) {
    return read_state(name, part, to.view());
  }
  Status write_state(const char* name, const std::vector<aotc_state_range>& part, const aotc_tensor& from) {
    if (Status s = has_parts(); !s) return s;
    return detail::result(api(), api()->state_write_range(context_, name, part.data(), static_cast<int32_t>(part.size()), &from));
  }
  Status write_state(const char* name, const std::vector<aotc_state_range>& part, const Tensor& from) {
    return write_state(name, part, from.view());
  }
  /// Writes all states, or a part of each, to a descriptor, and reads them back (aotc_api.states_save, states_load).
  Status save_states(int fd, const std::vector<aotc_state_range>& part = {}) {
    if (Status s = has_parts(); !s) return s;
    return detail::result(api(), api()->states_save(context_, fd, part.data(), static_cast<int32_t>(part.size())));
  }
  Status load_states(int fd, const std::vector<aotc_state_range>& to = {}) {
    if (Status s = has_parts(); !s) return s;
    return detail::result(api(), api()->states_load(context_, fd, to.data(), static_cast<int32_t>(to.size())));
  }
  /// Gives this context the states of another context of its model; both share pages (copy on write, aotc_api.states_fork).
  Status fork_states(Context& from, const std::vector<aotc_state_range>& part = {}) {
    if (Status s = has_parts(); !s) return s;
    if (!from.context_) return nothing();
    return detail::result(api(), api()->states_fork(context_, from.context_, part.data(), static_cast<int32_t>(part.size())));
  }
  /// Copies a part of the states of a context of the same model, or of this one, to a part of this context's states of the same shape.
  Status copy_states(const std::vector<aotc_state_range>& to, Context& from, const std::vector<aotc_state_range>& part) {
    if (Status s = has_parts(); !s) return s;
    if (!from.context_) return nothing();
    if (to.size() != part.size()) return {AOTC_STATUS_INVALID_ARGUMENT, "copy_states: the parts have different numbers of ranges"};
    return detail::result(api(), api()->states_copy(context_, to.data(), from.context_, part.data(), static_cast<int32_t>(part.size())));
  }
  /// Keeps the first `length` elements along `dim` of all states, or of that one, and restores the initial content of the others.
  Status truncate_states(int32_t dim, int64_t length, const char* name = nullptr) {
    if (Status s = has_parts(); !s) return s;
    return detail::result(api(), api()->states_truncate(context_, name, dim, length));
  }

  explicit operator bool() const { return context_ != nullptr; }
  const aotc_api* api() const { return model_ ? model_->library->lib.api : nullptr; }  ///< null if the context is empty
  aotc_context* get() const { return context_; }

 private:
  friend class Model;
  Status takes(const Method& method) const {
    if (!context_) return nothing();
    if (!method) return detail::holds_nothing("method", "Model::method");
    if (method.of_.model != model_->model) return {AOTC_STATUS_INVALID_ARGUMENT, "the method is another model's"};
    return {};
  }
  Status shapes_of(const detail::MethodOf& method, const std::vector<aotc_tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    shapes->clear();
    for (const TensorInfo& o : model_->methods[static_cast<size_t>(method.index)].outputs) shapes->emplace_back(o.dims.size());
    std::vector<int64_t*> to;
    for (std::vector<int64_t>& shape : *shapes) to.push_back(shape.data());
    return detail::output_bounds(*api(), context_, method, in.data(), static_cast<int32_t>(in.size()), to.data(),
                                 static_cast<int32_t>(to.size()));
  }
  static Status nothing() { return detail::holds_nothing("context", "Model::context"); }
  Status has_parts() const {
    if (!context_) return nothing();
    return AOTC_HAS(api(), states_truncate) ? Status{} : Status{AOTC_STATUS_INCOMPATIBLE, "the artifact is older than parts of states"};
  }
  std::shared_ptr<detail::ModelHandle> model_;
  aotc_context* context_ = nullptr;
  int32_t latest_ = 0;  ///< method of the latest run
};

/// A loaded artifact and its model; immutable, shared by any number of threads and contexts. Copies share one model.
class Model {
 public:
  /// Opens the artifact, probes the machine, makes the model. options NULL: defaults.
  static Status load(const std::string& path, Model* out, const aotc_model_options* options = nullptr) {
    return make(out, options, [&](int32_t device, aotc_library* lib) { return aotc_library_open(path.c_str(), device, lib); });
  }
  /// As load, from the bytes of an artifact's file, which are borrowed for the call (aotc_library_open_memory).
  static Status load_memory(const void* data, size_t bytes, Model* out, const aotc_model_options* options = nullptr) {
    return make(out, options, [&](int32_t device, aotc_library* lib) { return aotc_library_open_memory(data, bytes, device, lib); });
  }
  /// As load, from an open file; the caller may close the descriptor after the call (aotc_library_open_fd).
  static Status load_fd(int fd, Model* out, const aotc_model_options* options = nullptr) {
    return make(out, options, [&](int32_t device, aotc_library* lib) { return aotc_library_open_fd(fd, device, lib); });
  }
  /// The model of a static library that is linked into this program (aotc build --emit static). get_api: NAME_get_api of its header.
  static Status linked(aotc_get_api_fn get_api, Model* out, const aotc_model_options* options = nullptr) {
    return make(out, options, [&](int32_t device, aotc_library* lib) {
      *lib = {};
      lib->api = get_api(AOTC_ABI_VERSION);
      if (lib->api) return aotc_library_probe("the linked model", device, lib);
      snprintf(lib->error, sizeof lib->error, "the linked model is older than this program: build it again");
      return aotc_status{AOTC_STATUS_INCOMPATIBLE};
    });
  }

  Status context(Context* out, const ContextOptions& o = {}) const {
    if (!handle_) return detail::holds_nothing("model", "Model::load");
    aotc_context_options raw = AOTC_CONTEXT_OPTIONS_INIT;
    raw.stream = o.stream;
    raw.threads = o.pool;
    raw.workspace = o.workspace;
    raw.workspace_size = o.workspace_size;
    raw.num_threads = o.threads;
    raw.flags = o.flags;
    Context made;
    made.model_ = handle_;
    if (Status s = detail::result(api(), api()->context_create(handle_->model, &raw, &made.context_)); !s) return s;
    *out = std::move(made);
    return {};
  }

  /// The names of its methods; {"forward"} if the artifact is older than methods.
  std::vector<std::string> methods() const {
    std::vector<std::string> names;
    if (handle_)
      for (const detail::MethodEntry& m : handle_->methods) names.push_back(m.name);
    return names;
  }
  Status method(const std::string& name, Method* out) const {
    if (!handle_) return detail::holds_nothing("model", "Model::load");
    if (Status s = detail::find_method(*handle_, name, &out->of_); !s) return s;
    out->handle_ = handle_;
    return {};
  }
  /// Inputs and outputs of the first method; the states of all methods.
  std::vector<TensorInfo> inputs() const { return handle_ ? handle_->methods.front().inputs : std::vector<TensorInfo>(); }
  std::vector<TensorInfo> outputs() const { return handle_ ? handle_->methods.front().outputs : std::vector<TensorInfo>(); }
  std::vector<TensorInfo> states() const { return handle_ ? handle_->states : std::vector<TensorInfo>(); }
  /// Replaces the weights of the model, and so of all its copies and contexts, while it is in use (aotc_api.model_swap_weights). Runs that
  /// begin later use the new weights. *version (may be null) is set to the number of the set.
  Status swap_weights(const aotc_weights_source* source, uint64_t* version = nullptr) const {
    if (!handle_) return detail::holds_nothing("model", "Model::load");
    if (!AOTC_HAS(api(), model_swap_weights)) return {AOTC_STATUS_INCOMPATIBLE, "the artifact is older than model_swap_weights"};
    return detail::result(api(), api()->model_swap_weights(handle_->model, source, version));
  }
  /// Maps the weights file at `path`.
  Status swap_weights(const std::string& path, uint64_t* version = nullptr) const {
    aotc_weights_source source = AOTC_WEIGHTS_SOURCE_INIT;
    source.path = path.c_str();
    return swap_weights(&source, version);
  }
  /// Copies the content of a weights file from memory.
  Status swap_weights(const void* data, size_t bytes, uint64_t* version = nullptr) const {
    aotc_weights_source source = AOTC_WEIGHTS_SOURCE_INIT;
    source.data = data, source.bytes = bytes;
    return swap_weights(&source, version);
  }
  /// Reads the content of a weights file by `read`, an aotc_status(uint64_t offset, void* to, uint64_t bytes) that must not throw. It is
  /// called on this thread, before the call returns.
  template <class Read,
            class = decltype(static_cast<aotc_status>(std::declval<Read&>()(uint64_t{}, static_cast<void*>(nullptr), uint64_t{})))>
  Status swap_weights(Read&& read, uint64_t* version = nullptr) const {
    using Function = std::remove_reference_t<Read>;
    aotc_weights_source source = AOTC_WEIGHTS_SOURCE_INIT;
    source.user = const_cast<void*>(static_cast<const void*>(&read));
    source.read = [](void* user, uint64_t offset, void* to, uint64_t bytes) -> aotc_status {
      return (*static_cast<Function*>(user))(offset, to, bytes);
    };
    return swap_weights(&source, version);
  }
  /// Restores the artifact's own weights.
  Status own_weights(uint64_t* version = nullptr) const { return swap_weights(static_cast<const aotc_weights_source*>(nullptr), version); }
  /// Returns the memory of the weights, *bytes of it, to the system, for a model that will not run for some time (aotc_api.model_trim).
  Status trim(uint64_t* bytes = nullptr) const {
    if (!handle_) return detail::holds_nothing("model", "Model::load");
    if (!AOTC_HAS(api(), model_trim)) return {AOTC_STATUS_INCOMPATIBLE, "the artifact is older than model_trim"};
    return detail::result(api(), api()->model_trim(handle_->model, bytes));
  }
  std::string metadata() const { return handle_ ? api()->metadata_json() : ""; }
  explicit operator bool() const { return handle_ != nullptr; }
  const aotc_api* api() const { return handle_ ? handle_->library->lib.api : nullptr; }  ///< null if the model is empty
  aotc_model* get() const { return handle_ ? handle_->model : nullptr; }

 private:
  template <class Open>
  static Status make(Model* out, const aotc_model_options* options, const Open& open) {
    auto library = std::make_shared<detail::Library>();
    const aotc_status code = open(options ? options->device : AOTC_DEVICE_DEFAULT, &library->lib);
    if (code != AOTC_STATUS_OK) return Status{code, library->lib.error};
    auto handle = std::make_shared<detail::ModelHandle>();
    handle->library = std::move(library);
    if (Status s = detail::result(handle->library->lib.api, handle->library->lib.api->model_create(options, &handle->model)); !s) return s;
    if (Status s = detail::describe(handle.get()); !s) return s;
    out->handle_ = std::move(handle);
    return {};
  }
  std::shared_ptr<detail::ModelHandle> handle_;
};

}  // namespace aotc::host

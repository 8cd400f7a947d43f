#pragma once
// C++17 wrapper of the C ABI: lifetimes and error text. Header-only; needs no exceptions. Every call returns a Status; status.check()
// throws std::runtime_error where exceptions are on.
//
//   aotc::host::Model model;
//   aotc::host::Context context;
//   aotc::host::Model::load("model.so", &model).check();
//   aotc::host::ContextOptions options;
//   options.threads = 2;
//   model.context(&context, options).check();
//   context.run({aotc::host::tensor(x.data(), {8, 1024})}, {aotc::host::tensor(y.data(), {8, 10})}).check();
//
// A Model or Context that holds nothing (default-made, moved from, after a failure) gives AOTC_WRONG_STATE and empty lists.
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
  aotc_status code = AOTC_OK;
  std::string message;
  explicit operator bool() const { return code == AOTC_OK; }
#if defined(__cpp_exceptions)
  void check() const {
    if (code != AOTC_OK) throw std::runtime_error(message);
  }
#endif
};

// The element type of a C++ type. Halves have no C++17 type: give the dtype yourself.
template <class T>
struct DtypeOf;
template <>
struct DtypeOf<bool> {
  static constexpr uint32_t value = AOTC_DTYPE_BOOL;
};
template <>
struct DtypeOf<uint8_t> {
  static constexpr uint32_t value = AOTC_DTYPE_U8;
};
template <>
struct DtypeOf<int8_t> {
  static constexpr uint32_t value = AOTC_DTYPE_I8;
};
template <>
struct DtypeOf<int16_t> {
  static constexpr uint32_t value = AOTC_DTYPE_I16;
};
template <>
struct DtypeOf<int32_t> {
  static constexpr uint32_t value = AOTC_DTYPE_I32;
};
template <>
struct DtypeOf<int64_t> {
  static constexpr uint32_t value = AOTC_DTYPE_I64;
};
template <>
struct DtypeOf<float> {
  static constexpr uint32_t value = AOTC_DTYPE_F32;
};
template <>
struct DtypeOf<double> {
  static constexpr uint32_t value = AOTC_DTYPE_F64;
};

/// A dense host tensor of `shape` over data; both are borrowed until the call that takes the tensor returns.
template <class T>
aotc_tensor tensor(T* data, const std::vector<int64_t>& shape) {
  uint64_t bytes = sizeof(T);
  for (int64_t d : shape) bytes *= static_cast<uint64_t>(d);
  using Element = std::remove_const_t<T>;
  return aotc_host_tensor(const_cast<Element*>(data), shape.data(), static_cast<int32_t>(shape.size()), DtypeOf<Element>::value, bytes);
}

/// A tensor that owns its shape; the data are borrowed.
class Tensor {
 public:
  Tensor(const aotc_tensor& raw, std::vector<int64_t> shape) : raw_(raw), shape_(std::move(shape)) {}
  /// Borrows the shape: for as long as this object stands unchanged.
  aotc_tensor view() const& {
    aotc_tensor t = raw_;
    t.shape = shape_.data();
    t.rank = static_cast<int32_t>(shape_.size());
    return t;
  }
  aotc_tensor view() && = delete;

 private:
  aotc_tensor raw_;
  std::vector<int64_t> shape_;
};

/// tensor(data, {8, 1024}): a shape that nobody else holds is kept in the tensor.
template <class T>
Tensor tensor(T* data, std::vector<int64_t>&& shape) {
  const aotc_tensor raw = tensor(data, static_cast<const std::vector<int64_t>&>(shape));
  return {raw, std::move(shape)};
}

struct TensorInfo {
  std::string name;
  uint32_t dtype;
  std::vector<aotc_dim> dims;  ///< symbol texts live as long as the model
};

struct ContextOptions {
  int32_t threads = 1;  ///< of its own, the caller's included; -1: all that the calling thread may use
  const aotc_thread_pool* pool = nullptr;
  void* stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_size = 0;
  uint32_t flags = 0;
};

namespace detail {
struct Library {
  aotc_library lib{};
  ~Library() { aotc_library_close(&lib); }
};
struct ModelHandle {
  std::shared_ptr<Library> library;
  aotc_model* model = nullptr;
  ~ModelHandle() {
    if (model) library->lib.api->model_destroy(model);
  }
};
inline Status result(const aotc_api* api, aotc_status code) {
  return code == AOTC_OK ? Status{} : Status{code, std::string(api->status_name(code)) + ": " + api->last_error()};
}
inline Status holds_nothing(const char* what, const char* from) {
  return {AOTC_WRONG_STATE, std::string("the ") + what + " holds nothing: make it with " + from};
}
inline std::vector<aotc_tensor> views(const std::vector<Tensor>& tensors) {
  std::vector<aotc_tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.view());
  return out;
}
}  // namespace detail

/// Scratch, threads and states of one stream of runs; use it from one thread at a time. Keeps its model and artifact alive.
class Context {
 public:
  Context() = default;
  Context(Context&& o) noexcept : model_(std::move(o.model_)), context_(std::exchange(o.context_, nullptr)) {}
  Context& operator=(Context&& o) noexcept {
    std::swap(model_, o.model_);
    std::swap(context_, o.context_);
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
    return detail::result(api(), api()->run(context_, in, n_in, out, n_out));
  }
  Status output_shapes(const std::vector<Tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    return output_shapes(detail::views(in), shapes);
  }
  /// The shapes that the outputs will have for inputs of these shapes.
  Status output_shapes(const std::vector<aotc_tensor>& in, std::vector<std::vector<int64_t>>* shapes) {
    if (!context_) return nothing();
    int32_t n = 0;
    if (Status s = detail::result(api(), api()->io_count(model_->model, AOTC_OUTPUT, &n)); !s) return s;
    shapes->assign(static_cast<size_t>(n), {});
    std::vector<int64_t*> to;
    for (int32_t i = 0; i < n; ++i) {
      aotc_io_info info = AOTC_IO_INFO_INIT;
      if (Status s = detail::result(api(), api()->io_get(model_->model, AOTC_OUTPUT, i, &info)); !s) return s;
      (*shapes)[static_cast<size_t>(i)].resize(static_cast<size_t>(info.rank));
      to.push_back((*shapes)[static_cast<size_t>(i)].data());
    }
    return detail::result(api(), api()->output_shapes(context_, in.data(), static_cast<int32_t>(in.size()), to.data(), n));
  }
  /// The shape that output i has after the latest run, where that found sizes in its data; else that of output_shapes.
  Status output_sizes(int32_t i, std::vector<int64_t>* sizes) {
    if (!context_) return nothing();
    if (api()->struct_size <= offsetof(aotc_api, output_sizes)) return {AOTC_INCOMPATIBLE, "the artifact is older than output_sizes"};
    aotc_io_info info = AOTC_IO_INFO_INIT;
    if (Status s = detail::result(api(), api()->io_get(model_->model, AOTC_OUTPUT, i, &info)); !s) return s;
    sizes->resize(static_cast<size_t>(info.rank) + 1);  // not empty: data() of rank 0
    const Status s = detail::result(api(), api()->output_sizes(context_, i, sizes->data()));
    sizes->pop_back();
    return s;
  }
  Status reset_states() { return context_ ? detail::result(api(), api()->state_reset(context_, nullptr)) : nothing(); }
  Status read_state(const char* name, const aotc_tensor& to) {
    return context_ ? detail::result(api(), api()->state_read(context_, name, &to)) : nothing();
  }
  Status read_state(const char* name, const Tensor& to) { return read_state(name, to.view()); }
  Status write_state(const char* name, const aotc_tensor& from) {
    return context_ ? detail::result(api(), api()->state_write(context_, name, &from)) : nothing();
  }
  Status write_state(const char* name, const Tensor& from) { return write_state(name, from.view()); }

  explicit operator bool() const { return context_ != nullptr; }
  const aotc_api* api() const { return model_ ? model_->library->lib.api : nullptr; }  ///< null when it holds nothing
  aotc_context* get() const { return context_; }

 private:
  friend class Model;
  static Status nothing() { return detail::holds_nothing("context", "Model::context"); }
  std::shared_ptr<detail::ModelHandle> model_;
  aotc_context* context_ = nullptr;
};

/// A loaded artifact and its model; immutable, shared by any number of threads and contexts. Copies share one model.
class Model {
 public:
  /// Opens the artifact, probes the machine, makes the model. options NULL: defaults.
  static Status load(const std::string& path, Model* out, const aotc_model_options* options = nullptr) {
    auto library = std::make_shared<detail::Library>();
    const aotc_status code = aotc_library_open(path.c_str(), options ? options->device : AOTC_DEFAULT_DEVICE, &library->lib);
    if (code != AOTC_OK) return Status{code, library->lib.error};
    auto handle = std::make_shared<detail::ModelHandle>();
    handle->library = std::move(library);
    if (Status s = detail::result(handle->library->lib.api, handle->library->lib.api->model_create(options, &handle->model)); !s) return s;
    out->handle_ = std::move(handle);
    return {};
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

  std::vector<TensorInfo> inputs() const { return infos(AOTC_INPUT); }
  std::vector<TensorInfo> outputs() const { return infos(AOTC_OUTPUT); }
  std::vector<TensorInfo> states() const { return infos(AOTC_STATE); }
  std::string metadata() const { return handle_ ? api()->metadata_json() : ""; }
  explicit operator bool() const { return handle_ != nullptr; }
  const aotc_api* api() const { return handle_ ? handle_->library->lib.api : nullptr; }  ///< null when it holds nothing
  aotc_model* get() const { return handle_ ? handle_->model : nullptr; }

 private:
  std::vector<TensorInfo> infos(int32_t kind) const {
    std::vector<TensorInfo> all;
    if (!handle_) return all;
    int32_t n = 0;
    api()->io_count(handle_->model, kind, &n);
    for (int32_t i = 0; i < n; ++i) {
      aotc_io_info info = AOTC_IO_INFO_INIT;
      if (api()->io_get(handle_->model, kind, i, &info) != AOTC_OK) break;
      all.push_back({info.name, info.dtype, {info.dims, info.dims + info.rank}});
    }
    return all;
  }
  std::shared_ptr<detail::ModelHandle> handle_;
};

}  // namespace aotc::host

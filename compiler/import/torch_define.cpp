// Custom operators made known to LibTorch: by their schemas alone, by a library of the user's, or as calls of a process that has them.
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <cstring>
#include <list>
#include <sstream>

#include "import/custom_process.h"
#include "import/torch_functions.h"
#include "import/torch_values.h"

namespace aotc::import::torch_side {
namespace {

/// Definitions hold as long as the process.
std::list<c10::RegistrationHandleRAII>& kept() {
  static auto* handles = new std::list<c10::RegistrationHandleRAII>;  // never destroyed: LibTorch's tables may go first
  return *handles;
}

std::string text_of(const c10::FunctionSchema& s) {
  std::ostringstream out;
  out << s;
  return out.str();
}

/// The folder of the LibTorch that is loaded; empty where it cannot be told.
std::string torch_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&torch::jit::parseName), &info) || !info.dli_fname) return {};
  const std::string file = info.dli_fname;
  return file.substr(0, file.rfind('/') + 1);
}

HostTensor host_of(const at::Tensor& given) {
  const at::Tensor t = given.contiguous().resolve_conj().resolve_neg();
  const auto dtype = from_torch(t.scalar_type());
  TORCH_CHECK(dtype, "an element type that is not supported");
  HostTensor h{*dtype, t.sizes().vec(), {}};
  const auto* p = static_cast<const std::byte*>(t.const_data_ptr());
  h.bytes.assign(p, p + t.nbytes());
  return h;
}

/// Calls of an operator, made in another process.
class ProcessKernel final : public c10::OperatorKernel {
 public:
  explicit ProcessKernel(const std::shared_ptr<CustomProcess>& process) : process_(process) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = op.schema();
    nlohmann::json args = nlohmann::json::array();
    std::vector<HostTensor> tensors;
    for (const c10::IValue& v : torch::jit::last(*stack, schema.arguments().size())) {
      if (v.isTensor()) {
        args.push_back({{"tensor", tensors.size()}});
        tensors.push_back(host_of(v.toTensor()));
      } else {
        args.push_back({{"value", json_of(v)}});
      }
    }
    for (size_t i = 0; i < args.size(); ++i)  // a ScalarType is an integer to LibTorch, and none to Python
      if (type_of(schema.arguments()[i].real_type()).type == ParamType::dtype && args[i]["value"].is_number())
        if (const auto t = from_torch(static_cast<at::ScalarType>(args[i]["value"].get<int>()))) args[i] = {{"dtype", dtype_name(*t)}};
    const std::string overload = schema.overload_name().empty() ? "default" : schema.overload_name();
    const std::shared_ptr<CustomProcess> process = process_.lock();
    TORCH_CHECK(process, "its process has ended");
    const Result<std::vector<HostTensor>> results = process->call(schema.name() + "." + overload, args, tensors);
    TORCH_CHECK(results, results.why());
    torch::jit::drop(*stack, schema.arguments().size());
    for (const HostTensor& r : *results) {
      at::Tensor t = at::empty(r.dims, at::TensorOptions().dtype(to_torch(r.dtype)));
      if (!r.bytes.empty()) std::memcpy(t.mutable_data_ptr(), r.bytes.data(), r.bytes.size());
      torch::jit::push(*stack, std::move(t));
    }
  }

 private:
  static nlohmann::json json_of(const c10::IValue& v) {
    if (v.isNone()) return nullptr;
    if (v.isInt()) return v.toInt();
    if (v.isDouble()) return v.toDouble();
    if (v.isBool()) return v.toBool();
    if (v.isString()) return v.toStringRef();
    TORCH_CHECK(v.isList(), "an argument of a type that is not passed on");
    nlohmann::json list = nlohmann::json::array();
    for (const c10::IValue& x : v.toListRef()) list.push_back(json_of(x));
    return list;
  }
  std::weak_ptr<CustomProcess> process_;
};

}  // namespace

Fit define_operator(const std::string& schema) {
  try {
    c10::FunctionSchema parsed = torch::jit::parseSchema(schema, /*allow_typevars=*/false);
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    if (const auto known = dispatcher.findSchema(parsed.operator_name())) {
      if (text_of(known->schema()) == text_of(parsed)) return Fit::yes();
      return refuse("another operator of this name is known: {}", text_of(known->schema()));
    }
    kept().push_back(dispatcher.registerDef(std::move(parsed), "aotc"));
    return Fit::yes();
  } catch (const c10::Error& e) { return {false, e.what_without_backtrace()}; } catch (const std::exception& e) {
    return {false, e.what()};
  }
}

Fit call_operator(const std::string& schema, const std::shared_ptr<CustomProcess>& process) {
  if (const Fit defined = define_operator(schema); !defined) return defined;
  try {
    const c10::OperatorName name = torch::jit::parseSchema(schema, false).operator_name();
    kept().push_back(c10::Dispatcher::singleton().registerImpl(
        name, c10::DispatchKey::CPU, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<ProcessKernel>(process)), std::nullopt,
        nullptr, "aotc"));
    return Fit::yes();
  } catch (const c10::Error& e) { return {false, e.what_without_backtrace()}; }
}

Fit load_operators(const std::string& library) {
  // What a library of operators is linked with beside libtorch_cpu.so may be found nowhere else.
  if (const std::string folder = torch_folder(); !folder.empty()) dlopen((folder + "libtorch.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) return Fit::yes();
  const char* why = dlerror();
  return {false, why ? why : "dlopen failed"};
}

}  // namespace aotc::import::torch_side

#include "artifact.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace aotc::triton {
namespace {

using Json = nlohmann::json;

struct Type {
  uint32_t dtype;
  TRITONSERVER_DataType type;
  const char* name;
  uint64_t bytes;
  int64_t parts;  ///< of a complex number; 0: it is none
};
constexpr Type kTypes[] = {
    {AOTC_DTYPE_BOOL, TRITONSERVER_TYPE_BOOL, "BOOL", 1, 0},       {AOTC_DTYPE_U8, TRITONSERVER_TYPE_UINT8, "UINT8", 1, 0},
    {AOTC_DTYPE_I8, TRITONSERVER_TYPE_INT8, "INT8", 1, 0},         {AOTC_DTYPE_I16, TRITONSERVER_TYPE_INT16, "INT16", 2, 0},
    {AOTC_DTYPE_I32, TRITONSERVER_TYPE_INT32, "INT32", 4, 0},      {AOTC_DTYPE_I64, TRITONSERVER_TYPE_INT64, "INT64", 8, 0},
    {AOTC_DTYPE_F16, TRITONSERVER_TYPE_FP16, "FP16", 2, 0},        {AOTC_DTYPE_BF16, TRITONSERVER_TYPE_BF16, "BF16", 2, 0},
    {AOTC_DTYPE_F32, TRITONSERVER_TYPE_FP32, "FP32", 4, 0},        {AOTC_DTYPE_F64, TRITONSERVER_TYPE_FP64, "FP64", 8, 0},
    {AOTC_DTYPE_C64, TRITONSERVER_TYPE_FP32, "FP32", 8, 2},        {AOTC_DTYPE_C128, TRITONSERVER_TYPE_FP64, "FP64", 16, 2},
    {AOTC_DTYPE_F8E4M3FN, TRITONSERVER_TYPE_UINT8, "UINT8", 1, 0}, {AOTC_DTYPE_F8E5M2, TRITONSERVER_TYPE_UINT8, "UINT8", 1, 0},
};

Status read(const aotc_api& api, const aotc::host::Model& model, int32_t method, int32_t kind, int32_t i, Tensor* out) {
  aotc_io_info info = AOTC_IO_INFO_INIT;
  const aotc_status code = method == 0 ? api.io_get(model.get(), kind, i, &info) : api.method_io_get(model.get(), method, kind, i, &info);
  if (code != AOTC_STATUS_OK) return internal(api.last_error());
  out->name = info.name;
  out->dtype = info.dtype;
  for (const Type& t : kTypes) {
    if (t.dtype != info.dtype) continue;
    out->type = t.type;
    out->type_name = t.name;
    out->element_bytes = t.bytes;
    if (t.parts) out->tail.push_back(t.parts);
  }
  if (out->type == TRITONSERVER_TYPE_INVALID)
    return invalid("'" + out->name + "' has an element type that Triton does not know (" + std::to_string(info.dtype) + ")");
  for (int32_t d = 0; d < info.rank; ++d)
    out->dims.push_back({info.dims[d].value, info.dims[d].min, info.dims[d].max, info.dims[d].symbol ? info.dims[d].symbol : ""});
  out->found = info.found != nullptr;
  return {};
}

/// The part of the metadata that is about a method.
const Json* part_of(const Json& metadata, const std::string& name) {
  const auto methods = metadata.find("methods");
  if (methods == metadata.end() || !methods->is_array()) return &metadata;
  for (size_t i = 0; i < methods->size(); ++i)
    if ((*methods)[i].value("name", "") == name) return i == 0 ? &metadata : &(*methods)[i];
  return &metadata;
}

void log_line(void*, int32_t level, const char* message) {
  log(level >= 3 ? TRITONSERVER_LOG_ERROR : level == 2 ? TRITONSERVER_LOG_WARN : TRITONSERVER_LOG_VERBOSE, message);
}

}  // namespace

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t d : shape) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return "[" + text + "]";
}

std::vector<int64_t> Tensor::wire_dims(bool batched) const {
  std::vector<int64_t> all;
  for (size_t d = batched ? 1 : 0; d < dims.size(); ++d) all.push_back(dims[d].value > 0 ? dims[d].value : -1);
  all.insert(all.end(), tail.begin(), tail.end());
  if (lone(batched)) all.push_back(1);
  return all;
}

std::vector<int64_t> Tensor::wire_shape(const std::vector<int64_t>& shape, bool batched) const {
  std::vector<int64_t> all = shape;
  all.insert(all.end(), tail.begin(), tail.end());
  if (lone(batched)) all.push_back(1);
  return all;
}

std::string Tensor::describe() const {
  std::string text;
  for (const Dim& d : dims) {
    text += text.empty() ? "" : ", ";
    if (d.symbol.empty()) {
      text += std::to_string(d.value);
    } else {
      text += d.symbol + " " + std::to_string(d.min) + ".." + (d.max == INT64_MAX ? "" : std::to_string(d.max));
    }
  }
  for (int64_t d : tail) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return std::string(type_name) + " [" + text + "]";
}

const Tensor* Program::input(const std::string& wanted) const {
  for (const Tensor& t : inputs)
    if (t.name == wanted) return &t;
  return nullptr;
}
const Tensor* Program::output(const std::string& wanted) const {
  for (const Tensor& t : outputs)
    if (t.name == wanted) return &t;
  return nullptr;
}

Status Artifact::program(const std::string& wanted, Program* out) const {
  out->name = wanted.empty() ? model.methods().at(0) : wanted;
  if (Status s = of_aotc(model.method(out->name, &out->method), "parameter 'method'"); !s) return s;
  const aotc_api& api = *model.api();
  const int32_t index = out->method.index();
  const auto n_inputs = static_cast<int32_t>(out->method.inputs().size()), n_outputs = static_cast<int32_t>(out->method.outputs().size());
  out->inputs.resize(static_cast<size_t>(n_inputs));
  out->outputs.resize(static_cast<size_t>(n_outputs));
  for (int32_t i = 0; i < n_inputs; ++i)
    if (Status s = read(api, model, index, AOTC_INPUT, i, &out->inputs[static_cast<size_t>(i)]); !s) return s;
  for (int32_t i = 0; i < n_outputs; ++i)
    if (Status s = read(api, model, index, AOTC_OUTPUT, i, &out->outputs[static_cast<size_t>(i)]); !s) return s;
  const Json metadata = Json::parse(api.metadata_json(), nullptr, false);
  if (!metadata.is_object()) return internal("the artifact's metadata are malformed");
  const Json& part = *part_of(metadata, out->name);
  for (const Json& state : part.value("states", Json::array())) out->updates_states |= state.value("updated", true);
  for (const Json& symbol : part.value("symbols", Json::array()))
    if (symbol.contains("multiple_of")) out->multiples.push_back(symbol.value("name", ""));
  return {};
}

Status Artifacts::open(const std::string& path, int32_t device, const Settings& settings, std::shared_ptr<Artifact>* out) {
  struct stat file;
  if (stat(path.c_str(), &file) != 0) return unavailable(path + ": " + std::strerror(errno));
  const auto key_on = [&](int32_t where) {
    return Key{file.st_dev, file.st_ino, file.st_mtim.tv_sec, file.st_mtim.tv_nsec, where, settings.model_flags, settings.weights_budget};
  };
  const Key key = key_on(device);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto i = open_.begin(); i != open_.end();) i = i->second.expired() && i->first != key ? open_.erase(i) : std::next(i);
  if ((*out = open_[key].lock())) return {};
  auto made = std::make_shared<Artifact>();
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.device = device;
  options.flags = settings.model_flags;
  options.weights_budget = static_cast<uint64_t>(settings.weights_budget);
  options.log = log_line;
  if (Status s = of_aotc(aotc::host::Model::load(path, &made->model, &options), path); !s) return s;
  aotc_model_info info = AOTC_MODEL_INFO_INIT;
  made->device = made->model.api()->model_get_info(made->model.get(), &info) == AOTC_STATUS_OK ? info.device : device;
  // The default device is one that may be asked for by its number, too.
  std::weak_ptr<Artifact>& there = open_[key_on(made->device)];
  if ((*out = there.lock())) return open_[key] = *out, Status{};
  log(TRITONSERVER_LOG_INFO,
      path + ": loaded for " + (info.target ? info.target : "?") + ", " + std::to_string(info.weights_bytes) + " bytes of weights");
  there = open_[key] = made;
  *out = std::move(made);
  return {};
}

}  // namespace aotc::triton

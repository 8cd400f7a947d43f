#include "job.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

namespace aotc::triton {
namespace {

constexpr const char kTraceparent[] = "traceparent";

const char* type_text(TRITONSERVER_DataType type) {
  constexpr const char* names[] = {"no type", "BOOL",  "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
                                   "INT32",   "INT64", "FP16",  "FP32",   "FP64",   "BYTES",  "BF16"};
  const auto i = static_cast<size_t>(type);
  return i < std::size(names) ? names[i] : "an unknown type";
}

}  // namespace

uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Job::~Job() {
  const uint64_t now = now_ns();
  finish(now, now, now);
}

void Job::open(const Program& program, bool batched, bool streams, TRITONSERVER_MemoryType preferred, int64_t preferred_id) {
  status = of_triton(streams ? TRITONBACKEND_ResponseFactoryNew(&factory_, request_) : TRITONBACKEND_ResponseNew(&response_, request_));
  if (!status) return;
  if (cancelled()) {
    status = {false, TRITONSERVER_ERROR_CANCELLED, "the request was cancelled before it was run"};
    return;
  }
  status = read(program, batched, preferred, preferred_id);
}

Status Job::read(const Program& program, bool batched, TRITONSERVER_MemoryType preferred, int64_t preferred_id) {
  if (Status s = of_triton(TRITONBACKEND_RequestFlags(request_, &flags_)); !s) return s;
  wanted_.assign(program.outputs.size(), false);
  uint32_t n = 0;
  if (Status s = of_triton(TRITONBACKEND_RequestOutputCount(request_, &n)); !s) return s;
  for (uint32_t i = 0; i < n; ++i) {
    const char* name = "";
    if (Status s = of_triton(TRITONBACKEND_RequestOutputName(request_, i, &name)); !s) return s;
    const auto found = std::find_if(program.outputs.begin(), program.outputs.end(), [&](const Tensor& t) { return t.name == name; });
    if (found == program.outputs.end()) return invalid("there is no output '" + std::string(name) + "'");
    wanted_[static_cast<size_t>(found - program.outputs.begin())] = true;
  }
  inputs.resize(program.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (Status s = read_input(program.inputs[i], batched, preferred, preferred_id, &inputs[i]); !s) return s;
  if (!batched) return {};
  for (size_t i = 1; i < inputs.size(); ++i)
    if (inputs[i].shape[0] != inputs[0].shape[0])
      return invalid("input '" + program.inputs[i].name + "' has " + std::to_string(inputs[i].shape[0]) + " rows, and input '" +
                     program.inputs[0].name + "' has " + std::to_string(inputs[0].shape[0]));
  return {};
}

Status Job::read_input(const Tensor& t, bool batched, TRITONSERVER_MemoryType preferred, int64_t preferred_id, Input* out) const {
  TRITONBACKEND_Input* input = nullptr;
  if (Status s = of_triton(TRITONBACKEND_RequestInput(request_, t.name.c_str(), &input)); !s)
    return invalid("input '" + t.name + "' is missing: expected " + t.describe());
  const char* name = nullptr;
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  const int64_t* shape = nullptr;
  uint32_t rank = 0, pieces = 0;
  uint64_t bytes = 0;
  if (Status s = of_triton(TRITONBACKEND_InputProperties(input, &name, &type, &shape, &rank, &bytes, &pieces)); !s) return s;
  const std::vector<int64_t> came(shape, shape + rank);
  const auto wrong = [&](const std::string& what) {
    return invalid("input '" + t.name + "': expected " + t.describe() + ", got " + type_text(type) + " " + text_of(came) + what);
  };
  if (type != t.type) return wrong("");
  std::vector<int64_t> tail = t.tail;
  if (t.lone(batched) && rank == t.dims.size() + 1) tail.push_back(1);
  if (rank != t.dims.size() + tail.size() || !std::equal(tail.begin(), tail.end(), came.begin() + static_cast<long>(t.dims.size())))
    return wrong("");
  out->shape.assign(came.begin(), came.begin() + static_cast<long>(t.dims.size()));
  uint64_t expected = t.element_bytes;
  for (size_t d = 0; d < t.dims.size(); ++d) {
    const Dim& dim = t.dims[d];
    const bool fits = dim.value >= 0 ? came[d] == dim.value : came[d] >= dim.min && came[d] <= dim.max;
    if (!fits || came[d] < 0) return wrong("");
    if (__builtin_mul_overflow(expected, static_cast<uint64_t>(came[d]), &expected)) return wrong("");
  }
  if (bytes != expected) return wrong(" with " + std::to_string(bytes) + " bytes instead of " + std::to_string(expected));
  out->bytes = bytes;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < pieces; ++i) {
    Place p{nullptr, 0, preferred, preferred_id};
    const void* data = nullptr;
    if (Status s = of_triton(TRITONBACKEND_InputBuffer(input, i, &data, &p.bytes, &p.type, &p.id)); !s) return s;
    p.data = const_cast<void*>(data);
    sum += p.bytes;
    if (p.bytes) out->pieces.push_back(p);
  }
  if (sum != bytes) return wrong(", in pieces of " + std::to_string(sum) + " bytes instead of " + std::to_string(bytes));
  return {};
}

Status Job::respond() { return of_triton(TRITONBACKEND_ResponseNewFromFactory(&response_, factory_)); }

Status Job::output(const Tensor& t, const std::vector<int64_t>& shape, bool batched, Place* place) {
  const std::vector<int64_t> wire = t.wire_shape(shape, batched);
  place->bytes = t.element_bytes;
  for (int64_t d : shape) place->bytes *= static_cast<uint64_t>(d);
  TRITONBACKEND_Output* output = nullptr;
  if (Status s = of_triton(
          TRITONBACKEND_ResponseOutput(response_, &output, t.name.c_str(), t.type, wire.data(), static_cast<uint32_t>(wire.size())));
      !s)
    return s;
  return of_triton(TRITONBACKEND_OutputBuffer(output, &place->data, place->bytes, &place->type, &place->id));
}

Status Job::send(bool last) {
  TRITONBACKEND_Response* response = response_;
  response_ = nullptr;
  ended_ = ended_ || last;
  return of_triton(TRITONBACKEND_ResponseSend(response, last ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0, nullptr));
}

void Job::finish(uint64_t exec_start, uint64_t compute_start, uint64_t compute_end) {
  if (!request_) return;
  if (!ended_) {
    if (!response_)
      log_failure(factory_ ? TRITONBACKEND_ResponseNewFromFactory(&response_, factory_) : TRITONBACKEND_ResponseNew(&response_, request_),
                  "a response cannot be made");
    if (status && !response_) status = internal("no response could be made");
    if (response_) {
      TRITONSERVER_Error* error = to_triton(status);
      log_failure(TRITONBACKEND_ResponseSend(response_, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error), "a response cannot be sent");
      if (error) TRITONSERVER_ErrorDelete(error);
    }
  } else if (response_) {
    log_failure(TRITONBACKEND_ResponseDelete(response_), "a response cannot be deleted");
  }
  response_ = nullptr;
  if (factory_) log_failure(TRITONBACKEND_ResponseFactoryDelete(factory_), "a response factory cannot be deleted");
  factory_ = nullptr;
  log_failure(TRITONBACKEND_ModelInstanceReportStatistics(instance_, request_, status.ok, exec_start, compute_start, compute_end, now_ns()),
              "statistics cannot be reported");
  log_failure(TRITONBACKEND_RequestRelease(request_, TRITONSERVER_REQUEST_RELEASE_ALL), "a request cannot be given back");
  request_ = nullptr;
}

bool Job::cancelled() const {
  bool yes = false;
  return of_triton(TRITONBACKEND_RequestIsCancelled(request_, &yes)).ok && yes;
}

std::string Job::sequence() const {
  uint64_t id = 0;
  if (of_triton(TRITONBACKEND_RequestCorrelationId(request_, &id)).ok) return std::to_string(id);
  const char* text = "";
  (void)of_triton(TRITONBACKEND_RequestCorrelationIdString(request_, &text)).ok;
  return std::string("'") + text + "'";  // no number
}

uint64_t Job::timeout_us() const {
  uint64_t us = 0;
  (void)of_triton(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request_, &us)).ok;
  return us;
}

const void* Job::find_parameter(const char* name, TRITONSERVER_ParameterType wanted) const {
  uint32_t n = 0;
  if (!of_triton(TRITONBACKEND_RequestParameterCount(request_, &n))) return nullptr;
  for (uint32_t i = 0; i < n; ++i) {
    const char* key = nullptr;
    TRITONSERVER_ParameterType type = TRITONSERVER_PARAMETER_STRING;
    const void* value = nullptr;
    if (!of_triton(TRITONBACKEND_RequestParameter(request_, i, &key, &type, &value)) || std::strcmp(key, name) != 0) continue;
    if (type == wanted) return value;
  }
  return nullptr;
}

int64_t Job::parameter(const char* name, int64_t otherwise) const {
  const void* value = find_parameter(name, TRITONSERVER_PARAMETER_INT);
  return value ? *static_cast<const int64_t*>(value) : otherwise;
}

std::string Job::traceparent() const {
  TRITONSERVER_InferenceTrace* trace = nullptr;
  const char* context = nullptr;
  if (TRITONBACKEND_RequestTrace && TRITONSERVER_InferenceTraceContext && of_triton(TRITONBACKEND_RequestTrace(request_, &trace)) &&
      trace && of_triton(TRITONSERVER_InferenceTraceContext(trace, &context)) && context) {
    const nlohmann::json span = nlohmann::json::parse(context, nullptr, false);
    if (span.is_object() && span.contains(kTraceparent) && span[kTraceparent].is_string()) return span[kTraceparent];
  }
  const void* header = find_parameter(kTraceparent, TRITONSERVER_PARAMETER_STRING);
  return header ? static_cast<const char*>(header) : "";
}

}  // namespace aotc::triton

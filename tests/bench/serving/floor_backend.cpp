// The least that a backend of Triton does: one input goes back as the one output. What a request takes with it is the server's own time.
#include "triton_api.h"

#include <chrono>
#include <cstring>

namespace {

uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

TRITONSERVER_Error* answer(TRITONBACKEND_Request* request, TRITONBACKEND_Response* response) {
  TRITONBACKEND_Input* input = nullptr;
  TRITONBACKEND_Output* output = nullptr;
  const char* name = nullptr;
  TRITONSERVER_DataType dtype = TRITONSERVER_TYPE_INVALID;
  const int64_t* shape = nullptr;
  uint32_t rank = 0, buffers = 0;
  uint64_t bytes = 0;
  TRITONSERVER_MemoryType from = TRITONSERVER_MEMORY_CPU, to = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  const void* data = nullptr;
  void* room = nullptr;
  if (auto* e = TRITONBACKEND_RequestInput(request, "input", &input)) return e;
  if (auto* e = TRITONBACKEND_InputProperties(input, &name, &dtype, &shape, &rank, &bytes, &buffers)) return e;
  if (auto* e = TRITONBACKEND_InputBuffer(input, 0, &data, &bytes, &from, &id)) return e;
  if (auto* e = TRITONBACKEND_ResponseOutput(response, &output, "output", dtype, shape, rank)) return e;
  if (auto* e = TRITONBACKEND_OutputBuffer(output, &room, bytes, &to, &id)) return e;
  std::memcpy(room, data, bytes);
  return nullptr;
}

}  // namespace

extern "C" TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests,
                                                                  uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t start = now_ns();
    TRITONBACKEND_Response* response = nullptr;
    TRITONSERVER_Error* error = TRITONBACKEND_ResponseNew(&response, requests[i]);
    if (!error) {
      error = answer(requests[i], response);
      (void)TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
    }
    const uint64_t end = now_ns();
    (void)TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[i], !error, start, start, start, end);
    (void)TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL);
    if (error) TRITONSERVER_ErrorDelete(error);
  }
  const uint64_t end = now_ns();
  (void)TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, count, end, end, end, end);
  return nullptr;
}

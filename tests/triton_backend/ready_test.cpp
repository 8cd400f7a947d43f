// Whether instances are ready, as a server of 2026 asks for it (TRITONBACKEND_ModelInstanceReady): this program is the server that loads
// the library, over the stand-in for the CUDA driver (tests/abi/fake_cuda.c).
//
//     ready_test LIBRARY TOY_GPU
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "triton_api.h"

using Error = TRITONSERVER_Error*;

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string text;
};
struct TRITONSERVER_Message {
  std::string text;
};
struct TRITONBACKEND_Backend {
  void* state = nullptr;
};
struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend* backend;
  std::string config;
  void* state = nullptr;
};
struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model;
  TRITONSERVER_InstanceGroupKind kind;
  void* state = nullptr;
};
struct TRITONBACKEND_Input {
  std::string name;
  TRITONSERVER_DataType type;
  std::vector<int64_t> shape;
  const void* data;
  uint64_t bytes;
};
struct TRITONBACKEND_Output {
  std::vector<char> content;
};
struct TRITONBACKEND_Request {
  std::vector<TRITONBACKEND_Input> inputs;
  std::map<std::string, TRITONBACKEND_Output> outputs;
  bool answered = false, released = false;
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_UNKNOWN;
  std::string error;
};
struct TRITONBACKEND_Response {
  TRITONBACKEND_Request* request;
};

namespace {

Error refuse(const char* what) {
  return new TRITONSERVER_Error{TRITONSERVER_ERROR_UNSUPPORTED, std::string(what) + " is not for this test"};
}
template <class To, class From>
Error give(To* to, From from) {
  *to = from;
  return nullptr;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Error TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* message) { return new TRITONSERVER_Error{code, message}; }
void TRITONSERVER_ErrorDelete(Error e) { delete e; }
const char* TRITONSERVER_ErrorMessage(Error e) { return e->text.c_str(); }
bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel) { return true; }
Error TRITONSERVER_LogMessage(TRITONSERVER_LogLevel, const char*, int, const char* message) {
  std::printf("%s\n", message);
  return nullptr;
}
Error TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** m, const char* base, size_t bytes) {
  return give(m, new TRITONSERVER_Message{std::string(base, bytes)});
}
Error TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* m, const char** base, size_t* bytes) {
  *base = m->text.data();
  return give(bytes, m->text.size());
}
Error TRITONSERVER_MessageDelete(TRITONSERVER_Message* m) {
  delete m;
  return nullptr;
}

Error TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = 1;
  return give(minor, 19);
}
Error TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend*, TRITONBACKEND_MemoryManager** m) { return give(m, nullptr); }
Error TRITONBACKEND_BackendState(TRITONBACKEND_Backend* b, void** state) { return give(state, b->state); }
Error TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend* b, void* state) { return give(&b->state, state); }
Error TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(TRITONBACKEND_BackendAttribute*, TRITONSERVER_InstanceGroupKind, uint64_t,
                                                              const uint64_t*, uint64_t) {
  return nullptr;
}
Error TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(TRITONBACKEND_BackendAttribute*, bool) { return nullptr; }
Error TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager*, void** p, TRITONSERVER_MemoryType type, int64_t, uint64_t bytes) {
  if (type == TRITONSERVER_MEMORY_GPU) return refuse("the GPU's memory");
  return give(p, std::malloc(bytes));
}
Error TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager*, void* p, TRITONSERVER_MemoryType, int64_t) {
  std::free(p);
  return nullptr;
}

Error TRITONBACKEND_ModelName(TRITONBACKEND_Model*, const char** name) { return give(name, "toy"); }
Error TRITONBACKEND_ModelVersion(TRITONBACKEND_Model*, uint64_t* version) { return give(version, 1); }
Error TRITONBACKEND_ModelRepository(TRITONBACKEND_Model*, TRITONBACKEND_ArtifactType* type, const char** folder) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  return give(folder, "/");
}
Error TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* m, uint32_t, TRITONSERVER_Message** config) {
  return give(config, new TRITONSERVER_Message{m->config});
}
Error TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model*, bool* wanted) { return give(wanted, true); }
Error TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* m, uint32_t, TRITONSERVER_Message* config) {
  return give(&m->config, config->text);
}
Error TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* m, TRITONBACKEND_Backend** b) { return give(b, m->backend); }
Error TRITONBACKEND_ModelState(TRITONBACKEND_Model* m, void** state) { return give(state, m->state); }
Error TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* m, void* state) { return give(&m->state, state); }

Error TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance*, const char** name) { return give(name, "toy_0"); }
Error TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance* i, TRITONSERVER_InstanceGroupKind* kind) { return give(kind, i->kind); }
Error TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance*, int32_t* id) { return give(id, 0); }
Error TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* i, TRITONBACKEND_Model** m) { return give(m, i->model); }
Error TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* i, void** state) { return give(state, i->state); }
Error TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* i, void* state) { return give(&i->state, state); }
Error TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request*, bool, uint64_t, uint64_t, uint64_t,
                                                  uint64_t) {
  return nullptr;
}
Error TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance*, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) {
  return nullptr;
}

Error TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request*, uint64_t* id) { return give(id, 0); }
Error TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request*, const char** id) { return give(id, ""); }
Error TRITONBACKEND_RequestFlags(TRITONBACKEND_Request*, uint32_t* flags) { return give(flags, 0); }
Error TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request*, uint64_t* timeout) { return give(timeout, 0); }
Error TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request*, bool* cancelled) { return give(cancelled, false); }
Error TRITONBACKEND_RequestInput(TRITONBACKEND_Request* r, const char* name, TRITONBACKEND_Input** input) {
  for (TRITONBACKEND_Input& i : r->inputs)
    if (i.name == name) return give(input, &i);
  return refuse(name);
}
Error TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request*, uint32_t* n) { return give(n, 2); }
Error TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request*, uint32_t i, const char** name) { return give(name, i ? "zeros" : "y"); }
Error TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request*, uint32_t* n) { return give(n, 0); }
Error TRITONBACKEND_RequestParameter(TRITONBACKEND_Request*, uint32_t, const char**, TRITONSERVER_ParameterType*, const void**) {
  return refuse("a parameter");
}
Error TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* r, uint32_t) { return give(&r->released, true); }
Error TRITONBACKEND_InputProperties(TRITONBACKEND_Input* i, const char** name, TRITONSERVER_DataType* type, const int64_t** shape,
                                    uint32_t* rank, uint64_t* bytes, uint32_t* buffers) {
  *name = i->name.c_str(), *type = i->type, *shape = i->shape.data(), *rank = static_cast<uint32_t>(i->shape.size());
  *bytes = i->bytes;
  return give(buffers, 1);
}
Error TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* i, uint32_t, const void** data, uint64_t* bytes, TRITONSERVER_MemoryType* type,
                                int64_t* id) {
  *data = i->data, *bytes = i->bytes, *type = TRITONSERVER_MEMORY_CPU;
  return give(id, 0);
}
Error TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response, TRITONBACKEND_Request* r) {
  return give(response, new TRITONBACKEND_Response{r});
}
Error TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response* response) {
  delete response;
  return nullptr;
}
Error TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response, TRITONBACKEND_Output** output, const char* name, TRITONSERVER_DataType,
                                   const int64_t*, uint32_t) {
  return give(output, &response->request->outputs[name]);
}
Error TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** data, uint64_t bytes, TRITONSERVER_MemoryType* type, int64_t* id) {
  output->content.resize(bytes);
  *data = output->content.data(), *type = TRITONSERVER_MEMORY_CPU;
  return give(id, 0);
}
Error TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, uint32_t, Error error) {
  TRITONBACKEND_Request& r = *response->request;
  r.answered = true;
  if (error) r.code = error->code, r.error = error->text;
  delete response;
  return nullptr;
}
Error TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory**, TRITONBACKEND_Request*) { return refuse("a stream"); }
Error TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory*) { return refuse("a stream"); }
Error TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory*, uint32_t) { return refuse("a stream"); }
Error TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response**, TRITONBACKEND_ResponseFactory*) { return refuse("a stream"); }
}
#pragma GCC visibility pop

namespace {

constexpr int kIllegalAddress = 700;  // CUDA_ERROR_ILLEGAL_ADDRESS
int failed = 0;

void check(bool holds, const char* what) {
  if (!holds) std::printf("FAILED: %s\n", what), ++failed;
}

template <class F>
F* symbol(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (!found) std::printf("%s: %s\n", name, dlerror()), std::exit(1);
  return reinterpret_cast<F*>(found);
}

/// OK, or what an entry point says.
bool ok(Error error, const char* what) {
  if (error) std::printf("%s: %s\n", what, error->text.c_str());
  const bool holds = !error;
  delete error;
  return holds;
}

}  // namespace

#define ENTRY(name) symbol<decltype(name)>(library, #name)

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library || !driver) return std::printf("%s\n", dlerror()), 1;
  const auto ready = ENTRY(TRITONBACKEND_ModelInstanceReady);

  TRITONBACKEND_Backend backend;
  const auto config = [&](const char* more) {
    return std::string(R"({"name": "toy", "backend": "aotc", "parameters": {"artifact": {"string_value": ")") + argv[2] + "\"}" + more +
           "}}";
  };
  TRITONBACKEND_Model one{&backend, config("")}, other{&backend, config(R"(, "batching": {"string_value": "off"})")};
  TRITONBACKEND_ModelInstance first{&one, TRITONSERVER_INSTANCEGROUPKIND_GPU}, second{&one, TRITONSERVER_INSTANCEGROUPKIND_GPU},
      third{&other, TRITONSERVER_INSTANCEGROUPKIND_GPU};
  TRITONBACKEND_ModelInstance* const instances[] = {&first, &second, &third};
  if (!ok(ENTRY(TRITONBACKEND_Initialize)(&backend), "Initialize")) return 1;
  for (TRITONBACKEND_Model* m : {&one, &other})
    if (!ok(ENTRY(TRITONBACKEND_ModelInitialize)(m), "ModelInitialize")) return 1;
  for (TRITONBACKEND_ModelInstance* i : instances)
    if (!ok(ENTRY(TRITONBACKEND_ModelInstanceInitialize)(i), "ModelInstanceInitialize")) return 1;

  const std::vector<float> x(24, 2.0f);
  const std::vector<int64_t> idx{0, 1, 2};
  const auto served = [&](TRITONBACKEND_ModelInstance& by) {
    auto r = std::make_unique<TRITONBACKEND_Request>();
    r->inputs = {{"x", TRITONSERVER_TYPE_FP32, {3, 8}, x.data(), x.size() * 4}, {"idx", TRITONSERVER_TYPE_INT64, {3}, idx.data(), 24}};
    TRITONBACKEND_Request* all[] = {r.get()};
    check(ok(ENTRY(TRITONBACKEND_ModelInstanceExecute)(&by, all, 1), "ModelInstanceExecute"), "a request is taken");
    check(r->answered && r->released, "a request is answered and given back");
    return r;
  };
  const auto all_ready = [&](bool expected, const char* when) {
    for (TRITONBACKEND_ModelInstance* i : instances) {
      const Error error = ready(i);
      check((error == nullptr) == expected, when);
      if (error)
        check(error->code == TRITONSERVER_ERROR_UNAVAILABLE && error->text.find("lost") != std::string::npos, "what is not ready says why");
      delete error;
    }
  };
  all_ready(true, "ready before the first request");
  for (TRITONBACKEND_ModelInstance* i : instances) {
    const auto r = served(*i);
    float y[24] = {};
    const std::vector<char>& content = r->outputs["y"].content;
    check(r->error.empty() && content.size() == sizeof y, "a request is served");
    if (content.size() == sizeof y) std::memcpy(y, content.data(), sizeof y);
    for (size_t k = 0; k < 24; ++k) check(y[k] == 2 * static_cast<float>(k / 8 + 1), "y is right");
  }
  all_ready(true, "ready after requests");

  // A failure of one run takes nothing from the next ones.
  using Fail = void(int);
  const auto fail_launch = symbol<Fail>(driver, "fake_fail_next_launch");
  symbol<void(int, int)>(driver, "fake_fail_call")(0, 2);  // out of memory
  const auto refused = served(first);
  check(!refused->error.empty(), "a call of the driver that fails is answered");
  all_ready(true, "ready after a failure that the device survives");
  check(served(first)->error.empty(), "served after it");

  fail_launch(kIllegalAddress);
  const auto lost = served(first);
  check(!lost->error.empty() && lost->code == TRITONSERVER_ERROR_UNAVAILABLE, "the request that met it is answered");
  std::printf("%s\n", lost->error.c_str());
  all_ready(false, "no instance on a GPU that is lost is ready, whichever met it");
  for (TRITONBACKEND_ModelInstance* i : instances) check(served(*i)->code == TRITONSERVER_ERROR_UNAVAILABLE, "requests are told so");
  symbol<void()>(driver, "fake_revive")();
  all_ready(false, "and stays so in this process");

  for (TRITONBACKEND_ModelInstance* i : instances)
    check(ok(ENTRY(TRITONBACKEND_ModelInstanceFinalize)(i), "ModelInstanceFinalize"), "finalised");
  for (TRITONBACKEND_Model* m : {&one, &other}) check(ok(ENTRY(TRITONBACKEND_ModelFinalize)(m), "ModelFinalize"), "finalised");
  check(ok(ENTRY(TRITONBACKEND_Finalize)(&backend), "Finalize"), "finalised");
  std::printf(failed ? "%d checks failed\n" : "ok\n", failed);
  return failed ? 1 : 0;
}

// What the server calls.
#include "instance.h"

using namespace aotc::triton;

namespace {

using Json = nlohmann::json;

struct BackendState {
  Artifacts artifacts;
  Watch watch;
  TRITONBACKEND_MemoryManager* manager = nullptr;
};

constexpr uint32_t kMajor = 1, kMinor = 10;  // of the backend interface: request parameters are the newest that is called

template <class T, class Of>
Status state_of(TRITONSERVER_Error* (*get)(Of*, void**), Of* of, T** out) {
  void* state = nullptr;
  if (Status s = of_triton(get(of, &state)); !s) return s;
  *out = static_cast<T*>(state);
  return *out ? Status{} : internal("the server gives no state back");
}

Status config_of(TRITONBACKEND_Model* model, Json* out) {
  TRITONSERVER_Message* message = nullptr;
  if (Status s = of_triton(TRITONBACKEND_ModelConfig(model, 1, &message)); !s) return s;
  const char* base = nullptr;
  size_t bytes = 0;
  const Status s = of_triton(TRITONSERVER_MessageSerializeToJson(message, &base, &bytes));
  if (s) *out = Json::parse(base, base + bytes, nullptr, false);
  log_failure(TRITONSERVER_MessageDelete(message), "a message cannot be deleted");
  if (!s) return s;
  return out->is_object() ? Status{} : internal("the server's config is no JSON");
}

Status set_config(TRITONBACKEND_Model* model, const Json& config) {
  const std::string text = config.dump();
  TRITONSERVER_Message* message = nullptr;
  if (Status s = of_triton(TRITONSERVER_MessageNewFromSerializedJson(&message, text.data(), text.size())); !s) return s;
  const Status s = of_triton(TRITONBACKEND_ModelSetConfig(model, 1, message));
  log_failure(TRITONSERVER_MessageDelete(message), "a message cannot be deleted");
  return s;
}

/// Opens the artifact where its signature is had for the least: on the CPU, if it has code for one.
Status open_for_config(ServedModel& model) {
  const Settings& settings = model.settings;
  if (settings.device_given) return model.artifacts->open(model.path, settings.device, settings, &model.artifact);
  const Status host = model.artifacts->open(model.path, AOTC_DEVICE_HOST, settings, &model.artifact);
  // An artifact without code for CPUs says that a CPU is no device for it.
  if (host || (host.code != TRITONSERVER_ERROR_UNSUPPORTED && host.code != TRITONSERVER_ERROR_INVALID_ARG)) return host;
  const Status other = model.artifacts->open(model.path, AOTC_DEVICE_DEFAULT, settings, &model.artifact);
  return other || other.code != TRITONSERVER_ERROR_UNSUPPORTED ? other : host;
}

Status initialize(TRITONBACKEND_Model* handle) {
  auto model = std::make_unique<ServedModel>();
  TRITONBACKEND_Backend* backend = nullptr;
  BackendState* state = nullptr;
  if (Status s = of_triton(TRITONBACKEND_ModelBackend(handle, &backend)); !s) return s;
  if (Status s = state_of(TRITONBACKEND_BackendState, backend, &state); !s) return s;
  const char *name = "", *folder = "";
  uint64_t version = 0;
  TRITONBACKEND_ArtifactType type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  if (Status s = of_triton(TRITONBACKEND_ModelName(handle, &name)); !s) return s;
  if (Status s = of_triton(TRITONBACKEND_ModelVersion(handle, &version)); !s) return s;
  if (Status s = of_triton(TRITONBACKEND_ModelRepository(handle, &type, &folder)); !s) return s;
  if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM) return {false, TRITONSERVER_ERROR_UNSUPPORTED, "the model repository is no file system"};
  Json config;
  if (Status s = config_of(handle, &config); !s) return s;
  model->name = name;
  model->artifacts = &state->artifacts;
  model->watch = &state->watch;
  model->manager = state->manager;
  if (Status s = read_settings(config, &model->settings); !s) return s;
  std::string file = config.value("default_model_filename", "");
  if (file.empty()) file = "model.so";
  const std::string& named = model->settings.artifact;
  model->path = named.empty()     ? std::string(folder) + "/" + std::to_string(version) + "/" + file
                : named[0] == '/' ? named
                                  : std::string(folder) + "/" + named;
  if (Status s = open_for_config(*model); !s) return s;
  bool wanted = false;
  if (Status s = of_triton(TRITONBACKEND_ModelAutoCompleteConfig(handle, &wanted)); !s) return s;
  if (wanted) {
    if (Status s = complete(*model->artifact, model->settings, &config); !s) return s;
    if (Status s = set_config(handle, config); !s) return s;
    if (Status s = config_of(handle, &config); !s) return s;
  }
  if (Status s = read_service(*model->artifact, model->settings, config, &model->service); !s) return s;
  if (Status s = of_triton(TRITONBACKEND_ModelSetState(handle, model.get())); !s) return s;
  model.release();
  return {};
}

}  // namespace

extern "C" {

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  return guarded([&]() -> Status {
    uint32_t major = 0, minor = 0;
    if (Status s = of_triton(TRITONBACKEND_ApiVersion(&major, &minor)); !s) return s;
    if (major != kMajor || minor < kMinor)
      return {false, TRITONSERVER_ERROR_UNSUPPORTED,
              "the server's backend interface is " + std::to_string(major) + "." + std::to_string(minor) + ", expected " +
                  std::to_string(kMajor) + "." + std::to_string(kMinor) + " or later of " + std::to_string(kMajor)};
    auto state = std::make_unique<BackendState>();
    if (Status s = of_triton(TRITONBACKEND_BackendMemoryManager(backend, &state->manager)); !s) return s;
    if (Status s = of_triton(TRITONBACKEND_BackendSetState(backend, state.get())); !s) return s;
    state.release();
    return {};
  });
}

TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  return guarded([&]() -> Status {
    BackendState* state = nullptr;
    if (Status s = state_of(TRITONBACKEND_BackendState, backend, &state); !s) return s;
    delete state;
    return {};
  });
}

TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend*, TRITONBACKEND_BackendAttribute* attribute) {
  return guarded([&]() -> Status {
    for (const TRITONSERVER_InstanceGroupKind kind : {TRITONSERVER_INSTANCEGROUPKIND_GPU, TRITONSERVER_INSTANCEGROUPKIND_CPU})
      if (Status s = of_triton(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attribute, kind, 1, nullptr, 0)); !s) return s;
    return of_triton(TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attribute, true));
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return guarded([&] { return initialize(model); });
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  return guarded([&]() -> Status {
    ServedModel* state = nullptr;
    if (Status s = state_of(TRITONBACKEND_ModelState, model, &state); !s) return s;
    delete state;
    return {};
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* handle) {
  return guarded([&]() -> Status {
    TRITONBACKEND_Model* model = nullptr;
    ServedModel* served = nullptr;
    if (Status s = of_triton(TRITONBACKEND_ModelInstanceModel(handle, &model)); !s) return s;
    if (Status s = state_of(TRITONBACKEND_ModelState, model, &served); !s) return s;
    std::unique_ptr<Instance> instance;
    if (Status s = Instance::make(handle, *served, &instance); !s) return s;
    if (Status s = of_triton(TRITONBACKEND_ModelInstanceSetState(handle, instance.get())); !s) return s;
    instance.release();
    return {};
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* handle) {
  return guarded([&]() -> Status {
    Instance* instance = nullptr;
    if (Status s = state_of(TRITONBACKEND_ModelInstanceState, handle, &instance); !s) return s;
    delete instance;
    return {};
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* handle, TRITONBACKEND_Request** requests,
                                                       uint32_t count) {
  return guarded([&]() -> Status {
    Instance* instance = nullptr;
    if (Status s = state_of(TRITONBACKEND_ModelInstanceState, handle, &instance); !s) return s;
    instance->execute(requests, count);
    return {};
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance* handle) {
  return guarded([&]() -> Status {
    Instance* instance = nullptr;
    if (Status s = state_of(TRITONBACKEND_ModelInstanceState, handle, &instance); !s) return s;
    return instance->ready();
  });
}
}

#pragma once
// The part of Triton's backend interface (backend API 1.10 and later, server API 1) that this backend calls and implements, declared by us:
// names, numbers and signatures are the interface's. Nothing is linked for it: the functions are the server's that loads the library.
//
// Every function that returns a TRITONSERVER_Error* gives null on success; the caller owns the error otherwise.
#include <cstddef>
#include <cstdint>

extern "C" {

struct TRITONSERVER_Error;
struct TRITONSERVER_InferenceTrace;
struct TRITONSERVER_Message;
struct TRITONBACKEND_Backend;
struct TRITONBACKEND_BackendAttribute;
struct TRITONBACKEND_Input;
struct TRITONBACKEND_MemoryManager;
struct TRITONBACKEND_Model;
struct TRITONBACKEND_ModelInstance;
struct TRITONBACKEND_Output;
struct TRITONBACKEND_Request;
struct TRITONBACKEND_Response;
struct TRITONBACKEND_ResponseFactory;

enum TRITONSERVER_Error_Code {
  TRITONSERVER_ERROR_UNKNOWN = 0,
  TRITONSERVER_ERROR_INTERNAL = 1,
  TRITONSERVER_ERROR_NOT_FOUND = 2,
  TRITONSERVER_ERROR_INVALID_ARG = 3,
  TRITONSERVER_ERROR_UNAVAILABLE = 4,
  TRITONSERVER_ERROR_UNSUPPORTED = 5,
  TRITONSERVER_ERROR_CANCELLED = 7
};
enum TRITONSERVER_LogLevel {
  TRITONSERVER_LOG_INFO = 0,
  TRITONSERVER_LOG_WARN = 1,
  TRITONSERVER_LOG_ERROR = 2,
  TRITONSERVER_LOG_VERBOSE = 3
};
enum TRITONSERVER_DataType {
  TRITONSERVER_TYPE_INVALID = 0,
  TRITONSERVER_TYPE_BOOL = 1,
  TRITONSERVER_TYPE_UINT8 = 2,
  TRITONSERVER_TYPE_UINT16 = 3,
  TRITONSERVER_TYPE_UINT32 = 4,
  TRITONSERVER_TYPE_UINT64 = 5,
  TRITONSERVER_TYPE_INT8 = 6,
  TRITONSERVER_TYPE_INT16 = 7,
  TRITONSERVER_TYPE_INT32 = 8,
  TRITONSERVER_TYPE_INT64 = 9,
  TRITONSERVER_TYPE_FP16 = 10,
  TRITONSERVER_TYPE_FP32 = 11,
  TRITONSERVER_TYPE_FP64 = 12,
  TRITONSERVER_TYPE_BYTES = 13,
  TRITONSERVER_TYPE_BF16 = 14
};
enum TRITONSERVER_MemoryType { TRITONSERVER_MEMORY_CPU = 0, TRITONSERVER_MEMORY_CPU_PINNED = 1, TRITONSERVER_MEMORY_GPU = 2 };
enum TRITONSERVER_ParameterType { TRITONSERVER_PARAMETER_STRING = 0, TRITONSERVER_PARAMETER_INT = 1, TRITONSERVER_PARAMETER_BOOL = 2 };
enum TRITONSERVER_InstanceGroupKind {
  TRITONSERVER_INSTANCEGROUPKIND_AUTO = 0,
  TRITONSERVER_INSTANCEGROUPKIND_CPU = 1,
  TRITONSERVER_INSTANCEGROUPKIND_GPU = 2,
  TRITONSERVER_INSTANCEGROUPKIND_MODEL = 3
};
enum { TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2 };
enum { TRITONSERVER_REQUEST_RELEASE_ALL = 1 };
enum { TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1 };
enum TRITONBACKEND_ArtifactType { TRITONBACKEND_ARTIFACT_FILESYSTEM = 0 };

/* ---- the server's ------------------------------------------------------------------------------------------------------------------- */
using AotcTritonResult = TRITONSERVER_Error*;
AotcTritonResult TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* message);  // not null
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error);
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error);
bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level);
AotcTritonResult TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char* file, int line, const char* message);
AotcTritonResult TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** message, const char* base, size_t bytes);
AotcTritonResult TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* message, const char** base, size_t* bytes);
AotcTritonResult TRITONSERVER_MessageDelete(TRITONSERVER_Message* message);

AotcTritonResult TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor);
AotcTritonResult TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend* backend, TRITONBACKEND_MemoryManager** manager);
AotcTritonResult TRITONBACKEND_BackendState(TRITONBACKEND_Backend* backend, void** state);
AotcTritonResult TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend* backend, void* state);
AotcTritonResult TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(TRITONBACKEND_BackendAttribute* attribute,
                                                                         TRITONSERVER_InstanceGroupKind kind, uint64_t count,
                                                                         const uint64_t* device_ids, uint64_t n_ids);
AotcTritonResult TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(TRITONBACKEND_BackendAttribute* attribute, bool enabled);
AotcTritonResult TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager* manager, void** buffer, TRITONSERVER_MemoryType type,
                                                     int64_t id, uint64_t bytes);
AotcTritonResult TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager* manager, void* buffer, TRITONSERVER_MemoryType type,
                                                 int64_t id);

AotcTritonResult TRITONBACKEND_ModelName(TRITONBACKEND_Model* model, const char** name);
AotcTritonResult TRITONBACKEND_ModelVersion(TRITONBACKEND_Model* model, uint64_t* version);
AotcTritonResult TRITONBACKEND_ModelRepository(TRITONBACKEND_Model* model, TRITONBACKEND_ArtifactType* type, const char** location);
AotcTritonResult TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* model, uint32_t config_version, TRITONSERVER_Message** config);
AotcTritonResult TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model* model, bool* wanted);
AotcTritonResult TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* model, uint32_t config_version, TRITONSERVER_Message* config);
AotcTritonResult TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* model, TRITONBACKEND_Backend** backend);
AotcTritonResult TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state);
AotcTritonResult TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state);

AotcTritonResult TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance* instance, const char** name);
AotcTritonResult TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance* instance, TRITONSERVER_InstanceGroupKind* kind);
AotcTritonResult TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance* instance, int32_t* id);
AotcTritonResult TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Model** model);
AotcTritonResult TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* instance, void** state);
AotcTritonResult TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* instance, void* state);
/* Times in nanoseconds of the steady clock. */
AotcTritonResult TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request,
                                                             bool success, uint64_t exec_start, uint64_t compute_start,
                                                             uint64_t compute_end, uint64_t exec_end);
AotcTritonResult TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance* instance, uint64_t rows, uint64_t exec_start,
                                                                  uint64_t compute_start, uint64_t compute_end, uint64_t exec_end);

AotcTritonResult TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request* request, uint64_t* id);
AotcTritonResult TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request* request, const char** id);
AotcTritonResult TRITONBACKEND_RequestFlags(TRITONBACKEND_Request* request, uint32_t* flags);
AotcTritonResult TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request* request, uint64_t* timeout);  // 0: none
AotcTritonResult TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* request, bool* cancelled);
AotcTritonResult TRITONBACKEND_RequestInput(TRITONBACKEND_Request* request, const char* name, TRITONBACKEND_Input** input);
AotcTritonResult TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request* request, uint32_t* count);
AotcTritonResult TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request* request, uint32_t i, const char** name);
AotcTritonResult TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request* request, uint32_t* count);
/* *value: a char string, int64_t or bool, by *type. */
AotcTritonResult TRITONBACKEND_RequestParameter(TRITONBACKEND_Request* request, uint32_t i, const char** name,
                                                TRITONSERVER_ParameterType* type, const void** value);
/* Of servers from 24.01 on; null in others. *trace: null where the request is not traced. *context: the server's span as OpenTelemetry's
 * propagator writes it, {"traceparent": ..} as JSON, where it traces by OpenTelemetry; lives as long as the request. */
__attribute__((weak)) AotcTritonResult TRITONBACKEND_RequestTrace(TRITONBACKEND_Request* request, TRITONSERVER_InferenceTrace** trace);
__attribute__((weak)) AotcTritonResult TRITONSERVER_InferenceTraceContext(TRITONSERVER_InferenceTrace* trace, const char** context);
AotcTritonResult TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request, uint32_t flags);
AotcTritonResult TRITONBACKEND_InputProperties(TRITONBACKEND_Input* input, const char** name, TRITONSERVER_DataType* type,
                                               const int64_t** shape, uint32_t* rank, uint64_t* bytes, uint32_t* buffers);
/* *type and *id: what is wanted, then what it is. The memory is the server's until the request is released. */
AotcTritonResult TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* input, uint32_t i, const void** data, uint64_t* bytes,
                                           TRITONSERVER_MemoryType* type, int64_t* id);

AotcTritonResult TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response, TRITONBACKEND_Request* request);
AotcTritonResult TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response* response);
AotcTritonResult TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response, TRITONBACKEND_Output** output, const char* name,
                                              TRITONSERVER_DataType type, const int64_t* shape, uint32_t rank);
AotcTritonResult TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** data, uint64_t bytes, TRITONSERVER_MemoryType* type,
                                            int64_t* id);
/* Takes the response, not the error. */
AotcTritonResult TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, uint32_t flags, TRITONSERVER_Error* error);
AotcTritonResult TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory** factory, TRITONBACKEND_Request* request);
AotcTritonResult TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory* factory);
AotcTritonResult TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory* factory, uint32_t flags);
AotcTritonResult TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response** response, TRITONBACKEND_ResponseFactory* factory);

/* ---- ours ---------------------------------------------------------------------------------------------------------------------------- */
#define AOTC_TRITON_EXPORT __attribute__((visibility("default")))
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend);
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend);
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend* backend,
                                                                      TRITONBACKEND_BackendAttribute* attribute);
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model);
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model);
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance);
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance);
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                                       TRITONBACKEND_Request** requests, uint32_t count);
AOTC_TRITON_EXPORT AotcTritonResult TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance* instance);
}

#pragma once
// Of ONNX Runtime's C API what a server needs, by the places of its functions in the table: they have not moved since its first version.
// The package of Python has the library, but no header.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace ort {

/// What OrtGetApiBase() points at.
struct Base {
  const void* const* (*api)(uint32_t version);
  const char* (*version)();
};

using Status = void*;  ///< null: fine

enum Place {
  kErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetGraphOptimizationLevel = 23,
  kSetIntraOpNumThreads = 24,
  kSetInterOpNumThreads = 25,
  kInputCount = 30,
  kOutputCount = 31,
  kInputTypeInfo = 33,
  kOutputTypeInfo = 34,
  kInputName = 36,
  kOutputName = 37,
  kCreateTensorWithData = 49,
  kTensorData = 51,
  kCastTypeInfoToTensorInfo = 55,
  kElementType = 60,
  kDimensionsCount = 61,
  kDimensions = 62,
  kTensorTypeAndShape = 65,
  kCreateCpuMemoryInfo = 69,
  kDefaultAllocator = 78,
  kReleaseStatus = 93,
  kReleaseValue = 96,
  kReleaseTypeInfo = 98,
  kReleaseTensorTypeAndShapeInfo = 99,
};

/// Of a table: calls that give a status, which throw, and those that give nothing. Handles are void*.
class Api {
 public:
  explicit Api(const void* const* table) : table_(table) {}
  template <class... A>
  void operator()(Place p, A... a) const {
    if (Status s = reinterpret_cast<Status (*)(A...)>(const_cast<void*>(table_[p]))(a...)) {
      const std::string why = reinterpret_cast<const char* (*)(Status)>(const_cast<void*>(table_[kErrorMessage]))(s);
      release(kReleaseStatus, s);
      throw std::runtime_error(why);
    }
  }
  void release(Place p, void* of) const { reinterpret_cast<void (*)(void*)>(const_cast<void*>(table_[p]))(of); }

 private:
  const void* const* table_;
};

/// ONNX's element types by number, in the protocol's words; nullptr: none of them.
inline const char* type_name(int type) {
  static constexpr const char* kNames[] = {nullptr, "FP32",  "UINT8", "INT8", nullptr, "INT16",
                                           "INT32", "INT64", nullptr, "BOOL", "FP16",  "FP64"};
  return type >= 0 && type < 12 ? kNames[type] : nullptr;
}

}  // namespace ort

// An ONNX model by ONNX Runtime behind the same service as samples/kubernetes/server.cpp: the same HTTP, queue and batches, another engine.
//
//   c++ -std=c++17 -O2 -I samples/kubernetes tests/bench/serving/ort_server.cpp -o ort_server -ldl -lpthread
//   ./ort_server libonnxruntime.so.1.32.0 net.onnx [options as server.cpp has them]
//
// All contexts share one session, which takes --threads threads for a run.
#include <dlfcn.h>

#include "ort_api.h"
#include "service.h"

namespace {

using namespace server;

class Session : public Engine {
 public:
  Session(const char* library, const std::string& model, int threads) : ort_(open(library)) {
    void *env, *options;
    ort_(ort::kCreateEnv, 3, "server", &env);  // errors only
    ort_(ort::kCreateSessionOptions, &options);
    ort_(ort::kSetGraphOptimizationLevel, options, 99);
    ort_(ort::kSetIntraOpNumThreads, options, threads);
    ort_(ort::kSetInterOpNumThreads, options, 1);
    ort_(ort::kCreateSession, env, model.c_str(), options, &session_);
    ort_(ort::kCreateCpuMemoryInfo, 0, 0, &memory_);
    describe(ort::kInputCount, ort::kInputName, ort::kInputTypeInfo, &inputs);
    describe(ort::kOutputCount, ort::kOutputName, ort::kOutputTypeInfo, &outputs);
    for (const Signature& s : inputs) in_names_.push_back(s.name.c_str());
    for (const Signature& s : outputs) out_names_.push_back(s.name.c_str());
  }

  Values run(int, Values& in, const std::string&) override {
    Handles from{*this, {}}, to{*this, {}};
    from.values.resize(in.size()), to.values.resize(outputs.size());
    for (size_t i = 0; i < in.size(); ++i)
      ort_(ort::kCreateTensorWithData, memory_, static_cast<void*>(in[i].bytes.data()), in[i].bytes.size(), in[i].shape.data(),
           in[i].shape.size(), type_number(inputs[i]), &from.values[i]);
    ort_(ort::kRun, session_, static_cast<void*>(nullptr), in_names_.data(), from.values.data(), in.size(), out_names_.data(),
         outputs.size(), to.values.data());
    Values out;
    for (size_t o = 0; o < outputs.size(); ++o) {
      void *info, *data;
      ort_(ort::kTensorTypeAndShape, to.values[o], &info);
      Value v;
      v.shape = dims(info);
      ort_.release(ort::kReleaseTensorTypeAndShapeInfo, info);
      ort_(ort::kTensorData, to.values[o], &data);
      const auto* begin = static_cast<const unsigned char*>(data);
      v.bytes.assign(begin, begin + static_cast<size_t>(elements(v.shape)) * outputs[o].kind->bytes);
      out.push_back(std::move(v));
    }
    return out;
  }

 private:
  struct Handles {
    const Session& of;
    std::vector<void*> values;
    ~Handles() {
      for (void* v : values)
        if (v) of.ort_.release(ort::kReleaseValue, v);
    }
  };

  static const void* const* open(const char* library) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw std::runtime_error(dlerror());
    const auto base = reinterpret_cast<const ort::Base* (*)()>(dlsym(handle, "OrtGetApiBase"));
    if (!base) throw std::runtime_error(dlerror());
    return base()->api(1);
  }
  static int type_number(const Signature& s) {
    int n = 0;
    while (!ort::type_name(n) || std::strcmp(ort::type_name(n), s.kind->name) != 0) ++n;
    return n;
  }
  std::vector<int64_t> dims(const void* info) const {
    size_t rank;
    ort_(ort::kDimensionsCount, info, &rank);
    std::vector<int64_t> out(rank);
    ort_(ort::kDimensions, info, out.data(), rank);
    return out;
  }
  void describe(ort::Place count, ort::Place name, ort::Place type, std::vector<Signature>* to) {
    void* allocator;
    size_t n;
    ort_(ort::kDefaultAllocator, &allocator);
    ort_(count, session_, &n);
    for (size_t i = 0; i < n; ++i) {
      char* text;
      void *info, *tensor;
      int element;
      ort_(name, session_, i, allocator, &text);  // the allocator's, for good
      ort_(type, session_, i, &info);
      ort_(ort::kCastTypeInfoToTensorInfo, info, &tensor);
      ort_(ort::kElementType, tensor, &element);
      if (!ort::type_name(element)) throw std::runtime_error(std::string(text) + " has a type that the protocol does not have");
      to->push_back({text, &kind_named(ort::type_name(element)), dims(tensor)});
      ort_.release(ort::kReleaseTypeInfo, info);
    }
  }

  ort::Api ort_;
  void *session_ = nullptr, *memory_ = nullptr;
  std::vector<const char*> in_names_, out_names_;
};

}  // namespace

int main(int argc, char** argv) {
  const sigset_t ends = block_ends();
  Options o;
  if (argc < 3 || !read_options(argc, argv, 3, &o)) {
    std::fprintf(stderr, "usage: ort_server libonnxruntime.so model.onnx %s\n", kUsage);
    return 2;
  }
  const std::string path = argv[2];
  o.model = path.substr(path.rfind('/') + 1);
  if (o.model.size() > 5 && o.model.compare(o.model.size() - 5, 5, ".onnx") == 0) o.model.resize(o.model.size() - 5);
  try {
    Session session(argv[1], path, o.threads);
    Service(session, o).serve(ends);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ort_server: %s\n", e.what());
    return 1;
  }
}

// One artifact by the protocol that KServe and Triton speak (v2, tensors as JSON or bytes), for an image that holds nothing else.
//
//   c++ -std=c++17 -O2 -I runtime/include samples/kubernetes/server.cpp -o server -ldl -lpthread
//   ./server net.so [--host 0.0.0.0] [--port 8080] [--contexts 1] [--threads 1] [--batch 1] [--drain 5] [--weights FILE] [--device N]
//
// With the artifact in it, as one static file (CPUs only; weights that are not in the archive lie beside the server, or --weights says
// where):
//
//   aotc build net.pt2 --cpu portable --emit static --prefix net -o libnet.a
//   c++ -std=c++17 -O2 -static -DMODEL=net -I runtime/include samples/kubernetes/server.cpp libnet.a -o server
//   ./server [--host 0.0.0.0] ...
//
// --batch: rows that run together, of requests that wait for a context; who sets it vouches that the first dimension is a batch. SIGTERM:
// not ready any more, --drain seconds later no new connections; what has begun ends. /metrics: the queue, by which replicas are scaled.
#include <deque>

#include "aotc/aotc.hpp"
#include "service.h"

#ifdef MODEL
#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
extern "C" const aotc_api* JOINED(MODEL, _get_api)(uint32_t version);
#endif

namespace {

using aotc::host::TensorInfo;
using namespace server;

const Kind* kind_of(const TensorInfo& t) {
  static constexpr std::pair<uint32_t, const char*> kNames[] = {
      {AOTC_DTYPE_BOOL, "BOOL"}, {AOTC_DTYPE_U8, "UINT8"}, {AOTC_DTYPE_I8, "INT8"},  {AOTC_DTYPE_I16, "INT16"}, {AOTC_DTYPE_I32, "INT32"},
      {AOTC_DTYPE_I64, "INT64"}, {AOTC_DTYPE_F32, "FP32"}, {AOTC_DTYPE_F64, "FP64"}, {AOTC_DTYPE_F16, "FP16"},  {AOTC_DTYPE_BF16, "BF16"}};
  for (const auto& [dtype, name] : kNames)
    if (dtype == t.dtype) return &kind_named(name);
  throw std::runtime_error(t.name + " has a type that the protocol does not have");
}

class Artifact : public Engine {
 public:
  Artifact(const std::string& path, const Options& o) {
    aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
    if (!o.weights.empty()) options.weights_path = o.weights.c_str();
    if (o.device >= 0) options.device = o.device;
#ifdef MODEL
    (void)path;
    aotc::host::Model::linked(JOINED(MODEL, _get_api), &model_, &options).check();
#else
    aotc::host::Model::load(path, &model_, &options).check();
#endif
    for (const auto& [infos, to] : {std::pair(model_.inputs(), &inputs), std::pair(model_.outputs(), &outputs)})
      for (const TensorInfo& t : infos) {
        to->push_back({t.name, kind_of(t), {}});
        for (const aotc_dim& d : t.dims) to->back().dims.push_back(d.symbol ? -1 : d.value);
      }
    infos_ = {model_.inputs(), model_.outputs()};
    for (int i = 0; i < o.contexts; ++i) {
      aotc::host::ContextOptions of_each;
      of_each.threads = o.threads;
      contexts_.emplace_back();
      model_.context(&contexts_.back(), of_each).check();
    }
  }

  Values run(int context, Values& in, const std::string& traceparent) override {
    aotc::host::Context& c = contexts_[static_cast<size_t>(context)];
    const auto views = [](Values& values, const std::vector<TensorInfo>& infos) {
      std::vector<aotc_tensor> out;
      for (size_t i = 0; i < values.size(); ++i)
        out.push_back(aotc_host_tensor(values[i].bytes.data(), values[i].shape.data(), static_cast<int32_t>(values[i].shape.size()),
                                       infos[i].dtype, values[i].bytes.size()));
      return out;
    };
    const auto check = [](const aotc::host::Status& s) {
      if (s.code == AOTC_STATUS_SHAPE_MISMATCH || s.code == AOTC_STATUS_INVALID_ARGUMENT || s.code == AOTC_STATUS_INDEX_OUT_OF_RANGE)
        throw Refused(s.message);
      s.check();
    };
    const std::vector<aotc_tensor> from = views(in, infos_.first);
    std::vector<std::vector<int64_t>> shapes;
    check(c.output_bounds(from, &shapes));
    Values out;
    for (size_t o = 0; o < shapes.size(); ++o)
      out.push_back({shapes[o], std::vector<unsigned char>(static_cast<size_t>(elements(shapes[o])) * outputs[o].kind->bytes)});
    aotc::host::RunOptions options;
    options.traceparent = traceparent.c_str();
    check(c.run(from, views(out, infos_.second), options));
    return out;
  }

 private:
  aotc::host::Model model_;
  std::pair<std::vector<TensorInfo>, std::vector<TensorInfo>> infos_;
  std::deque<aotc::host::Context> contexts_;
};

}  // namespace

int main(int argc, char** argv) {
  const sigset_t ends = block_ends();
  Options o;
#ifdef MODEL
  const int first = 1;
  const std::string path;
  o.model = TEXT(MODEL);
#else
  const int first = 2;
  const std::string path = argc > 1 ? argv[1] : "";
  o.model = path.substr(path.rfind('/') + 1);
  if (o.model.size() > 3 && o.model.compare(o.model.size() - 3, 3, ".so") == 0) o.model.resize(o.model.size() - 3);
#endif
  if (argc < first || !read_options(argc, argv, first, &o)) {
    std::fprintf(stderr, "usage: server %s%s\n", first == 2 ? "model.so " : "", kUsage);
    return 2;
  }
  try {
    Artifact artifact(path, o);
    Service(artifact, o).serve(ends);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "server: %s\n", e.what());
    return 1;
  }
}

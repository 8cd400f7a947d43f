// A model with states behind the same service as samples/kubernetes/server.cpp, a context for each sequence: what serving.py has beside
// Triton's sequence batcher.
//
//   c++ -std=c++17 -O2 -I runtime/include -I samples/kubernetes tests/bench/serving/steps_server.cpp -o steps_server -ldl -lpthread
//   ./steps_server net.so [options as server.cpp has them]
//
// Requests have one input more, "sequence", INT64 [3]: its number, 1 with its first step, 1 with its last. Any thread takes any step; a
// sequence has one at a time. Contexts of sequences that have ended are used again.
#include <map>

#include "aotc/aotc.hpp"
#include "service.h"

namespace {

using aotc::host::TensorInfo;
using namespace server;

const Kind* kind_of(const TensorInfo& t) {
  if (t.dtype != AOTC_DTYPE_I64 && t.dtype != AOTC_DTYPE_F32) throw std::runtime_error(t.name + " is neither INT64 nor FP32");
  return &kind_named(t.dtype == AOTC_DTYPE_I64 ? "INT64" : "FP32");
}

class Sequences : public Engine {
 public:
  Sequences(const std::string& path, const Options& o) {
    aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
    if (o.device >= 0) options.device = o.device;
    aotc::host::Model::load(path, &model_, &options).check();
    of_each_.threads = o.threads;
    for (const auto& [infos, to] : {std::pair(model_.inputs(), &inputs), std::pair(model_.outputs(), &outputs)})
      for (const TensorInfo& t : infos) {
        to->push_back({t.name, kind_of(t), {}});
        for (const aotc_dim& d : t.dims) to->back().dims.push_back(d.symbol ? -1 : d.value);
      }
    infos_ = {model_.inputs(), model_.outputs()};
    inputs.push_back({"sequence", &kind_named("INT64"), {3}});
  }

  Values run(int, Values& in, const std::string&) override {
    int64_t sequence[3] = {};
    if (in.back().bytes.size() != sizeof sequence) throw Refused("sequence: expected three numbers");
    std::memcpy(sequence, in.back().bytes.data(), sizeof sequence);
    in.pop_back();
    std::unique_ptr<aotc::host::Context> context = take(sequence[0], sequence[1] != 0);
    Values out = step(*context, in);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (sequence[2] != 0)
      free_.push_back(std::move(context));
    else
      live_[sequence[0]] = std::move(context);
    return out;
  }

 private:
  std::unique_ptr<aotc::host::Context> take(int64_t id, bool first) {
    std::unique_ptr<aotc::host::Context> context;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto at = live_.find(id); at != live_.end()) {
        context = std::move(at->second);
        live_.erase(at);
      } else if (!first) {
        throw Refused("the sequence has not begun, or has a step under way");
      } else if (!free_.empty()) {
        context = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!context) {
      context = std::make_unique<aotc::host::Context>();
      model_.context(context.get(), of_each_).check();
    }
    if (first) context->reset_states().check();
    return context;
  }

  Values step(aotc::host::Context& c, Values& in) const {
    const auto views = [](Values& values, const std::vector<TensorInfo>& infos) {
      std::vector<aotc_tensor> out;
      for (size_t i = 0; i < values.size(); ++i)
        out.push_back(aotc_host_tensor(values[i].bytes.data(), values[i].shape.data(), static_cast<int32_t>(values[i].shape.size()),
                                       infos[i].dtype, values[i].bytes.size()));
      return out;
    };
    const std::vector<aotc_tensor> from = views(in, infos_.first);
    std::vector<std::vector<int64_t>> shapes;
    c.output_bounds(from, &shapes).check();
    Values out;
    for (size_t o = 0; o < shapes.size(); ++o)
      out.push_back({shapes[o], std::vector<unsigned char>(static_cast<size_t>(elements(shapes[o])) * outputs[o].kind->bytes)});
    c.run(from, views(out, infos_.second)).check();
    return out;
  }

  aotc::host::Model model_;
  aotc::host::ContextOptions of_each_;
  std::pair<std::vector<TensorInfo>, std::vector<TensorInfo>> infos_;
  std::mutex mutex_;
  std::map<int64_t, std::unique_ptr<aotc::host::Context>> live_;
  std::vector<std::unique_ptr<aotc::host::Context>> free_;
};

}  // namespace

int main(int argc, char** argv) {
  const sigset_t ends = block_ends();
  Options o;
  if (argc < 2 || !read_options(argc, argv, 2, &o)) {
    std::fprintf(stderr, "usage: steps_server model.so %s\n", kUsage);
    return 2;
  }
  const std::string path = argv[1];
  o.model = path.substr(path.rfind('/') + 1);
  if (o.model.size() > 3 && o.model.compare(o.model.size() - 3, 3, ".so") == 0) o.model.resize(o.model.size() - 3);
  try {
    Sequences sequences(path, o);
    Service(sequences, o).serve(ends);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "steps_server: %s\n", e.what());
    return 1;
  }
}

#include "decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace llm {

using aotc::host::tensor;

namespace {

constexpr const char* kInputs[] = {"input_ids", "slots", "positions", "lengths", "span", "wanted", "adapter"};

std::string mismatch(const aotc::host::Model& model, const Description& d) {
  const auto in = model.inputs(), out = model.outputs();
  if (in.size() != std::size(kInputs) - (d.adapters ? 0 : 1)) return "it has " + std::to_string(in.size()) + " inputs";
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].name != kInputs[i] || in[i].dtype != AOTC_DTYPE_I64 || in[i].dims.size() != (i == 0 ? 2u : 1u) || !in[i].dims.back().symbol)
      return "its input " + in[i].name + " is not " + kInputs[i] + ", int64 with sizes that vary";
  const auto at_most = [&](size_t i, size_t dim, int64_t most, const char* what) {
    const int64_t has = in[i].dims[dim].max;
    return has == most ? std::string()
                       : "its " + std::string(what) + " go to " + std::to_string(has) + ", and server.json says " + std::to_string(most);
  };
  for (const std::string& wrong :
       {at_most(0, 0, d.slots, "rows"), at_most(0, 1, d.chunk, "tokens a row"), at_most(4, 0, d.cache - 1, "positions")})
    if (!wrong.empty()) return wrong;
  if (out.size() != (d.hidden ? 2u : 1u))
    return "it has " + std::to_string(out.size()) + " outputs, and server.json says " + (d.hidden ? "2" : "1");
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].dtype != AOTC_DTYPE_F32 || out[i].dims.size() != 2 || out[i].dims[1].symbol ||
        out[i].dims[1].value != (i ? d.hidden : d.vocabulary))
      return "its output " + out[i].name + " is not float32 [answers, " + std::to_string(i ? d.hidden : d.vocabulary) + "]";
  return {};
}

/// The path of the state model.PATH.ENDING, or an empty string.
std::string adapted_path(const std::string& state, const std::string& ending) {
  constexpr const char* kBefore = "model.";
  const size_t before = 6;
  if (state.rfind(kBefore, 0) != 0 || state.size() <= before + ending.size()) return {};
  if (state.compare(state.size() - ending.size(), ending.size(), ending) != 0) return {};
  return state.substr(before, state.size() - before - ending.size());
}

/// Layers by their pairs of states. Empty where the states are not as ../llm/adapters.py makes them.
std::vector<AdaptedLayer> adapted_layers(const std::vector<aotc::host::TensorInfo>& states, const Description& d) {
  std::map<std::string, int64_t> a, b;
  for (const aotc::host::TensorInfo& s : states)
    for (const auto& [ending, to] : {std::pair(".lora_a", &a), std::pair(".lora_b", &b)})
      if (const std::string path = adapted_path(s.name, ending); !path.empty()) {
        if (s.dims.size() != 2 || s.dims[0].value != d.adapters + 1 || s.dims[1].value % d.rank) return {};
        (*to)[path] = s.dims[1].value / d.rank;
      }
  std::vector<AdaptedLayer> out;
  for (const auto& [path, in] : a)
    if (const auto it = b.find(path); it != b.end()) out.push_back({path, in, it->second, d.rank});
  return out;
}

uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t to_f16(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float size = std::fabs(x);
  if (std::isnan(x)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  if (size < 0x1p-14f) return sign | static_cast<uint16_t>(std::lrint(std::ldexp(size, 24)));
  int exponent;
  const float fraction = std::frexp(size, &exponent);  // [0.5, 1)
  // A fraction that rounds up to 1 carries into the exponent.
  return sign | static_cast<uint16_t>(((exponent + 13) << 10) + std::lrint(std::ldexp(fraction, 11)));
}

}  // namespace

Decoder::Decoder(const std::string& artifact, const Description& description, int threads) : d_(description) {
  aotc_model_options loading = AOTC_MODEL_OPTIONS_INIT;
  loading.flags = AOTC_MODEL_OWN_WEIGHTS;  // each token reads all of them
  aotc::host::Model::load(artifact, &model_, &loading).check();
  if (const std::string wrong = mismatch(model_, d_); !wrong.empty())
    throw std::runtime_error(artifact + ": " + wrong + "; expected a program that samples/llm/export.py wrote together with server.json");
  most_wanted_ = model_.inputs()[5].dims[0].max;
  const std::vector<aotc::host::TensorInfo> states = model_.states();
  can_copy_ = true;
  for (const aotc::host::TensorInfo& s : states) {
    if (!adapted_path(s.name, ".lora_a").empty() || !adapted_path(s.name, ".lora_b").empty()) {
      adapter_type_ = s.dtype;
      continue;  // a matrix: parts of slots and positions leave it as it is
    }
    caches_.push_back(s.name);
    can_copy_ = can_copy_ && s.dims.size() == 4 && s.dims[0].value == d_.slots && s.dims[2].value == d_.cache;
  }
  if (d_.adapters) {
    adapted_ = adapted_layers(states, d_);
    if (adapted_.empty())
      throw std::runtime_error(artifact + ": has no states for adapters, and server.json says " + std::to_string(d_.adapters) +
                               " of rank " + std::to_string(d_.rank) + ": build it with --states '*.lora_a,*.lora_b'");
  }
  aotc::host::ContextOptions options;
  options.threads = threads;
  model_.context(&context_, options).check();
  span_.resize(static_cast<size_t>(d_.cache));
  std::iota(span_.begin(), span_.end(), 0);
}

bool Decoder::copy(int64_t to_slot, int64_t from_slot, int64_t begin, int64_t end) {
  using aotc::host::range;
  const aotc_state_range positions = range(2, begin, end - begin);
  return can_copy_ && context_.copy_states({range(0, to_slot, 1), positions}, context_, {range(0, from_slot, 1), positions});
}

aotc::host::Status Decoder::reset() {
  for (const std::string& name : caches_)
    if (const aotc::host::Status s = context_.reset_state(name.c_str()); !s) return s;
  return {};
}

void Decoder::write_adapter(int64_t row, const std::vector<AdapterRow>& rows) {
  const std::vector<aotc_state_range> part{aotc::host::range(0, row, 1)};
  for (const AdapterRow& r : rows) {
    const auto n = static_cast<int64_t>(r.values.size());
    if (adapter_type_ == AOTC_DTYPE_F32) {
      context_.write_state(r.state.c_str(), part, tensor(r.values.data(), {1, n})).check();
      continue;
    }
    std::vector<uint16_t> halves(r.values.size());
    std::transform(r.values.begin(), r.values.end(), halves.begin(), adapter_type_ == AOTC_DTYPE_BF16 ? to_bf16 : to_f16);
    const int64_t shape[] = {1, n};
    context_.write_state(r.state.c_str(), part, aotc_host_tensor(halves.data(), shape, 2, adapter_type_, halves.size() * 2)).check();
  }
}

aotc::host::Status Decoder::run(const std::vector<Row>& rows, const std::vector<std::pair<int64_t, int64_t>>& wanted,
                                const std::string& traceparent) {
  const auto n = static_cast<int64_t>(rows.size()), answers = static_cast<int64_t>(wanted.size());
  int64_t tokens = 0, context = 0;
  for (const Row& r : rows) tokens = std::max(tokens, r.count), context = std::max(context, r.position + r.count);
  ids_.assign(static_cast<size_t>(n * tokens), 0);
  slots_.clear(), positions_.clear(), lengths_.clear(), wanted_.clear(), adapters_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(rows[i].tokens, rows[i].count, ids_.begin() + static_cast<int64_t>(i) * tokens);
    slots_.push_back(rows[i].slot);
    positions_.push_back(rows[i].position);
    lengths_.push_back(rows[i].count);
    adapters_.push_back(rows[i].adapter);
  }
  for (const auto& [row, token] : wanted) wanted_.push_back(row * tokens + token);
  logits_.resize(static_cast<size_t>(answers * d_.vocabulary));
  hidden_.resize(static_cast<size_t>(answers * d_.hidden));
  std::vector<aotc::host::Tensor> out{tensor(logits_.data(), {answers, d_.vocabulary})};
  if (d_.hidden) out.push_back(tensor(hidden_.data(), {answers, d_.hidden}));
  std::vector<aotc::host::Tensor> in{tensor(ids_.data(), {n, tokens}), tensor(slots_.data(), {n}),      tensor(positions_.data(), {n}),
                                     tensor(lengths_.data(), {n}),     tensor(span_.data(), {context}), tensor(wanted_.data(), {answers})};
  if (d_.adapters) in.push_back(tensor(adapters_.data(), {n}));
  aotc::host::RunOptions options;
  options.traceparent = traceparent.c_str();
  return context_.run(in, out, options);
}

}  // namespace llm

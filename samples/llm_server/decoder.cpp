#include "decoder.h"

#include <algorithm>
#include <numeric>

namespace llm {

using aotc::host::tensor;

namespace {

constexpr const char* kInputs[] = {"input_ids", "slots", "positions", "lengths", "span", "wanted"};

std::string mismatch(const aotc::host::Model& model, const Description& d) {
  const auto in = model.inputs(), out = model.outputs();
  if (in.size() != std::size(kInputs)) return "it has " + std::to_string(in.size()) + " inputs";
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

}  // namespace

Decoder::Decoder(const std::string& artifact, const Description& description, int threads) : d_(description) {
  aotc_model_options loading = AOTC_MODEL_OPTIONS_INIT;
  loading.flags = AOTC_MODEL_OWN_WEIGHTS;  // each token reads all of them
  aotc::host::Model::load(artifact, &model_, &loading).check();
  if (const std::string wrong = mismatch(model_, d_); !wrong.empty())
    throw std::runtime_error(artifact + ": " + wrong + "; expected a program that samples/llm/export.py wrote together with server.json");
  most_wanted_ = model_.inputs()[5].dims[0].max;
  const std::vector<aotc::host::TensorInfo> states = model_.states();
  can_copy_ = std::all_of(states.begin(), states.end(), [&](const aotc::host::TensorInfo& s) {
    return s.dims.size() == 4 && s.dims[0].value == d_.slots && s.dims[2].value == d_.cache;
  });
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

aotc::host::Status Decoder::run(const std::vector<Row>& rows, const std::vector<std::pair<int64_t, int64_t>>& wanted) {
  const auto n = static_cast<int64_t>(rows.size()), answers = static_cast<int64_t>(wanted.size());
  int64_t tokens = 0, context = 0;
  for (const Row& r : rows) tokens = std::max(tokens, r.count), context = std::max(context, r.position + r.count);
  ids_.assign(static_cast<size_t>(n * tokens), 0);
  slots_.clear(), positions_.clear(), lengths_.clear(), wanted_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(rows[i].tokens, rows[i].count, ids_.begin() + static_cast<int64_t>(i) * tokens);
    slots_.push_back(rows[i].slot);
    positions_.push_back(rows[i].position);
    lengths_.push_back(rows[i].count);
  }
  for (const auto& [row, token] : wanted) wanted_.push_back(row * tokens + token);
  logits_.resize(static_cast<size_t>(answers * d_.vocabulary));
  hidden_.resize(static_cast<size_t>(answers * d_.hidden));
  std::vector<aotc::host::Tensor> out{tensor(logits_.data(), {answers, d_.vocabulary})};
  if (d_.hidden) out.push_back(tensor(hidden_.data(), {answers, d_.hidden}));
  return context_.run({tensor(ids_.data(), {n, tokens}), tensor(slots_.data(), {n}), tensor(positions_.data(), {n}),
                       tensor(lengths_.data(), {n}), tensor(span_.data(), {context}), tensor(wanted_.data(), {answers})},
                      out);
}

}  // namespace llm

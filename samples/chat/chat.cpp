// Talks with a language model: an artifact of a decoder with a key-value cache, and the tokenizer.json beside it.
//
//   c++ -std=c++17 -O2 -I include samples/chat/chat.cpp samples/tokenizer/*.cpp -o chat -ldl
//   ./chat model.so tokenizer.json [--prompt TEXT] [--system TEXT] [--raw] [--threads N] [--max-new N] [--top-p P] [--temperature T]
//   [--seed N]
//
// The model takes token ids [1, seq] and their positions [seq], both int64 and seq symbolic, gives logits in float32, [1, 1, vocabulary] of
// the last token or [1, seq, vocabulary] of all, and keeps the cache as states. Without --prompt each line of the input is a turn. Answers
// are greedy, or drawn from the likeliest tokens that together have probability P. --raw continues the text itself, without the marks of a
// conversation. --ids: token ids of each text of the input (a zero byte ends it), no model.
//
// Without libraries this takes tokenizers like those of SmolLM2, Mistral 7B and Gemma. Those of Llama 3, Qwen and others have regular
// expressions: add -DTOKENIZER_LIBRARIES -lpcre2-8 -lutf8proc (Debian: libpcre2-dev, libutf8proc-dev).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>

#include "../tokenizer/tokenizer.h"
#include "aotc/aotc.hpp"
#ifdef TOKENIZER_LIBRARIES
#include "../tokenizer/nfc_utf8proc.h"
#include "../tokenizer/regex_pcre2.h"
#endif

namespace {

using Clock = std::chrono::steady_clock;
#ifdef TOKENIZER_LIBRARIES
const tok::Libraries kLibraries = {tok::regex_by_pcre2, tok::normalized_by_utf8proc};
#else
const tok::Libraries kLibraries;
#endif

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Options {
  std::string model, tokenizer, prompt, system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
  bool one_prompt = false, raw = false, ids = false;
  int threads = 1, most = 256;
  double top_p = 0, temperature = 1;
  unsigned seed = 1;
};

/// The model with its cache: what was fed so far is remembered.
class Decoder {
 public:
  Decoder(const std::string& path, int threads) {
    aotc_model_options loading = AOTC_MODEL_OPTIONS_INIT;
    loading.flags = AOTC_MODEL_OWN_WEIGHTS;  // each token reads all of them
    aotc::host::Model::load(path, &model_, &loading).check();
    const auto in = model_.inputs(), out = model_.outputs();
    const bool right = in.size() == 2 && in[0].dtype == AOTC_DTYPE_I64 && in[0].dims.size() == 2 && in[0].dims[1].symbol &&
                       in[1].dtype == AOTC_DTYPE_I64 && in[1].dims.size() == 1 && out.size() == 1 && out[0].dtype == AOTC_DTYPE_F32 &&
                       out[0].dims.size() == 3 && (out[0].dims[1].symbol || out[0].dims[1].value == 1) && !out[0].dims[2].symbol;
    if (!right)
      throw std::runtime_error(
          path + ": expected token ids [1, seq] and positions [seq] in int64, and logits [1, 1 or seq, vocabulary] in float32");
    most_ = in[0].dims[1].max;
    all_logits_ = out[0].dims[1].symbol;
    vocabulary_ = out[0].dims[2].value;
    aotc::host::ContextOptions options;
    options.threads = threads;
    model_.context(&context_, options).check();
  }

  int64_t room() const { return most_ - position_; }
  /// The logits after the last of these tokens.
  const float* feed(const std::vector<int64_t>& ids) {
    std::vector<int64_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), position_);
    position_ += static_cast<int64_t>(ids.size());
    const auto n = static_cast<int64_t>(ids.size());
    const int64_t rows = all_logits_ ? n : 1;
    logits_.resize(static_cast<size_t>(rows * vocabulary_));
    using aotc::host::tensor;
    std::vector<int64_t> tokens = ids;
    context_.run({tensor(tokens.data(), {1, n}), tensor(positions.data(), {n})}, {tensor(logits_.data(), {1, rows, vocabulary_})}).check();
    return logits_.data() + (rows - 1) * vocabulary_;
  }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  aotc::host::Model model_;
  aotc::host::Context context_;
  std::vector<float> logits_;
  bool all_logits_ = false;
  int64_t most_ = 0, vocabulary_ = 0, position_ = 0;
};

class Sampler {
 public:
  explicit Sampler(const Options& o) : o_(o), random_(o.seed) {}
  int64_t pick(const float* logits, int64_t n) {
    const int64_t best = std::max_element(logits, logits + n) - logits;
    if (o_.top_p <= 0 || o_.temperature <= 0) return best;
    std::vector<std::pair<double, int64_t>> tokens;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double p = std::exp((static_cast<double>(logits[i]) - logits[best]) / o_.temperature);
      sum += p;
      if (p > 1e-6) tokens.emplace_back(p, i);
    }
    std::sort(tokens.rbegin(), tokens.rend());
    double kept = 0;
    size_t count = 0;
    while (count < tokens.size() && kept < o_.top_p * sum) kept += tokens[count++].first;
    double left = std::uniform_real_distribution<double>(0, kept)(random_);
    for (size_t i = 0; i < count; ++i)
      if ((left -= tokens[i].first) <= 0) return tokens[i].second;
    return best;
  }

 private:
  const Options& o_;
  std::mt19937 random_;
};

/// Prints whole characters only: what is begun waits for its other bytes.
class Stream {
 public:
  void put(const std::string& bytes) {
    held_ += bytes;
    size_t whole = held_.size();
    for (size_t back = 1; back <= std::min<size_t>(3, held_.size()); ++back) {
      const auto c = static_cast<unsigned char>(held_[held_.size() - back]);
      if ((c & 0xc0) == 0x80) continue;
      if (c >= 0xc0 && back < (c < 0xe0 ? 2u : c < 0xf0 ? 3u : 4u)) whole = held_.size() - back;
      break;
    }
    std::fwrite(held_.data(), 1, whole, stdout);
    std::fflush(stdout);
    held_.erase(0, whole);
  }
  void end() {
    std::fwrite(held_.data(), 1, held_.size(), stdout);
    std::puts("");
    std::fflush(stdout);
  }

 private:
  std::string held_;
};

/// One turn; false where the cache is full.
bool answer(Decoder& model, const tok::Tokenizer& tokenizer, Sampler& sampler, const std::vector<int64_t>& prompt, const Options& o) {
  if (static_cast<int64_t>(prompt.size()) >= model.room()) {
    std::fprintf(stderr, "chat: %zu tokens, and the cache has room for %lld\n", prompt.size(), static_cast<long long>(model.room()));
    return false;
  }
  if (prompt.empty()) return true;
  const int64_t ends[] = {tokenizer.added("<|im_end|>"), tokenizer.added("<|endoftext|>"), tokenizer.added("</s>")};
  const Clock::time_point start = Clock::now();
  int64_t token = sampler.pick(model.feed(prompt), model.vocabulary());
  const double first = seconds_since(start);
  Stream out;
  tok::Decoder::Begin begin;  // what goes on with a text does not begin one
  if (o.raw) begin = {false, 0, false};
  int made = 1;
  const Clock::time_point decode = Clock::now();
  for (; std::find(std::begin(ends), std::end(ends), token) == std::end(ends); ++made) {
    out.put(tokenizer.bytes(token, begin));
    if (made >= o.most || model.room() < 1) break;
    token = sampler.pick(model.feed({token}), model.vocabulary());
  }
  out.end();
  const double rest = seconds_since(decode);
  std::fprintf(stderr, "[%zu tokens in, first token after %.0f ms (%.0f tokens/s); %d tokens out, %.1f tokens/s]\n", prompt.size(),
               first * 1e3, static_cast<double>(prompt.size()) / first, made, made > 1 ? (made - 1) / rest : 0);
  return model.room() > 0;
}

int run(const Options& o) {
  const tok::Tokenizer tokenizer(o.tokenizer, kLibraries);
  std::string line;
  if (o.ids) {
    while (std::getline(std::cin, line, '\0')) {
      for (const int64_t id : tokenizer.encode(line)) std::printf("%lld ", static_cast<long long>(id));
      std::puts("");
    }
    return 0;
  }
  Decoder model(o.model, o.threads);
  Sampler sampler(o);
  bool begun = false;
  const auto turn = [&](const std::string& text) {
    const bool marks = !o.raw && tokenizer.added("<|im_start|>") >= 0;
    std::string all = text;
    if (marks) {
      all = begun ? "\n" : "<|im_start|>system\n" + o.system + "<|im_end|>\n";
      all += "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n";
    }
    // The marks of a conversation begin with what their template has; any other text with what the tokenizer puts before it.
    std::vector<int64_t> prompt = begun || marks ? std::vector<int64_t>() : tokenizer.prefix();
    tokenizer.encode({{all, true}}, prompt);
    begun = true;
    return answer(model, tokenizer, sampler, prompt, o);
  };
  if (o.one_prompt) return turn(o.prompt) ? 0 : 1;
  while (std::fputs("> ", stderr), std::getline(std::cin, line))
    if (!turn(line)) return 1;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&]() -> const char* {
      if (i + 1 < argc) return argv[++i];
      std::fprintf(stderr, "chat: %s needs a value\n", a.c_str());
      std::exit(2);
    };
    if (a == "--prompt")
      o.prompt = value(), o.one_prompt = true;
    else if (a == "--system")
      o.system = value();
    else if (a == "--raw")
      o.raw = true;
    else if (a == "--ids")
      o.ids = true;
    else if (a == "--threads")
      o.threads = std::max(1, std::atoi(value()));
    else if (a == "--max-new")
      o.most = std::max(1, std::atoi(value()));
    else if (a == "--top-p")
      o.top_p = std::atof(value());
    else if (a == "--temperature")
      o.temperature = std::atof(value());
    else if (a == "--seed")
      o.seed = static_cast<unsigned>(std::atoi(value()));
    else
      names.push_back(a);
  }
  if (names.size() != (o.ids ? 1u : 2u)) {
    std::fprintf(stderr, "usage: chat model.so tokenizer.json [--prompt TEXT] [--threads N] [--top-p P] ...   chat --ids tokenizer.json\n");
    return 2;
  }
  o.tokenizer = names.back(), o.model = names.front();
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "chat: %s\n", e.what());
    return 1;
  }
}

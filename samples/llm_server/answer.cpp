#include "answer.h"

#include <cmath>

namespace llm {

namespace {

std::string base64(const std::vector<float>& v) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* p = reinterpret_cast<const unsigned char*>(v.data());
  const size_t n = v.size() * sizeof(float);
  std::string out;
  for (size_t i = 0; i < n; i += 3) {
    const uint32_t x = static_cast<uint32_t>(p[i]) << 16 | (i + 1 < n ? p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
    out += {kDigits[x >> 18], kDigits[x >> 12 & 63], i + 1 < n ? kDigits[x >> 6 & 63] : '=', i + 2 < n ? kDigits[x & 63] : '='};
  }
  return out;
}

std::vector<float> of_length_one(std::vector<float> v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  if (sum > 0)
    for (float& x : v) x = static_cast<float>(x / std::sqrt(sum));
  return v;
}

}  // namespace

Answer::Answer(const Request& request, const Description& d, const tok::Tokenizer& tokenizer, uint64_t number)
    : r_(request), d_(d), tokenizer_(tokenizer), parts_(request.tasks.size()), open_(request.tasks.size()) {
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i].begin = request.tasks[i].begin;
  id_ = (r_.api == Api::chat ? "chatcmpl-" : "cmpl-") + std::to_string(created_) + "-" + std::to_string(number);
}

Json Answer::head(bool chunk) const {
  const char* object = r_.api == Api::chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", r_.model}};
}

Json Answer::usage() const {
  int64_t prompt = 0;
  for (const int64_t n : r_.prompt_tokens) prompt += n;
  if (r_.api == Api::embeddings) return {{"prompt_tokens", prompt}, {"total_tokens", prompt}};
  return {{"prompt_tokens", prompt},
          {"completion_tokens", made_},
          {"total_tokens", prompt + made_},
          {"prompt_tokens_details", {{"cached_tokens", cached_}}}};
}

Json Answer::chat_logprob(const Choice& c, tok::Decoder::Begin& begin) const {
  const auto one = [&](int64_t token, double logprob, tok::Decoder::Begin at) {
    const std::string bytes = tokenizer_.bytes(token, at);
    Json numbers = Json::array();
    for (const char b : bytes) numbers.push_back(static_cast<unsigned char>(b));
    return Json{{"token", bytes}, {"logprob", logprob}, {"bytes", numbers}};
  };
  Json j = one(c.token, c.logprob, begin);
  j["top_logprobs"] = Json::array();
  for (const Likely& l : c.top) j["top_logprobs"].push_back(one(l.token, l.logprob, begin));
  tokenizer_.bytes(c.token, begin);
  return j;
}

void Answer::note(Part& part, const Choice& c, size_t offset, tok::Decoder::Begin& begin) const {
  if (!r_.logprobs || c.token < 0) return;
  if (r_.api == Api::chat) {
    part.logprobs.push_back(chat_logprob(c, begin));
    return;
  }
  part.values.push_back(c.logprob);
  Json top = Json::object();
  for (const Likely& l : c.top) {
    tok::Decoder::Begin at = begin;
    top[tokenizer_.bytes(l.token, at)] = l.logprob;
  }
  part.tokens.push_back(tokenizer_.bytes(c.token, begin));
  part.tops.push_back(std::move(top));
  part.offsets.push_back(offset);
}

Json Answer::logprobs_of(const Part& part) const {
  if (!r_.logprobs) return nullptr;
  if (r_.api == Api::chat) return {{"content", part.logprobs}};
  return {{"tokens", part.tokens}, {"token_logprobs", part.values}, {"top_logprobs", part.tops}, {"text_offset", part.offsets}};
}

std::string Answer::begin() const {
  std::string out;
  if (r_.api != Api::chat) return out;
  for (size_t i = 0; i < parts_.size(); ++i) {
    Json j = head(true);
    j["choices"] = Json::array(
        {{{"index", i}, {"delta", {{"role", "assistant"}, {"content", ""}}}, {"logprobs", nullptr}, {"finish_reason", nullptr}}});
    out += line(j);
  }
  return out;
}

std::string Answer::add(const Event& event) {
  Part& part = parts_[event.sequence];
  const size_t offset = part.text.size();
  part.text += event.text;
  if (event.finish != Finish::none) {
    --open_;
    made_ += event.made;
    // A prompt counts once, however many answers it gets: as the first of them was fed it.
    if (event.sequence % (parts_.size() / r_.prompt_tokens.size()) == 0) cached_ += event.cached;
    part.finish = event.finish == Finish::length ? "length" : "stop";
    part.embedding = event.embedding;
    if (event.finish == Finish::failed) error_ = event.error;
    if (event.finish == Finish::cancelled) error_ = "the server is shutting down";
  }
  if (!r_.stream) {
    note(part, event.choice, offset, part.begin);
    return {};
  }
  Part now;  // this chunk alone
  note(now, event.choice, offset, part.begin);
  if (event.text.empty() && event.finish == Finish::none && !r_.logprobs) return {};
  Json choice{{"index", event.sequence}, {"logprobs", logprobs_of(now)}, {"finish_reason", part.finish ? Json(part.finish) : Json()}};
  if (event.choice.token < 0) choice["logprobs"] = nullptr;
  if (r_.api == Api::chat)
    choice["delta"] = event.text.empty() && part.finish ? Json::object() : Json{{"content", event.text}};
  else
    choice["text"] = event.text;
  Json j = head(true);
  j["choices"] = Json::array({std::move(choice)});
  if (r_.usage_in_stream) j["usage"] = nullptr;
  return line(j);
}

std::string Answer::finish() const {
  if (r_.stream) {
    if (!error_.empty()) return line(error_body(500, error_)) + "data: [DONE]\n\n";
    std::string out;
    if (r_.usage_in_stream) {
      Json j = head(true);
      j["choices"] = Json::array();
      j["usage"] = usage();
      out = line(j);
    }
    return out + "data: [DONE]\n\n";
  }
  if (r_.api == Api::embeddings) {
    Json data = Json::array();
    for (size_t i = 0; i < parts_.size(); ++i) {
      const std::vector<float> v = of_length_one(parts_[i].embedding);
      data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", r_.base64 ? Json(base64(v)) : Json(v)}});
    }
    return dumped({{"object", "list"}, {"data", data}, {"model", r_.model}, {"usage", usage()}});
  }
  Json j = head(false);
  Json choices = Json::array();
  for (size_t i = 0; i < parts_.size(); ++i) {
    Json choice{{"index", i}, {"logprobs", logprobs_of(parts_[i])}, {"finish_reason", parts_[i].finish}};
    if (r_.api == Api::chat)
      choice["message"] = {{"role", "assistant"}, {"content", parts_[i].text}, {"refusal", nullptr}};
    else
      choice["text"] = parts_[i].text;
    choices.push_back(std::move(choice));
  }
  j["choices"] = std::move(choices);
  j["usage"] = usage();
  return dumped(j);
}

}  // namespace llm

#pragma once
// The forms of answers: whole objects, and chunks of a stream.
#include <ctime>

#include "request.h"

namespace llm {

/// Bytes that are no UTF-8 become U+FFFD.
inline std::string dumped(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Builds the answer to one request from its events.
class Answer {
 public:
  Answer(const Request& request, const Description& d, const tok::Tokenizer& tokenizer, uint64_t number);

  /// Takes an event. In a stream: what it sends, empty for nothing.
  std::string add(const Event& event);
  /// All sequences have ended.
  bool done() const { return open_ == 0; }
  /// An engine's failure; empty: none.
  const std::string& error() const { return error_; }
  /// Without a stream: the whole answer. In a stream: its last lines.
  std::string finish() const;
  /// The first lines of a stream.
  std::string begin() const;

 private:
  struct Part {
    std::string text;
    Json logprobs = Json::array(), tokens = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
    const char* finish = nullptr;
    std::vector<float> embedding;
    tok::Decoder::Begin begin;  ///< of the text that the tokens make
  };
  Json head(bool chunk) const;
  Json usage() const;
  Json chat_logprob(const Choice& c, tok::Decoder::Begin& begin) const;
  Json logprobs_of(const Part& part) const;
  void note(Part& part, const Choice& c, size_t offset, tok::Decoder::Begin& begin) const;
  std::string line(const Json& j) const { return "data: " + dumped(j) + "\n\n"; }

  const Request& r_;
  const Description& d_;
  const tok::Tokenizer& tokenizer_;
  std::string id_;
  std::time_t created_ = std::time(nullptr);
  std::vector<Part> parts_;
  size_t open_;
  int64_t made_ = 0, cached_ = 0;
  std::string error_;
};

}  // namespace llm

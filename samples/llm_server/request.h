#pragma once
// What clients ask for, as OpenAI's API writes it, and what is wrong with it.
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "../tokenizer/tokenizer.h"
#include "engine.h"
#include "json_form.h"

namespace llm {

using Json = nlohmann::json;

/// An answer in OpenAI's form: {"error": {"message", "type", "param", "code"}}.
struct ApiError : std::runtime_error {
  ApiError(int s, const std::string& message, std::string p = {}, std::string c = {})
      : std::runtime_error(message), status(s), param(std::move(p)), code(std::move(c)) {}
  int status;
  std::string param, code;
};
Json error_body(int status, const std::string& message, const std::string& param = {}, const std::string& code = {});

enum class Api { chat, completions, embeddings };

struct Request {
  Api api;
  std::string model;                   ///< that was asked for: the server's, or an adapter's name
  std::vector<Task> tasks;             ///< of each prompt n, prompts in their order
  std::vector<int64_t> prompt_tokens;  ///< of each prompt
  bool stream = false, usage_in_stream = false, logprobs = false, base64 = false;
};

struct Limits {
  int64_t max_tokens;  ///< of one answer; 0: what the cache holds
  int64_t sequences;   ///< of one request: prompts times n
};

/// Throws ApiError.
Request parse(Api api, const std::string& body, const Description& d, const tok::Tokenizer& tokenizer, const Limits& limits, Forms& forms,
              const Adapters& adapters);

}  // namespace llm

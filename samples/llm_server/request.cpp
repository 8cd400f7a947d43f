#include "request.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "../tokenizer/unicode.h"
#include "json_text.h"

namespace llm {

namespace {

/// The members of one request, each with its kind and range.
class Reader {
 public:
  explicit Reader(const Json& j) : j_(j) {}

  const Json& get(const char* name) const {
    static const Json kNull;
    const auto it = j_.find(name);
    return it == j_.end() ? kNull : *it;
  }
  double number(const char* name, double otherwise, double least, double most) const {
    const Json& v = get(name);
    if (v.is_null()) return otherwise;
    if (!v.is_number()) wrong(name, "expected a number");
    const double x = v.get<double>();
    if (!(x >= least && x <= most)) wrong(name, "is " + v.dump() + ", expected " + show(least) + " to " + show(most));
    return x;
  }
  int64_t integer(const char* name, int64_t otherwise, int64_t least, int64_t most) const {
    const Json& v = get(name);
    if (v.is_null()) return otherwise;
    if (!v.is_number_integer()) wrong(name, "expected an integer");
    const double x = v.get<double>();
    if (x < static_cast<double>(least) || x > static_cast<double>(most))
      wrong(name, "is " + v.dump() + ", expected " + std::to_string(least) + " to " + std::to_string(most));
    return v.get<int64_t>();
  }
  bool flag(const char* name, bool otherwise) const {
    const Json& v = get(name);
    if (v.is_null()) return otherwise;
    if (!v.is_boolean()) wrong(name, "expected true or false");
    return v.get<bool>();
  }
  /// One text or a list of texts.
  std::vector<std::string> texts(const char* name) const {
    const Json& v = get(name);
    if (v.is_null()) return {};
    if (v.is_string()) return {v.get<std::string>()};
    if (!v.is_array()) wrong(name, "expected a text or a list of texts");
    std::vector<std::string> out;
    for (const Json& each : v) {
      if (!each.is_string()) wrong(name, "expected a text or a list of texts");
      out.push_back(each.get<std::string>());
    }
    return out;
  }
  /// Refuses what would change the answer and is not done here.
  void refuse(const char* name, const std::string& why) const {
    const Json& v = get(name);
    const bool nothing = v.is_null() || v == false || ((v.is_array() || v.is_object() || v.is_string()) && v.empty());
    if (!nothing) wrong(name, "is not supported: " + why);
  }
  [[noreturn]] static void wrong(const std::string& name, const std::string& what) { throw ApiError(400, name + ": " + what, name); }

 private:
  static std::string show(double x) { return Json(x).dump(); }
  const Json& j_;
};

std::vector<int64_t> token_ids(const Json& list, const char* name, int64_t vocabulary) {
  std::vector<int64_t> ids;
  for (const Json& t : list) {
    if (!t.is_number_integer() || t.get<int64_t>() < 0 || t.get<int64_t>() >= vocabulary)
      Reader::wrong(name, t.dump() + " is not a token id: expected integers from 0 to " + std::to_string(vocabulary - 1));
    ids.push_back(t.get<int64_t>());
  }
  return ids;
}

/// A text, a list of texts, a list of token ids, or a list of such lists.
std::vector<std::vector<int64_t>> prompts(const Json& v, const char* name, const Description& d, const tok::Tokenizer& tokenizer) {
  const auto text = [&](const std::string& s) {
    std::vector<int64_t> ids = d.prefix;
    const std::vector<int64_t> more = tokenizer.encode(s);
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  };
  std::vector<std::vector<int64_t>> out;
  if (v.is_string()) {
    out.push_back(text(v.get<std::string>()));
  } else if (v.is_array() && !v.empty() && v[0].is_number()) {
    out.push_back(token_ids(v, name, d.vocabulary));
  } else if (v.is_array() && !v.empty()) {
    for (const Json& each : v) {
      if (each.is_string())
        out.push_back(text(each.get<std::string>()));
      else if (each.is_array())
        out.push_back(token_ids(each, name, d.vocabulary));
      else
        Reader::wrong(name, "expected texts or lists of token ids");
    }
  } else {
    Reader::wrong(name, "expected a text, a list of texts, or token ids");
  }
  return out;
}

std::string content_of(const Json& m, const std::string& where) {
  const auto it = m.find("content");
  if (it == m.end() || it->is_null()) Reader::wrong(where, "a message has no content");
  if (it->is_string()) return it->get<std::string>();
  if (!it->is_array()) Reader::wrong(where, "a message's content is neither a text nor a list of parts");
  std::string all;
  for (const Json& part : *it) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") || !part["text"].is_string())
      Reader::wrong(where, "only parts of type text are supported");
    all += part["text"].get<std::string>();
  }
  return all;
}

/// As Python's str.strip(), which templates call.
std::string stripped(const std::string& text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0, n; at < text.size(); at += n) {
    const uint32_t c = tok::code_at(text, at, &n);
    if (tok::is_space(c) || (c >= 0x1c && c <= 0x1f)) continue;
    begin = std::min(begin, at);
    end = at + n;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string();
}

std::vector<int64_t> conversation(const Json& messages, const Description& d, const tok::Tokenizer& tokenizer) {
  if (!d.chat.missing.empty())
    throw ApiError(400, "this model takes no chats: " + d.chat.missing + ". /v1/completions continues texts", "messages");
  if (!messages.is_array() || messages.empty()) Reader::wrong("messages", "expected a list of messages, one at least");
  std::vector<tok::Tokenizer::Part> parts;
  std::string before;
  const auto piece = [&](const std::map<std::string, std::string>& table, const std::string& key, const std::string& what) {
    const auto it = table.find(key);
    if (it == table.end()) Reader::wrong("messages", "the model's template takes no conversation " + what);
    parts.push_back({it->second, true});
  };
  for (const Json& m : messages) {
    if (!m.is_object() || !m.contains("role") || !m["role"].is_string()) Reader::wrong("messages", "each message is an object with a role");
    std::string role = m["role"].get<std::string>();
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant")
      Reader::wrong("messages", "role " + role + ": expected system, user or assistant");
    if (before.empty())
      piece(d.chat.start, role, "that begins with " + role);
    else
      piece(d.chat.between, before + " " + role, "with " + role + " after " + before);
    std::string text = content_of(m, "messages");
    if (d.chat.strip) text = stripped(text);
    parts.push_back({std::move(text), false});
    before = role;
  }
  piece(d.chat.end, before, "that ends with " + before);
  std::vector<int64_t> ids;
  tokenizer.encode(parts, ids);
  return ids;
}

Sampling sampling(const Reader& r, Api api, bool* logprobs) {
  Sampling s;
  s.temperature = r.number("temperature", 1, 0, 100);
  s.top_p = r.number("top_p", 1, 0, 1);
  s.min_p = r.number("min_p", 0, 0, 1);
  s.top_k = r.integer("top_k", 0, -1, INT32_MAX);
  s.repetition_penalty = r.number("repetition_penalty", 1, 0.01, 100);
  s.presence_penalty = r.number("presence_penalty", 0, -2, 2);
  s.frequency_penalty = r.number("frequency_penalty", 0, -2, 2);
  const Json& bias = r.get("logit_bias");
  if (!bias.is_null()) {
    if (!bias.is_object()) Reader::wrong("logit_bias", "expected an object of token ids and numbers");
    for (const auto& [key, value] : bias.items()) {
      const bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
      if (!digits || !value.is_number() || std::fabs(value.get<double>()) > 100)
        Reader::wrong("logit_bias", "expected token ids with numbers from -100 to 100");
      s.bias[std::stoll(key)] = value.get<double>();
    }
  }
  if (api == Api::chat) {
    *logprobs = r.flag("logprobs", false);
    const int64_t top = r.integer("top_logprobs", 0, 0, 20);
    if (top > 0 && !*logprobs) Reader::wrong("top_logprobs", "needs logprobs: true");
    s.top_logprobs = *logprobs ? static_cast<int>(top) : -1;
  } else {
    *logprobs = !r.get("logprobs").is_null();
    s.top_logprobs = *logprobs ? static_cast<int>(r.integer("logprobs", 0, 0, 20)) : -1;
  }
  return s;
}

/// What `response_format` asks for. Its members in their order, which the other reading of the body does not keep.
std::shared_ptr<Constraint> form_of(const std::string& body, Forms& forms) {
  using Ordered = nlohmann::ordered_json;
  const char* const name = "response_format";
  const Ordered all = Ordered::parse(body);
  const Ordered& format = all.at(name);
  const Ordered type = format.is_object() ? format.value("type", Ordered()) : Ordered();
  try {
    if (type == "json_object") return forms.of(Ordered{{"type", "object"}}, name);
    if (type == "json_schema") {
      const Ordered named = format.value("json_schema", Ordered());
      if (!named.is_object() || !named.contains("schema")) Reader::wrong(name, "json_schema.schema is missing");
      return forms.of(named["schema"], "response_format.json_schema.schema");
    }
  } catch (const SchemaError& e) { throw ApiError(400, e.what(), name, "unsupported_schema"); }
  Reader::wrong(name, "type is " + type.dump() + ", expected text, json_object or json_schema");
}

}  // namespace

Json error_body(int status, const std::string& message, const std::string& param, const std::string& code) {
  const char* type = status == 429   ? "rate_limit_error"
                     : status == 401 ? "authentication_error"
                     : status >= 500 ? "server_error"
                                     : "invalid_request_error";
  return {{"error",
           {{"message", message},
            {"type", type},
            {"param", param.empty() ? Json() : Json(param)},
            {"code", code.empty() ? Json() : Json(code)}}}};
}

static std::string served(const Description& d, const Adapters& adapters) {
  std::string out = Json(d.name).dump();
  for (const std::string& name : adapters.names()) out += ", " + Json(name).dump();
  return out;
}

static Request parsed(Api api, const std::string& body, const Description& d, const tok::Tokenizer& tokenizer, const Limits& limits,
                      Forms& forms, const Adapters& adapters) {
  bool deep;
  const Json j = parse_json(body, 64, &deep);
  if (deep) throw ApiError(400, "the body is nested more than 64 deep");
  if (j.is_discarded()) throw ApiError(400, "the body is not JSON");
  if (!j.is_object()) throw ApiError(400, "the body is not an object");
  const Reader r(j);
  Request out;
  out.api = api;
  std::vector<std::vector<int64_t>> texts;
  Task task;
  out.model = d.name;
  if (const Json& model = r.get("model"); !model.is_null() && model != d.name) {
    if (model.is_string()) task.adapter = adapters.find(model.get<std::string>());
    if (!task.adapter)
      throw ApiError(404, "model " + model.dump() + " is not here: this server has " + served(d, adapters), "model", "model_not_found");
    out.model = task.adapter->name;
  }
  int64_t n = 1, wanted = 0;
  bool logprobs = false, seeded = false;
  if (api == Api::embeddings) {
    if (!d.hidden) throw ApiError(400, "this model gives no embeddings: export it with --hidden");
    texts = prompts(r.get("input"), "input", d, tokenizer);
    const Json& format = r.get("encoding_format");
    if (!format.is_null() && format != "float" && format != "base64") Reader::wrong("encoding_format", "expected float or base64");
    out.base64 = format == "base64";
    if (!r.get("dimensions").is_null() && r.get("dimensions") != d.hidden)
      Reader::wrong("dimensions", "the model has " + std::to_string(d.hidden));
    task.embed = true;
  } else {
    if (api == Api::chat) {
      r.refuse("tools", "the model is given no tools");
      r.refuse("functions", "the model is given no functions");
      r.refuse("audio", "answers are text");
      texts.push_back(conversation(r.get("messages"), d, tokenizer));
    } else {
      r.refuse("suffix", "texts are continued at their end");
      r.refuse("echo", "answers begin behind the prompt");
      if (r.integer("best_of", 1, 1, 1000) > r.integer("n", 1, 1, 1000)) Reader::wrong("best_of", "is not supported beyond n");
      texts = prompts(r.get("prompt"), "prompt", d, tokenizer);
    }
    if (const Json& format = r.get("response_format"); !format.is_null() && format != Json{{"type", "text"}})
      task.form = form_of(body, forms);
    n = r.integer("n", 1, 1, limits.sequences);
    const char* name = api == Api::chat && !r.get("max_completion_tokens").is_null() ? "max_completion_tokens" : "max_tokens";
    wanted = r.integer(name, 0, 1, INT32_MAX);
    if (limits.max_tokens && wanted > limits.max_tokens)
      Reader::wrong(name, "is " + std::to_string(wanted) + ", and this server makes at most " + std::to_string(limits.max_tokens));
    task.sampling = sampling(r, api, &logprobs);
    for (const auto& [token, by] : task.sampling.bias)
      if (token >= d.vocabulary) Reader::wrong("logit_bias", std::to_string(token) + " is not a token id");
    const Json& seed = r.get("seed");
    if (!seed.is_null() && !seed.is_number_integer()) Reader::wrong("seed", "expected an integer");
    seeded = !seed.is_null();
    task.sampling.seed = seeded ? static_cast<uint64_t>(seed.get<int64_t>()) : 0;
    task.stops = r.texts("stop");
    if (task.stops.size() > 16) Reader::wrong("stop", "has " + std::to_string(task.stops.size()) + " texts, expected at most 16");
    for (const std::string& s : task.stops)
      if (s.empty() || s.size() > 256) Reader::wrong("stop", "expected texts of 1 to 256 bytes");
    task.ignore_ends = r.flag("ignore_eos", false);
    out.stream = r.flag("stream", false);
    const Json& options = r.get("stream_options");
    if (!options.is_null() && !options.is_object()) Reader::wrong("stream_options", "expected an object");
    out.usage_in_stream = out.stream && options.is_object() && options.value("include_usage", Json(false)) == true;
    out.logprobs = logprobs;
  }
  if (static_cast<int64_t>(texts.size()) * n > limits.sequences)
    throw ApiError(400,
                   std::to_string(texts.size()) + " prompts and n " + std::to_string(n) + ": this server takes at most " +
                       std::to_string(limits.sequences) + " sequences a request",
                   "n");
  std::random_device device;
  for (std::vector<int64_t>& prompt : texts) {
    const auto size = static_cast<int64_t>(prompt.size());
    if (size == 0) throw ApiError(400, "a prompt has no tokens");
    // The last token of an answer is never fed.
    const int64_t room = d.cache - size;
    const int64_t least = task.embed ? 0 : 1;
    if (size > d.cache - 1 || room < std::max(least, wanted))
      throw ApiError(400,
                     "the prompt has " + std::to_string(size) + " tokens" +
                         (wanted ? " and " + std::to_string(wanted) + " are asked for" : "") + ": the model holds " +
                         std::to_string(d.cache) + " together",
                     api == Api::chat ? "messages" : "prompt", "context_length_exceeded");
    out.prompt_tokens.push_back(size);
    task.max_tokens = wanted                    ? wanted
                      : api == Api::completions ? std::min<int64_t>(16, room)
                      : limits.max_tokens       ? std::min(room, limits.max_tokens)
                                                : room;
    // A completion goes on with its prompt, unless that is but a mark of a text's begin; an answer in a chat is a text of its own.
    const bool goes_on =
        api == Api::completions && std::any_of(prompt.begin(), prompt.end(), [&](int64_t id) { return !tokenizer.bytes(id).empty(); });
    task.begin = goes_on ? tok::Decoder::Begin{false, 0, false} : tok::Decoder::Begin();
    for (int64_t i = 0; i < n; ++i) {
      Task copy = task;
      copy.prompt = prompt;
      if (seeded)
        copy.sampling.seed += static_cast<uint64_t>(out.tasks.size());
      else
        copy.sampling.seed = static_cast<uint64_t>(device()) << 32 | device();
      out.tasks.push_back(std::move(copy));
    }
  }
  return out;
}

Request parse(Api api, const std::string& body, const Description& d, const tok::Tokenizer& tokenizer, const Limits& limits, Forms& forms,
              const Adapters& adapters) {
  try {
    return parsed(api, body, d, tokenizer, limits, forms, adapters);
  } catch (const tok::TextError& e) { throw ApiError(400, e.what()); }
}

}  // namespace llm

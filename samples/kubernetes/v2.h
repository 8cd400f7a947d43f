#pragma once
// Tensors as the protocol has them: JSON, or bytes behind the JSON (the binary tensor data extension).
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace server {

using nlohmann::json;

struct Kind {
  const char* name;
  size_t bytes;
  void (*put)(const json& from, unsigned char* to);  ///< nullptr: JSON does not carry this type, bytes do
  json (*get)(const unsigned char* from);
};
template <class T>
constexpr Kind kind(const char* name) {
  return {name, sizeof(T),
          [](const json& from, unsigned char* to) {
            const T x = from.is_boolean() ? static_cast<T>(from.get<bool>()) : from.get<T>();
            std::memcpy(to, &x, sizeof x);
          },
          [](const unsigned char* from) {
            T x;
            std::memcpy(&x, from, sizeof x);
            return json(x);
          }};
}
inline constexpr Kind kKinds[] = {
    kind<bool>("BOOL"),     kind<uint8_t>("UINT8"), kind<int8_t>("INT8"), kind<int16_t>("INT16"),        kind<int32_t>("INT32"),
    kind<int64_t>("INT64"), kind<float>("FP32"),    kind<double>("FP64"), {"FP16", 2, nullptr, nullptr}, {"BF16", 2, nullptr, nullptr}};

inline const Kind& kind_named(const char* name) {
  return *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return std::strcmp(k.name, name) == 0; });
}

/// The request is at fault.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An input or output of a model.
struct Signature {
  std::string name;
  const Kind* kind;
  std::vector<int64_t> dims;  ///< -1: of any size
};

inline int64_t elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (d < 0 || (d > 0 && __builtin_mul_overflow(n, d, &n))) throw Refused("a shape has a negative size, or too many elements");
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? n : 0;
}

struct Value {
  std::vector<int64_t> shape;
  std::vector<unsigned char> bytes;
};
using Values = std::vector<Value>;

/// What of an answer is wanted, and as what.
struct Wanted {
  size_t output;
  bool binary;
};

/// The request of a body, of which `head` bytes are JSON. Inputs in the model's order. Throws Refused, and what nlohmann::json throws.
class Asked {
 public:
  Asked(std::string_view body, size_t head, const std::vector<Signature>& inputs, const std::vector<Signature>& outputs)
      : said_(json::parse(body.substr(0, head))) {
    gather(body.substr(head), inputs);
    const bool all_binary = flag(said_, "binary_data_output", false);
    if (said_.contains("outputs"))
      for (const json& o : said_["outputs"]) {
        const auto& name = o.at("name").get_ref<const std::string&>();
        const auto at = std::find_if(outputs.begin(), outputs.end(), [&](const Signature& s) { return s.name == name; });
        if (at == outputs.end()) throw Refused("there is no output " + name);
        wanted.push_back({static_cast<size_t>(at - outputs.begin()), flag(o, "binary_data", all_binary)});
      }
    else
      for (size_t o = 0; o < outputs.size(); ++o) wanted.push_back({o, all_binary});
    for (const Wanted& w : wanted)
      if (!w.binary && !outputs[w.output].kind->put)
        throw Refused("the output " + outputs[w.output].name + ": JSON does not carry its type; ask for binary_data");
  }
  /// What the client called the request, or null.
  json id() const { return said_.contains("id") ? said_["id"] : json(); }

  Values in;
  std::vector<Wanted> wanted;

 private:
  static const json* parameter(const json& of, const char* name) {
    const auto all = of.find("parameters");
    if (all == of.end()) return nullptr;
    const auto at = all->find(name);
    return at == all->end() ? nullptr : &*at;
  }
  static bool flag(const json& of, const char* name, bool otherwise) {
    const json* p = parameter(of, name);
    return p ? p->get<bool>() : otherwise;
  }

  void gather(std::string_view rest, const std::vector<Signature>& inputs) {
    in.resize(inputs.size());
    std::vector<bool> there(inputs.size());
    for (const json& i : said_.at("inputs")) {
      const auto& name = i.at("name").get_ref<const std::string&>();
      const auto at = std::find_if(inputs.begin(), inputs.end(), [&](const Signature& s) { return s.name == name; });
      if (at == inputs.end()) throw Refused("the model has no input " + name);
      const auto which = static_cast<size_t>(at - inputs.begin());
      if (there[which]) throw Refused("the input " + name + " is there twice");
      there[which] = true;
      const Kind& k = *at->kind;
      if (i.at("datatype") != k.name) throw Refused("the input " + name + " has another datatype: expected " + k.name);
      Value& v = in[which];
      v.shape = i.at("shape").get<std::vector<int64_t>>();
      if (v.shape.size() != at->dims.size())
        throw Refused("the input " + name + ": expected " + std::to_string(at->dims.size()) + " dimensions");
      const auto count = static_cast<uint64_t>(elements(v.shape));
      if (const json* size = parameter(i, "binary_data_size")) {
        const auto n = size->get<uint64_t>();
        if (n / k.bytes != count || n % k.bytes != 0 || n > rest.size())
          throw Refused("the input " + name + ": binary_data_size is not what its shape says, or there are fewer bytes");
        v.bytes.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(n));
        rest.remove_prefix(n);
        if (std::strcmp(k.name, "BOOL") == 0)
          for (unsigned char& b : v.bytes) b = b != 0;
        continue;
      }
      if (!k.put) throw Refused("the input " + name + ": JSON does not carry its type; send binary data");
      const json& data = i.at("data");
      if (!data.is_array() || data.size() != count)
        throw Refused("the input " + name + ": data is no list of as many numbers as its shape says");
      v.bytes.resize(data.size() * k.bytes);
      for (size_t e = 0; e < data.size(); ++e) k.put(data[e], v.bytes.data() + e * k.bytes);
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!there[i]) throw Refused("there is no input " + inputs[i].name);
    if (!rest.empty()) throw Refused("there are more bytes behind the JSON than its inputs have");
  }

  json said_;
};

/// A body: `head` bytes of JSON, and behind them what goes as bytes.
struct Told {
  std::string body;
  size_t head = 0;
};
inline Told tell(const std::string& model, const Asked& asked, const Values& out, const std::vector<Signature>& outputs) {
  json all = json::array();
  size_t bytes = 0;
  for (const Wanted& w : asked.wanted) {
    const Signature& s = outputs[w.output];
    const Value& v = out[w.output];
    json one = {{"name", s.name}, {"datatype", s.kind->name}, {"shape", v.shape}};
    if (w.binary) {
      one["parameters"] = {{"binary_data_size", v.bytes.size()}};
      bytes += v.bytes.size();
    } else {
      json data = json::array();
      for (size_t i = 0; i < v.bytes.size(); i += s.kind->bytes) data.push_back(s.kind->get(v.bytes.data() + i));
      one["data"] = std::move(data);
    }
    all.push_back(std::move(one));
  }
  json answer = {{"model_name", model}, {"model_version", "1"}, {"outputs", std::move(all)}};
  if (const json id = asked.id(); !id.is_null()) answer["id"] = id;
  Told told{answer.dump(-1, ' ', false, json::error_handler_t::replace), 0};
  told.head = told.body.size();
  told.body.reserve(told.head + bytes);
  for (const Wanted& w : asked.wanted)
    if (w.binary) told.body.append(reinterpret_cast<const char*>(out[w.output].bytes.data()), out[w.output].bytes.size());
  return told;
}

}  // namespace server

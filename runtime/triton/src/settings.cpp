#include "settings.h"

#include <cerrno>
#include <climits>
#include <cstdlib>

namespace aotc::triton {
namespace {

using Json = nlohmann::json;

bool number(const std::string& text, int64_t min, int64_t max, int64_t* out) {
  char* end = nullptr;
  errno = 0;
  *out = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && !*end && errno == 0 && *out >= min && *out <= max;
}

/// "a=b, c=d"
bool pairs(const std::string& text, std::vector<std::pair<std::string, std::string>>* out) {
  const auto trimmed = [](const std::string& s) {
    const size_t from = s.find_first_not_of(' '), to = s.find_last_not_of(' ');
    return from == std::string::npos ? std::string() : s.substr(from, to - from + 1);
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string piece = text.substr(at, comma - at);
    const size_t equals = piece.find('=');
    if (equals == std::string::npos) return false;
    out->emplace_back(trimmed(piece.substr(0, equals)), trimmed(piece.substr(equals + 1)));
    if (out->back().first.empty() || out->back().second.empty()) return false;
    at = comma + 1;
  }
  return true;
}

template <class T>
bool one_of(const std::string& text, std::initializer_list<std::pair<const char*, T>> values, T* out) {
  for (const auto& [name, value] : values)
    if (text == name) return *out = value, true;
  return false;
}
bool flag(const std::string& text, uint32_t bit, uint32_t* flags) {
  bool on = false;
  if (!one_of<bool>(text, {{"on", true}, {"true", true}, {"off", false}, {"false", false}}, &on)) return false;
  *flags = on ? *flags | bit : *flags & ~bit;
  return true;
}

struct Parameter {
  const char* name;
  const char* allowed;
  bool (*set)(const std::string& value, Settings* s);
};
const Parameter kParameters[] = {
    {"artifact", "a path, from the model's folder on", [](const std::string& v, Settings* s) { return s->artifact = v, !v.empty(); }},
    {"method", "the name of a method", [](const std::string& v, Settings* s) { return s->method = v, !v.empty(); }},
    {"next_method", "the name of a method", [](const std::string& v, Settings* s) { return s->next_method = v, !v.empty(); }},
    {"threads", "a number from 1 to 1024, or -1 for all CPUs",
     [](const std::string& v, Settings* s) {
       int64_t n = 0;
       if (!number(v, -1, AOTC_MAX_THREADS, &n) || n == 0) return false;
       return s->threads = static_cast<int32_t>(n), true;
     }},
    {"device", "cpu, or a GPU's number",
     [](const std::string& v, Settings* s) {
       int64_t n = AOTC_DEVICE_HOST;
       if (v != "cpu" && !number(v, 0, INT_MAX, &n)) return false;
       return s->device_given = true, s->device = static_cast<int32_t>(n), true;
     }},
    {"graphs", "on or off",
     [](const std::string& v, Settings* s) {
       return one_of<uint32_t>(v, {{"on", AOTC_CONTEXT_GRAPHS}, {"off", AOTC_CONTEXT_NO_GRAPHS}}, &s->context_flags);
     }},
    {"flush_denormals", "on or off",
     [](const std::string& v, Settings* s) { return flag(v, AOTC_CONTEXT_FLUSH_DENORMALS, &s->context_flags); }},
    {"verify_weights", "on or off", [](const std::string& v, Settings* s) { return flag(v, AOTC_MODEL_VERIFY_WEIGHTS, &s->model_flags); }},
    {"weights", "own, shared or lazy",
     [](const std::string& v, Settings* s) {
       uint32_t bit = 0;
       if (!one_of<uint32_t>(v, {{"own", AOTC_MODEL_OWN_WEIGHTS}, {"shared", AOTC_MODEL_SHARED_WEIGHTS}, {"lazy", AOTC_MODEL_LAZY_WEIGHTS}},
                             &bit))
         return false;
       return s->model_flags |= bit, true;
     }},
    {"weights_budget", "a number of bytes", [](const std::string& v, Settings* s) { return number(v, 1, INT64_MAX, &s->weights_budget); }},
    {"batching", "on or off",
     [](const std::string& v, Settings* s) {
       return one_of<bool>(v, {{"on", true}, {"off", false}}, &s->batching);
     }},
    {"spread", "on, off or always",
     [](const std::string& v, Settings* s) {
       return one_of<Spread>(v, {{"on", Spread::on}, {"off", Spread::off}, {"always", Spread::always}}, &s->spread);
     }},
    {"states", "sequence, slots, instance or request",
     [](const std::string& v, Settings* s) {
       s->states_given = true;
       return one_of<States>(
           v, {{"sequence", States::sequence}, {"slots", States::slots}, {"instance", States::instance}, {"request", States::request}},
           &s->states);
     }},
    {"sequences", "a number from 1 to 65536",
     [](const std::string& v, Settings* s) {
       int64_t n = 0;
       return number(v, 1, 65536, &n) && (s->sequences = static_cast<int32_t>(n), true);
     }},
    {"slots", "ROLE=INPUT, and more behind commas", [](const std::string& v, Settings* s) { return pairs(v, &s->slots); }},
    {"vocabulary", "a number from 1", [](const std::string& v, Settings* s) { return number(v, 1, INT64_MAX, &s->vocabulary); }},
    {"feedback", "INPUT=OUTPUT, and more behind commas", [](const std::string& v, Settings* s) { return pairs(v, &s->feedback); }},
    {"max_steps", "a number from 1", [](const std::string& v, Settings* s) { return number(v, 1, INT64_MAX, &s->max_steps); }},
    {"stop", "OUTPUT=NUMBER",
     [](const std::string& v, Settings* s) {
       std::vector<std::pair<std::string, std::string>> p;
       if (!pairs(v, &p) || p.size() != 1) return false;
       return s->stop_output = p[0].first, number(p[0].second, INT64_MIN, INT64_MAX, &s->stop_value);
     }},
};

}  // namespace

Status read_settings(const Json& config, Settings* out) {
  const Json all = config.value("parameters", Json::object());
  for (const auto& [name, value] : all.items()) {
    const std::string text = value.is_object() ? value.value("string_value", "") : "";
    const Parameter* known = nullptr;
    for (const Parameter& p : kParameters)
      if (name == p.name) known = &p;
    if (!known) {
      log(TRITONSERVER_LOG_WARN, "the parameter '" + name + "' of the config is not one of this backend's");
    } else if (!known->set(text, out)) {
      return invalid("parameter '" + name + "' is '" + text + "': expected " + known->allowed);
    }
  }
  if (out->feedback.empty() && (!out->next_method.empty() || !out->stop_output.empty()))
    return invalid(
        "parameters 'next_method' and 'stop' are for runs that follow one another: 'feedback' has to say which output is which input of "
        "the next");
  if (!out->feedback.empty() && !out->states_given) out->states = States::request;
  return {};
}

}  // namespace aotc::triton

#include "config.h"

#include <algorithm>

namespace aotc::triton {
namespace {

using Json = nlohmann::json;
constexpr int64_t kUnbounded = 64;  // rows where neither the artifact nor the config has a bound

int64_t integer(const Json& value) {  // numbers of 64 bits may be texts
  if (value.is_number_integer()) return value.get<int64_t>();
  return value.is_string() ? std::strtoll(value.get<std::string>().c_str(), nullptr, 10) : 0;
}
int64_t integer(const Json& of, const char* name) {
  const auto i = of.find(name);
  return i == of.end() ? 0 : integer(*i);
}
std::vector<int64_t> integers(const Json& of, const char* name) {
  std::vector<int64_t> all;
  for (const Json& v : of.value(name, Json::array())) all.push_back(integer(v));
  return all;
}
bool has(const Json& config, const char* name) {
  const auto i = config.find(name);
  return i != config.end() && !i->empty();
}
bool has_object(const Json& config, const char* name) { return config.contains(name) && config[name].is_object(); }

/// Outputs of the runs of a request; with feedback those of every run.
Status programs(const Artifact& artifact, const Settings& settings, Program* first, Program* next) {
  if (Status s = artifact.program(settings.method, first); !s) return s;
  if (Status s = artifact.program(settings.next_method.empty() ? first->name : settings.next_method, next); !s) return s;
  if (settings.feedback.empty()) return {};
  const auto apart = [](const Tensor& a, const Tensor& b) { return a.dtype != b.dtype || a.dims.size() != b.dims.size(); };
  for (const Tensor& t : next->outputs) {
    const Tensor* f = first->output(t.name);
    if (!f || apart(*f, t))
      return invalid("method '" + next->name + "' has output '" + t.name + "', " + t.describe() + ", and method '" + first->name + "' " +
                     (f ? "gives " + f->describe() + " by that name" : "has none of that name") + ": both answer with the same outputs");
  }
  for (const auto& [input, output] : settings.feedback) {
    const Tensor *in = next->input(input), *out = next->output(output);
    if (!in || !out)
      return invalid("parameter 'feedback': method '" + next->name + "' has no " + (in ? "output '" + output : "input '" + input) + "'");
    if (apart(*in, *out) || out->found)
      return invalid("parameter 'feedback': output '" + output + "' is " + out->describe() + ", and input '" + input + "' takes " +
                     in->describe());
  }
  for (const Tensor& t : next->inputs) {
    const bool fed = std::any_of(settings.feedback.begin(), settings.feedback.end(), [&](const auto& f) { return f.first == t.name; });
    const Tensor* f = first->input(t.name);
    if (!fed && (!f || apart(*f, t)))
      return invalid("input '" + t.name + "' of method '" + next->name + "' is neither in 'feedback' nor an input of method '" +
                     first->name + "'");
  }
  if (!settings.stop_output.empty()) {
    const Tensor* t = next->output(settings.stop_output);
    if (!t) return invalid("parameter 'stop': there is no output '" + settings.stop_output + "'");
    if (t->dtype > AOTC_DTYPE_I64)
      return invalid("parameter 'stop': output '" + t->name + "' is " + t->describe() + ", expected integers or BOOL");
  }
  return {};
}

Json describe(const std::vector<Tensor>& tensors, const std::vector<Tensor>& beside, bool batched) {
  Json all = Json::array();
  for (const Tensor& t : tensors) {
    std::vector<int64_t> dims = t.wire_dims(batched);
    for (const Tensor& other : beside) {  // what another method gives by that name
      const std::vector<int64_t> others = other.name == t.name ? other.wire_dims(batched) : dims;
      for (size_t d = 0; d < std::min(dims.size(), others.size()); ++d)
        if (dims[d] != others[d]) dims[d] = -1;
    }
    all.push_back({{"name", t.name}, {"data_type", std::string("TYPE_") + t.type_name}, {"dims", dims}});
  }
  return all;
}

/// Whose the states are, and what a request then brings.
Status states_of(const Settings& settings, const Program& first, const Program& next, Service* out) {
  out->states = first.updates_states || next.updates_states ? settings.states : States::none;
  out->asked = first;
  const bool told = settings.states_given || !settings.slots.empty();
  if (out->states == States::none || !settings.feedback.empty() || (told && out->states != States::slots && settings.slots.empty())) {
    if (out->states == States::slots || !settings.slots.empty())
      return invalid("slots are for runs that update states, without the parameter 'feedback'");
    return {};
  }
  std::string why_not;
  if (find_slots(first, settings, &out->slots, &why_not)) {
    out->states = States::slots;
    out->asked = request_of(first, out->slots);
  } else if (told) {
    return invalid("method '" + first.name + "' has no slots: " + why_not);
  }
  return {};
}

/// Compares the config's tensors with the program's. `partly`: the config may leave some out.
Status compare(const Json& listed, const std::vector<Tensor>& tensors, const char* kind, bool batched, bool partly) {
  for (const Json& entry : listed) {
    const std::string name = entry.value("name", ""), type = entry.value("data_type", "");
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
    if (found == tensors.end()) {
      std::string known;
      for (const Tensor& t : tensors) known += (known.empty() ? "" : ", ") + t.name;
      return invalid("the config has " + std::string(kind) + " '" + name + "', and the artifact's are " + known);
    }
    if (type != std::string("TYPE_") + found->type_name)
      return invalid("the config has " + std::string(kind) + " '" + name + "' as " + type + ", expected TYPE_" + found->type_name);
    const std::vector<int64_t> dims = has_object(entry, "reshape") ? integers(entry["reshape"], "shape") : integers(entry, "dims");
    const std::vector<int64_t> expected = found->wire_dims(batched);
    bool fits = dims.size() == expected.size();
    for (size_t d = 0; fits && d < dims.size(); ++d) fits = dims[d] == expected[d] || dims[d] == -1 || (expected[d] == -1 && dims[d] > 0);
    if (!fits)
      return invalid("the config has " + std::string(kind) + " '" + name + "' with dims " + text_of(dims) + ", expected " +
                     text_of(expected) + " (" + found->describe() + (batched ? ", its first dim is the batch)" : ", max_batch_size is 0)"));
  }
  for (const Tensor& t : tensors) {
    const bool there = std::any_of(listed.begin(), listed.end(), [&](const Json& e) { return e.value("name", "") == t.name; });
    if (!there && !partly) return invalid("the config has no " + std::string(kind) + " '" + t.name + "', " + t.describe());
  }
  return {};
}

}  // namespace

Status complete(const Artifact& artifact, const Settings& settings, Json* config) {
  Program first, next;
  if (Status s = programs(artifact, settings, &first, &next); !s) return s;
  Service service;
  if (Status s = states_of(settings, first, next, &service); !s) return s;
  const States states = service.states;
  const Program& asked = service.asked;
  int64_t max_batch = integer(*config, "max_batch_size"), most = 0;
  std::string why_not;
  // Who lists whole shapes does not want batches.
  bool whole = false;
  for (const Json& entry : config->value("input", Json::array()))
    if (const Tensor* t = asked.input(entry.value("name", "")))
      whole |= max_batch == 0 && integers(entry, "dims").size() == t->wire_dims(false).size();
  if (max_batch == 0 && !whole && settings.batching && states == States::none && settings.feedback.empty()) {
    if (batchable(artifact, first, false, &most, &why_not)) {
      max_batch = most == INT64_MAX ? kUnbounded : std::min<int64_t>(most, INT32_MAX);
    } else {
      log(TRITONSERVER_LOG_INFO, "requests are not batched: " + why_not);
    }
  }
  if (max_batch == 0 && !whole && settings.batching && states == States::slots) max_batch = service.slots.rows;
  (*config)["max_batch_size"] = max_batch;
  if (!has(*config, "input")) {
    (*config)["input"] = describe(asked.inputs, {}, max_batch > 0);
    if (states == States::slots && max_batch > 0) (*config)["input"][0]["allow_ragged_batch"] = true;
  }
  if (!has(*config, "output"))
    (*config)["output"] = describe(asked.outputs, settings.feedback.empty() ? asked.outputs : next.outputs, max_batch > 0);
  const bool scheduled =
      has_object(*config, "dynamic_batching") || has_object(*config, "sequence_batching") || has_object(*config, "ensemble_scheduling");
  // What the server has set aside for an instance is joined by what comes before it begins only where there is a delay.
  if (!scheduled && max_batch > 1 && states == States::none) (*config)["dynamic_batching"] = {{"max_queue_delay_microseconds", 1}};
  if (!scheduled && states == States::sequence)
    (*config)["sequence_batching"] = {{"max_sequence_idle_microseconds", 60000000},
                                      {"oldest", {{"max_candidate_sequences", settings.sequences}}}};
  if (!scheduled && states == States::slots)
    (*config)["sequence_batching"] = {{"max_sequence_idle_microseconds", 60000000},
                                      {"oldest", {{"max_candidate_sequences", service.slots.rows}, {"max_queue_delay_microseconds", 1}}}};
  if (!settings.feedback.empty() && !has_object(*config, "model_transaction_policy"))
    (*config)["model_transaction_policy"] = {{"decoupled", true}};
  return {};
}

Status read_service(const Artifact& artifact, const Settings& settings, const Json& config, Service* out) {
  if (Status s = programs(artifact, settings, &out->program, &out->next); !s) return s;
  if (Status s = states_of(settings, out->program, out->next, out); !s) return s;
  out->max_batch = integer(config, "max_batch_size");
  out->decoupled = has_object(config, "model_transaction_policy") && config["model_transaction_policy"].value("decoupled", false);
  if (!settings.feedback.empty() && !out->decoupled)
    return invalid("parameter 'feedback' gives a response for each run: the config needs model_transaction_policy { decoupled: true }");
  if (out->max_batch > 0) {
    int64_t most = 0;
    std::string why_not;
    if (out->states == States::slots) {
      most = out->slots.rows;
    } else if (out->states != States::none) {
      why_not = "its runs update states, which rows would share";
    }
    if (!settings.feedback.empty()) why_not = "parameter 'feedback' is for one request at a time";
    if (why_not.empty() && out->states == States::none) (void)batchable(artifact, out->program, true, &most, &why_not);
    if (!why_not.empty())
      return invalid("max_batch_size is " + std::to_string(out->max_batch) + ", and requests cannot be batched: " + why_not);
    if (out->max_batch > most)
      return invalid("max_batch_size is " + std::to_string(out->max_batch) + ", and the artifact takes at most " + std::to_string(most) +
                     " rows");
  }
  const bool by_sequence = out->states == States::sequence || out->states == States::slots;
  if (by_sequence && !has_object(config, "sequence_batching"))
    return invalid(
        "runs of the artifact update states: the config needs sequence_batching, or the parameter 'states' as 'instance' or 'request'");
  if (by_sequence && has_object(config["sequence_batching"], "oldest")) {
    const int64_t most = integer(config["sequence_batching"]["oldest"], "max_candidate_sequences");
    const int64_t kept = out->states == States::slots ? out->slots.rows : settings.sequences;
    if (most > kept)
      return invalid("sequence_batching has max_candidate_sequences " + std::to_string(most) + ", and an instance keeps " +
                     std::to_string(kept) + (out->states == States::slots ? ", a slot each" : " (parameter 'sequences')"));
  }
  if (Status s = compare(config.value("input", Json::array()), out->asked.inputs, "input", out->max_batch > 0, false); !s) return s;
  if (Status s = compare(config.value("output", Json::array()), out->asked.outputs, "output", out->max_batch > 0, true); !s) return s;
  int64_t instances = 0;
  for (const Json& group : config.value("instance_group", Json::array()))
    if (group.value("kind", "") != "KIND_GPU") instances += std::max<int64_t>(integer(group, "count"), 1);
  out->instances = static_cast<int32_t>(std::clamp<int64_t>(instances, 1, AOTC_MAX_THREADS));
  return {};
}

}  // namespace aotc::triton

#include "difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "about.h"

namespace aotc::cli {
namespace {

using nlohmann::json;
using Entries = std::map<std::string, json>;  // by name

constexpr const char* kSections[] = {"build",  "methods",  "targets", "inputs",  "outputs", "states", "symbols",
                                     "guards", "variants", "kernels", "choices", "weights", "sizes"};

/// What stands under these keys, where it does.
json picked(const json& from, std::initializer_list<const char*> keys) {
  json out = json::object();
  for (const char* key : keys)
    if (from.contains(key)) out[key] = from[key];
  return out;
}

/// Elements by their name; of inputs and outputs the position counts, too.
Entries named(const json& list, bool positions) {
  Entries out;
  for (size_t i = 0; i < list.size(); ++i) {
    json value = list[i];
    value.erase("name"), value.erase("archive");
    if (positions) value["position"] = i;
    out[list[i].at("name").get<std::string>()] = value;
  }
  return out;
}

class Differences {
 public:
  void compare(const std::string& section, const Entries& a, const Entries& b, const json& where) {
    Entries all = a;
    all.insert(b.begin(), b.end());
    for (const auto& [name, _] : all) {
      const auto x = a.find(name), y = b.find(name);
      if (x != a.end() && y != b.end() && x->second == y->second) continue;
      json entry = where;
      entry["section"] = section, entry["name"] = name;
      entry["change"] = x == a.end() ? "added" : y == b.end() ? "removed" : "changed";
      if (x != a.end()) entry["a"] = x->second;
      if (y != b.end()) entry["b"] = y->second;
      found_.push_back(std::move(entry));
    }
  }
  json take() { return std::move(found_); }

 private:
  json found_ = json::array();
};

Entries build_entries(const ArtifactFile& f) {
  Entries out;
  const json& m = f.metadata();
  for (const char* key :
       {"aotc_version", "torch_version", "schema_version", "target", "precision", "f32_matmul", "graphs", "own_weights", "shapes"})
    if (m.contains(key)) out[key] = m[key];
  if (m.contains("stored_weights")) out["weights as"] = picked(m["stored_weights"], {"as", "group", "activations", "max_error"});
  if (m.contains("kv_cache")) out["kv cache as"] = m["kv_cache"].at("as");
  if (m.contains("uarch")) out["costs"] = m["uarch"].at("name").get<std::string>() + " " + m["uarch"].at("id").get<std::string>();
  if (m.contains("weights_layout")) out["weights layout"] = m["weights_layout"].at("id");
  if (const std::string id = archive_id(m); !id.empty()) out["archive"] = id;
  const aotc_seal& s = f.seal();
  if (s.self_hash) out["id"] = artifact_id(f), out["code and tables"] = fmt::format("{:016x}", s.code_hash);
  return out;
}

Entries size_entries(const ArtifactFile& f) {
  const aotc_seal& s = f.seal();
  return {{"file_bytes", s.file_bytes},
          {"all_weights_bytes", s.weights_bytes},
          {"weights in a file beside it", s.weights_bytes > 0 && s.weights_offset == 0}};
}

/// Of an artifact's code for each kind of machine: what explain and the metadata say, by the target's name.
std::map<std::string, json> targets_of(const json& method) {
  std::map<std::string, json> out = {{method.value("first_target", method.value("target", "")), method}};
  for (const json& p : method.value("parts", json::array())) out[p.at("target").get<std::string>()] = p;
  return out;
}

Entries variant_entries(const json& explain) {
  Entries out;
  for (const json& v : explain.at("variants"))
    out[v.at("name").get<std::string>()] = picked(v, {"ranges", "steps", "arena_bytes", "buffers_bytes", "live_bytes", "joined"});
  return out;
}
Entries kernel_entries(const json& explain) {
  Entries out;
  for (const json& k : explain.at("kernels")) out[k.at("name").get<std::string>()] = picked(k, {"kind", "calls", "ops"});
  return out;
}
Entries choice_entries(const json& explain) {
  Entries out;
  for (const json& c : explain.value("choices", json::array())) {
    std::string name = c.at("kernel").get<std::string>() + " [" + c.at("variant").get<std::string>() + "]";
    while (out.count(name)) name += "'";
    out[name] = picked(c, {"choice", "by"});
  }
  return out;
}
Entries weight_entries(const json& method, const json& target) {
  Entries out;
  if (method.contains("stored_weights"))
    for (const json& w : method["stored_weights"].at("weights")) out[w.at("name").get<std::string>()] = picked(w, {"bytes", "error"});
  const json layouts = target.at("explain").value("weights", json());
  for (const json& w : layouts.is_array() ? layouts : json::array())
    if (w.is_object() && w.contains("name")) {
      json& entry = out[w["name"].get<std::string>()];
      json rest = w;
      rest.erase("name");
      if (entry.is_null()) entry = json::object();
      entry.update(rest);
    }
  return out;
}
Entries texts(const json& list) {
  Entries out;
  for (const json& t : list) out[t.get<std::string>()] = true;
  return out;
}

void compare_target(Differences& d, const json& a, const json& b, const json& ma, const json& mb, const json& where) {
  const json &ea = a.at("explain"), &eb = b.at("explain");
  d.compare("variants", variant_entries(ea), variant_entries(eb), where);
  d.compare("kernels", kernel_entries(ea), kernel_entries(eb), where);
  d.compare("choices", choice_entries(ea), choice_entries(eb), where);
  d.compare("weights", weight_entries(ma, a), weight_entries(mb, b), where);
  const auto sizes = [](const json& t) { return Entries{{"weights_bytes", t.at("weights_bytes")}, {"arena_bytes", t.at("arena_bytes")}}; };
  d.compare("sizes", sizes(a), sizes(b), where);
}

/// One that both have.
void compare_method(Differences& d, const std::string& a, const std::string& b, const std::string& method, bool several) {
  ArtifactFile fa(a), fb(b);
  fa.choose_method(method), fb.choose_method(method);
  const json &ma = fa.metadata(), &mb = fb.metadata();
  json where = json::object();
  if (several) where["method"] = method;
  for (const char* side : {"inputs", "outputs", "states", "symbols"}) {
    const bool positions = *side == 'i' || *side == 'o';
    d.compare(side, named(ma.at(side), positions), named(mb.at(side), positions), where);
  }
  d.compare("guards", texts(ma.at("explain").at("guards")), texts(mb.at("explain").at("guards")), where);
  const std::map<std::string, json> ta = targets_of(ma), tb = targets_of(mb);
  const bool alone = ta.size() == 1 && tb.size() == 1;
  Entries names_a, names_b;
  for (const auto& [name, _] : ta) names_a[name] = true;
  for (const auto& [name, _] : tb) names_b[name] = true;
  if (!alone) d.compare("targets", names_a, names_b, where);
  for (const auto& [name, target] : ta) {
    const auto it = alone ? tb.begin() : tb.find(name);  // avx2 beside avx512: the same kernels, chosen otherwise
    if (it == tb.end()) continue;
    json place = where;
    if (!alone) place["target"] = name;
    compare_target(d, target, it->second, ma, mb, place);
  }
}

}  // namespace

json differences(const std::string& a, const std::string& b) {
  const ArtifactFile fa(a), fb(b);
  Differences d;
  d.compare("build", build_entries(fa), build_entries(fb), json::object());
  d.compare("sizes", size_entries(fa), size_entries(fb), json::object());
  Entries of_a, of_b;
  for (const std::string& m : fa.methods()) of_a[m] = true;
  for (const std::string& m : fb.methods()) of_b[m] = true;
  d.compare("methods", of_a, of_b, json::object());
  for (const auto& [method, _] : of_a)
    if (of_b.count(method)) compare_method(d, a, b, method, of_a.size() > 1 || of_b.size() > 1);
  return d.take();
}

std::string differences_text(const json& changes) {
  std::string out;
  const auto text = [](const json& v) { return v.is_string() ? v.get<std::string>() : v.dump(); };
  for (const char* section : kSections) {
    bool first = true;
    for (const json& c : changes) {
      if (c.at("section") != section) continue;
      if (std::exchange(first, false)) out += fmt::format("{}\n", section);
      const std::string change = c.at("change").get<std::string>();
      std::string place = c.value("method", "");
      if (c.contains("target")) place += (place.empty() ? "" : ", ") + c["target"].get<std::string>();
      out += fmt::format("  {} {}{}",
                         change == "added"     ? '+'
                         : change == "removed" ? '-'
                                               : '~',
                         place.empty() ? "" : place + ": ", c.at("name").get<std::string>());
      const bool plain = c.value("a", json(true)) == json(true) && c.value("b", json(true)) == json(true);
      if (change == "changed" && c["a"].is_object() && c["b"].is_object()) {
        std::string what;
        json all = c["a"];
        all.update(c["b"]);
        for (const auto& [key, _] : all.items()) {
          const json x = c["a"].value(key, json()), y = c["b"].value(key, json());
          if (x != y) what += fmt::format("{}{}: {} -> {}", what.empty() ? "" : "; ", key, text(x), text(y));
        }
        out += ": " + what;
      } else if (change == "changed") {
        out += fmt::format(": {} -> {}", text(c["a"]), text(c["b"]));
      } else if (!plain) {
        out += ": " + text(change == "added" ? c["b"] : c["a"]);
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace aotc::cli

#include "search/tuning_db.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/json_depth.h"
#include "library_hash.h"
#include "search/alternatives.h"

namespace aotc::search {

using nlohmann::json;

namespace {

[[noreturn]] void malformed(const std::string& path, const std::string& where, const std::string& what) {
  throw Diagnostic(ExitCode::bad_input, Loc{path, where, {}, {}}, what).note("delete the file to start with an empty tuning database");
}

json trades_json(const Trades& t) {
  json tried = json::array();
  for (const Trade& x : t.tried)
    tried.push_back({{"contract", x.contract},
                     {"choice", forms::str(x.choice)},
                     {"ns", x.ns},
                     {"accurate_ns", x.accurate_ns},
                     {"error", x.error},
                     {"taken", x.taken},
                     {"why", x.why}});
  return {{"tried", tried}, {"error", t.error}, {"bound", t.bound}, {"complete", t.complete}};
}

bool is(const json& r, const char* name, bool (json::*test)() const noexcept) {
  return r.is_object() && r.contains(name) && (r[name].*test)();
}

/// Whether a choice that cannot be read is no fault: other kernels have other fields.
bool of_another_library(const json& r) { return r["library"].get_ref<const std::string&>() != AOTC_KERNEL_LIBRARY_HASH; }

/// Of one element of "trades"; none: of another kernel library's choices. Throws Diagnostic.
std::optional<Trades> trades_of(const json& r, const std::string& path, const std::string& where) {
  Trades t;
  for (const char* name : {"program", "machine", "library"})
    if (!is(r, name, &json::is_string)) malformed(path, where, fmt::format("has no {}", name));
  if (!is(r, "error", &json::is_number) || !is(r, "bound", &json::is_number) || !is(r, "tried", &json::is_array))
    malformed(path, where, "trades have error, bound and tried");
  t.error = r["error"], t.bound = r["bound"];
  if (r.contains("complete") && !r["complete"].is_boolean()) malformed(path, where, "complete is true or false");
  t.complete = r.value("complete", true);
  for (size_t i = 0; i < r["tried"].size(); ++i) {
    const json& x = r["tried"][i];
    const std::string at = fmt::format("{}.tried[{}]", where, i);
    if (!is(x, "contract", &json::is_string) || !is(x, "choice", &json::is_string) || !is(x, "ns", &json::is_number) ||
        !is(x, "accurate_ns", &json::is_number) || !is(x, "error", &json::is_number) || !is(x, "taken", &json::is_boolean) ||
        !is(x, "why", &json::is_string))
      malformed(path, at, "a trade has contract, choice, ns, accurate_ns, error, taken and why");
    const auto choice = forms::parse_choice(x["choice"].get_ref<const std::string&>());
    if (!choice && of_another_library(r)) return std::nullopt;
    if (!choice) malformed(path, at + ".choice", choice.why());
    t.tried.push_back({x["contract"], *choice, x["ns"], x["accurate_ns"], x["error"], x["taken"], x["why"]});
  }
  return t;
}

json alternatives_json(const AlternativesRecord& a) {
  json tried = json::array();
  for (const AlternativesRecord::Tried& t : a.tried)
    tried.push_back({{"name", t.name}, {"ns", t.ns}, {"own_ns", t.own_ns}, {"taken", t.taken}, {"why", t.why}});
  return {{"tried", tried}, {"complete", a.complete}, {"seconds", a.seconds}};
}

/// Of one element of "alternatives". Throws Diagnostic.
AlternativesRecord alternatives_of(const json& r, const std::string& path, const std::string& where) {
  AlternativesRecord a;
  for (const char* name : {"program", "machine", "library"})
    if (!is(r, name, &json::is_string)) malformed(path, where, fmt::format("has no {}", name));
  if (!is(r, "tried", &json::is_array) || !is(r, "complete", &json::is_boolean) || !is(r, "seconds", &json::is_number))
    malformed(path, where, "alternatives have tried, complete and seconds");
  a.complete = r["complete"], a.seconds = r["seconds"];
  for (size_t i = 0; i < r["tried"].size(); ++i) {
    const json& t = r["tried"][i];
    const std::string at = fmt::format("{}.tried[{}]", where, i);
    if (!is(t, "name", &json::is_string) || !is(t, "ns", &json::is_number) || !is(t, "own_ns", &json::is_number) ||
        !is(t, "taken", &json::is_boolean) || !is(t, "why", &json::is_string))
      malformed(path, at, "an alternative has name, ns, own_ns, taken and why");
    if (const auto known = Alternatives::parse(t["name"].get_ref<const std::string&>()); !known && !of_another_library(r))
      malformed(path, at + ".name", known.why());
    a.tried.push_back({t["name"], t["ns"], t["own_ns"], t["taken"], t["why"]});
  }
  return a;
}

json comparison_json(const ComparisonRecord& c) {
  json tried = json::array();
  for (const ComparisonRecord::Tried& t : c.tried)
    tried.push_back({{"kept", t.kept}, {"ns", t.ns}, {"own_ns", t.own_ns}, {"ratio", t.ratio}});
  return {{"tried", tried}, {"kept", c.kept}, {"taken_back", c.taken_back}, {"complete", c.complete}};
}

/// Of one element of "comparisons". Throws Diagnostic.
ComparisonRecord comparison_of(const json& r, const std::string& path, const std::string& where) {
  ComparisonRecord c;
  for (const char* name : {"program", "machine", "library", "kept", "taken_back"})
    if (!is(r, name, &json::is_string)) malformed(path, where, fmt::format("has no {}", name));
  if (!is(r, "tried", &json::is_array) || !is(r, "complete", &json::is_boolean))
    malformed(path, where, "comparisons have tried and complete");
  c.kept = r["kept"], c.taken_back = r["taken_back"], c.complete = r["complete"];
  for (size_t i = 0; i < r["tried"].size(); ++i) {
    const json& t = r["tried"][i];
    if (!is(t, "kept", &json::is_string) || !is(t, "ns", &json::is_number) || !is(t, "own_ns", &json::is_number) ||
        !is(t, "ratio", &json::is_number))
      malformed(path, fmt::format("{}.tried[{}]", where, i), "a comparison has kept, ns, own_ns and ratio");
    c.tried.push_back({t["kept"], t["ns"], t["own_ns"], t["ratio"]});
  }
  return c;
}

/// A list of the database, empty where it has none.
const json& list_of(const json& db, const char* name, const std::string& path) {
  static const json none = json::array();
  if (!db.contains(name)) return none;
  if (!db[name].is_array()) malformed(path, fmt::format("$.{}", name), "is no list");
  return db[name];
}

}  // namespace

std::string kernel_library_hash() { return AOTC_KERNEL_LIBRARY_HASH; }

TuningDb TuningDb::load(const std::string& path) {
  TuningDb db;
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return db;
  require_file(path);
  std::ifstream in(path);
  if (!in) throw Diagnostic(ExitCode::io, Loc{path, {}, {}, {}}, "cannot be read");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  if (nests_too_deep(text)) malformed(path, "$", fmt::format("nests deeper than {}", kMostJsonDepth));
  const json j = json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("version") || !j["version"].is_number_integer() || !j.contains("records") || !j["records"].is_array())
    malformed(path, "$", "this is no tuning database (an object with version and records)");
  if (j["version"] != 2) malformed(path, "$.version", fmt::format("version {} is not supported (2 is)", j["version"].dump()));
  for (size_t i = 0; i < j["records"].size(); ++i) {
    const json& r = j["records"][i];
    const std::string where = fmt::format("$.records[{}]", i);
    auto is = [&](const char* name, auto test) { return r.is_object() && r.contains(name) && test(r[name]); };
    auto str = [](const json& x) { return x.is_string(); };
    auto num = [](const json& x) { return x.is_number(); };
    auto whole = [](const json& x) { return x.is_number_integer(); };
    if (!is("contract", str) || !is("machine", str) || !is("library", str) || !is("choice", str) || !is("ns", num) ||
        !is("default_ns", num) || !is("measured", whole))
      malformed(path, where, "a record has contract, machine, library, choice, ns, default_ns and measured");
    const auto choice = forms::parse_choice(r["choice"].get_ref<const std::string&>());
    if (!choice && of_another_library(r)) {
      db.others_[{r["contract"], r["machine"], r["library"]}] = r.dump();
      continue;
    }
    if (!choice) malformed(path, where + ".choice", choice.why());
    db.put(r["contract"], r["machine"], r["library"], {*choice, r["ns"], r["default_ns"], r["measured"]});
  }
  const json& trades = list_of(j, "trades", path);
  for (size_t i = 0; i < trades.size(); ++i) {
    std::optional<Trades> t = trades_of(trades[i], path, fmt::format("$.trades[{}]", i));
    if (t)
      db.put_trades(trades[i]["program"], trades[i]["machine"], trades[i]["library"], std::move(*t));
    else
      db.other_trades_[{trades[i]["program"], trades[i]["machine"], trades[i]["library"]}] = trades[i].dump();
  }
  const json& alternatives = list_of(j, "alternatives", path);
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const json& a = alternatives[i];
    AlternativesRecord record = alternatives_of(a, path, fmt::format("$.alternatives[{}]", i));
    db.put_alternatives(a["program"], a["machine"], a["library"], std::move(record));
  }
  const json& comparisons = list_of(j, "comparisons", path);
  for (size_t i = 0; i < comparisons.size(); ++i) {
    const json& c = comparisons[i];
    ComparisonRecord record = comparison_of(c, path, fmt::format("$.comparisons[{}]", i));
    db.put_comparison(c["program"], c["machine"], c["library"], std::move(record));
  }
  return db;
}

void TuningDb::save(const std::string& path) const {
  std::map<Key, json> records, trades;
  for (const auto& [key, text] : others_) records[key] = json::parse(text);
  for (const auto& [key, r] : records_)
    records[key] = {{"contract", std::get<0>(key)},
                    {"machine", std::get<1>(key)},
                    {"library", std::get<2>(key)},
                    {"choice", forms::str(r.choice)},
                    {"ns", r.ns},
                    {"default_ns", r.default_ns},
                    {"measured", r.measured}};
  for (const auto& [key, text] : other_trades_) trades[key] = json::parse(text);
  for (const auto& [key, t] : trades_) {
    json x = trades_json(t);
    std::tie(x["program"], x["machine"], x["library"]) = key;
    trades[key] = std::move(x);
  }
  json all = {{"version", 2}, {"records", json::array()}};
  for (auto& [key, r] : records) all["records"].push_back(std::move(r));
  for (auto& [key, t] : trades) all["trades"].push_back(std::move(t));
  for (const auto& [key, a] : alternatives_) {
    json x = alternatives_json(a);
    std::tie(x["program"], x["machine"], x["library"]) = key;
    all["alternatives"].push_back(std::move(x));
  }
  for (const auto& [key, c] : comparisons_) {
    json x = comparison_json(c);
    std::tie(x["program"], x["machine"], x["library"]) = key;
    all["comparisons"].push_back(std::move(x));
  }
  const std::string aside = fmt::format("{}.{}.tmp", path, getpid());
  {
    std::ofstream out(aside);
    out << all.dump(1) << '\n';
    if (!out.flush()) throw Diagnostic(ExitCode::io, Loc{path, {}, {}, {}}, "cannot be written");
  }
  std::error_code error;
  std::filesystem::rename(aside, path, error);
  if (error) throw Diagnostic(ExitCode::io, Loc{path, {}, {}, {}}, "cannot be written: " + error.message());
}

void TuningDb::put(const std::string& contract, const std::string& machine, const std::string& library, TuningRecord record) {
  auto [it, fresh] = records_.try_emplace({contract, machine, library}, record);
  if (!fresh && record.ns < it->second.ns) it->second = record;
}

const TuningRecord* TuningDb::find(const std::string& contract, const std::string& machine, const std::string& library) const {
  auto it = records_.find({contract, machine, library});
  return it == records_.end() ? nullptr : &it->second;
}

void TuningDb::put_trades(const std::string& program, const std::string& machine, const std::string& library, Trades trades) {
  trades_[{program, machine, library}] = std::move(trades);
}

const Trades* TuningDb::find_trades(const std::string& program, const std::string& machine, const std::string& library) const {
  const auto it = trades_.find({program, machine, library});
  return it == trades_.end() ? nullptr : &it->second;
}

void TuningDb::put_alternatives(const std::string& program, const std::string& machine, const std::string& library,
                                AlternativesRecord record) {
  alternatives_[{program, machine, library}] = std::move(record);
}

const AlternativesRecord* TuningDb::find_alternatives(const std::string& program, const std::string& machine,
                                                      const std::string& library) const {
  const auto it = alternatives_.find({program, machine, library});
  return it == alternatives_.end() ? nullptr : &it->second;
}

void TuningDb::put_comparison(const std::string& program, const std::string& machine, const std::string& library, ComparisonRecord record) {
  comparisons_[{program, machine, library}] = std::move(record);
}

const ComparisonRecord* TuningDb::find_comparison(const std::string& program, const std::string& machine,
                                                  const std::string& library) const {
  const auto it = comparisons_.find({program, machine, library});
  return it == comparisons_.end() ? nullptr : &it->second;
}

void TuningDb::merge(const TuningDb& other) {
  others_.insert(other.others_.begin(), other.others_.end());
  other_trades_.insert(other.other_trades_.begin(), other.other_trades_.end());
  for (const auto& [key, trades] : other.trades_) trades_.try_emplace(key, trades);
  for (const auto& [key, record] : other.alternatives_) alternatives_.try_emplace(key, record);
  for (const auto& [key, record] : other.comparisons_) comparisons_.try_emplace(key, record);
  for (const auto& [key, record] : other.records_) put(std::get<0>(key), std::get<1>(key), std::get<2>(key), record);
}

}  // namespace aotc::search

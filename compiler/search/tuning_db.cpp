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

struct Member {
  const char* name;
  bool (json::*is)() const noexcept;
};
/// Throws Diagnostic unless r is an object with these; `what` says so.
void require(const json& r, std::initializer_list<Member> members, const std::string& path, const std::string& where, const char* what) {
  for (const auto& [name, is] : members)
    if (!r.is_object() || !r.contains(name) || !(r[name].*is)()) malformed(path, where, what);
}
constexpr auto kText = &json::is_string;
constexpr auto kNumber = &json::is_number;
constexpr auto kFlag = &json::is_boolean;

/// Whether a choice that cannot be read is no fault: other kernels have other fields.
bool of_another_library(const json& r) { return r["library"].get_ref<const std::string&>() != AOTC_KERNEL_LIBRARY_HASH; }

/// How the list of a kind of record of whole programs is written: its name, an element of it, beside program, machine and library, and that
/// element read. None: of another kernel library's choices. read throws Diagnostic.
template <class Record>
struct Written;

template <>
struct Written<Trades> {
  static constexpr const char* kList = "trades";
  static json json_of(const Trades& t) {
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
  static std::optional<Trades> read(const json& r, const std::string& path, const std::string& where) {
    Trades t;
    require(r, {{"error", kNumber}, {"bound", kNumber}, {"tried", &json::is_array}}, path, where, "trades have error, bound and tried");
    t.error = r["error"], t.bound = r["bound"];
    if (r.contains("complete")) require(r, {{"complete", kFlag}}, path, where, "complete is true or false");
    t.complete = r.value("complete", true);
    for (size_t i = 0; i < r["tried"].size(); ++i) {
      const json& x = r["tried"][i];
      const std::string at = fmt::format("{}.tried[{}]", where, i);
      require(x,
              {{"contract", kText},
               {"choice", kText},
               {"ns", kNumber},
               {"accurate_ns", kNumber},
               {"error", kNumber},
               {"taken", kFlag},
               {"why", kText}},
              path, at, "a trade has contract, choice, ns, accurate_ns, error, taken and why");
      const auto choice = forms::parse_choice(x["choice"].get_ref<const std::string&>());
      if (!choice && of_another_library(r)) return std::nullopt;
      if (!choice) malformed(path, at + ".choice", choice.why());
      t.tried.push_back({x["contract"], *choice, x["ns"], x["accurate_ns"], x["error"], x["taken"], x["why"]});
    }
    return t;
  }
};

template <>
struct Written<AlternativesRecord> {
  static constexpr const char* kList = "alternatives";
  static json json_of(const AlternativesRecord& a) {
    json tried = json::array();
    for (const AlternativesRecord::Tried& t : a.tried)
      tried.push_back({{"name", t.name}, {"ns", t.ns}, {"own_ns", t.own_ns}, {"taken", t.taken}, {"why", t.why}});
    return {{"tried", tried}, {"complete", a.complete}, {"seconds", a.seconds}};
  }
  static std::optional<AlternativesRecord> read(const json& r, const std::string& path, const std::string& where) {
    AlternativesRecord a;
    require(r, {{"tried", &json::is_array}, {"complete", kFlag}, {"seconds", kNumber}}, path, where,
            "alternatives have tried, complete and seconds");
    a.complete = r["complete"], a.seconds = r["seconds"];
    for (size_t i = 0; i < r["tried"].size(); ++i) {
      const json& t = r["tried"][i];
      const std::string at = fmt::format("{}.tried[{}]", where, i);
      require(t, {{"name", kText}, {"ns", kNumber}, {"own_ns", kNumber}, {"taken", kFlag}, {"why", kText}}, path, at,
              "an alternative has name, ns, own_ns, taken and why");
      if (const auto known = Alternatives::parse(t["name"].get_ref<const std::string&>()); !known && !of_another_library(r))
        malformed(path, at + ".name", known.why());
      a.tried.push_back({t["name"], t["ns"], t["own_ns"], t["taken"], t["why"]});
    }
    return a;
  }
};

template <>
struct Written<ComparisonRecord> {
  static constexpr const char* kList = "comparisons";
  static json json_of(const ComparisonRecord& c) {
    json tried = json::array();
    for (const ComparisonRecord::Tried& t : c.tried)
      tried.push_back({{"kept", t.kept}, {"ns", t.ns}, {"own_ns", t.own_ns}, {"ratio", t.ratio}});
    return {{"tried", tried}, {"kept", c.kept}, {"taken_back", c.taken_back}, {"complete", c.complete}};
  }
  static std::optional<ComparisonRecord> read(const json& r, const std::string& path, const std::string& where) {
    ComparisonRecord c;
    for (const char* name : {"kept", "taken_back"}) require(r, {{name, kText}}, path, where, fmt::format("has no {}", name).c_str());
    require(r, {{"tried", &json::is_array}, {"complete", kFlag}}, path, where, "comparisons have tried and complete");
    c.kept = r["kept"], c.taken_back = r["taken_back"], c.complete = r["complete"];
    for (size_t i = 0; i < r["tried"].size(); ++i) {
      const json& t = r["tried"][i];
      require(t, {{"kept", kText}, {"ns", kNumber}, {"own_ns", kNumber}, {"ratio", kNumber}}, path, fmt::format("{}.tried[{}]", where, i),
              "a comparison has kept, ns, own_ns and ratio");
      c.tried.push_back({t["kept"], t["ns"], t["own_ns"], t["ratio"]});
    }
    return c;
  }
};

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
    require(r,
            {{"contract", kText},
             {"machine", kText},
             {"library", kText},
             {"choice", kText},
             {"ns", kNumber},
             {"default_ns", kNumber},
             {"measured", &json::is_number_integer}},
            path, where, "a record has contract, machine, library, choice, ns, default_ns and measured");
    const auto choice = forms::parse_choice(r["choice"].get_ref<const std::string&>());
    if (!choice && of_another_library(r)) {
      db.others_[{r["contract"], r["machine"], r["library"]}] = r.dump();
      continue;
    }
    if (!choice) malformed(path, where + ".choice", choice.why());
    db.put(r["contract"], r["machine"], r["library"], {*choice, r["ns"], r["default_ns"], r["measured"]});
  }
  const auto read = [&]<class Record>(const Programs<Record>&) {
    const char* name = Written<Record>::kList;
    const json& list = list_of(j, name, path);
    for (size_t i = 0; i < list.size(); ++i) {
      const json& r = list[i];
      const std::string where = fmt::format("$.{}[{}]", name, i);
      for (const char* part : {"program", "machine", "library"})
        require(r, {{part, kText}}, path, where, fmt::format("has no {}", part).c_str());
      if (std::optional<Record> record = Written<Record>::read(r, path, where))
        db.put_program(r["program"], r["machine"], r["library"], std::move(*record));
      else
        db.other_trades_[{r["program"], r["machine"], r["library"]}] = r.dump();
    }
  };
  std::apply([&](const auto&... programs) { (read(programs), ...); }, db.programs_);
  return db;
}

void TuningDb::save(const std::string& path) const {
  std::map<Key, json> records;
  for (const auto& [key, text] : others_) records[key] = json::parse(text);
  for (const auto& [key, r] : records_)
    records[key] = {{"contract", std::get<0>(key)},
                    {"machine", std::get<1>(key)},
                    {"library", std::get<2>(key)},
                    {"choice", forms::str(r.choice)},
                    {"ns", r.ns},
                    {"default_ns", r.default_ns},
                    {"measured", r.measured}};
  json all = {{"version", 2}, {"records", json::array()}};
  for (auto& [key, r] : records) all["records"].push_back(std::move(r));
  const auto write = [&]<class Record>(const Programs<Record>& programs) {
    std::map<Key, json> list;
    if constexpr (std::is_same_v<Record, Trades>)
      for (const auto& [key, text] : other_trades_) list[key] = json::parse(text);
    for (const auto& [key, record] : programs) {
      json x = Written<Record>::json_of(record);
      std::tie(x["program"], x["machine"], x["library"]) = key;
      list[key] = std::move(x);
    }
    for (auto& [key, x] : list) all[Written<Record>::kList].push_back(std::move(x));
  };
  std::apply([&](const auto&... programs) { (write(programs), ...); }, programs_);
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

void TuningDb::merge(const TuningDb& other) {
  others_.insert(other.others_.begin(), other.others_.end());
  other_trades_.insert(other.other_trades_.begin(), other.other_trades_.end());
  const auto add = [&]<class Record>(const Programs<Record>& programs) {
    for (const auto& [key, record] : programs) std::get<Programs<Record>>(programs_).try_emplace(key, record);
  };
  std::apply([&](const auto&... programs) { (add(programs), ...); }, other.programs_);
  for (const auto& [key, record] : other.records_) put(std::get<0>(key), std::get<1>(key), std::get<2>(key), record);
}

}  // namespace aotc::search

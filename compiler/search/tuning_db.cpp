#include "search/tuning_db.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/json_depth.h"
#include "library_hash.h"
#include "search/alternatives.h"

namespace {

/// A member's text that names nothing of this aotc's forms or alternatives.
struct UnknownChoice {
  std::string text, why;
};

}  // namespace

template <>
struct nlohmann::adl_serializer<aotc::forms::Choice> {
  static void to_json(json& j, const aotc::forms::Choice& c) { j = aotc::forms::str(c); }
  static void from_json(const json& j, aotc::forms::Choice& c) {
    const auto choice = aotc::forms::parse_choice(j.get_ref<const std::string&>());
    if (!choice) throw UnknownChoice{j, choice.why()};
    c = *choice;
  }
};

namespace aotc::search {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TuningRecord, choice, ns, default_ns, measured)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trade, contract, choice, ns, accurate_ns, error, taken, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trades, tried, error, bound, complete)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AlternativesRecord::Tried, name, ns, own_ns, taken, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AlternativesRecord, tried, complete, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ComparisonRecord::Tried, kept, ns, own_ns, ratio)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ComparisonRecord, tried, kept, taken_back, complete)

namespace {

/// Lists of records of whole programs.
template <class Record>
constexpr const char* kList = nullptr;
template <>
constexpr const char* kList<Trades> = "trades";
template <>
constexpr const char* kList<AlternativesRecord> = "alternatives";
template <>
constexpr const char* kList<ComparisonRecord> = "comparisons";

[[noreturn]] void malformed(const std::string& path, const std::string& where, const std::string& what) {
  throw Diagnostic(ExitCode::bad_input, Loc{path, where, {}, {}}, what).note("delete the file to start with an empty tuning database");
}

/// Names that a record has and this aotc does not know.
void check(const AlternativesRecord& a) {
  for (const AlternativesRecord::Tried& t : a.tried)
    if (const auto known = Alternatives::parse(t.name); !known) throw UnknownChoice{t.name, known.why()};
}
template <class Record>
void check(const Record&) {}

/// Where a record has the text: ".tried[0].choice".
std::string place_of(const std::string& text, const json& r) {
  const json flat = r.flatten();  // by JSON pointers, "/tried/0/choice"
  for (const auto& [pointer, value] : flat.items()) {
    if (value != text) continue;
    std::string place;
    for (size_t at = 0, end; at < pointer.size(); at = end) {
      end = std::min(pointer.find('/', at + 1), pointer.size());
      const std::string part = pointer.substr(at + 1, end - at - 1);
      place += part.find_first_not_of("0123456789") == std::string::npos ? "[" + part + "]" : "." + part;
    }
    return place;
  }
  return "";
}

/// A record of a list; none where its choices cannot be read and it is of another kernel library, whose kernels have other fields. Throws
/// Diagnostic.
template <class Record>
std::optional<Record> read(const json& r, const std::string& path, const std::string& where) {
  const bool own = r.at("library") == AOTC_KERNEL_LIBRARY_HASH;
  try {
    auto record = r.get<Record>();
    if (own) check(record);
    return record;
  } catch (const UnknownChoice& u) {
    if (own) malformed(path, where + place_of(u.text, r), u.why);
    return std::nullopt;
  } catch (const json::exception& e) {
    const std::string_view what = e.what();
    malformed(path, where, std::string(what.substr(what.find("] ") + 2)));
  }
}

/// Texts by which a record is told from others: contract or program, machine, library.
std::tuple<std::string, std::string, std::string> key_of(const json& r, const char* what, const std::string& path,
                                                         const std::string& where) {
  for (const char* name : {what, "machine", "library"})
    if (!r.is_object() || !r.contains(name) || !r[name].is_string()) malformed(path, where, fmt::format("has no {}", name));
  return {r[what], r["machine"], r["library"]};
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
    const Key key = key_of(r, "contract", path, where);
    if (const auto record = read<TuningRecord>(r, path, where))
      db.put(r["contract"], r["machine"], r["library"], *record);
    else
      db.others_[key] = r.dump();
  }
  const auto read_list = [&]<class Record>(Programs<Record>& programs) {
    const json& list = list_of(j, kList<Record>, path);
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string where = fmt::format("$.{}[{}]", kList<Record>, i);
      json r = list[i];
      const Key key = key_of(r, "program", path, where);
      r.emplace("complete", true);  // of older files
      if (std::optional<Record> record = read<Record>(r, path, where))
        programs[key] = std::move(*record);
      else
        db.other_trades_[key] = list[i].dump();
    }
  };
  std::apply([&](auto&... programs) { (read_list(programs), ...); }, db.programs_);
  return db;
}

void TuningDb::save(const std::string& path) const {
  std::map<Key, json> records;
  for (const auto& [key, text] : others_) records[key] = json::parse(text);
  for (const auto& [key, r] : records_) {
    json& x = records[key] = r;
    std::tie(x["contract"], x["machine"], x["library"]) = key;
  }
  json all = {{"version", 2}, {"records", json::array()}};
  for (auto& [key, r] : records) all["records"].push_back(std::move(r));
  const auto write = [&]<class Record>(const Programs<Record>& programs) {
    std::map<Key, json> list;
    if constexpr (std::is_same_v<Record, Trades>)
      for (const auto& [key, text] : other_trades_) list[key] = json::parse(text);
    for (const auto& [key, record] : programs) {
      json x = record;
      std::tie(x["program"], x["machine"], x["library"]) = key;
      list[key] = std::move(x);
    }
    for (auto& [key, x] : list) all[kList<Record>].push_back(std::move(x));
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

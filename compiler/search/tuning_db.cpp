#include "search/tuning_db.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "library_hash.h"

namespace aotc::search {

using nlohmann::json;

namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string s;
  std::getline(in, s);
  return s;
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0)
      if (const size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown cpu";
}

[[noreturn]] void malformed(const std::string& path, const std::string& where, const std::string& what) {
  throw Diagnostic(ExitCode::bad_input, Loc{path, where, {}, {}}, what).note("delete the file to start with an empty tuning database");
}

}  // namespace

std::string kernel_library_hash() { return AOTC_KERNEL_LIBRARY_HASH; }

Hardware this_hardware(Isa isa, int threads) {
  std::string text = cpu_model() + " " + std::string(isa_name(isa));
  for (int i = 0; i < 8; ++i) {
    const std::string dir = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = first_line(dir + "level");
    if ((level == "2" || level == "3")) text += fmt::format(" L{} {}", level, first_line(dir + "size"));
  }
  return {text, threads};
}

TuningDb TuningDb::load(const std::string& path) {
  TuningDb db;
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return db;
  require_file(path);
  std::ifstream in(path);
  if (!in) throw Diagnostic(ExitCode::io, Loc{path, {}, {}, {}}, "cannot be read");
  const json j = json::parse(in, nullptr, false);
  if (!j.is_object() || !j.contains("version") || !j["version"].is_number_integer() || !j.contains("records") || !j["records"].is_array())
    malformed(path, "$", "this is no tuning database (an object with version and records)");
  if (j["version"] != 1) malformed(path, "$.version", fmt::format("version {} is not supported (1 is)", j["version"].dump()));
  for (size_t i = 0; i < j["records"].size(); ++i) {
    const json& r = j["records"][i];
    const std::string where = fmt::format("$.records[{}]", i);
    auto is = [&](const char* name, auto test) { return r.is_object() && r.contains(name) && test(r[name]); };
    auto str = [](const json& x) { return x.is_string(); };
    auto num = [](const json& x) { return x.is_number(); };
    auto whole = [](const json& x) { return x.is_number_integer(); };
    if (!is("contract", str) || !is("cpu", str) || !is("threads", whole) || !is("library", str) || !is("ns", num) ||
        !is("default_ns", num) || !is("measured", whole) || !r.contains("choice"))
      malformed(path, where, "a record has contract, cpu, threads, library, choice, ns, default_ns and measured");
    const auto choice = choice_from(r["choice"]);
    if (!choice) malformed(path, where + ".choice", choice.why());
    db.put(r["contract"], {r["cpu"], r["threads"]}, r["library"], {*choice, r["ns"], r["default_ns"], r["measured"]});
  }
  return db;
}

void TuningDb::save(const std::string& path) const {
  json records = json::array();
  for (const auto& [key, r] : records_)
    records.push_back({{"contract", std::get<0>(key)},
                       {"cpu", std::get<1>(key)},
                       {"threads", std::get<2>(key)},
                       {"library", std::get<3>(key)},
                       {"choice", to_json(r.choice)},
                       {"ns", r.ns},
                       {"default_ns", r.default_ns},
                       {"measured", r.measured}});
  const std::string aside = fmt::format("{}.{}.tmp", path, getpid());
  {
    std::ofstream out(aside);
    out << json{{"version", 1}, {"records", records}}.dump(1) << '\n';
    if (!out.flush()) throw Diagnostic(ExitCode::io, Loc{path, {}, {}, {}}, "cannot be written");
  }
  std::error_code error;
  std::filesystem::rename(aside, path, error);
  if (error) throw Diagnostic(ExitCode::io, Loc{path, {}, {}, {}}, "cannot be written: " + error.message());
}

void TuningDb::put(const std::string& contract, const Hardware& hw, const std::string& library, TuningRecord record) {
  auto [it, fresh] = records_.try_emplace({contract, hw.cpu, hw.threads, library}, record);
  if (!fresh && record.ns < it->second.ns) it->second = record;
}

const TuningRecord* TuningDb::find(const std::string& contract, const Hardware& hw, const std::string& library) const {
  auto it = records_.find({contract, hw.cpu, hw.threads, library});
  return it == records_.end() ? nullptr : &it->second;
}

void TuningDb::merge(const TuningDb& other) {
  for (const auto& [key, record] : other.records_) put(std::get<0>(key), {std::get<1>(key), std::get<2>(key)}, std::get<3>(key), record);
}

}  // namespace aotc::search

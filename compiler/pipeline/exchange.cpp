#include "pipeline/exchange.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "aotc/detail/blob_hash.h"
#include "base/file.h"
#include "base/uarch.h"
#include "decompose/decompose.h"
#include "forms/slabs.h"
#include "graph/text.h"
#include "import/read_archive.h"
#include "loop/text.h"
#include "pipeline/assemble.h"
#include "pipeline/clock.h"
#include "pipeline/metadata.h"
#include "plan/blob.h"
#include "plan/text.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string hex(uint64_t v) { return fmt::format("{:016x}", v); }
uint64_t hash_of(std::string_view text) { return aotc_blob_hash(text.data(), text.size()); }

/// The text with data of constants that are not exchangeable; those that are long by their hash.
std::string graph_text(const Graph& g) {
  ConstantStore keys("");
  return print(g, {.constants = &keys, .exchangeable = false});
}

/// The program's lines without what another export of it may have otherwise: versions and places in sources.
std::vector<std::string> lines_of(const import::Program& program) {
  std::vector<std::string> lines;
  const std::string text = import::dump(program);
  for (size_t begin = text.find('\n') + 1, end; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    lines.push_back(line.substr(0, line.find("  # ")));
  }
  return lines;
}

constexpr size_t kDigits = 4;
std::string digest(const std::string& line) { return hex(hash_of(line)).substr(0, kDigits); }

/// Names of parameters and buffers that lie in one piece of memory, beside the first of them.
json ties_of(const import::Program& p) {
  std::map<const std::byte*, std::vector<std::string>> places;
  for (const auto& [name, c] : p.data)
    if (c.bytes > 0) places[c.data].push_back(name);
  std::vector<std::vector<std::string>> ties;
  for (const auto& [data, names] : places)
    if (names.size() > 1) ties.push_back(names);
  std::sort(ties.begin(), ties.end());
  return ties;
}

/// The data of constants that are not exchangeable, by name: the graphs may depend on them.
json fixed_of(const Graph& g) {
  json fixed = json::array();
  ConstantStore keys("");
  for (const ConstData& c : g.constants)
    if (c.data && !c.exchangeable) fixed.push_back({c.name, keys.put(c)});
  return fixed;
}

// ---- options
json options_json(const FrontOptions& o, const Machine& m, const Front& f) {
  const Target& t = o.target;
  json isas = json::array();
  for (const Isa i : t.isas) isas.push_back(isa_name(i));
  std::string precisions;
  for (const passes::PrecisionStep& s : f.precisions) precisions += s.precision == passes::Precision::bf16 ? 'b' : 'f';
  json j = {
      {"shapes", shapes_of(o)},
      {"states", {{"all_parameters", o.states.all_parameters}, {"names", o.states.names}, {"shared", o.states.shared}}},
      {"precision", {{"mode", o.precision.mode}, {"steps", o.precision.choose ? precisions : ""}}},
      {"weights",
       {{"bits", o.weights.bits}, {"group", o.weights.group}, {"int8_rows", o.weights.int8_rows}, {"max_error", o.weights.max_error}}},
      {"alternatives", o.alternatives.str()},
      {"isas", isas},
      {"sms", t.sms},
      {"native", t.native},
      {"threads", t.threads},
      {"f32_matmul", f32_matmul_name(t.numerics.f32_matmul)},
      {"winograd4", t.numerics.winograd4},
      {"strassen", t.numerics.strassen},
      {"bf16_rounds_once", t.numerics.bf16_rounds_once},
      {"int8_rows", t.numerics.int8_rows},
      {"reproducible", t.numerics.reproducible},
      {"machine",
       {{"isa", isa_name(m.isa)}, {"cores", m.cores}, {"l1", m.l1_bytes}, {"l2", m.l2_bytes}, {"l3", m.l3_bytes}, {"model", m.model}}}};
  if (o.weights.float8) j["weights"]["float8"] = true;
  if (o.cache != passes::CacheStorage::as_is) j["kv_cache"] = {{"as", passes::cache_storage_name(o.cache)}, {"names", o.cache_names}};
  if (t.uarch) j["uarch"] = {{"name", t.uarch->name}, {"numbers", print(*t.uarch)}};
  return j;
}

FrontOptions options_of(const json& j) {
  FrontOptions o;
  o.shapes_text = j.at("shapes").get<std::string>();
  if (!o.shapes_text.empty()) o.shapes = "the shapes that the artifact was built with";
  const json& states = j.at("states");
  o.states = {states.at("all_parameters").get<bool>(), states.at("names").get<std::vector<std::string>>(),
              states.at("shared").get<std::vector<std::string>>()};
  o.precision.mode = j.at("precision").at("mode").get<std::string>();
  if (const auto steps = j.at("precision").at("steps").get<std::string>(); !steps.empty())
    o.precision.choose = [steps](size_t place) {
      return place < steps.size() && steps[place] == 'b' ? passes::Precision::bf16 : passes::Precision::f32;
    };
  const json& w = j.at("weights");
  o.weights = {w.at("bits").get<int>(), w.at("group").get<int64_t>(), w.at("int8_rows").get<bool>(), w.at("max_error").get<double>(),
               w.value("float8", false)};
  if (j.contains("kv_cache")) {
    o.cache = passes::parse_cache_storage(j["kv_cache"].at("as").get<std::string>());
    o.cache_names = j["kv_cache"].at("names").get<std::vector<std::string>>();
  }
  const auto alternatives = search::Alternatives::parse(j.at("alternatives").get<std::string>());
  if (!alternatives) throw Diagnostic(Loc{}, alternatives.why());
  o.alternatives = *alternatives;
  Target& t = o.target;
  std::string isas;
  for (const json& i : j.at("isas")) isas += (isas.empty() ? "" : ",") + i.get<std::string>();
  if (!isas.empty()) t = parse_cpu_target(isas);
  t.sms = j.at("sms").get<std::vector<std::string>>();
  t.native = j.at("native").get<bool>(), t.threads = j.at("threads").get<int>();
  t.numerics.f32_matmul = parse_f32_matmul(j.at("f32_matmul").get<std::string>());
  t.numerics.winograd4 = j.at("winograd4").get<bool>(), t.numerics.strassen = j.at("strassen").get<bool>();
  t.numerics.bf16_rounds_once = j.at("bf16_rounds_once").get<bool>(), t.numerics.int8_rows = j.at("int8_rows").get<bool>();
  t.numerics.reproducible = j.at("reproducible").get<bool>();
  Target named = t;  // of no machine: its sizes are the other's
  named.native = false;
  Machine m = machine_of(named);
  const json& known = j.at("machine");
  for (const Isa i : t.isas)
    if (isa_name(i) == known.at("isa").get<std::string>()) m = machine_of(i, m.cores);
  t.uarch = stored_uarch(j);
  if (t.uarch && t.uarch->is_gpu != m.traits().device_code)
    throw Diagnostic(Loc{}, fmt::format("{} does not describe {}", t.uarch->name, m.name()));
  if (t.uarch) take_costs(m, t.uarch);
  m.cores = known.at("cores").get<int>(), m.l1_bytes = known.at("l1").get<int64_t>(), m.l2_bytes = known.at("l2").get<int64_t>();
  m.l3_bytes = known.at("l3").get<int64_t>(), m.model = known.at("model").get<std::string>();
  o.machine = m;
  return o;
}

// ---- other weights
/// Whether a form that a file tells has sizes that can be computed with; none is larger than `most`.
bool is_sane(const forms::Panels& p, int64_t most) {
  const auto within = [&](int64_t x, int64_t least) { return x >= least && x <= most; };
  for (const forms::Panels::Rows& r : p.rows) {
    if (!within(r.count, 0) || r.inner < 1 || !within(r.inner_stride, -most)) return false;
    if (r.inner < r.count && !within(r.outer_stride, -most)) return false;
    if (!r.taps.empty() && static_cast<int64_t>(r.taps.size()) < std::min(r.inner, r.count)) return false;
    for (const int64_t t : r.taps)
      if (!within(t, -most)) return false;
  }
  if (p.slabs)  // the packer takes neighbours
    for (const forms::Panels::Rows& r : p.rows)
      if ((p.bits != 4 && p.bits != 8) || p.step != forms::slab_rows(p.bits) || r.inner < r.count || r.inner_stride != 1 ||
          !r.taps.empty() || p.column_groups || p.line || p.winograd)
        return false;
  for (const forms::Panels::Matrix& m : p.matrices)
    if (m.rows >= p.rows.size() || !within(m.begin, 0) || !within(m.cols, 0)) return false;
  return (p.winograd == 0 || p.winograd == 2 || p.winograd == 4) && (p.bits == 0 || p.bits == 4 || p.bits == 8) &&
         (p.parts == 1 || p.parts == 2) && within(p.column_groups, 0) && within(p.line, 0) && within(p.step, 1) &&
         p.step % AOTC_QUANT_BLOCK == 0 && within(p.col_stride, -most);
}

/// Whether all that the form takes of a constant is there.
bool is_within(const forms::Panels& p, const ConstData& c) {
  const int64_t width = dtype_bytes(c.type.dtype), elems = static_cast<int64_t>(c.bytes) / width, beside = p.winograd ? 8 : 0;
  if (dtype_bytes(p.dtype) != width) return false;
  for (const forms::Panels::Matrix& m : p.matrices) {
    const forms::Panels::Rows& rows = p.rows[m.rows];
    const int64_t last = (m.cols - 1) * p.col_stride, lowest = m.begin + std::min<int64_t>(0, last),
                  highest = m.begin + std::max<int64_t>(0, last) + beside;
    for (int64_t r = 0; m.cols > 0 && r < rows.count; ++r)
      if (lowest + rows.at(r) < 0 || highest + rows.at(r) >= elems) return false;
  }
  return true;
}

/// What of one front of the artifact is computed anew.
struct Made {
  std::string method, file;
  Front front;
  std::vector<plan::Weight> own;  ///< but for what an earlier front stores
};

std::string joined(const json& names) {
  std::string text;
  for (const json& n : names) text += fmt::format("{}'{}'", text.empty() ? "" : " and ", n.get<std::string>());
  return text;
}

/// Throws what is not the artifact's of a front that has another id.
[[noreturn]] void tell_difference(const json& known, const Front& front, const OtherWeights& o, const std::string& file) {
  const Loc loc{.file = file};
  const std::string artifact = fs::path(o.artifact).filename().string();
  const auto build = [&](Diagnostic d) { return d.note("build an artifact of its own from it: aotc build " + file); };
  const std::vector<std::string> lines = lines_of(front.program);
  const auto digests = known.at("program").get<std::string>();
  for (size_t i = 0; i < lines.size(); ++i)
    if (digests.compare(std::min(i * kDigits, digests.size()), kDigits, digest(lines[i])) != 0)
      throw build(Diagnostic(
          loc, fmt::format("is another program than {} was built from; the first line that differs is: {}", artifact, lines[i])));
  if (lines.size() * kDigits != digests.size())
    throw build(Diagnostic(loc, fmt::format("is another program than {} was built from: it ends earlier", artifact)));
  const json ties = ties_of(front.program);
  for (const json& t : known.at("ties"))
    if (std::find(ties.begin(), ties.end(), t) == ties.end())
      throw build(Diagnostic(loc, fmt::format("{} are one tensor in {} and not here", joined(t), artifact)));
  for (const json& t : ties)
    if (std::find(known.at("ties").begin(), known.at("ties").end(), t) == known.at("ties").end())
      throw build(Diagnostic(loc, fmt::format("{} are one tensor here and not in {}", joined(t), artifact)));
  const json fixed = fixed_of(front.graph);
  for (size_t i = 0; i < fixed.size() && i < known.at("fixed").size(); ++i)
    if (fixed[i] != known.at("fixed")[i])
      throw build(
          Diagnostic(loc, fmt::format("has other values than {} was built with in '{}', by which code was chosen", artifact,
                                      fixed[i][0].get<std::string>()))
              .note("floating-point parameters and buffers may have other values; integers, masks and tensors that the program itself "
                    "contains belong to the program"));
  throw build(
      Diagnostic(loc, fmt::format("does not give the graph that {} has, though its program is the same", artifact))
          .note("the artifact is of another version of aotc, or the values of what belongs to the program decide otherwise: a state "
                "that starts at zeros in one of them, weights that are not finite"));
}

class Maker {
 public:
  Maker(const json& layout, const OtherWeights& o, const Events& events) : layout_(layout), o_(o), events_(events) {}

  void make(std::vector<PhaseTime>* times) {
    std::set<std::string> methods;
    for (const json& f : layout_.at("fronts")) methods.insert(f.at("method").get<std::string>());
    check_names(methods);
    for (const json& f : layout_.at("fronts")) made_.push_back(make_one(f, times));
    check_replaced();
    place();
  }

  void write(std::span<std::byte> out, int threads) const {
    std::memset(out.data(), 0, out.size());
    for (const Made& m : made_) {
      if (m.own.empty()) continue;
      const uint64_t begin = m.own.front().offset, end = m.own.back().offset + m.own.back().bytes;
      AOTC_CHECK(end <= out.size(), "weights end at {}, the blob at {}", end, out.size());
      std::vector<plan::Weight> from_begin = m.own;
      for (plan::Weight& w : from_begin) w.offset -= begin;
      plan::write_weights(from_begin, m.front.graph.constants, out.subspan(begin, end - begin), threads);
    }
  }
  size_t weights() const {
    size_t n = 0;
    for (const Made& m : made_) n += m.own.size();
    return n;
  }

 private:
  void check_replaced() const {
    for (const auto& [name, data] : o_.replaced) {
      if (std::any_of(made_.begin(), made_.end(), [&name = name](const Made& m) { return m.front.program.data.count(name); })) continue;
      std::string known;
      for (const auto& [other, c] : made_.front().front.program.data) known += (known.empty() ? "" : ", ") + other;
      throw Diagnostic(ExitCode::usage, Loc{.file = made_.front().file}, fmt::format("has no parameter or buffer '{}'", name))
          .note("it has " + known);
    }
  }

  void check_names(const std::set<std::string>& methods) const {
    std::string known;
    for (const std::string& m : methods) known += (known.empty() ? "" : ", ") + m;
    for (const OtherWeights::Archive& a : o_.archives)
      if (!a.method.empty() && !methods.count(a.method))
        throw Diagnostic(ExitCode::usage, Loc{.file = o_.artifact}, fmt::format("has no method '{}'; it has {}", a.method, known));
    for (const std::string& m : methods) (void)archive_of(m);
  }

  const OtherWeights::Archive& archive_of(const std::string& method) const {
    for (const OtherWeights::Archive& a : o_.archives)
      if (a.method.empty() || a.method == method) return a;
    throw Diagnostic(ExitCode::usage, Loc{.file = o_.artifact}, fmt::format("has a method '{}', for which no archive is given", method))
        .note(fmt::format("aotc weights {}=FILE.pt2 .. --for {}", method, o_.artifact));
  }

  void require_place(const plan::Weight& w, const IdVec<ConstId, ConstData>& constants) const {
    const auto room = layout_.at("bytes").get<uint64_t>();
    const auto stored = [&]() -> std::optional<uint64_t> {
      if (!constants.contains(w.source)) return std::nullopt;
      const ConstData& c = constants[w.source];
      if (!w.panels || c.bytes == 0) return w.panels ? w.bytes : c.bytes;
      const int64_t most = std::max<int64_t>(4096, static_cast<int64_t>(c.bytes));
      if (!is_sane(*w.panels, most) || !is_within(*w.panels, c)) return std::nullopt;
      return static_cast<uint64_t>(w.panels->bytes());
    }();
    if (!stored || *stored != w.bytes || w.bytes > room || w.offset > room - w.bytes || w.offset % 64)
      throw Diagnostic(Loc{.file = o_.artifact}, "says that its weights lie where they cannot").note("it is damaged; build it again");
  }

  Made make_one(const json& known, std::vector<PhaseTime>* times) const {
    Made m;
    m.method = known.at("method").get<std::string>();
    const OtherWeights::Archive& archive = archive_of(m.method);
    m.file = archive.file;
    FrontOptions options = options_of(known.at("options"));
    options.model = archive.file, options.program = archive.program;
    options.replaced = o_.replaced, options.own = o_.own;
    try {
      m.front = run_front(options, events_, times);
    } catch (const Diagnostic& d) {
      if (d.code() != ExitCode::unsupported) throw;
      throw Diagnostic(Loc{.file = m.file}, fmt::format("is another program than {} was built from: {}",
                                                        fs::path(o_.artifact).filename().string(), d.message()));
    }
    m.front.stored_weights.check_error();
    if (front_id(m.front) != known.at("id").get<std::string>()) tell_difference(known, m.front, o_, m.file);
    for (const json& w : known.at("weights")) {
      plan::Weight weight;
      weight.source = static_cast<ConstId>(w.at(0).get<uint32_t>());
      weight.offset = w.at(1).get<uint64_t>(), weight.bytes = w.at(2).get<uint64_t>();
      if (const auto form = w.at(3).get<std::string>(); !form.empty()) weight.panels = plan::parse_weight_form(form, o_.artifact);
      require_place(weight, m.front.graph.constants);
      weight.name = m.front.graph.constants[weight.source].name;
      m.own.push_back(std::move(weight));
    }
    return m;
  }

  /// Takes away what an earlier front stores, having compared it.
  void place() {
    std::map<uint64_t, std::pair<const Made*, plan::Weight>> first;
    for (Made& m : made_) {
      std::vector<plan::Weight> own;
      for (plan::Weight& w : m.own) {
        const auto [it, fresh] = first.try_emplace(w.offset, &m, w);
        if (fresh || w.bytes == 0) {
          own.push_back(w);
          continue;
        }
        const auto& [by, there] = it->second;
        const ConstData &a = by->front.graph.constants[there.source], &b = m.front.graph.constants[w.source];
        if (there.panels != w.panels || !plan::same_content(a, b))
          throw Diagnostic(
              Loc{.file = m.file},
              fmt::format("'{}' of method {} and '{}' of method {} are stored once in {}, for they were equal when it was built, "
                          "and differ here",
                          a.name, by->method, b.name, m.method, fs::path(o_.artifact).filename().string()))
              .note("build an artifact of its own from these archives");
      }
      std::stable_sort(own.begin(), own.end(), [](const plan::Weight& a, const plan::Weight& b) { return a.offset < b.offset; });
      m.own = std::move(own);
    }
  }

  const json& layout_;
  const OtherWeights& o_;
  const Events& events_;
  std::vector<Made> made_;
};

/// The id of a layout.
std::string id_of(uint64_t blob_bytes, const json& fronts) {
  std::string text = fmt::format("{}\n", blob_bytes);
  for (const json& f : fronts)
    text += fmt::format("{} {} {}\n", f.at("method").get<std::string>(), f.at("id").get<std::string>(), f.at("weights").dump());
  return hex(std::max<uint64_t>(1, hash_of(text)));
}

}  // namespace

std::string front_id(const Front& front) { return hex(hash_of(graph_text(front.graph) + loop::print(front.module))); }

json layout_json(const std::vector<LaidOut>& parts, uint64_t blob_bytes) {
  json fronts = json::array();
  for (const LaidOut& p : parts) {
    json weights = json::array();
    for (const plan::Weight& w : p.weights)
      weights.push_back({idx(w.source), w.offset, w.bytes, w.panels ? plan::print(*w.panels) : std::string()});
    std::string digests;
    for (const std::string& line : lines_of(p.front.program)) digests += digest(line);
    fronts.push_back({{"method", p.method},
                      {"id", p.id},
                      {"options", options_json(p.options, p.machine, p.front)},
                      {"program", digests},
                      {"ties", ties_of(p.front.program)},
                      {"fixed", fixed_of(p.front.graph)},
                      {"weights", std::move(weights)}});
  }
  const std::string id = id_of(blob_bytes, fronts);
  return {{"id", id}, {"bytes", blob_bytes}, {"fronts", std::move(fronts)}};
}

uint64_t layout_id(const json& layout) { return std::stoull(layout.at("id").get<std::string>(), nullptr, 16); }

json write_weights_for(const json& layout, const OtherWeights& given, const Events& events) {
  OtherWeights o = given;
  if (o.jobs <= 0) o.jobs = usable_processors();
  std::vector<NamedFile> read = {{"--for", o.artifact}};
  for (const OtherWeights::Archive& a : o.archives) read.push_back({"model", a.file});
  require_apart(std::vector<NamedFile>{{"-o", o.output}}, read);
  require_place_for_file(o.output);
  std::vector<PhaseTime> times;
  Maker maker(layout, o, events);
  try {
    if (id_of(layout.at("bytes").get<uint64_t>(), layout.at("fronts")) != layout.at("id").get<std::string>())
      throw Diagnostic(Loc{.file = o.artifact}, "is damaged: how its weights are stored has another id").note("build it again");
    maker.make(&times);
  } catch (const json::exception& e) {
    throw Diagnostic(Loc{.file = o.artifact}, fmt::format("does not say how its weights are stored: {}", e.what())).note("build it again");
  }
  const auto bytes = layout.at("bytes").get<uint64_t>();
  const std::string aside = fmt::format("{}.{}.part", o.output, ::getpid());
  uint64_t hash = 0;
  std::error_code ec;
  {
    PhaseClock clock(events, &times);
    clock.phase("weights");
    try {
      hash = write_weights_file(aside, bytes, layout_id(layout), [&](std::span<std::byte> out) { maker.write(out, o.jobs); });
    } catch (...) {
      fs::remove(aside, ec);
      throw;
    }
  }
  fs::rename(aside, o.output, ec);
  if (ec) {
    const std::string why = ec.message();
    fs::remove(aside, ec);
    throw Diagnostic(ExitCode::io, Loc{.file = o.output}, "cannot be written: " + why);
  }
  double seconds = 0;
  for (const PhaseTime& t : times) seconds += t.seconds;
  return {{"weights_file", o.output},  {"weights", maker.weights()}, {"bytes", bytes},
          {"layout", layout.at("id")}, {"hash", hex(hash)},          {"seconds", seconds}};
}

}  // namespace aotc::pipeline

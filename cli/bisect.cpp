#include "bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "import/aliases.h"
#include "import/bind_symbols.h"
#include "import/probes.h"
#include "npy.h"
#include "oracles.h"
#include "pipeline/pipeline.h"
#include "pipeline/work_dir.h"
#include "progress.h"
#include "rebuild.h"
#include "sizes.h"
#include "stored.h"
#include "text_file.h"

namespace aotc::cli {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr size_t kMostProbes = 24;                  ///< values that a build gives beside its outputs
constexpr double kMostBytes = 512.0 * 1024 * 1024;  ///< of these, where there are several
constexpr int kMostBuilds = 40;                     ///< then the search ends where it is
constexpr double kMostSlack = 4;                    ///< of a value's limit: what later operators even out

/// Which values a value is computed from.
class Dataflow {
 public:
  explicit Dataflow(const import::Program& p) : p_(p) {
    for (size_t i = 0; i < p.nodes.size(); ++i) {
      const std::string_view op = std::string_view(p.nodes[i].target).substr(0, p.nodes[i].target.rfind('.'));
      writes_ = writes_ || (op.ends_with('_') && !op.ends_with("__"));
      for (const std::string& name : import::result_names(p.nodes[i])) {
        node_of_.emplace(name, i);
        order_.push_back(name);
      }
    }
  }

  const import::PNode* node(const std::string& value) const {
    const auto it = node_of_.find(value);
    return it == node_of_.end() ? nullptr : &p_.nodes[it->second];
  }
  /// Results of nodes before it that it may depend on, in the program's order: where the program writes in place, all.
  Names before(const std::string& value) const {
    const auto last = node_of_.find(value);
    if (last == node_of_.end()) return {};
    std::set<std::string> needed, seen;
    Names open = {value};
    while (!open.empty()) {
      const std::string v = open.back();
      open.pop_back();
      if (const import::PNode* n = node(v); n && seen.insert(v).second)
        for (const import::Operand& o : import::operands_of(*n)) needed.insert(o.tensor), open.push_back(o.tensor);
    }
    Names out;
    for (const std::string& v : order_)
      if (node_of_.at(v) < last->second && (writes_ || needed.count(v)) && p_.tensors.count(v)) out.push_back(v);
    return out;
  }
  void sort(Names& values) const {
    std::map<std::string, size_t> place;
    for (size_t i = 0; i < order_.size(); ++i) place.emplace(order_[i], i);
    std::stable_sort(values.begin(), values.end(), [&](const std::string& a, const std::string& b) {
      const auto x = place.find(a), y = place.find(b);
      return (x == place.end() ? 0 : x->second + 1) < (y == place.end() ? 0 : y->second + 1);
    });
  }

 private:
  const import::Program& p_;
  std::map<std::string, size_t> node_of_;
  Names order_;
  bool writes_ = false;
};

/// What an artifact with probes gave.
struct Judged {
  std::map<std::string, Row> values;
  std::map<std::string, HostTensor> got;
  std::vector<Row> results;  ///< of the program itself
};

class Search {
 public:
  Search(const BisectOptions& o, const Artifact& artifact, const import::Program& archive, const Departed& departed,
         const pipeline::Events& events)
      : o_(o),
        artifact_(artifact),
        archive_(archive),
        departed_(departed),
        events_(events),
        front_(options_of(artifact, archive.file, o.kernels)),
        flow_(archive),
        sizes_(import::bind_symbols(archive, departed.inputs)),
        work_((fs::path(o.folder) / "bisect").string()) {
    if (events.work_dir) events.work_dir(work_.str());
    const double over = departed.row.limit > 0 ? departed.row.err_aotc / departed.row.limit : kMostSlack;
    slack_ = o.allowed.any() ? 1 : std::clamp(std::sqrt(over), 1.0, kMostSlack);
  }

  Departure find() {
    Departure d;
    d.result = departed_.row;
    const import::ProgramOutput& output = archive_.outputs.at(import::results_of(archive_).at(departed_.place));
    const auto* t = std::get_if<import::TensorRef>(&output.value);
    try {
      if (!t)
        d.note = "it is a number that the program computes from sizes or data";
      else if (judged({}, false).results.at(departed_.place).pass)
        d.note =
            "an artifact that is built from this archive with the same options, by this aotc, gives what it should: this one was built "
            "from "
            "other weights, another program or kernels, by another version, or its choices of kernels differ";
      else
        tell(d, first(t->name));
    } catch (const TooManyBuilds&) { d.note = fmt::format("the search ended after {} builds", kMostBuilds); }
    for (const std::string& v : tried_) d.around.push_back(rows_.at(v));
    d.builds = builds_;
    return d;
  }

 private:
  struct TooManyBuilds {};

  bool departs(const Row& r) const { return !r.pass && !(r.err_aotc <= r.limit * slack_ && !r.outside && r.why.empty()); }

  double bytes_of(const std::string& value) const {
    const import::TensorMeta& meta = archive_.tensors.at(value);
    double n = static_cast<double>(dtype_bytes(meta.dtype));
    for (const Expr& e : meta.sizes)
      n *= static_cast<double>(e.try_eval([&](SymId s) -> std::optional<int64_t> {
                                  const auto it = sizes_.find(s);
                                  return it == sizes_.end() ? std::nullopt : std::optional(it->second);
                                }).value_or(1));
    return n;
  }

  /// Builds the program with these values as outputs, runs it on the inputs of the departure and judges all that it gives.
  Judged judged(Names values, bool alone) {
    if (++builds_ > kMostBuilds) throw TooManyBuilds();
    flow_.sort(values);
    if (events_.phase) events_.phase(fmt::format("bisect: build {}, {} values as outputs", builds_, values.size()));
    import::Program program = archive_;
    const import::Probes probes{values, alone};
    import::add_probes(program, probes);
    pipeline::BuildOptions build;
    pipeline::FrontOptions& front = build.methods.front().front = front_;
    front.probes = probes;
    settle_precision(front, artifact_.metadata().at("explain"));
    build.output = work_.file(fmt::format("bisect_{}.so", builds_));
    pipeline::build(build, {});
    const Artifact probed(build.output);
    Oracles oracles(program, probed, o_.threads, o_.max_loss);
    Session session(probed, o_.threads, o_.flush_denormals ? AOTC_CONTEXT_FLUSH_DENORMALS : 0);
    session.bind(departed_.inputs);
    session.run();
    const Results got = results_of(session, probed);
    const std::vector<Row> rows = oracles.judge(departed_.row.sizes, departed_.inputs, got, oracles.eager(departed_.inputs), o_.allowed);
    size_t own = 0;  // user outputs come first, then the probes
    if (!alone)
      for (const size_t place : import::results_of(archive_)) own += !import::is_mutation(archive_.outputs[place].kind);
    Judged out;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i < own || i >= own + values.size()) {
        out.results.push_back(rows[i]);
        continue;
      }
      const std::string& v = values[i - own];
      Row row = rows[i];
      row.name = v;
      if (!rows_.count(v)) tried_.push_back(v);
      rows_.insert_or_assign(v, row);
      out.values.emplace(v, row);
      out.got.emplace(v, got.tensors[i]);
    }
    flow_.sort(tried_);
    return out;
  }

  /// Some of the values, evenly spaced, the last one among them, that one build can give.
  Names some_of(const Names& values) const {
    for (size_t n = std::min(values.size(), kMostProbes);; --n) {
      Names out;
      double bytes = 0;
      for (size_t i = 1; i <= n; ++i) out.push_back(values[i * values.size() / n - 1]), bytes += bytes_of(out.back());
      if (n <= 1 || bytes <= kMostBytes) return out;
    }
  }

  /// A value that departs and whose operands do not, from a result that does.
  std::string first(std::string bad) {
    std::set<std::string> right, before_right;
    for (;;) {
      Names open;
      for (const std::string& v : flow_.before(bad))
        if (!right.count(v) && !before_right.count(v)) open.push_back(v);
      if (open.empty()) {
        // What was passed over, because a later value is right, may be wrong all the same: the operands decide.
        Names beside = operands(bad);
        if (flow_.node(bad)) beside.push_back(bad);
        const Judged j = judged(beside, false);
        const auto wrong = std::find_if(beside.begin(), beside.end(), [&](const std::string& v) { return departs(j.values.at(v)); });
        if (wrong == beside.end()) return first_fused(bad);
        if (*wrong == bad) {
          last_ = j;
          return bad;
        }
        bad = *wrong;
        right.clear(), before_right.clear();
        continue;
      }
      const Names probes = some_of(open);
      const Judged j = judged(probes, false);
      const auto wrong = std::find_if(probes.begin(), probes.end(), [&](const std::string& v) { return departs(j.values.at(v)); });
      for (const std::string& v : probes) {
        if (departs(j.values.at(v))) continue;
        right.insert(v);
        for (const std::string& w : flow_.before(v)) before_right.insert(w);
      }
      if (wrong == probes.end()) continue;
      bad = *wrong;
      // Only what comes before a value that is right and itself before this one is passed over.
      before_right.clear();
      const Names earlier = flow_.before(bad);
      for (const std::string& v : earlier)
        if (right.count(v))
          for (const std::string& w : flow_.before(v)) before_right.insert(w);
    }
  }

  /// Results of nodes that a value's node takes.
  Names operands(const std::string& value) const {
    Names out;
    if (const import::PNode* n = flow_.node(value))
      for (const import::Operand& o : import::operands_of(*n))
        if (flow_.node(o.tensor) && std::find(out.begin(), out.end(), o.tensor) == out.end()) out.push_back(o.tensor);
    return out;
  }

  /// The first value that departs where the program ends with it and nothing before it is an output: of one that departs, and does not
  /// beside its operands.
  std::string first_fused(const std::string& result) {
    Names values = flow_.before(result);
    values.push_back(result);
    size_t low = 0, high = values.size() - 1;  // the first one is in [low, high]
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (departs(judged({values[middle]}, true).values.at(values[middle])))
        high = middle;
      else
        low = middle + 1;
    }
    fused_ = true;
    last_ = judged({values[low]}, true);
    return values[low];
  }

  /// What is known of the value, and the tensors of its node as files.
  void tell(Departure& d, const std::string& value) {
    d.value = value;
    if (const auto row = rows_.find(value); row != rows_.end()) d.row = row->second;
    if (fused_)
      d.note =
          departs(*d.row)
              ? "it is wrong if it is fused with its operands; it and they are right as additional outputs, which split the fused kernel"
              : "a program that ends here is right: the value is wrong only together with what follows";
    const import::PNode* n = flow_.node(value);
    if (!n) {
      d.note = "it is an input of the program";
      return;
    }
    d.node = n->name, d.op = n->target, d.source = n->source, d.place = n->place, d.module = n->module_path;
    import::Program program = as_built(archive_, artifact_.metadata());
    const std::vector<import::Operand> operands = import::operands_of(*n);
    Names tensors;
    for (const import::Operand& o : operands) tensors.push_back(o.tensor);
    const Names results = import::result_names(*n);
    Names probes;
    for (const Names& list : {tensors, results})
      for (const std::string& t : list)
        if (std::find(probes.begin(), probes.end(), t) == probes.end()) probes.push_back(t);
    import::add_probes(program, {probes, true});
    std::map<std::string, HostTensor> eager, exact;
    for (const bool f64 : {false, true}) {
      const std::vector<HostTensor> out = import::make_reference(program, {f64, o_.threads})->run(departed_.inputs);
      for (size_t i = 0; i < probes.size(); ++i) (f64 ? exact : eager).emplace(probes[i], out.at(i));
    }
    nlohmann::json node = {{"node", n->name}, {"operator", n->target}, {"source", n->source}, {"arguments", nlohmann::json::object()}};
    for (const import::NamedArg& a : n->args) node["arguments"][a.name] = import::arg_text(a.value, archive_.syms);
    for (size_t i = 0; i < operands.size(); ++i) write(d, "inputs", operands[i].argument, eager.at(tensors[i]));
    for (const std::string& r : results) {
      write(d, "expected", r, exact.at(r));
      write(d, "expected", r + ".eager", eager.at(r));
      if (const auto got = last_.got.find(r); got != last_.got.end()) write(d, "got", r, got->second);
    }
    const std::string file = (fs::path(o_.folder) / "departure.json").string();
    write_text_file(file, node.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    d.files.push_back(file);
  }

  void write(Departure& d, const char* kind, const std::string& name, const HostTensor& t) {
    const std::string file = stored_file(made_folder((fs::path(o_.folder) / kind).string()), name);
    write_npy(file, t);
    d.files.push_back(file);
  }

  const BisectOptions& o_;
  const Artifact& artifact_;
  const import::Program& archive_;
  const Departed& departed_;
  const pipeline::Events& events_;
  pipeline::FrontOptions front_;
  Dataflow flow_;
  const std::map<SymId, int64_t> sizes_;
  pipeline::WorkDir work_;
  double slack_ = 1;
  int builds_ = 0;
  bool fused_ = false;
  Judged last_;  ///< of the build that has the last word
  std::map<std::string, Row> rows_;
  Names tried_;
};

}  // namespace

Departure find_departure(const BisectOptions& o, const Common& common, const Artifact& artifact, const import::Program& archive,
                         const Departed& departed) {
  made_folder(o.folder);
  Departure d;
  watched(common.quiet || common.json, [&](const pipeline::Events& events) { d = Search(o, artifact, archive, departed, events).find(); });
  return d;
}

}  // namespace aotc::cli

#include "pipeline/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/guard.h"
#include "plan/demand.h"
#include "plan/fields.h"
#include "plan/verify.h"

namespace aotc::pipeline {
namespace {

using nlohmann::json;

const char* kind_of(const loop::LoopKernel&) { return "fused loops"; }
const char* kind_of(const loop::MatmulKernel&) { return "matrix product"; }
const char* kind_of(const loop::ConvKernel&) { return "convolution"; }
const char* kind_of(const loop::AttentionKernel&) { return "attention"; }
const char* kind_of(const loop::LibraryKernel& k) { return k.algorithm == op_name(Op::custom) ? "own kernel" : "library"; }

std::string value_name(const Graph& g, ValueId v) {
  const Value& x = g.values[v];
  if (!x.name.empty()) return x.name;
  if (const Node* n = g.def(v); n && !n->name.empty()) return n->name;
  return fmt::format("%{}", idx(v));
}

/// A number where it is one for all shapes, else its text.
json expr(const Expr& e, const SymTable& syms) {
  if (auto c = e.as_const()) return *c;
  return e.str(syms);
}

json kernels(const Graph& g, const loop::Module& m) {
  json out = json::array();
  for (uint32_t k = 0; k < m.kernels.size(); ++k) {
    const loop::Kernel& kernel = m.kernels[static_cast<loop::KernelId>(k)];
    json nodes = json::array(), ops = json::array();
    for (NodeId n : loop::kernel_nodes(kernel)) {
      if (!g.nodes.contains(n)) continue;
      if (nodes.empty() || nodes.back() != g.nodes[n].name) nodes.push_back(g.nodes[n].name);
      ops.push_back(op_name(g.nodes[n].op));
    }
    int calls = 0;
    for (const loop::Call& c : m.calls) calls += idx(c.kernel) == k;
    for (const std::vector<loop::Call>& other : m.other_calls) {
      const auto n = std::count_if(other.begin(), other.end(), [&](const loop::Call& c) { return idx(c.kernel) == k; });
      calls = std::max(calls, static_cast<int>(n));
    }
    const char* kind = std::visit([](const auto& k) { return kind_of(k); }, kernel);
    out.push_back({{"name", loop::kernel_name(kernel)}, {"kind", kind}, {"calls", calls}, {"nodes", nodes}, {"ops", ops}});
  }
  return out;
}

constexpr size_t kMostCandidates = 10, kMostRefusals = 6;  ///< of a kernel; the first ones are the most promising

/// How one kernel is computed in one variant, and what else there was.
json decision(const std::string& kernel, const std::string& variant, const forms::Decision& d) {
  json row = {{"kernel", kernel}, {"variant", variant}, {"choice", forms::str(d.choice)}, {"by", d.by}};
  if (!d.contract.empty()) row["contract"] = d.contract;
  row["candidates"] = row["refused"] = json::array();
  size_t fitting = 0, refused = 0;
  for (const forms::Candidate& c : d.candidates) {
    if (!c.fit) {
      if (++refused <= kMostRefusals) row["refused"].push_back({{"choice", forms::str_if_whole(c.choice)}, {"why", c.fit.why}});
      continue;
    }
    ++fitting;
    const bool shown = fitting <= kMostCandidates || c.measured_ns > 0 || c.choice == d.choice;
    if (!shown) continue;
    json x = {{"choice", forms::str(c.choice)}, {"predicted_us", std::round(c.cost_ns) / 1e3}};
    if (c.measured_ns > 0) x["measured_us"] = std::round(c.measured_ns) / 1e3;
    row["candidates"].push_back(std::move(x));
  }
  row["others"] = fitting - row["candidates"].size();
  row["others_refused"] = refused - row["refused"].size();
  return row;
}

constexpr std::string_view kPrecisions[] = {"f32", "bf16", "asked"};

/// What contractions of float32 multiply; null where nothing was asked for.
json precision(const Front& front) {
  const PrecisionOptions& p = front.precision;
  if (p.mode == "f32") return nullptr;
  json e = {{"mode", p.mode}, {"steps", json::array()}};
  if (p.mode == "auto") e["error"] = p.error, e["bound"] = p.bound;
  for (size_t i = 0; i < front.precisions.size(); ++i) {
    const passes::PrecisionStep& s = front.precisions[i];
    json row = {{"name", s.name}, {"op", op_name(s.op)}, {"precision", kPrecisions[static_cast<size_t>(s.precision)]}};
    if (!s.source.empty()) row["source"] = s.source;
    for (const auto& [key, ns] : {std::pair{"f32_us", s.f32_ns}, {"bf16_us", s.bf16_ns}})
      if (std::isfinite(ns)) row[key] = std::round(ns) / 1e3;
    if (i < p.measured.size()) {
      if (!std::isnan(p.measured[i].error)) row["error"] = p.measured[i].error;
      row["why"] = p.measured[i].why;
    }
    e["steps"].push_back(std::move(row));
  }
  for (const passes::RoundedStream& r : front.rounded_streams) e["stored"].push_back({{"name", r.name}, {"bytes", r.bytes}});
  return e;
}

std::string precision_text(const json& e) {
  size_t rounded = 0;
  for (const json& s : e.at("steps")) rounded += s.at("precision") == "bf16";
  std::string t = fmt::format("precision {}: {} of {} products, convolutions, attentions and recurrences of float32 multiply bf16",
                              e.at("mode").get<std::string>(), rounded, e.at("steps").size());
  if (e.contains("error")) t += fmt::format("; error {:.3g}, bound {:.3g}", e["error"].get<double>(), e["bound"].get<double>());
  t += "\n";
  for (const json& s : e.at("steps")) {
    t += fmt::format("  {:<5} {} ({})", s.at("precision").get<std::string>(), s.at("name").get<std::string>(),
                     s.at("op").get<std::string>());
    if (s.contains("f32_us") && s.contains("bf16_us"))
      t += fmt::format(": {:.1f} us in f32, {:.1f} in bf16 by estimate", s["f32_us"].get<double>(), s["bf16_us"].get<double>());
    if (s.contains("error")) t += fmt::format("; adds an error of {:.2g}", s["error"].get<double>());
    if (s.contains("why")) t += "; " + s["why"].get<std::string>();
    t += "\n";
  }
  for (const json& s : e.value("stored", json::array()))
    t += fmt::format("  stored as bf16: {} ({} bytes)\n", s.at("name").get<std::string>(), s.at("bytes").get<int64_t>());
  return t;
}

std::string trades_text(const json& e) {
  std::string t = "accuracy for time\n";
  if (const double error = e.at("error"); error > 0)
    t += fmt::format("  error of the outputs against fp64 with what was taken {:.3g}, bound {:.3g}\n", error, e.at("bound").get<double>());
  for (const json& s : e.at("steps"))
    t += fmt::format("  {} {}: {}: {:.1f} us instead of {:.1f}; {}{}\n", s.at("taken").get<bool>() ? "taken" : "left ",
                     s.at("contract").get<std::string>(), s.at("choice").get<std::string>(), s.at("us").get<double>(),
                     s.at("accurate_us").get<double>(),
                     s.at("error").get<double>() > 0 ? fmt::format("adds an error of {:.2g}; ", s.at("error").get<double>()) : "",
                     s.at("why").get<std::string>());
  return t;
}

std::string alternatives_text(const json& e) {
  std::string t = fmt::format("alternatives of the whole{}\n", e.at("complete").get<bool>() ? "" : " (the time ran out)");
  for (const json& s : e.at("tried"))
    t += fmt::format("  {} {}: {:.1f} us instead of {:.1f}; {}\n", s.at("taken").get<bool>() ? "with" : "without",
                     s.at("name").get<std::string>(), s.at("us").get<double>(), s.at("own_us").get<double>(),
                     s.at("why").get<std::string>());
  return t;
}

std::string comparison_text(const json& e) {
  const std::string kept = e.at("kept"), back = e.at("taken_back");
  std::string t = fmt::format("beside default{}: kept {}{}\n", e.at("complete").get<bool>() ? "" : " (the time ran out)",
                              kept.empty() ? "nothing" : kept, back.empty() ? "" : ", taken back " + back);
  for (const json& s : e.at("tried"))
    t += s.at("ratio").get<double>() > 0
             ? fmt::format("  with {}: {:.1f} us, default {:.1f}, in turns {:.3f} of it\n", s.at("kept").get<std::string>(),
                           s.at("us").get<double>(), s.at("default_us").get<double>(), s.at("ratio").get<double>())
             : fmt::format("  with {}: not measured\n", s.at("kept").get<std::string>());
  return t;
}

/// Equal decisions of several variants are one row.
json choices(const std::vector<plan::Plan>& plans, const plan::Decisions& decisions, const loop::Module& m) {
  json out = json::array();
  for (uint32_t k = 0; k < m.kernels.size(); ++k)
    for (size_t v = 0; v < decisions.size(); ++v) {
      const plan::Plan& p = plans.at(v);
      const auto it = decisions[v].find(static_cast<loop::KernelId>(k));
      if (it == decisions[v].end()) continue;
      json row = decision(loop::kernel_name(m.kernels.raw()[k]), p.name, it->second);
      if (!out.empty() && out.back()["kernel"] == row["kernel"] && out.back()["choice"] == row["choice"] &&
          out.back().value("contract", "") == row.value("contract", "")) {
        out.back()["variant"] = out.back()["variant"].get<std::string>() + "; " + p.name;
        continue;
      }
      out.push_back(std::move(row));
    }
  return out;
}

json demand(const loop::Demand& d, const SymTable& syms) {
  const auto e = [&](const Expr& x) { return expr(syms.simplify(x), syms); };
  json row = {{"operations", e(d.operations)}, {"read", e(d.read_bytes)}, {"written", e(d.written_bytes)}};
  if (!d.products.is(0)) row["products"] = e(d.products), row["in"] = dtype_name(d.in);
  return row;
}

/// Texts that stand once, and are named by their places.
class Lines {
 public:
  size_t place(const std::string& line) {
    const auto [it, fresh] = places_.emplace(line, all.size());
    if (fresh) all.push_back(line);
    return it->second;
  }
  json all = json::array();

 private:
  std::map<std::string, size_t> places_;
};

json variant(const plan::PlanSet& plans, const plan::Plan& p, const loop::Module& m) {
  json ranges = json::object(), chosen_for = json::object(), buffers = json::array(), joined = json::array(), demands = json::array();
  json args = json::array(), labels = json::array(), kernels = json::array();
  for (const plan::Step& s : p.steps) {
    json of = json::array();
    for (const plan::PlanBufferId b : s.args) of.push_back(idx(b));
    args.push_back(std::move(of));
    labels.push_back(s.label);
    kernels.push_back(s.kernel == kNone<loop::KernelId> ? "" : loop::kernel_name(m.kernels[s.kernel]));
    if (!s.note.empty()) joined.push_back({{"label", s.label}, {"why", s.note}});
    demands.push_back(demand(plan::demand_of(m, plans, p, s), m.syms));
  }
  const SymTable syms = plan::narrowed(m.syms, p.ranges);
  for (const plan::SymRange& r : p.ranges) {
    json range = {{"min", r.min}};
    if (r.max != kInf) range["max"] = r.max;
    if (r.multiple_of != 1) range["multiple_of"] = r.multiple_of;
    ranges[m.syms[r.sym].name] = range;
    chosen_for[m.syms[r.sym].name] = syms.hint(Expr::symbol(r.sym));
  }
  for (const plan::PlannedBuffer& b : p.buffers) {
    json row = {{"name", m.buffers[b.buffer].name},
                {"place", plan::kPlaces.name(b.place)},
                {"bytes", expr(b.bytes, m.syms)},
                {"dtype", dtype_name(m.buffers[b.buffer].type.dtype)},
                {"begin", b.live.begin},
                {"end", b.live.end}};
    if (b.place == plan::Place::arena) row["offset"] = expr(b.offset, m.syms);
    if (b.in_place_of) row["in_place_of"] = m.buffers[p.buffers[*b.in_place_of].buffer].name;
    buffers.push_back(std::move(row));
  }
  // Where several kernels are one step the module's calls are not the steps.
  const bool as_calls = p.steps.size() == m.calls.size() &&
                        std::equal(p.steps.begin(), p.steps.end(), m.calls.begin(),
                                   [](const plan::Step& s, const loop::Call& c) { return s.kernel == c.kernel && s.label == c.label; });
  json v = {{"name", p.name},
            {"ranges", ranges},
            {"chosen_for", chosen_for},
            {"arena_bytes", p.arena_bytes_max},
            {"buffers_bytes", p.sum_bytes_max},
            {"live_bytes", p.live_bytes_max},
            {"steps", p.steps.size()},
            {"joined", joined},
            {"demands", demands},
            {"args", args},
            {"buffers", buffers}};
  if (!as_calls) v["labels"] = labels, v["kernels"] = kernels;
  return v;
}

std::string calls_text(const json& kernel) {
  const int calls = kernel.at("calls").get<int>();
  return fmt::format("{} call{}", calls, calls == 1 ? "" : "s");
}

std::string join(const json& list, size_t most) {
  std::string s;
  size_t n = 0;
  for (const json& x : list) {
    if (n++ == most) return s + fmt::format(", ... ({} in all)", list.size());
    s += (s.empty() ? "" : ", ") + x.get<std::string>();
  }
  return s;
}

std::string choice_text(const json& c) {
  std::string t = fmt::format("  {}\n    {} ({}; variant {})\n", c.at("kernel").get<std::string>(), c.at("choice").get<std::string>(),
                              c.at("by").get<std::string>(), c.at("variant").get<std::string>());
  return t;
}

std::string stored_weights_text(const json& stored) {
  std::string t = fmt::format("weights as {}\n", stored.at("as").get<std::string>());
  for (const json& w : stored.at("weights"))
    t += fmt::format("  {}: {} bytes, changed by {:.2g}\n", w.at("name").get<std::string>(), w.at("bytes").dump(),
                     w.at("error").get<double>());
  for (const json& w : stored.at("left"))
    t += fmt::format("  {}: as it is: {}\n", w.at("name").get<std::string>(), w.at("why").get<std::string>());
  return t;
}

std::string stored_caches_text(const json& stored) {
  std::string t = fmt::format("keys and values that states keep as {}\n", stored.at("as").get<std::string>());
  for (const json& s : stored.at("states"))
    t += fmt::format("  {}: {} bytes, {} before\n", s.at("name").get<std::string>(), s.at("bytes").dump(), s.at("bytes_before").dump());
  for (const json& s : stored.at("left"))
    t += fmt::format("  {}: as it is: {}\n", s.at("name").get<std::string>(), s.at("why").get<std::string>());
  return t;
}

std::string scalar(const json& j) { return j.is_string() ? j.get<std::string>() : j.dump(); }

}  // namespace

json explain(const Front& front, const plan::PlanSet& plans, const plan::Decisions& decisions) {
  const Graph& g = front.graph;
  const loop::Module& m = front.module;
  json e;
  e["kernels"] = kernels(g, m);
  e["steps"] = json::array();
  Lines lines;
  for (const loop::Call& c : m.calls) {
    json ops = json::array(), at = json::array();
    for (NodeId n : c.nodes) {
      if (!g.nodes.contains(n)) continue;
      ops.push_back(op_name(g.nodes[n].op));
      if (g.nodes[n].source.empty()) continue;
      if (const size_t line = lines.place(g.nodes[n].source); std::find(at.begin(), at.end(), line) == at.end()) at.push_back(line);
    }
    e["steps"].push_back({{"kernel", loop::kernel_name(m.kernels[c.kernel])}, {"label", c.label}, {"ops", ops}, {"lines", at}});
  }
  e["lines"] = lines.all;
  e["not_fused"] = json::array();
  e["prologues"] = json::array();
  for (const loop::FusionNote& n : m.notes)
    e[n.prologue ? "prologues" : "not_fused"].push_back({{"value", value_name(g, n.value)}, {"why", n.why}});
  const passes::LayoutChoice& l = front.layouts;
  e["layouts"] = {{"convolutions", l.convolutions},
                  {"channels_last", l.channels_last},
                  {"gained_us", l.gained_ns * 1e-3},
                  {"reordered", json::array()}};
  for (const auto& r : l.reorders) e["layouts"]["reordered"].push_back({{"value", r.value}, {"bytes", r.bytes}});
  if (json p = precision(front); !p.is_null()) e["precision"] = std::move(p);
  if (front.stored_weights.storage.any()) e["stored_weights"] = stored_weights_json(front.stored_weights);
  if (front.stored_caches.storage != passes::CacheStorage::as_is) e["kv_cache"] = stored_caches_json(front.stored_caches);
  e["weights"] = json::array();
  for (const loop::WeightNote& n : m.weight_notes) e["weights"].push_back({{"name", m.buffers[n.buffer].name}, {"why", n.why}});
  e["choices"] = choices(plans.plans, decisions, m);
  e["variants"] = json::array();
  for (const plan::Plan& p : plans.plans) e["variants"].push_back(variant(plans, p, m));
  for (const OutputInfo& o : g.outputs) {
    if (o.role == OutputRole::check) e["checks"].push_back(o.name);
    for (size_t d = 0; d < o.found.size(); ++d)
      if (const Expr& most = g.type(o.value).dims[d]; o.found[d] != most)
        e["found"].push_back({{"output", o.name}, {"dim", d}, {"size", o.found[d].str(g.syms)}, {"at_most", most.str(g.syms)}});
  }
  e["guards"] = json::array();
  for (const ShapeGuard& s : g.guards) e["guards"].push_back(fmt::format("{}: {}", guard_text(s, g.syms), s.why));
  for (const import::Expansion& x : front.expansions)
    e["expanded"].push_back({{"node", x.node}, {"operator", x.target}, {"source", x.source}, {"into", x.into}});
  return e;
}

std::string explain_text(const json& e) {
  std::string t;
  if (e.contains("uarch"))
    t += fmt::format("decisions by the numbers of {} (--uarch), id {}\n", e["uarch"].at("name").get<std::string>(),
                     e["uarch"].at("id").get<std::string>());
  t += fmt::format("kernels ({} distinct, {} steps)\n", e.at("kernels").size(), e.at("steps").size());
  for (const json& k : e.at("kernels")) {
    t += fmt::format("  {} ({}, {})\n", k.at("name").get<std::string>(), k.at("kind").get<std::string>(), calls_text(k));
    t += fmt::format("    operators: {}\n    nodes:     {}\n", join(k.at("ops"), 24), join(k.at("nodes"), 12));
  }
  t += "steps\n";
  size_t i = 0;
  for (const json& s : e.at("steps"))
    t += fmt::format("  {:4} {:<32} {}\n", i++, s.at("kernel").get<std::string>(), s.at("label").get<std::string>());
  t += "choices (explain --kernel NAME shows what they were chosen from)\n";
  for (const json& c : e.value("choices", json::array())) t += choice_text(c);
  if (e.contains("prologues") && !e["prologues"].empty()) t += "operands that contractions compute\n";
  for (const json& n : e.value("prologues", json::array()))
    t += fmt::format("  {}: {}\n", n.at("value").get<std::string>(), n.at("why").get<std::string>());
  t += "buffers of their own (edges that were not fused)\n";
  for (const json& n : e.at("not_fused")) t += fmt::format("  {}: {}\n", n.at("value").get<std::string>(), n.at("why").get<std::string>());
  if (const json l = e.value("layouts", json::object()); l.value("channels_last", 0) > 0) {
    t += fmt::format("layouts\n  {} of {} convolutions have their channels last, about {:.1f} us less by estimate\n",
                     l["channels_last"].get<int>(), l["convolutions"].get<int>(), l["gained_us"].get<double>());
    for (const json& r : l["reordered"])
      t += fmt::format("  reordered: {} ({} bytes)\n", r["value"].get<std::string>(), r["bytes"].get<int64_t>());
  }
  if (e.contains("precision")) t += precision_text(e["precision"]);
  if (e.contains("alternatives")) t += alternatives_text(e["alternatives"]);
  if (e.contains("trades")) t += trades_text(e["trades"]);
  if (e.contains("comparison")) t += comparison_text(e["comparison"]);
  if (e.contains("stored_weights")) t += stored_weights_text(e["stored_weights"]);
  if (e.contains("kv_cache")) t += stored_caches_text(e["kv_cache"]);
  if (e.contains("weights") && !e["weights"].empty()) t += "weights that are used in several ways\n";
  for (const json& n : e.value("weights", json::array()))
    t += fmt::format("  {}: {}\n", n.at("name").get<std::string>(), n.at("why").get<std::string>());
  for (const json& v : e.at("variants")) {
    t += fmt::format("variant {}\n", v.at("name").get<std::string>());
    for (const auto& [name, r] : v.at("ranges").items())
      t += fmt::format("  {} in [{}, {}]{}\n", name, r.at("min").dump(), r.contains("max") ? r["max"].dump() : "unbounded",
                       r.contains("multiple_of") ? ", multiples of " + r["multiple_of"].dump() : "");
    const double live = v.at("live_bytes").get<double>(), arena = v.at("arena_bytes").get<double>();
    t += fmt::format("  arena {} bytes; largest live set {} ({:+.1f} %); all buffers without reuse {}\n", v.at("arena_bytes").dump(),
                     v.at("live_bytes").dump(), live > 0 ? (arena / live - 1) * 100 : 0.0, v.at("buffers_bytes").dump());
    for (const json& s : v.value("joined", json::array()))
      t += fmt::format("  one step: {}\n    {}\n", s.at("label").get<std::string>(), s.at("why").get<std::string>());
    for (const json& b : v.at("buffers")) {
      if (b.at("place") != "arena") continue;
      t += fmt::format("    steps {:>4} .. {:<4} offset {:>10} bytes {:>10} {}{}\n", b.at("begin").dump(), b.at("end").dump(),
                       scalar(b.at("offset")), scalar(b.at("bytes")), b.at("name").get<std::string>(),
                       b.contains("in_place_of") ? " (in place of " + b["in_place_of"].get<std::string>() + ")" : "");
    }
  }
  if (e.contains("expanded")) t += "operators without a rule of their own, taken apart\n";
  for (const json& x : e.value("expanded", json::array()))
    t += fmt::format("  {} ({}): {}\n", x.at("operator").get<std::string>(), x.at("node").get<std::string>(), join(x.at("into"), 24));
  if (e.contains("found")) t += "sizes that a run finds in its data\n";
  for (const json& f : e.value("found", json::array()))
    t += fmt::format("  {}, dim {}: {}, at most {}\n", f.at("output").get<std::string>(), f.at("dim").dump(),
                     f.at("size").get<std::string>(), f.at("at_most").get<std::string>());
  if (e.contains("checks")) t += "conditions on data\n";
  for (const json& c : e.value("checks", json::array())) t += "  " + c.get<std::string>() + "\n";
  if (!e.at("guards").empty()) t += "guards\n";
  for (const json& g : e.at("guards")) t += "  " + g.get<std::string>() + "\n";
  return t;
}

json explain_kernel(const json& e, const std::string& name) {
  json out = {{"kernel", nullptr}, {"choices", json::array()}};
  std::string known;
  for (const json& k : e.at("kernels")) {
    known += (known.empty() ? "" : ", ") + k.at("name").get<std::string>();
    if (k.at("name") == name) out["kernel"] = k;
  }
  if (out["kernel"].is_null())
    throw Diagnostic(ExitCode::usage, {}, "--kernel: there is no kernel '" + name + "'").note("the kernels are " + known);
  for (const json& c : e.value("choices", json::array()))
    if (c.at("kernel") == name) out["choices"].push_back(c);
  return out;
}

std::string explain_kernel_text(const json& e) {
  const json& k = e.at("kernel");
  std::string t = fmt::format("{} ({}, {})\n  operators: {}\n  nodes:     {}\n", k.at("name").get<std::string>(),
                              k.at("kind").get<std::string>(), calls_text(k), join(k.at("ops"), 24), join(k.at("nodes"), 12));
  for (const json& c : e.at("choices")) {
    t += fmt::format("variant {}: {} ({})\n", c.at("variant").get<std::string>(), c.at("choice").get<std::string>(),
                     c.at("by").get<std::string>());
    if (c.contains("contract")) t += fmt::format("  contract: {}\n", c["contract"].get<std::string>());
    t += fmt::format("  {:>12} {:>12}  candidate\n", "predicted us", "measured us");
    for (const json& x : c.at("candidates"))
      t += fmt::format("  {:>12} {:>12}  {}{}\n", x.at("predicted_us").dump(), x.contains("measured_us") ? x["measured_us"].dump() : "-",
                       x.at("choice").get<std::string>(), x.at("choice") == c.at("choice") ? "  <- taken" : "");
    if (c.at("others").get<int>() > 0) t += fmt::format("  and {} more\n", c.at("others").dump());
    for (const json& x : c.at("refused"))
      t += fmt::format("  refused: {}: {}\n", x.at("choice").get<std::string>(), x.at("why").get<std::string>());
    if (c.at("others_refused").get<int>() > 0) t += fmt::format("  and {} more refused\n", c.at("others_refused").dump());
  }
  return t;
}

}  // namespace aotc::pipeline

#include "judge.h"
#include "base/weight_storage.h"
#include "json_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace aotc::cli {
namespace {

double finite(double v) { return std::isfinite(v) ? v : 1e300; }  // JSON has no infinity

/// The relative L2 error that rounding brings into usual rows of keys and values, at most. as: of --kv-cache.
constexpr double usual_cache_error(std::string_view as) { return as == "fp8" ? 0.04 : 0.01; }

std::string_view rounded_text(const Promise& p) {
  if (!p.weights) return "keys and values";
  return p.cache ? "weights, keys and values" : "the weights";
}

/// A row whose numbers say nothing of what is wrong.
void explain(Row& row, const HostTensor& got, const HostTensor& truth, const Difference& a) {
  if (!a.same_shape) {
    row.err_aotc = row.max_abs = row.max_rel = INFINITY;
    row.why = fmt::format("the artifact gives dims [{}], the original graph [{}]", fmt::join(got.dims, ", "), fmt::join(truth.dims, ", "));
  } else if (!std::isfinite(a.l2)) {
    row.why = "infinite or not a number where the original graph is not, or the other way round";
  }
}

}  // namespace

double usual_tolerance(DType t) {
  struct Row {
    DType dtype;
    double tolerance;
  };
  constexpr Row kRows[] = {{DType::f16, 1e-2}, {DType::bf16, 3e-2}, {DType::f32, 1e-4},
                           {DType::f64, 1e-9}, {DType::c64, 1e-4},  {DType::c128, 1e-9}};
  for (const Row& r : kRows)
    if (r.dtype == t) return r.tolerance;
  return 0;
}

Promise promise_of(const nlohmann::json& metadata) {
  Promise p;
  if (metadata.contains("precision")) p.bf16 = true, p.max_error = metadata["precision"].value("max_error", 0.0);
  if (metadata.contains("stored_weights")) {
    const nlohmann::json& stored = metadata["stored_weights"];
    p.weights = true;
    p.int8_rows = stored.contains("activations");
    const double usual = WeightStorage{stored.at("bits").get<int>(), 0, p.int8_rows, 0, stored.value("float8", false)}
                             .most_error();  // artifacts of an older aotc do not say
    p.max_loss = kLossFactor * stored.value("max_error", usual);
  }
  if (metadata.contains("kv_cache")) {
    p.cache = true;
    p.max_loss += kLossFactor * usual_cache_error(metadata["kv_cache"].at("as").get<std::string>());
  }
  return p;
}

Bound bound_of(const HostTensor& eager, const HostTensor* bf16, const HostTensor* int8, const HostTensor& truth, const Promise& promise) {
  const Distance e = distance(eager, truth);
  const double eps = epsilon(eager.dtype);
  Bound b{2 * e.l2 + eps, e.l2};
  b.lost = e.lost;
  if (bf16) {
    b.err_bf16 = distance(*bf16, truth).l2;
    b.limit = std::max(b.limit, b.err_bf16 + (eps > 0 ? epsilon(DType::bf16) / 2 : 0));
  }
  b.limit = std::max(b.limit, promise.max_error);
  if (e.lost > 0) b.limit = std::max(b.limit, usual_tolerance(eager.dtype));
  if (int8) b.err_int8 = distance(*int8, truth).l2, b.limit += 2 * *b.err_int8;
  return b;
}

Row judge(std::string name, std::string sizes, const HostTensor& got, const HostTensor& eager, const HostTensor& truth, const Bound& bound,
          const Promise& promise) {
  if (!compare(eager, truth).same_shape) {
    const bool as_truth = compare(got, truth).same_shape;
    Row row =
        judge(std::move(name), std::move(sizes), got, as_truth ? truth : eager, std::max(usual_tolerance(got.dtype), promise.max_error));
    if (row.pass) row.why = "eager finds other sizes in the data than fp64";
    return row;
  }
  const Difference a = compare(got, truth, eager, bound.limit);
  bool pass = a.same_shape && a.l2 <= bound.limit;
  if (!pass && a.same_shape && epsilon(got.dtype) == 0) pass = compare(got, eager).l2 == 0;
  Row row{std::move(name), std::move(sizes), a.l2, bound.err_eager, bound.err_bf16, a.max_abs, a.max_rel, bound.limit, pass, {}};
  row.err_int8 = bound.err_int8;
  if (bound.lost > 0) row.why = fmt::format("eager is infinite or not a number in {} elements that fp64 has", bound.lost);
  explain(row, got, truth, a);
  return row;
}

void judge_loss(Row& row, const HostTensor& got, const HostTensor& archive, const Promise& promise) {
  const Distance d = distance(got, archive);
  if (!d.same_shape) return;  // sizes found in data may go either way
  row.err_archive = d.l2, row.most_archive = promise.max_loss + row.limit;
  if (epsilon(got.dtype) == 0 || d.l2 <= row.most_archive) return;
  row.pass = false;
  row.why =
      fmt::format("rounding {} cost {:.3g} of the output, more than {:.3g} (--max-loss)", rounded_text(promise), d.l2, row.most_archive);
}

Row judge(std::string name, std::string sizes, const HostTensor& got, const HostTensor& reference, double limit) {
  const Difference a = compare(got, reference);
  if (epsilon(got.dtype) == 0) limit = 0;
  Row row{std::move(name), std::move(sizes), a.l2, 0, -1, a.max_abs, a.max_rel, limit, a.same_shape && a.l2 <= limit, {}};
  explain(row, got, reference, a);
  return row;
}

Row refused(std::string sizes, const std::string& message) {
  return {"sizes",  std::move(sizes), INFINITY, 0,     -1,
          INFINITY, INFINITY,         0,        false, "the original graph takes them, the artifact does not: " + message};
}

void judge_by(Row& row, const HostTensor& got, const HostTensor& eager, const HostTensor& truth, const Allowed& allowed) {
  if (!allowed.any()) return;
  const bool as_truth = compare(got, truth).same_shape, as_eager = compare(got, eager).same_shape;
  if (!as_truth && !as_eager) return;
  const HostTensor& expected = as_truth ? truth : eager;
  const HostTensor& own = as_eager ? eager : expected;
  row.pass = true;
  row.why.clear();
  if (allowed.max_error) {
    row.limit = *allowed.max_error;
    const bool exact = epsilon(got.dtype) == 0 && as_eager && compare(got, eager).l2 == 0;
    row.pass = exact || row.err_aotc <= row.limit;
    if (!row.pass) row.why = fmt::format("relative L2 error {:.3g}, more than {:.3g} (--max-error)", row.err_aotc, row.limit);
  }
  if (!allowed.rtol && !allowed.atol) return;
  const double rtol = allowed.rtol.value_or(0), atol = allowed.atol.value_or(0);
  row.outside = outside(got, expected, own, rtol, atol);
  if (row.outside->count == 0) return;
  row.pass = false;
  row.why += fmt::format(
      "{}{} of {} elements are off by more than {:g} + {:g} * |expected| (--atol, --rtol); the worst is element {}: {:.9g}, expected "
      "{:.9g}",
      row.why.empty() ? "" : "; ", row.outside->count, row.outside->elements, atol, rtol, row.outside->worst, row.outside->got,
      row.outside->expected);
}

std::string row_text(const Row& r) {
  return fmt::format(
      "{}{} [{}]: error against fp64 {:.3g}, eager {:.3g}{}{}, limit {:.3g}; max abs {:.3g}, max rel {:.3g}{}{}{}",
      r.method.empty() ? "" : r.method + ": ", r.name, r.sizes, r.err_aotc, r.err_eager,
      r.err_bf16 >= 0 ? fmt::format(" (in bf16 {:.3g})", r.err_bf16) : "",
      r.err_int8 ? fmt::format(" (with rows of int8 {:.3g})", *r.err_int8) : "", r.limit, r.max_abs, r.max_rel,
      r.err_archive ? fmt::format("; against the program before rounding {:.3g}, limit {:.3g}", *r.err_archive, r.most_archive) : "",
      r.why.empty() ? "" : "; ", r.why);
}

namespace {

nlohmann::json row_json(const Row& r) {
  nlohmann::json j = {{"name", r.name},
                      {"sizes", r.sizes},
                      {"err_aotc", finite(r.err_aotc)},
                      {"err_eager", finite(r.err_eager)},
                      {"max_abs", finite(r.max_abs)},
                      {"max_rel", finite(r.max_rel)},
                      {"limit", finite(r.limit)},
                      {"pass", r.pass}};
  if (!r.method.empty()) j["method"] = r.method;
  if (r.err_bf16 >= 0) j["err_eager_bf16"] = finite(r.err_bf16);
  if (r.err_int8) j["err_eager_int8"] = finite(*r.err_int8);
  if (!r.why.empty()) j["why"] = r.why;
  if (r.err_archive) j["err_archive"] = finite(*r.err_archive), j["limit_archive"] = r.most_archive;
  if (r.outside) {
    j["elements"] = r.outside->elements, j["outside"] = r.outside->count;
    if (r.outside->worst >= 0)
      j["worst"] = {{"element", r.outside->worst},
                    {"got", fmt::format("{:.9g}", r.outside->got)},
                    {"expected", fmt::format("{:.9g}", r.outside->expected)}};
  }
  return j;
}

nlohmann::json departure_json(const Departure& d) {
  nlohmann::json j = {{"result", row_json(d.result)}, {"builds", d.builds}, {"values", nlohmann::json::array()}, {"files", d.files}};
  for (const auto& [key, text] : {std::pair("method", &d.method),
                                  {"value", &d.value},
                                  {"node", &d.node},
                                  {"operator", &d.op},
                                  {"source", &d.source},
                                  {"place", &d.place},
                                  {"module", &d.module},
                                  {"note", &d.note}})
    if (!text->empty()) j[key] = *text;
  if (d.row) j["error"] = row_json(*d.row);
  for (const Row& r : d.around) j["values"].push_back(row_json(r));
  return j;
}

}  // namespace

std::string departure_text(const Departure& d) {
  const std::string of = (d.method.empty() ? "" : d.method + ": ") + d.result.name;
  if (d.value.empty()) return fmt::format("bisect: {} fails; no wrong value before it was found: {}\n", of, d.note);
  std::string t = fmt::format("bisect: {} fails; the first wrong value is {}", of, d.value);
  if (!d.op.empty()) t += fmt::format(", of {} (node {})", d.op, d.node);
  t += "\n";
  if (!d.source.empty()) t += fmt::format("  at     {}\n", d.source);
  if (!d.module.empty()) t += fmt::format("  in     {}\n", d.module);
  if (d.row) t += fmt::format("  value  {}\n", row_text(*d.row));
  if (!d.note.empty()) t += fmt::format("  note   {}\n", d.note);
  if (!d.files.empty()) t += fmt::format("  files  {}\n", fmt::join(d.files, " "));
  return t;
}

bool Verdict::pass() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const Row& r) { return r.pass; });
}

int report(const Verdict& v, const Common& common, const nlohmann::json& about) {
  const bool pass = v.pass();
  if (common.json) {
    nlohmann::json outputs = nlohmann::json::array();
    for (const Row& r : v.rows) outputs.push_back(row_json(r));
    nlohmann::json all = {{"about", about}, {"pass", pass}, {"source_matches", v.doubt.empty()}, {"outputs", outputs}};
    if (!v.row_errors.empty()) all["int8_rows"] = v.row_errors;
    for (const Departure& d : v.departures) all["bisect"].push_back(departure_json(d));
    print_json(all);
  } else {
    if (!common.quiet || !pass)
      for (const Row& r : v.rows) fmt::print("{} {}\n", r.pass ? "ok  " : "FAIL", row_text(r));
    if (!common.quiet)
      for (const auto& [weight, error] : v.row_errors)
        fmt::print("     rows that {} multiplies: rounding changes them by {:.2g}\n", weight, error);
    for (const Departure& d : v.departures) fmt::print("{}", departure_text(d));
    fmt::print("verify: {}{}\n", pass ? "pass" : "FAIL", v.doubt.empty() || pass ? "" : "; " + v.doubt);
  }
  return pass ? 0 : static_cast<int>(ExitCode::failed);
}

}  // namespace aotc::cli

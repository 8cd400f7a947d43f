#include "judge.h"
#include "json_text.h"
#include "passes/weight_storage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace aotc::cli {
namespace {

double finite(double v) { return std::isfinite(v) ? v : 1e300; }  // JSON has no infinity

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
    p.int8_rows = stored.contains("activations");
    const double usual =
        passes::WeightStorage{stored.at("bits").get<int>(), 0, p.int8_rows}.most_error();  // artifacts of an older aotc do not say
    p.max_loss = kLossFactor * stored.value("max_error", usual);
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
  row.why = fmt::format("rounding the weights cost {:.3g} of the output, more than {:.3g} (--max-loss)", d.l2, row.most_archive);
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

int report(const std::vector<Row>& rows, const Common& common, const std::string& doubt, const std::map<std::string, double>& row_errors) {
  const bool pass = !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const Row& r) { return r.pass; });
  if (common.json) {
    nlohmann::json outputs = nlohmann::json::array();
    for (const Row& r : rows) {
      outputs.push_back({{"name", r.name},
                         {"sizes", r.sizes},
                         {"err_aotc", finite(r.err_aotc)},
                         {"err_eager", finite(r.err_eager)},
                         {"max_abs", finite(r.max_abs)},
                         {"max_rel", finite(r.max_rel)},
                         {"limit", finite(r.limit)},
                         {"pass", r.pass}});
      if (!r.method.empty()) outputs.back()["method"] = r.method;
      if (r.err_bf16 >= 0) outputs.back()["err_eager_bf16"] = finite(r.err_bf16);
      if (r.err_int8) outputs.back()["err_eager_int8"] = finite(*r.err_int8);
      if (!r.why.empty()) outputs.back()["why"] = r.why;
      if (r.err_archive) outputs.back()["err_archive"] = finite(*r.err_archive), outputs.back()["limit_archive"] = r.most_archive;
    }
    nlohmann::json all = {{"pass", pass}, {"source_matches", doubt.empty()}, {"outputs", outputs}};
    if (!row_errors.empty()) all["int8_rows"] = row_errors;
    print_json(all);
  } else {
    if (!common.quiet || !pass)
      for (const Row& r : rows)
        fmt::print(
            "{} {}{} [{}]: error against fp64 {:.3g}, eager {:.3g}{}{}, limit {:.3g}; max abs {:.3g}, max rel {:.3g}{}{}{}\n",
            r.pass ? "ok  " : "FAIL", r.method.empty() ? "" : r.method + ": ", r.name, r.sizes, r.err_aotc, r.err_eager,
            r.err_bf16 >= 0 ? fmt::format(" (in bf16 {:.3g})", r.err_bf16) : "",
            r.err_int8 ? fmt::format(" (with rows of int8 {:.3g})", *r.err_int8) : "", r.limit, r.max_abs, r.max_rel,
            r.err_archive ? fmt::format("; against the weights before rounding {:.3g}, limit {:.3g}", *r.err_archive, r.most_archive) : "",
            r.why.empty() ? "" : "; ", r.why);
    if (!common.quiet)
      for (const auto& [weight, error] : row_errors)
        fmt::print("     rows that {} multiplies: rounding changes them by {:.2g}\n", weight, error);
    fmt::print("verify: {}{}\n", pass ? "pass" : "FAIL", doubt.empty() || pass ? "" : "; " + doubt);
  }
  return pass ? 0 : static_cast<int>(ExitCode::failed);
}

}  // namespace aotc::cli

#include "judge.h"

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
  p.int8_rows = metadata.contains("stored_weights") && metadata["stored_weights"].contains("activations");
  return p;
}

Row judge(std::string name, std::string sizes, const HostTensor& got, const HostTensor& eager, const HostTensor* bf16,
          const HostTensor* int8, const HostTensor& truth, const Promise& promise) {
  const Difference a = compare(got, truth), e = compare(eager, truth);
  if (!e.same_shape) {
    Row row = judge(std::move(name), std::move(sizes), got, a.same_shape ? truth : eager,
                    std::max(usual_tolerance(got.dtype), promise.max_error));
    if (row.pass) row.why = "eager finds other sizes in the data than fp64";
    return row;
  }
  double limit = 2 * e.l2 + epsilon(got.dtype), err_bf16 = -1;
  if (bf16) {
    err_bf16 = compare(*bf16, truth).l2;
    limit = std::max(limit, err_bf16 + (epsilon(got.dtype) > 0 ? epsilon(DType::bf16) / 2 : 0));
  }
  limit = std::max(limit, promise.max_error);
  std::optional<double> err_int8;
  if (int8) err_int8 = compare(*int8, truth).l2, limit += 2 * *err_int8;
  bool pass = a.same_shape && a.l2 <= limit;
  if (!pass && a.same_shape && epsilon(got.dtype) == 0) pass = compare(got, eager).l2 == 0;
  Row row{std::move(name), std::move(sizes), a.l2, e.l2, err_bf16, a.max_abs, a.max_rel, limit, pass, {}};
  row.err_int8 = err_int8;
  explain(row, got, truth, a);
  return row;
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
      if (r.err_bf16 >= 0) outputs.back()["err_eager_bf16"] = finite(r.err_bf16);
      if (r.err_int8) outputs.back()["err_eager_int8"] = finite(*r.err_int8);
      if (!r.why.empty()) outputs.back()["why"] = r.why;
      if (r.err_archive) outputs.back()["err_archive"] = finite(*r.err_archive);
    }
    nlohmann::json all = {{"pass", pass}, {"source_matches", doubt.empty()}, {"outputs", outputs}};
    if (!row_errors.empty()) all["int8_rows"] = row_errors;
    fmt::print("{}\n", all.dump(1));
  } else {
    if (!common.quiet || !pass)
      for (const Row& r : rows)
        fmt::print("{} {} [{}]: error against fp64 {:.3g}, eager {:.3g}{}{}, limit {:.3g}; max abs {:.3g}, max rel {:.3g}{}{}{}\n",
                   r.pass ? "ok  " : "FAIL", r.name, r.sizes, r.err_aotc, r.err_eager,
                   r.err_bf16 >= 0 ? fmt::format(" (in bf16 {:.3g})", r.err_bf16) : "",
                   r.err_int8 ? fmt::format(" (with rows of int8 {:.3g})", *r.err_int8) : "", r.limit, r.max_abs, r.max_rel,
                   r.err_archive ? fmt::format("; against the weights before rounding {:.3g}", *r.err_archive) : "",
                   r.why.empty() ? "" : "; ", r.why);
    if (!common.quiet)
      for (const auto& [weight, error] : row_errors)
        fmt::print("     rows that {} multiplies: rounding changes them by {:.2g}\n", weight, error);
    fmt::print("verify: {}{}\n", pass ? "pass" : "FAIL", doubt.empty() || pass ? "" : "; " + doubt);
  }
  return pass ? 0 : static_cast<int>(ExitCode::failed);
}

}  // namespace aotc::cli

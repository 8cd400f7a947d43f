#pragma once
// The verdict on outputs: errors of an artifact beside those that are allowed.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli.h"
#include "compare.h"

namespace aotc::cli {

struct Row {
  std::string name, sizes;
  double err_aotc, err_eager, err_bf16, max_abs, max_rel, limit;  ///< err_bf16: of eager in bf16, where that is the bound; else -1
  bool pass;
  std::string why;                         ///< what is wrong where numbers do not say it
  std::optional<double> err_archive = {};  ///< where weights were rounded: against fp64 with the archive's own
  double most_archive = 0;                 ///< of that
  std::optional<double> err_int8 = {};     ///< where rows may be rounded, too: of eager with such rows
  std::string method = {};                 ///< of an artifact with several
  std::optional<Outside> outside = {};     ///< with --rtol or --atol
};

/// What the user allows an output; what is given takes the place of the rule, and all of it must hold.
struct Allowed {
  std::optional<double> max_error;   ///< relative L2, against fp64 or the stored truth
  std::optional<double> rtol, atol;  ///< of each element: |got - truth| <= atol + rtol |truth|; one alone: the other is 0
  bool any() const { return max_error || rtol || atol; }
};

/// What the artifact promises of products of float32 (metadata's precision and stored_weights).
struct Promise {
  bool bf16 = false;       ///< some may multiply bf16
  double max_error = 0;    ///< what it was built for; 0: eager bf16's
  bool weights = false;    ///< some are rounded to few bits
  bool int8_rows = false;  ///< products with int8 weights may round their rows, too
  bool cache = false;      ///< keys and values are kept in 8 bits: numbers between two steps may go either way
  double max_loss = 0;     ///< of an output, that rounding to few bits may cost beside the bound: kLossFactor times max_error
};
constexpr double kLossFactor = 5;
Promise promise_of(const nlohmann::json& metadata);

/// What two ways to compute the same may differ by, of the result's norm, where there is no fp64 truth to say more.
double usual_tolerance(DType t);

/// What an output is allowed, from what references in its own type are away from fp64. Every number is finite.
struct Bound {
  double limit = 0, err_eager = 0, err_bf16 = -1;  ///< err_bf16 as in Row
  std::optional<double> err_int8 = {};
  int64_t lost = 0;  ///< elements that fp64 has finite in the output's type and eager has not
};
/// The rule: err(aotc) <= 2 err(eager) + eps, both against fp64. Where products may multiply bf16, the error that the artifact was built
/// for or, where that is not named, that of eager in bf16 and the rounding of one number to bf16, is allowed, too. Where products may round
/// their rows to 8 bits, twice the error of eager with such rows is allowed on top. Errors are those of the elements that are finite on
/// both sides; where eager lost some, usual_tolerance is allowed. bf16, int8: eager's output, or null.
Bound bound_of(const HostTensor& eager, const HostTensor* bf16, const HostTensor* int8, const HostTensor& truth, const Promise& promise);
/// Elements that fp64 has finite in the output's type are held to it within the bound; the others, and what eager lost, may be what eager
/// has (compare.h). Integers and bools may instead equal eager exactly (a tie that fp64 breaks the other way is no fault). Where eager
/// itself finds other sizes in the data than fp64 does, the output is compared with the one whose sizes it has, within usual_tolerance.
Row judge(std::string name, std::string sizes, const HostTensor& got, const HostTensor& eager, const HostTensor& truth, const Bound& bound,
          const Promise& promise);
/// What rounding the weights cost an output: `archive` is what fp64 gives with the archive's own.
void judge_loss(Row& row, const HostTensor& got, const HostTensor& archive, const Promise& promise);
/// The verdict by what the user allows, where anything is given. eager: what an output may have where the truth is not finite in its type;
/// the truth itself where there is none. Outputs that the first judgement found to be of other sizes stay failed.
void judge_by(Row& row, const HostTensor& got, const HostTensor& eager, const HostTensor& truth, const Allowed& allowed);
/// Where there is one reference only: err(aotc) <= limit; integers and bools are equal.
Row judge(std::string name, std::string sizes, const HostTensor& got, const HostTensor& reference, double limit);

/// Sizes that the original takes, and the artifact does not.
Row refused(std::string sizes, const std::string& message);

/// A line of a row's numbers, and what is wrong.
std::string row_text(const Row& row);

/// verify --bisect: the first value of a program that departs.
struct Departure {
  Row result;                                                            ///< of the artifact, that departs
  std::string method = {};                                               ///< of an artifact with several
  std::string value = {};                                                ///< of the program; empty: none was found, `note` says why
  std::string node = {}, op = {}, source = {}, place = {}, module = {};  ///< what computes it; empty: it is an input
  std::optional<Row> row = {};                                           ///< of the value
  std::vector<Row> around = {};                                          ///< other values that were compared, in the program's order
  std::vector<std::string> files = {};
  std::string note = {};  ///< what else is to be known
  int builds = 0;
};
std::string departure_text(const Departure& departure);

/// What verify found of an artifact.
struct Verdict {
  std::vector<Row> rows;
  std::vector<Departure> departures = {};
  std::string doubt;                         ///< a sentence about what it was compared with, or empty
  std::map<std::string, double> row_errors;  ///< by weight: what rounding does to the rows of its products
  bool pass() const;
};
/// Prints it. The exit code. about: with --json (about.h).
int report(const Verdict& verdict, const Common& common, const nlohmann::json& about);

}  // namespace aotc::cli

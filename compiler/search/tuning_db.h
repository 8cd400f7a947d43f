#pragma once
// The tuning database: measured choices that travel between machines (JSON, schemas/tuning.schema.json).
#include <map>
#include <string>
#include <tuple>

#include "forms/choice.h"

namespace aotc::search {

/// Hash of the precompiled kernel library that is linked into this aotc: other kernels, other times.
std::string kernel_library_hash();

struct TuningRecord {
  forms::Choice choice;
  double ns = 0;
  double default_ns = 0;  ///< of the cost model's choice in the same session
  int measured = 0;       ///< candidates
};

/// A choice that is faster and less accurate than those that are taken without being judged, in one program.
struct Trade {
  std::string contract;
  forms::Choice choice;
  double ns = 0, accurate_ns = 0;  ///< measured beside each other
  double error = 0;                ///< relative L2 that it alone adds to the outputs, in squares; 0 where that was not judged
  bool taken = false;
  std::string why;
};
struct Trades {
  std::vector<Trade> tried;
  double error = 0, bound = 0;  ///< of the program with what was taken, on the samples; 0: nothing is
  bool complete = true;         ///< not: the time ran out, and who has more goes on
};

/// What was measured of the alternatives of a program (alternatives.h), by their names.
struct AlternativesRecord {
  struct Tried {
    std::string name;
    double ns = 0, own_ns = 0;  ///< of the whole; of what the build does by itself, beside it
    bool taken = false;
    std::string why;
    friend bool operator==(const Tried&, const Tried&) = default;
  };
  std::vector<Tried> tried;
  bool complete = true;  ///< not: the time ran out, and who has more begins anew
  double seconds = 0;    ///< that it was given
  friend bool operator==(const AlternativesRecord&, const AlternativesRecord&) = default;
};

/// The whole beside what default makes (comparison.h), by the names of groups of decisions.
struct ComparisonRecord {
  struct Tried {
    std::string kept;                      ///< "kernels weights"
    double ns = 0, own_ns = 0, ratio = 0;  ///< of default, in turns; ratio: of the turns, the middle one; 0: it did not run
    friend bool operator==(const Tried&, const Tried&) = default;
  };
  std::vector<Tried> tried;
  std::string kept, taken_back;
  bool complete = true;  ///< not: the time ran out, and a build that measures goes on with it
  friend bool operator==(const ComparisonRecord&, const ComparisonRecord&) = default;
};

class TuningDb {
 public:
  /// A missing file is an empty database. Throws Diagnostic (bad_input) where the file is malformed, choices that no form of this aotc has
  /// among them; but those of another kernel library are kept as they are, for whoever has that.
  static TuningDb load(const std::string& path);
  /// Written aside and renamed; ordered, so that equal content gives equal bytes. Throws Diagnostic (io).
  void save(const std::string& path) const;
  /// Of two records for one key the faster stays.
  void merge(const TuningDb& other);
  void put(const std::string& contract, const std::string& machine, const std::string& library, TuningRecord record);
  const TuningRecord* find(const std::string& contract, const std::string& machine, const std::string& library) const;
  /// What was found of a whole program: Trades, an AlternativesRecord, or a ComparisonRecord, for which `program` names what was decided,
  /// too. The latest stays.
  template <class Record>
  void put_program(const std::string& program, const std::string& machine, const std::string& library, Record record) {
    std::get<Programs<Record>>(programs_)[{program, machine, library}] = std::move(record);
  }
  template <class Record>
  const Record* find_program(const std::string& program, const std::string& machine, const std::string& library) const {
    const auto& of = std::get<Programs<Record>>(programs_);
    const auto it = of.find({program, machine, library});
    return it == of.end() ? nullptr : &it->second;
  }
  size_t size() const { return records_.size() + others_.size(); }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // contract, machine (Goal::str), library
  std::map<Key, TuningRecord> records_;
  template <class Record>
  using Programs = std::map<Key, Record>;  // program, machine, library
  std::tuple<Programs<Trades>, Programs<AlternativesRecord>, Programs<ComparisonRecord>> programs_;
  std::map<Key, std::string> others_, other_trades_;  // as JSON: of other kernel libraries, with choices that cannot be read here
};

}  // namespace aotc::search

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

class TuningDb {
 public:
  /// A missing file is an empty database. Throws Diagnostic (bad_input) where the file is malformed; records of unknown forms are an error
  /// too.
  static TuningDb load(const std::string& path);
  /// Written aside and renamed; ordered, so that equal content gives equal bytes. Throws Diagnostic (io).
  void save(const std::string& path) const;
  /// Of two records for one key the faster stays.
  void merge(const TuningDb& other);
  void put(const std::string& contract, const std::string& machine, const std::string& library, TuningRecord record);
  const TuningRecord* find(const std::string& contract, const std::string& machine, const std::string& library) const;
  size_t size() const { return records_.size(); }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // contract, machine (Machine::str), library
  std::map<Key, TuningRecord> records_;
};

}  // namespace aotc::search

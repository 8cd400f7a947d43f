#pragma once
// What the programs of one artifact have in common: names, states, kernels' names, layouts of weights.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "plan/blob.h"

namespace aotc::pipeline {

/// Diagnostic (usage) for a name that cannot be part of C functions, or that two have.
void check_names(const std::vector<MethodOptions>& methods);

/// A buffer that one program writes, or that its options make a state, is a state of every program that has it: set in their options.
void share_states(std::vector<MethodOptions>& methods);

/// States of one name have one type, shape and initial content, else a Diagnostic that names both methods.
class StateNames {
 public:
  void add(const std::string& method, const Graph& graph);

 private:
  struct Known {
    std::string method, type;
    ConstData initial;
    bool zeros;
  };
  std::map<std::string, Known> known_;
};

/// Of several methods, what one stores in bytes (--kv-cache) the others do, too: set in their options.
void share_caches(std::vector<MethodOptions>& methods);

/// The states that --kv-cache is about are the same ones in all parts and methods.
class StoredCacheNames {
 public:
  /// Throws Diagnostic where one stays as it is that another part or method stores in bytes.
  void add(const MethodOptions& method, const Front& front);
  /// Throws Diagnostic where --kv-cache was asked for and no state is stored so.
  void check() const;
  static std::vector<std::string> warnings(const Front& front);

 private:
  passes::CacheStorage asked_ = passes::CacheStorage::as_is;
  std::map<std::string, std::string> stored_, left_;  ///< by state: a method; why
};

/// Gives kernels names that no earlier module has: code of all of them is linked together.
class KernelNames {
 public:
  void add(const std::string& method, loop::Module& module);

 private:
  std::map<std::string, std::string> taken_;  ///< name → method
};

/// The layouts in which earlier methods store weights, for machines of one kind.
class StoredLayouts {
 public:
  /// What these plans store. Graph and plans must outlive this.
  void add(const Graph& graph, const plan::PlanSet& plans);
  /// `choose` (empty: the cost model) but that a kernel of this module whose weights are all stored already goes by them where that costs
  /// little by the cost model. Measured choices stand. Front and this must outlive it.
  plan::ChooseFn prefer(plan::ChooseFn choose, const Front& front) const;

 private:
  plan::ByContent<std::optional<forms::WeightForm>> stored_;
  bool any_ = false;
};

}  // namespace aotc::pipeline

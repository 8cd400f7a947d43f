#pragma once
// The values of a reference: the types that it computes in, and the archive's constants in them.
#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>

#include "import/program.h"
#include "import/reference.h"

namespace aotc::import {

/// What is cast to 8-bit floats is rounded in float64, too.
inline bool widens(DType d) { return is_float(d) && !is_float8(d) && d != DType::f64; }
inline DType widened(DType d) { return widens(d) ? DType::f64 : d == DType::c64 ? DType::c128 : d; }

/// A tensor over these bytes, which stay the caller's; of uninitialised ones where data is null.
at::Tensor to_tensor(DType dtype, const std::vector<int64_t>& dims, const void* data);

/// t in the type that the reference computes in.
at::Tensor widened(const at::Tensor& t, const ReferenceOptions& options);

/// Parameters, buffers and constants by their names in Program::data. Those that take too much memory in the reference's types stay as the
/// archive has them (its pages, which the system may drop), and are widened at each use.
class ReferenceValues {
 public:
  /// whole: names that are asked for by the tensor that holds them.
  ReferenceValues(const Program& program, const ReferenceOptions& options, const std::set<std::string>& whole);
  const at::Tensor& at(const std::string& name) const { return values_.at(name); }
  const at::Tensor* find(const std::string& name) const;
  /// Whether it is still to be widened where it is used.
  bool narrow(const std::string& name) const { return narrow_.count(name); }

 private:
  std::map<std::string, at::Tensor> values_;
  std::set<std::string> narrow_;
};

}  // namespace aotc::import

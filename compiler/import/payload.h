#pragma once
// Bytes of a record and a tensor's sizes and strides → dense ConstData.
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "import/budget.h"
#include "import/mapped_file.h"
#include "import/program.h"

namespace aotc::import {

/// A tensor within a storage, as saved.
struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  ///< elements
  Bytes storage;
};

/// Makes dense row-major ConstData: a pointer into the storage where it lies so already, a copy otherwise. Equal views of one storage
/// share their bytes.
class Payloads {
 public:
  Payloads(std::shared_ptr<const void> keepalive, Budget& budget) : keepalive_(std::move(keepalive)), budget_(budget) {}
  /// Throws Diagnostic where the tensor reaches beyond its storage, its sizes overflow, or copies are more than the budget has.
  ConstData dense(const std::string& name, const StoredTensor& t, const Loc& loc);

 private:
  std::shared_ptr<const void> keepalive_;
  using Key = std::tuple<const std::byte*, uint32_t, int64_t, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Key, ConstData> copies_;
  Budget& budget_;
};

TensorMeta meta_of(const StoredTensor& t);

}  // namespace aotc::import

#pragma once
// CUDA C++ of whole-tensor algorithms (kernels/cuda/sort.cuh, scatter.cuh, recurrence.cuh): the __global__ function `symbol` and its
// argument struct. Pointers in the order of aotc/detail/library_abi.h; int64 arguments as each says.
#include <string>

#include "base/dtype.h"

namespace aotc::emit::cuda {

/// The text of a kernel with n_ptr pointers and n_size int64 arguments, which its body finds in `a`; `header` of kernels/cuda has what it
/// calls.
std::string kernel(const char* header, const std::string& symbol, size_t n_ptr, size_t n_size, int cluster, int threads,
                   const std::string& body);
/// An argument as the body writes it: "static_cast<const float*>(a.ptr[2])".
std::string pointer(DType t, size_t i, bool written = false);

/// outer, n, inner, entries of a piece (a power of two); `blocks` of a cluster share a line.
std::string emit_sort(DType t, bool descending, int blocks, int threads, const std::string& symbol);
/// outer, n, inner, k.
std::string emit_topk(DType t, bool largest, int threads, const std::string& symbol);

/// One thread makes all updates that a line can get, or looks for those of one element; or a block looks for those of a piece.
struct UpdateOrder {
  int by_element = 0;         ///< 0: a thread a line; 1: a thread an element
  int places = 0, frees = 1;  ///< of a piece: places, and elements of each that the same indices lead to; 0 places: no pieces
  static constexpr int kPieceThreads = 1024;
};
struct ScatterCode {
  int rank = 1, dim = 0, reduce = 0;  ///< AOTC_SCATTER_*
  bool include_self = true;
};
/// The dims of x, of the index and of src.
std::string emit_scatter(DType t, const ScatterCode& c, const UpdateOrder& order, int threads, const std::string& symbol);
struct IndexPutCode {
  int rank = 1, index_rank = 1, out_pos = 0, n_index = 1;
  uint64_t indexed = 1;  ///< bit d: dim d of x
  bool accumulate = false;
  int lanes = 1;  ///< neighbours in x, and in the values, that the same entry leads to
};
/// The dims of x and of the index tensors.
/// entries: whose rows a block writes. places: of x, that it looks at together where it copies x.
std::string emit_index_put_rows(DType t, const IndexPutCode& c, int entries, int places, int threads, const std::string& symbol);
std::string emit_index_put(DType t, const IndexPutCode& c, const UpdateOrder& order, int threads, const std::string& symbol);

struct RecurrenceCode {
  int cell = 0;  ///< AOTC_CELL_*
  bool reverse = false, projected = false;
  int rows = 1;    ///< of the batch, one cluster's
  int blocks = 1;  ///< of a cluster
  static constexpr int kThreads = 512, kUnits = 32;
};
/// Dynamic shared memory of a block.
int recurrence_shared_bytes(DType t, const RecurrenceCode& c, int gates);
/// steps, batch, hidden, width, rows from step to step, from one of the batch to the next.
std::string emit_recurrence(DType t, const RecurrenceCode& c, const std::string& symbol);

struct HeldRecurrenceCode {
  int cell = 0;  ///< AOTC_CELL_*
  bool reverse = false;
  int hidden = 1;
  int rows = 1, blocks = 1;     ///< of a cluster
  int parts = 4, threads = 32;  ///< threads that share a sum; of a block
};
/// As emit_recurrence; the weights stay in registers.
std::string emit_recurrence_held(DType t, const HeldRecurrenceCode& c, const std::string& symbol);

}  // namespace aotc::emit::cuda

#include "forms/library_attrs.h"

#include "graph/infer.h"

namespace aotc::forms {

using loop::LibraryKernel;

bool flag(const LibraryKernel& k, Attr a, bool fallback) {
  auto it = k.attrs.find(a);
  if (it == k.attrs.end()) return fallback;
  if (const auto* b = std::get_if<bool>(&it->second)) return *b;
  if (const auto* i = std::get_if<int64_t>(&it->second)) return *i != 0;
  return fallback;
}

int scatter_reduce(const LibraryKernel& k) {
  constexpr const char* kNames[] = {"none", "sum", "prod", "amax", "amin", "mean"};  // AOTC_SCATTER_*
  auto it = k.attrs.find(Attr::reduce);
  const auto* reduce = it == k.attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (!reduce) return AOTC_SCATTER_NONE;
  for (int i = 0; i < 6; ++i)
    if (*reduce == kNames[i]) return i;
  throw InternalError("scatter: unknown reduce '" + *reduce + "'");
}

int recurrence_cell(const LibraryKernel& k) {
  static_assert(static_cast<int>(Cell::lstm) == AOTC_CELL_LSTM && static_cast<int>(Cell::gru) == AOTC_CELL_GRU &&
                static_cast<int>(Cell::tanh) == AOTC_CELL_TANH && static_cast<int>(Cell::relu) == AOTC_CELL_RELU);
  const std::string& name = std::get<std::string>(k.attrs.at(Attr::cell));
  const std::optional<Cell> cell = parse_cell(name);
  AOTC_CHECK(cell, "unknown cell {}", name);
  return static_cast<int>(*cell);
}

DType recurrence_weight(const LibraryKernel& k) { return k.params.raw().at(1).dtype; }

bool recurrence_projected(const LibraryKernel& k) { return k.params.size() - (recurrence_cell(k) == AOTC_CELL_LSTM ? 3 : 2) == 5; }

}  // namespace aotc::forms

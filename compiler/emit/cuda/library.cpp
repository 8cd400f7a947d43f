#include "emit/cuda/library.h"

#include <fmt/format.h>

#include "aotc/detail/library_abi.h"
#include "emit/cuda/code.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"

namespace aotc::emit::cuda {

std::string pointer(DType t, size_t i, bool written) {
  return fmt::format("static_cast<{}{}*>(a.ptr[{}])", written ? "" : "const ", c_type(t), i);
}

std::string kernel(const char* header, const std::string& symbol, size_t n_ptr, size_t n_size, int cluster, int threads,
                   const std::string& body) {
  return fmt::format("#include \"{}\"\n", header) + argument_struct(symbol, n_ptr, n_size) +
         global_function(symbol, cluster, threads, 1, body);
}

namespace {

std::string scatter_method(const UpdateOrder& o) {
  if (o.places == 0) return o.by_element ? "by_element" : "by_line";
  return fmt::format("by_piece<{}>", o.places);
}
std::string index_put_method(const UpdateOrder& o, int lanes) {
  if (o.places == 0) return o.by_element ? fmt::format("by_element<{}>", lanes) : "by_line";
  return fmt::format("by_piece<{}, {}>", o.places, o.frees);
}

}  // namespace

std::string emit_sort(DType t, bool descending, int blocks, int threads, const std::string& symbol) {
  return kernel("sort.cuh", symbol, 3, 4, blocks, threads,
                fmt::format("  sort_lines<{}, {}, {}>({}, {}, {}, a.size[0], a.size[1], a.size[2], a.size[3]);\n", c_type(t), descending,
                            blocks, pointer(t, 0), pointer(t, 1, true), pointer(DType::i64, 2, true)));
}

std::string emit_topk(DType t, bool largest, int threads, const std::string& symbol) {
  return kernel("sort.cuh", symbol, 3, 4, 1, threads,
                fmt::format("  topk_lines<{}, {}, {}>({}, {}, {}, a.size[0], a.size[1], a.size[2], a.size[3]);\n", c_type(t), largest,
                            threads, pointer(t, 0), pointer(t, 1, true), pointer(DType::i64, 2, true)));
}

std::string emit_scatter(DType t, const ScatterCode& c, const UpdateOrder& order, int threads, const std::string& symbol) {
  return kernel(
      "scatter.cuh", symbol, 4, static_cast<size_t>(3 * c.rank), 1, threads,
      fmt::format("  Scatter<{}, {}, {}, {}, {}>{{{}, {}, {}, {}, a.size, a.fault}}.{}();\n", c_type(t), c.rank, c.dim, c.reduce,
                  c.include_self, pointer(t, 0), pointer(DType::i64, 1), pointer(t, 2), pointer(t, 3, true), scatter_method(order)));
}

namespace {

std::string index_put_kernel(const char* header, DType t, const IndexPutCode& c, int threads, const std::string& symbol,
                             const std::string& body) {
  return kernel(
      header, symbol, static_cast<size_t>(3 + c.n_index), static_cast<size_t>(c.rank + c.index_rank), 1, threads,
      fmt::format("  typedef IndexPut<{}, {}, {}ull, {}, {}, {}> Put;\n  const Put put{{{}, {}, {}, a.ptr + 3, a.size, a.fault}};\n",
                  c_type(t), c.rank, c.indexed, c.index_rank, c.out_pos, c.accumulate, pointer(t, 0), pointer(t, 1), pointer(t, 2, true)) +
          body);
}

}  // namespace

std::string emit_index_put(DType t, const IndexPutCode& c, const UpdateOrder& order, int threads, const std::string& symbol) {
  return index_put_kernel("scatter.cuh", t, c, threads, symbol, fmt::format("  put.{}();\n", index_put_method(order, c.lanes)));
}

std::string emit_index_put_rows(DType t, const IndexPutCode& c, int entries, int places, int threads, const std::string& symbol) {
  return index_put_kernel("index_put_rows.cuh", t, c, threads, symbol,
                          fmt::format("  IndexPutRows<{}, Put, {}>{{put}}.write<{}, {}>();\n", c_type(t), entries, c.lanes, places));
}

int recurrence_shared_bytes(DType t, const RecurrenceCode& c, int gates) {
  const int parts = RecurrenceCode::kThreads / RecurrenceCode::kUnits;
  return (parts - 1) * gates * c.rows * RecurrenceCode::kUnits * (t == DType::f64 ? 8 : 4);
}

namespace {

/// The tensors of a recurrent layer as members of `r`; its steps and rows.
size_t bind_layer(DType t, int cell, bool projected, std::string& body) {
  const bool lstm = cell == AOTC_CELL_LSTM, gru = cell == AOTC_CELL_GRU;
  size_t n = 0;
  auto bind = [&](const char* name, bool given, bool written = false) {
    if (given) body += fmt::format("  r.{} = {};\n", name, pointer(t, n++, written));
  };
  for (const char* name : {"x", "w", "h0"}) bind(name, true);
  bind("c0", lstm), bind("bias", gru), bind("w_hr", projected);
  bind("out", true, true), bind("h", true, true), bind("c", lstm, true);
  body += "  r.steps = a.size[0], r.batch = a.size[1], r.step_rows = a.size[4], r.batch_rows = a.size[5];\n";
  return n;
}

}  // namespace

std::string emit_recurrence(DType t, const RecurrenceCode& c, const std::string& symbol) {
  std::string body = fmt::format("  Recurrence<{}, {}, {}, {}, {}, {}> r;\n", c_type(t), c.cell, c.reverse, c.projected, c.rows, c.blocks);
  const size_t n = bind_layer(t, c.cell, c.projected, body);
  body += "  r.hidden = a.size[2], r.width = a.size[3];\n  r.scratch = static_cast<char*>(a.scratch);\n  r.run();\n";
  return kernel("recurrence.cuh", symbol, n, 6, c.blocks, RecurrenceCode::kThreads, body);
}

std::string emit_recurrence_held(DType t, const HeldRecurrenceCode& c, const std::string& symbol) {
  std::string body = fmt::format("  HeldRecurrence<{}, {}, {}, {}, {}, {}, {}, {}> r;\n", c_type(t), c.cell, c.reverse, c.hidden, c.rows,
                                 c.blocks, c.parts, c.threads);
  const size_t n = bind_layer(t, c.cell, false, body);
  return kernel("recurrence_held.cuh", symbol, n, 6, c.blocks, c.threads, body + "  r.run_layer();\n");
}

}  // namespace aotc::emit::cuda

#pragma once
// Parts of the reference interpreter; only interp*.cpp include this.
#include <functional>

#include "graph/interp.h"

namespace aotc::interp {

/// One evaluation of one node. `out` is allocated (zeros) with the result dims; its dtypes are those of the graph, or f64 for every
/// floating one in f64 mode.
struct Eval {
  const Graph& g;
  const Node& n;
  std::vector<const HostTensor*> in;
  std::vector<HostTensor> out;
  std::function<int64_t(SymId)> value_of;
  bool f64 = false;

  int64_t eval(const Expr& e) const { return e.eval(value_of); }
  const std::vector<int64_t>& in_dims(size_t i) const { return in[i]->dims; }
  const std::vector<int64_t>& out_dims() const { return out[0].dims; }
  DType graph_type(ValueId v) const { return g.type(v).dtype; }
};

void nullary(Eval&);
void pointwise(Eval&);
void view(Eval&);
void index(Eval&);
void gather(Eval&);
void scatter(Eval&);
void index_put(Eval&);
void add_rows(Eval&);
void reduce(Eval&);
void scan(Eval&);
void sort(Eval&);
void matmul(Eval&);
void grouped_matmul(Eval& e);
void conv(Eval&);
void attention(Eval&);
void recurrence(Eval&);
void fourier(Eval&);
void cholesky(Eval&);
void exclude(Eval&);
void lu(Eval&);
void qr(Eval&);
void svd(Eval&);
void solve_triangular(Eval&);

std::vector<double> as_f64(const HostTensor& t);   ///< of a floating tensor
std::vector<int64_t> as_i64(const HostTensor& t);  ///< of an integer or bool tensor
void set_f64(HostTensor& t, const std::vector<double>& v);
void set_i64(HostTensor& t, const std::vector<int64_t>& v);
std::vector<int64_t> row_major(const std::vector<int64_t>& dims);
int64_t count_of(const std::vector<int64_t>& dims);
/// Steps `at` to the next row-major point of `dims`; false after the last.
bool next_point(std::vector<int64_t>& at, const std::vector<int64_t>& dims);

}  // namespace aotc::interp

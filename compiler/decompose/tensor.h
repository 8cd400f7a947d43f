#pragma once
// Graph values with arithmetic, so that rules read like the formulas they state. Operators broadcast; both sides must have one dtype.
// Numbers become constants of the tensor's dtype.
#include <utility>
#include <vector>

#include "decompose/promote.h"

namespace aotc::decompose {

class T {
 public:
  T(Builder& b, ValueId id) : b_(&b), id_(id) {}
  operator ValueId() const { return id_; }
  Builder& b() const { return *b_; }
  DType dtype() const { return b_->dtype(id_); }
  const std::vector<Expr>& dims() const { return b_->dims(id_); }
  const Expr& dim(int d) const { return dims().at(static_cast<size_t>(d < 0 ? d + rank() : d)); }
  int rank() const { return b_->rank(id_); }

  T to(DType t) const { return {*b_, b_->cast(id_, t)}; }
  /// In the type in which arithmetic is done (16-bit floats: float32).
  T up() const { return to(compute_type(dtype())); }
  T like(double v) const { return {*b_, full(*b_, dtype(), dims(), v)}; }
  T expand(std::vector<Expr> d) const { return {*b_, decompose::expand(*b_, id_, std::move(d))}; }
  T reshape(std::vector<Expr> d) const { return {*b_, b_->reshape(id_, std::move(d))}; }
  T permute(Ints p) const { return {*b_, b_->permute(id_, std::move(p))}; }
  T unsqueeze(int d) const { return {*b_, b_->unsqueeze(id_, d < 0 ? d + rank() + 1 : d)}; }
  T squeeze(int d) const { return {*b_, b_->squeeze(id_, d < 0 ? d + rank() : d)}; }
  T select(int d, Expr i) const { return {*b_, b_->select(id_, d < 0 ? d + rank() : d, std::move(i))}; }
  T slice(int d, Expr start, Expr size, int64_t step = 1) const {
    return {*b_, b_->slice(id_, d < 0 ? d + rank() : d, std::move(start), std::move(size), step)};
  }
  T sum(Ints d, bool keep) const { return reduce(ReduceKind::sum, std::move(d), keep); }
  T reduce(ReduceKind k, Ints d, bool keep) const;

 private:
  Builder* b_;
  ValueId id_;
};

T operator+(const T& a, const T& b);
T operator-(const T& a, const T& b);
T operator*(const T& a, const T& b);
T operator/(const T& a, const T& b);  ///< floats
T operator+(const T& a, double b);
T operator-(const T& a, double b);
T operator*(const T& a, double b);
T operator/(const T& a, double b);
T operator+(double a, const T& b);
T operator-(double a, const T& b);
T operator*(double a, const T& b);
T operator/(double a, const T& b);
T operator-(const T& a);
// Comparisons and logic: bool results; & | ! take bools.
T operator<(const T& a, const T& b);
T operator<=(const T& a, const T& b);
T operator>(const T& a, const T& b);
T operator>=(const T& a, const T& b);
T operator==(const T& a, const T& b);
T operator!=(const T& a, const T& b);
T operator<(const T& a, double b);
T operator<=(const T& a, double b);
T operator>(const T& a, double b);
T operator>=(const T& a, double b);
T operator==(const T& a, double b);
T operator!=(const T& a, double b);
T operator&(const T& a, const T& b);
T operator|(const T& a, const T& b);
T operator!(const T& a);

T unary(Op op, const T& x);
T binary(Op op, const T& a, const T& b);  ///< broadcasts
T binary(Op op, const T& a, double b);
T where(const T& c, const T& a, const T& b);
T where(const T& c, const T& a, double b);
T where(const T& c, double a, const T& b);
T maximum(const T& a, const T& b);
T minimum(const T& a, const T& b);
T maximum(const T& a, double b);
T minimum(const T& a, double b);
T exp(const T& x);
T log(const T& x);
T sqrt(const T& x);
T rsqrt(const T& x);
T tanh(const T& x);
T sigmoid(const T& x);
T abs(const T& x);
T floor(const T& x);
/// a + w * (b - a), in the two forms that PyTorch has, so that the ends are exact.
T lerp(const T& a, const T& b, const T& w);

T tensor(Rule& r, std::string_view name);
std::optional<T> opt_tensor(Rule& r, std::string_view name);
/// Number of elements of the dims given, as a rank-0 value of this dtype (constant where it is known).
T count(Builder& b, const std::vector<Expr>& dims, DType dtype);
T scalar_of(Builder& b, const Expr& e, DType dtype);
/// Index along `dim` with these dims, in this dtype.
T iota(Builder& b, std::vector<Expr> dims, int dim, DType dtype = DType::i64);

}  // namespace aotc::decompose

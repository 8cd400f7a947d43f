#pragma once
// Numbers in memory seen through views.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace aotc::passes {

template <class T>
struct Strided {
  std::shared_ptr<const std::vector<T>> data;
  std::vector<int64_t> dims, strides;
  int64_t start = 0;

  static Strided dense(std::vector<T> values, std::vector<int64_t> dims) {
    Strided s{std::make_shared<const std::vector<T>>(std::move(values)), std::move(dims), {}, 0};
    s.strides = row_major(s.dims);
    return s;
  }
  static Strided one(T value, std::vector<int64_t> dims) {
    std::vector<int64_t> strides(dims.size(), 0);
    return {std::make_shared<const std::vector<T>>(1, value), std::move(dims), std::move(strides), 0};
  }

  int64_t elems() const {
    int64_t n = 1;
    for (const int64_t d : dims) n *= d;
    return n;
  }
  /// Calls fn(element) for all of them, in row-major order.
  template <class Fn>
  void each(const Fn& fn) const {
    walk(0, start, fn);
  }
  /// fn(element of this, element of other), which has the same dims.
  template <class U, class Fn>
  auto with(const Strided<U>& other, const Fn& fn) const -> Strided<decltype(fn(T(), U()))> {
    using R = decltype(fn(T(), U()));
    // Along dims where neither changes neither does the result.
    std::vector<int64_t> own = dims;
    for (size_t d = 0; d < dims.size(); ++d)
      if (strides[d] == 0 && other.strides[d] == 0) own[d] = std::min<int64_t>(1, dims[d]);
    std::vector<R> values;
    values.reserve(static_cast<size_t>(Strided{data, own, strides, start}.elems()));
    pairs(own, other, 0, start, other.start, values, fn);
    Strided<R> s = Strided<R>::dense(std::move(values), own);
    for (size_t d = 0; d < dims.size(); ++d)
      if (own[d] != dims[d]) s.strides[d] = 0;
    s.dims = dims;
    return s;
  }

  Strided permuted(const std::vector<int64_t>& perm) const {
    Strided s{data, {}, {}, start};
    for (const int64_t d : perm) s.dims.push_back(dims[static_cast<size_t>(d)]), s.strides.push_back(strides[static_cast<size_t>(d)]);
    return s;
  }
  /// Right-aligned.
  Strided expanded(const std::vector<int64_t>& to) const {
    Strided s{data, to, std::vector<int64_t>(to.size(), 0), start};
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] != 1) s.strides[to.size() - dims.size() + i] = strides[i];
    return s;
  }
  Strided sliced(size_t dim, int64_t begin, int64_t size, int64_t step) const {
    Strided s = *this;
    s.start += begin * strides[dim], s.dims[dim] = size, s.strides[dim] *= step;
    return s;
  }
  /// Without a copy where the dims only split or lie beside each other.
  Strided reshaped(const std::vector<int64_t>& to) const {
    if (const auto as = strides_of(to)) return {data, to, *as, start};
    std::vector<T> values;
    values.reserve(static_cast<size_t>(elems()));
    each([&](T x) { values.push_back(x); });
    return dense(std::move(values), to);
  }

 private:
  static std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
    std::vector<int64_t> s(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;) s[i - 1] = s[i] * dims[i];
    return s;
  }
  template <class Fn>
  void walk(size_t d, int64_t at, const Fn& fn) const {
    if (d == dims.size()) return fn((*data)[static_cast<size_t>(at)]);
    for (int64_t i = 0; i < dims[d]; ++i) walk(d + 1, at + i * strides[d], fn);
  }
  template <class U, class R, class Fn>
  void pairs(const std::vector<int64_t>& own, const Strided<U>& other, size_t d, int64_t at, int64_t beside, std::vector<R>& values,
             const Fn& fn) const {
    if (d == own.size()) return values.push_back(fn((*data)[static_cast<size_t>(at)], (*other.data)[static_cast<size_t>(beside)]));
    for (int64_t i = 0; i < own[d]; ++i) pairs(own, other, d + 1, at + i * strides[d], beside + i * other.strides[d], values, fn);
  }
  /// From the last dim to the first, runs of dims that one stride goes through are cut anew.
  std::optional<std::vector<int64_t>> strides_of(const std::vector<int64_t>& to) const {
    std::vector<int64_t> as(to.size(), 0);
    size_t left = to.size();
    int64_t run = 1, step = 0;
    bool begun = false;
    const auto give = [&] {  // the run's elements to the dims of `to` that they make up
      int64_t inside = 1;
      while (left > 0 && (inside < run || to[left - 1] == 1)) { as[--left] = step * inside, inside *= to[left]; }
      return inside == run;
    };
    for (size_t d = dims.size(); d-- > 0;) {
      if (dims[d] == 1) continue;
      if (begun && strides[d] == step * run) {
        run *= dims[d];
        continue;
      }
      if (begun && !give()) return std::nullopt;
      run = dims[d], step = strides[d], begun = true;
    }
    if (begun && !give()) return std::nullopt;
    for (; left > 0; --left)
      if (to[left - 1] != 1) return std::nullopt;
    return as;
  }
};

}  // namespace aotc::passes

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/interp_detail.h"

namespace aotc::interp {
namespace {

using Dims = std::vector<int64_t>;

int64_t checked(const Eval& e, int64_t i, int64_t size) {
  if (i >= -size && i < size) return i < 0 ? i + size : i;
  Loc loc;
  loc.node = e.n.name;
  loc.source = e.n.source;
  throw Diagnostic(ExitCode::failed, std::move(loc), fmt::format("index {} is out of range of a dim of {}", i, size));
}

/// The element map of index and index_put: for each point of the indexed result (row-major), the offset in x.
Dims index_offsets(const Eval& e, size_t first_index, const Dims& result_dims) {
  const Dims &x = e.in_dims(0), strides = row_major(x);
  const Ints& dims = e.n.get<Ints>(Attr::dims);
  const size_t pos = e.n.get<int64_t>(Attr::out_pos), index_rank = e.in_dims(first_index).size();
  std::vector<Dims> indices;
  for (size_t i = first_index; i < e.in.size(); ++i) indices.push_back(as_i64(*e.in[i]));
  const Dims index_strides = row_major(e.in_dims(first_index));
  Dims kept;  // x's strides of the result dims that are not index dims
  for (size_t d = 0; d < x.size(); ++d)
    if (!std::binary_search(dims.begin(), dims.end(), static_cast<int64_t>(d))) kept.push_back(strides[d]);
  Dims offsets;
  const int64_t count = count_of(result_dims);
  offsets.reserve(count);
  Dims at(result_dims.size(), 0);
  for (int64_t p = 0; p < count; ++p) {
    int64_t s = 0, which = 0;
    for (size_t d = 0, k = 0; d < at.size(); ++d) {
      if (d >= pos && d < pos + index_rank) {
        which += at[d] * index_strides[d - pos];
      } else {
        s += at[d] * kept[k++];
      }
    }
    for (size_t j = 0; j < dims.size(); ++j) s += checked(e, indices[j][which], x[dims[j]]) * strides[dims[j]];
    offsets.push_back(s);
    next_point(at, result_dims);
  }
  return offsets;
}

/// Offsets in x of every element of the index tensor, the indexed dim replaced by the index.
Dims along_offsets(const Eval& e) {
  const Dims &x = e.in_dims(0), strides = row_major(x), &at_dims = e.in_dims(1);
  const size_t dim = e.n.get<int64_t>(Attr::dim);
  const Dims indices = as_i64(*e.in[1]);
  Dims offsets, at(at_dims.size(), 0);
  for (int64_t i : indices) {
    int64_t s = 0;
    for (size_t d = 0; d < at.size(); ++d) s += (d == dim ? checked(e, i, x[d]) : at[d]) * strides[d];
    offsets.push_back(s);
    next_point(at, at_dims);
  }
  return offsets;
}

template <class T>
T combine(const std::string& kind, T a, T b) {
  if (kind == "none") return b;  // the last one stays
  if (kind == "sum" || kind == "mean") return a + b;
  if (kind == "prod") return a * b;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
  }
  if (kind == "amax") return std::max(a, b);
  AOTC_CHECK(kind == "amin", "scatter by '{}'", kind);
  return std::min(a, b);
}

template <class T>
T mean_of(T sum, int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    return sum / static_cast<T>(count);
  } else {
    return sum / count - (sum % count != 0 && sum < 0);
  }
}

/// Scatters src[from[i]] into x[to[i]].
template <class T>
std::vector<T> scattered(std::vector<T> x, const std::vector<T>& src, const Dims& from, const Dims& to, const std::string& kind,
                         bool include_self) {
  std::vector<int64_t> hits(x.size(), 0);
  for (size_t i = 0; i < to.size(); ++i) {
    const bool first = hits[to[i]]++ == 0 && !include_self;
    x[to[i]] = first ? src[from[i]] : combine(kind, x[to[i]], src[from[i]]);
  }
  if (kind == "mean")
    for (size_t i = 0; i < x.size(); ++i)
      if (hits[i]) x[i] = mean_of(x[i], hits[i] + include_self);
  return x;
}

void put(Eval& e, size_t src, const Dims& from, const Dims& to, const std::string& kind, bool include_self) {
  if (is_float(e.out[0].dtype)) return set_f64(e.out[0], scattered(as_f64(*e.in[0]), as_f64(*e.in[src]), from, to, kind, include_self));
  set_i64(e.out[0], scattered(as_i64(*e.in[0]), as_i64(*e.in[src]), from, to, kind, include_self));
}

}  // namespace

void index(Eval& e) {
  const int64_t w = dtype_bytes(e.out[0].dtype);
  std::byte* dst = e.out[0].bytes.data();
  for (int64_t s : index_offsets(e, 1, e.out_dims())) {
    std::memcpy(dst, e.in[0]->bytes.data() + s * w, w);
    dst += w;
  }
}

void gather(Eval& e) {
  const int64_t w = dtype_bytes(e.out[0].dtype);
  std::byte* dst = e.out[0].bytes.data();
  for (int64_t s : along_offsets(e)) {
    std::memcpy(dst, e.in[0]->bytes.data() + s * w, w);
    dst += w;
  }
}

void scatter(Eval& e) {
  const Dims strides = row_major(e.in_dims(2)), &at_dims = e.in_dims(1);
  Dims from, at(at_dims.size(), 0);
  for (int64_t i = 0; i < count_of(at_dims); ++i) {
    int64_t s = 0;
    for (size_t d = 0; d < at.size(); ++d) s += at[d] * strides[d];
    from.push_back(s);
    next_point(at, at_dims);
  }
  put(e, 2, from, along_offsets(e), e.n.get<std::string>(Attr::reduce), e.n.get<bool>(Attr::include_self));
}

void index_put(Eval& e) {
  const Dims to = index_offsets(e, 2, e.in_dims(1));
  Dims from(to.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int64_t>(i);
  put(e, 1, from, to, e.n.get<bool>(Attr::accumulate) ? "sum" : "none", true);
}

void add_rows(Eval& e) {
  const int64_t columns = e.in_dims(0)[1];
  Dims rows = as_i64(*e.in[2]), targets = as_i64(*e.in[3]);
  std::vector<double> factors = e.in.size() == 5 ? as_f64(*e.in[4]) : std::vector<double>();
  if (e.n.get<bool>(Attr::begins)) {
    const Dims begins = std::exchange(targets, Dims(rows.size(), -1));
    for (size_t k = 0; k < begins.size(); ++k) {
      const int64_t end = k + 1 < begins.size() ? begins[k + 1] : static_cast<int64_t>(rows.size());
      if (begins[k] < 0 || begins[k] > end) checked(e, -1, 0);
      for (int64_t i = begins[k]; i < end; ++i) targets.at(static_cast<size_t>(i)) = static_cast<int64_t>(k);
    }
    const size_t first = begins.empty() ? rows.size() : static_cast<size_t>(begins[0]);  // those before count for no row
    rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first));
    targets.erase(targets.begin(), targets.begin() + static_cast<std::ptrdiff_t>(first));
    if (!factors.empty()) factors.erase(factors.begin(), factors.begin() + static_cast<std::ptrdiff_t>(first));
  }
  Dims from, to;
  for (size_t r = 0; r < rows.size(); ++r) {
    const int64_t a = checked(e, rows[r], e.in_dims(1)[0]), b = checked(e, targets[r], e.in_dims(0)[0]);
    for (int64_t c = 0; c < columns; ++c) from.push_back(a * columns + c), to.push_back(b * columns + c);
  }
  if (e.n.get<bool>(Attr::largest)) {
    std::vector<double> best = as_f64(*e.in[0]);
    std::vector<char> met(best.size(), 0);
    const std::vector<double> table = as_f64(*e.in[1]);
    for (size_t i = 0; i < from.size(); ++i) {
      const double v = table[static_cast<size_t>(from[i])];
      const auto place = static_cast<size_t>(to[i]);
      if (!met[place] || v > best[place]) best[place] = v;
      met[place] = 1;
    }
    return set_f64(e.out[0], best);
  }
  if (e.in.size() < 5) return put(e, 1, from, to, "sum", true);
  std::vector<double> sums = as_f64(*e.in[0]);
  const std::vector<double> table = as_f64(*e.in[1]);
  for (size_t i = 0; i < from.size(); ++i)
    sums[static_cast<size_t>(to[i])] += table[static_cast<size_t>(from[i])] * factors[i / static_cast<size_t>(columns)];
  set_f64(e.out[0], sums);
}

}  // namespace aotc::interp

// Sort, topk, scatter and index_put of every dtype against plain loops over doubles.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "aotc/detail/check_abi.h"
#include "support.h"

namespace kernel_test {
namespace {

const std::vector<Entry> kSort = entries("sort"), kTopk = entries("topk"), kScatter = entries("scatter"), kIndexPut = entries("index_put"),
                         kAddRows = entries("add_rows");

bool before(double a, double b, bool down) {
  if (down) return a > b || (std::isnan(a) && !std::isnan(b));
  return a < b || (std::isnan(b) && !std::isnan(a));
}
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void check_rows(const Entry& e, int64_t outer, int64_t n, int64_t inner, int64_t k, bool down, bool is_sort, std::mt19937& rng) {
  INFO(aotc::dtype_name(e.dtype) << " " << outer << "x" << n << "x" << inner << " k " << k << " down " << down << " sort " << is_sort);
  const int64_t width = is_sort ? n : k;
  Buffer x(outer * n * inner, e.dtype), v(outer * width * inner, e.dtype), id(outer * width * inner, DType::i64);
  x.fill(rng);
  const bool nans = rng() % 2;
  if (is_float(e.dtype))
    for (int64_t i = 0; i < x.size; ++i) {
      if (nans && rng() % 5 == 0) x.put(i, NAN);
      if (rng() % 3 == 0) x.put(i, 0.5);
      if (rng() % 7 == 0) x.put(i, rng() % 2 ? -0.0 : 0.0);
    }
  else if (!is_bool(e.dtype))
    for (int64_t i = 0; i < x.size; ++i)  // all bytes of larger types
      if (rng() % 3 == 0)
        x.put(i, std::ldexp(e.dtype != DType::u8 && rng() % 2 ? -1 : 1,
                            static_cast<int>(rng() % static_cast<uint64_t>(8 * aotc::dtype_bytes(e.dtype) - 1))));
  aotc_sort_config cfg = {down, 1, down};
  Scratch scratch(aotc_sort_scratch_bytes(n, aotc::dtype_bytes(e.dtype)));
  int64_t size[] = {outer, n, inner, k};
  void* ptr[] = {x.ptr(), v.ptr(), id.ptr()};
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr, size, &cfg, scratch.ptr(), 0, 1, &fault};
  e.fn(&args, 0, outer * inner);
  bool good = true;
  for (int64_t r = 0; r < outer * inner; ++r) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    auto at = [&](int64_t i) { return x.get(r / inner * n * inner + i * inner + r % inner); };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return before(at(a), at(b), down); });
    for (int64_t i = 0; i < width; ++i) {
      const int64_t o = r / inner * width * inner + i * inner + r % inner, want = order[static_cast<size_t>(i)];
      good &= same(v.get(o), at(want)) && same(at(static_cast<int64_t>(id.get(o))), at(want));
      if (is_sort) good &= static_cast<int64_t>(id.get(o)) == want;
    }
  }
  CHECK(good);
}

TEST_CASE("a condition that is false is a fault", "[library]") {
  for (const Entry& e : entries("check"))
    for (const bool holds : {true, false}) {
      Buffer condition(1, DType::boolean), out(1, DType::boolean);
      condition.put(0, holds), out.put(0, !holds);
      void* ptr[] = {condition.ptr(), out.ptr()};
      int64_t size[] = {1};
      volatile int32_t fault = AOTC_FAULT_NONE;
      const aotc_kargs args = {ptr, size, nullptr, nullptr, 0, 1, &fault};
      e.fn(&args, 0, 1);
      CHECK(fault == (holds ? int{AOTC_FAULT_NONE} : int{AOTC_FAULT_CHECK}));
      CHECK(out.get(0) == holds);
    }
}

TEST_CASE("a condition on an index tells the index", "[library]") {
  for (const Entry& e : entries("check"))
    for (const bool holds : {true, false}) {
      Buffer condition(1, DType::boolean);
      condition.put(0, holds);
      int64_t index = -17, out[2] = {0, 0};
      void* ptr[] = {condition.ptr(), &index, out};
      int64_t size[] = {2};
      volatile int32_t fault = AOTC_FAULT_NONE;
      const aotc_kargs args = {ptr, size, nullptr, nullptr, 0, 1, &fault};
      e.fn(&args, 0, 1);
      CHECK(fault == (holds ? int{AOTC_FAULT_NONE} : int{AOTC_FAULT_CHECK}));
      CHECK(*reinterpret_cast<const unsigned char*>(out) == holds);
      CHECK(out[AOTC_CHECK_INDEX / 8] == -17);
    }
}

TEST_CASE("what stays takes out what follows", "[library]") {
  std::mt19937 rng(7);
  for (const Entry& e : entries("exclude"))
    for (int64_t n : {0, 1, 2, 33, 200}) {
      const int64_t count = 3;
      Buffer x(count * n * n, DType::boolean), out(count * n, DType::boolean);
      for (int64_t i = 0; i < count * n * n; ++i) x.put(i, rng() % 8 == 0);
      void* ptr[] = {x.ptr(), out.ptr()};
      int64_t size[] = {count, n, n};
      const aotc_kargs args = {ptr, size, nullptr, nullptr, 0, 1, nullptr};
      e.fn(&args, 1, count);
      e.fn(&args, 0, 1);
      bool good = true;
      for (int64_t m = 0; m < count; ++m)
        for (int64_t j = 0; j < n; ++j) {
          bool stays = true;
          for (int64_t i = 0; i < j; ++i) stays &= out.get(m * n + i) == 0 || x.get((m * n + i) * n + j) == 0;
          good &= (out.get(m * n + j) != 0) == stays;
        }
      CHECK(good);
    }
}

TEST_CASE("sort and topk", "[library]") {
  std::mt19937 rng(5);
  for (int64_t n : {0, 1, 2, 17, 63, 64, 100, 257, 3000})
    for (size_t t = 0; t < std::size(kSort); ++t)
      for (bool down : {false, true}) {
        check_rows(kSort[t], 2, n, 1 + static_cast<int64_t>(rng() % 3), 0, down, true, rng);
        check_rows(kTopk[t], 2, n, 1 + static_cast<int64_t>(rng() % 3), n ? static_cast<int64_t>(rng() % static_cast<uint64_t>(n + 1)) : 0,
                   down, false, rng);
        for (int i = 0; i < 3; ++i) check_rows(kTopk[t], 2, n, 1, std::min<int64_t>(n, 5), down, false, rng);  // most values are passed by
      }
}

/// All work units, the later ones first.
void in_two_parts(const Entry& e, const aotc_kargs& args, int64_t units, std::mt19937& rng) {
  const int64_t cut = static_cast<int64_t>(rng() % static_cast<uint64_t>(units + 1));
  e.fn(&args, cut, units);
  e.fn(&args, 0, cut);
}

TEST_CASE("scatter", "[library]") {
  std::mt19937 rng(6);
  for (const Entry& e : kScatter)
    for (int reduce = 0; reduce <= AOTC_SCATTER_MEAN; ++reduce)
      for (int self : {0, 1})
        for (int shape = 0; shape < 3; ++shape) {  // along either dim, and rows whose indices are alike but in the last one
          const int dim = shape % 2;
          const int64_t cols = shape < 2 ? 5 : 19;
          if (is_bool(e.dtype) && reduce != AOTC_SCATTER_NONE) continue;
          INFO(aotc::dtype_name(e.dtype) << " reduce " << reduce << " self " << self << " dim " << dim);
          const int64_t xd[] = {4, cols}, id[] = {3, shape < 2 ? 4 : cols}, sd[] = {3, shape < 2 ? 6 : cols};
          const int64_t count = 4 * cols, picks = 3 * id[1];
          Buffer x(count, e.dtype), src(3 * sd[1], e.dtype), out(count, e.dtype), index(picks, DType::i64);
          x.fill(rng), src.fill(rng);
          for (int64_t i = 0; i < picks; ++i) {  // without repeats where the order would matter
            const int64_t line = dim ? i % id[1] : i / id[1];
            index.put(i, static_cast<double>(reduce ? rng() % static_cast<uint64_t>(xd[dim]) : static_cast<uint64_t>(line)));
          }
          if (shape == 2)
            for (int64_t i = 0; i < 2 * cols; ++i) index.put(i, index.get(i / cols * cols));
          int64_t size[] = {2, xd[0], xd[1], id[0], id[1], sd[0], sd[1]};
          aotc_scatter_config cfg = {dim, reduce, self, 0};
          Scratch scratch(8 * count);
          void* ptr[] = {x.ptr(), index.ptr(), src.ptr(), out.ptr()};
          volatile int32_t fault = 0;
          aotc_kargs args = {ptr, size, &cfg, scratch.ptr(), 0, 1, &fault};
          in_two_parts(e, args, dim ? 4 : 1, rng);
          CHECK(fault == 0);
          std::vector<double> want(static_cast<size_t>(count));
          std::vector<int> hits(want.size(), 0);
          for (int64_t i = 0; i < count; ++i) want[static_cast<size_t>(i)] = x.get(i);
          for (int i = 0; i < id[0]; ++i)
            for (int j = 0; j < id[1]; ++j) {
              const int64_t p = static_cast<int64_t>(index.get(i * id[1] + j));
              const size_t to = static_cast<size_t>(dim == 0 ? p * xd[1] + j : i * xd[1] + p);
              const double s = src.get(i * sd[1] + j);
              double& w = want[to];
              const bool first = hits[to]++ == 0 && !self;
              if (reduce == AOTC_SCATTER_NONE || first)
                w = s;
              else if (reduce == AOTC_SCATTER_SUM || reduce == AOTC_SCATTER_MEAN)
                w += s;
              else if (reduce == AOTC_SCATTER_PROD)
                w *= s;
              else if (reduce == AOTC_SCATTER_AMAX)
                w = std::max(w, s);
              else
                w = std::min(w, s);
            }
          bool good = true;
          for (int64_t i = 0; i < count; ++i) {
            const size_t at = static_cast<size_t>(i);
            double w = want[at];
            if (reduce == AOTC_SCATTER_MEAN && hits[at]) {
              w /= hits[at] + self;
              if (!is_float(e.dtype)) w = std::floor(w);
            }
            if (e.dtype == DType::u8) w = static_cast<uint8_t>(static_cast<int64_t>(w));
            if (e.dtype == DType::i8) w = static_cast<int8_t>(static_cast<int64_t>(w));
            good &= std::fabs(out.get(i) - w) <= 4 * epsilon(e.dtype) * (1 + std::fabs(w));
          }
          CHECK(good);
          index.put(5, 99);
          in_two_parts(e, args, dim ? 4 : 1, rng);
          CHECK(fault == AOTC_FAULT_INDEX);
        }
}

TEST_CASE("index_put", "[library]") {
  std::mt19937 rng(8);
  // x [4, 3, 5]; indexed dims and where the index dims [2] stand in values.
  struct Form {
    std::vector<int64_t> indexed;
    int64_t out_pos;
  };
  const Form forms[] = {{{0}, 0}, {{1}, 1}, {{2}, 2}, {{0, 1}, 0}, {{0, 2}, 0}, {{1, 2}, 1}, {{0, 1, 2}, 0}, {{1}, 0}, {{0}, 2}};
  const int64_t xd[] = {4, 3, 5};
  for (const Entry& e : kIndexPut)
    for (const Form& f : forms)
      for (int accumulate : {0, 1}) {
        if (is_bool(e.dtype) && accumulate) continue;
        INFO(aotc::dtype_name(e.dtype) << " indexed " << f.indexed.size() << " first " << f.indexed[0] << " pos " << f.out_pos);
        std::vector<int64_t> free_dims;
        for (int64_t d = 0; d < 3; ++d)
          if (std::find(f.indexed.begin(), f.indexed.end(), d) == f.indexed.end()) free_dims.push_back(d);
        std::vector<int64_t> rd;  // dims of values; -1 marks the index dim
        for (size_t i = 0; i <= free_dims.size(); ++i) {
          if (static_cast<int64_t>(i) == f.out_pos) rd.push_back(-1);
          if (i < free_dims.size()) rd.push_back(free_dims[i]);
        }
        auto extent = [&](int64_t d) { return d < 0 ? int64_t{2} : xd[d]; };
        int64_t count = 1;
        for (int64_t d : rd) count *= extent(d);
        Buffer x(60, e.dtype), values(count, e.dtype), out(60, e.dtype);
        x.fill(rng), values.fill(rng);
        std::vector<std::vector<int64_t>> index;
        for (int64_t d : f.indexed) index.push_back({-1, static_cast<int64_t>(rng() % static_cast<uint64_t>(xd[d] - 1))});
        std::vector<int64_t> size = {3, 4, 3, 5, static_cast<int64_t>(f.indexed.size())};
        size.insert(size.end(), f.indexed.begin(), f.indexed.end());
        size.insert(size.end(), {1, 2, f.out_pos});
        std::vector<void*> ptr = {x.ptr(), values.ptr(), out.ptr()};
        for (auto& i : index) ptr.push_back(i.data());
        aotc_scatter_config cfg = {0, 0, 0, accumulate};
        volatile int32_t fault = 0;
        aotc_kargs args = {ptr.data(), size.data(), &cfg, nullptr, 0, 1, &fault};
        int64_t units = 1;
        for (int64_t d = 0; d < f.indexed[0]; ++d) units *= xd[d];
        in_two_parts(e, args, units, rng);
        CHECK(fault == 0);
        std::vector<double> want(60);
        for (int i = 0; i < 60; ++i) want[static_cast<size_t>(i)] = x.get(i);
        for (int64_t v = 0; v < count; ++v) {
          int64_t left = v, pick = 0, at[3] = {0, 0, 0};
          for (size_t i = rd.size(); i-- > 0;) {
            (rd[i] < 0 ? pick : at[rd[i]]) = left % extent(rd[i]);
            left /= extent(rd[i]);
          }
          for (size_t q = 0; q < f.indexed.size(); ++q) {
            const int64_t i = index[q][static_cast<size_t>(pick)], d = f.indexed[q];
            at[d] = i < 0 ? i + xd[d] : i;
          }
          double& w = want[static_cast<size_t>((at[0] * 3 + at[1]) * 5 + at[2])];
          w = accumulate ? w + values.get(v) : values.get(v);
        }
        bool good = true;
        for (int i = 0; i < 60; ++i) {
          double w = want[static_cast<size_t>(i)];
          if (e.dtype == DType::u8) w = static_cast<uint8_t>(static_cast<int64_t>(w));
          good &= std::fabs(out.get(i) - w) <= 4 * epsilon(e.dtype) * (1 + std::fabs(w));
        }
        CHECK(good);
        index[0][1] = 77;
        in_two_parts(e, args, units, rng);
        CHECK(fault == AOTC_FAULT_INDEX);
      }
}

TEST_CASE("add_rows adds a table's rows in the order of their indices", "[library]") {
  std::mt19937 rng(10);
  REQUIRE(!kAddRows.empty());
  for (const Entry& e : kAddRows) {
    if (!runs_here(e.isa)) continue;
    for (int64_t d : {0, 1, 3, 8, 17, 64, 70, 200})
      for (int64_t count : {0, 1, 50})
        for (int outside : {0, 1, 2}) {
          INFO(aotc::dtype_name(e.dtype) << " columns " << d << " indices " << count << " outside " << outside);
          const int64_t n = 6, v = d == 200 ? 1400 : 9;  // 1400: more than caches keep
          Buffer x(n * d, e.dtype), table(v * d, e.dtype), out(n * d, e.dtype);
          x.fill(rng), table.fill(rng);
          std::vector<int64_t> from, to;
          while (to.size() < static_cast<size_t>(count)) to.insert(to.end(), 1 + rng() % 9, static_cast<int64_t>(rng() % 12) - 6);
          to.resize(static_cast<size_t>(count));
          for (size_t i = 0; i < to.size(); ++i) from.push_back(static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * v)) - v);
          if (count > 7 && outside == 1) to[5] = 6, to[7] = -7;
          if (count > 7 && outside == 2) from[5] = v, from[7] = -v - 1;
          const bool weighted = rng() % 2;
          Buffer factors(count, e.dtype);
          for (int64_t i = 0; i < count; ++i) factors.put(i, std::ldexp(1.0, static_cast<int>(rng() % 5) - 2));  // exact products
          int64_t size[] = {n, d, v, count, 0, weighted};
          void* ptr[] = {x.ptr(), table.ptr(), from.data(), to.data(), weighted ? factors.ptr() : out.ptr(), out.ptr()};
          volatile int32_t fault = 0;
          aotc_kargs args = {ptr, size, nullptr, nullptr, 0, 1, &fault};
          in_two_parts(e, args, (d + AOTC_ADD_ROWS_COLUMNS - 1) / AOTC_ADD_ROWS_COLUMNS, rng);
          CHECK((fault != 0) == (count > 7 && outside != 0 && d > 0));
          std::vector<double> want;
          for (int64_t i = 0; i < x.size; ++i) want.push_back(x.get(i));
          for (size_t r = 0; r < to.size(); ++r) {
            const int64_t a = from[r] < 0 ? from[r] + v : from[r], b = to[r] < 0 ? to[r] + n : to[r];
            if (a < 0 || a >= v || b < 0 || b >= n) continue;
            for (int64_t c = 0; c < d; ++c) {
              double& sum = want[static_cast<size_t>(b * d + c)];
              sum += table.get(a * d + c) * (weighted ? factors.get(static_cast<int64_t>(r)) : 1);
              if (e.dtype == DType::f32) sum = static_cast<float>(sum);
            }
          }
          bool good = true;
          for (int64_t i = 0; i < out.size; ++i) good &= out.get(i) == want[static_cast<size_t>(i)];
          CHECK(good);
        }
  }
}

TEST_CASE("add_rows adds a table's rows to those that say where theirs begin", "[library]") {
  std::mt19937 rng(11);
  for (const Entry& e : kAddRows) {
    if (!runs_here(e.isa)) continue;
    for (int64_t d : {0, 1, 17, 64, 70, 200})
      for (int bad = 0; bad < 4; ++bad) {
        INFO(aotc::dtype_name(e.dtype) << " columns " << d << " bad " << bad);
        const int64_t n = 6, v = d == 200 ? 1400 : 9, count = 40;  // 1400: more than caches keep
        Buffer x(n * d, e.dtype), table(v * d, e.dtype), out(n * d, e.dtype);
        x.fill(rng), table.fill(rng);
        std::vector<int64_t> from, begins = {2, 2, 9, 30, 30, 40};
        for (int64_t i = 0; i < count; ++i) from.push_back(static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * v)) - v);
        if (bad == 1) from[12] = v;
        if (bad == 2) begins[5] = 41;
        if (bad == 3) begins[1] = -1;
        const bool weighted = rng() % 2;
        Buffer factors(count, e.dtype);
        for (int64_t i = 0; i < count; ++i) factors.put(i, std::ldexp(1.0, static_cast<int>(rng() % 5) - 2));  // exact products
        int64_t size[] = {n, d, v, count, 1, weighted};
        void* ptr[] = {x.ptr(), table.ptr(), from.data(), begins.data(), weighted ? factors.ptr() : out.ptr(), out.ptr()};
        volatile int32_t fault = 0;
        aotc_kargs args = {ptr, size, nullptr, nullptr, 0, 1, &fault};
        in_two_parts(e, args, n, rng);
        CHECK((fault != 0) == (bad > 1 || (bad == 1 && d > 0)));
        bool good = true;
        for (int64_t k = 0; k < n && bad == 0; ++k)
          for (int64_t c = 0; c < d; ++c) {
            double sum = x.get(k * d + c);
            for (int64_t i = begins[static_cast<size_t>(k)]; i < (k + 1 < n ? begins[static_cast<size_t>(k) + 1] : count); ++i) {
              const int64_t pick = from[static_cast<size_t>(i)];
              sum += table.get((pick < 0 ? pick + v : pick) * d + c) * (weighted ? factors.get(i) : 1);
              if (e.dtype == DType::f32) sum = static_cast<float>(sum);
            }
            good &= out.get(k * d + c) == sum;
          }
        CHECK(good);
      }
  }
}

TEST_CASE("add_rows takes the largest of a table's rows where it is asked for", "[library]") {
  std::mt19937 rng(12);
  const double nan = std::nan("");
  for (const Entry& e : kAddRows) {
    if (!runs_here(e.isa)) continue;
    for (int64_t d : {1, 17, 70}) {
      INFO(aotc::dtype_name(e.dtype) << " columns " << d);
      const int64_t n = 5, v = 9, count = 20;
      Buffer x(n * d, e.dtype), table(v * d, e.dtype), out(n * d, e.dtype);
      x.fill(rng), table.fill(rng);
      table.put(3 * d, nan), table.put(4 * d, -std::numeric_limits<double>::infinity());
      std::vector<int64_t> from, begins = {0, 4, 4, 10, 11};  // the second has none, the fourth one row
      for (int64_t i = 0; i < count; ++i) from.push_back(static_cast<int64_t>(rng() % 18) - 9);
      from[0] = 3, from[5] = 3, from[10] = 4;
      int64_t size[] = {n, d, v, count, 2, 0};
      void* ptr[] = {x.ptr(), table.ptr(), from.data(), begins.data(), out.ptr()};
      volatile int32_t fault = 0;
      aotc_kargs args = {ptr, size, nullptr, nullptr, 0, 1, &fault};
      in_two_parts(e, args, n, rng);
      CHECK(fault == 0);
      bool good = true;
      for (int64_t k = 0; k < n; ++k)
        for (int64_t c = 0; c < d; ++c) {
          double best = x.get(k * d + c);
          const int64_t first = begins[static_cast<size_t>(k)], last = k + 1 < n ? begins[static_cast<size_t>(k) + 1] : count;
          for (int64_t i = first; i < last; ++i) {
            const int64_t pick = from[static_cast<size_t>(i)];
            const double value = table.get((pick < 0 ? pick + v : pick) * d + c);
            if (i == first || value > best) best = value;
          }
          const double got = out.get(k * d + c);
          good &= got == best || (std::isnan(got) && std::isnan(best));
        }
      CHECK(good);
    }
  }
}

TEST_CASE("index_put adds whole rows in the order of their indices", "[library]") {
  std::mt19937 rng(9);
  for (const Entry& e : kIndexPut) {
    if (e.dtype != DType::f32 && e.dtype != DType::f64) continue;
    for (int64_t pitch : {0, 1, 3, 8, 17, 64, 70, 200})
      for (int64_t planes : {1, 2})
        for (int outside : {0, 1}) {
          const int64_t extent = 6, count = 40;
          Buffer x(planes * extent * pitch, e.dtype), values(planes * count * pitch, e.dtype), out(x.size, e.dtype);
          x.fill(rng), values.fill(rng);
          std::vector<int64_t> index;
          while (index.size() < static_cast<size_t>(count)) index.insert(index.end(), 1 + rng() % 9, static_cast<int64_t>(rng() % 12) - 6);
          index.resize(static_cast<size_t>(count));
          if (outside) index[5] = 6, index[17] = -7;
          int64_t size[] = {3, planes, extent, pitch, 1, 1, 1, count, 1};
          void* ptr[] = {x.ptr(), values.ptr(), out.ptr(), index.data()};
          aotc_scatter_config cfg = {0, 0, 0, 1};
          volatile int32_t fault = 0;
          aotc_kargs args = {ptr, size, &cfg, nullptr, 0, 1, &fault};
          in_two_parts(e, args, planes, rng);
          CHECK(fault == (outside && pitch ? AOTC_FAULT_INDEX : AOTC_FAULT_NONE));
          for (int64_t p = 0; p < planes; ++p)
            for (int64_t r = 0; r < count; ++r) {
              const int64_t pick = index[static_cast<size_t>(r)] + (index[static_cast<size_t>(r)] < 0 ? extent : 0);
              for (int64_t c = 0; c < pitch && pick >= 0 && pick < extent; ++c) {
                const int64_t at = (p * extent + pick) * pitch + c;
                x.put(at, x.get(at) + values.get((p * count + r) * pitch + c));
              }
            }
          bool good = true;
          for (int64_t i = 0; i < x.size; ++i) good &= out.get(i) == x.get(i);
          INFO(aotc::dtype_name(e.dtype) << " rows of " << pitch);
          CHECK(good);
        }
  }
}

}  // namespace
}  // namespace kernel_test

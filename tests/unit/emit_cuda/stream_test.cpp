// Products of few rows (kernels/cuda/stream.cuh) on the emulated GPU, tile by tile, beside plain sums: weights as they are and of few bits,
// whose bf16 and f16 numbers are those of one rounding; edges of rows, columns and k; chunks, clusters, twins and mates.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // threads of the emulator are fibers
#include "cuda/emulator.h"
//
#include "kernels/cuda/stream.cuh"
//
#include <catch2/catch.hpp>
#include <random>
#include <type_traits>

#include "emit/cuda/launch.h"

namespace {

struct Arguments {
  const char* b[2];
  i64 next_bytes[2];
  const void *scales[2], *offsets[2], *x;
  i64 x_row, n;
  int m;
  float* out;  ///< the sums, [row][column], and those of the second product or of mates behind them
};

/// What is multiplied: b[product][column][k] as the kernel should see it.
template <class Tile>
struct Product {
  typedef typename Tile::T T;
  int m, n;
  std::vector<T> x;
  std::vector<std::vector<float>> b;
  std::vector<char> stored[2];
  std::vector<typename Tile::Scale> scales[2], offsets[2];
};

template <class Tile, int Mates>
void kernel(const void* arguments) {
  const Arguments& a = *static_cast<const Arguments*>(arguments);
  StreamSource<Tile> b;
  for (int u = 0; u < Tile::sums; ++u) b.at[u] = a.b[Mates ? 0 : u], b.next_bytes[u] = a.next_bytes[Mates ? 0 : u];
  typedef const typename Tile::Scale* Scales;
  for (int u = 0; u < Tile::sums; ++u) b.scales[u] = Scales(a.scales[Mates ? 0 : u]), b.offsets[u] = Scales(a.offsets[Mates ? 0 : u]);
  bool waited = false;
  const i64 columns = Mates ? 2 * a.n : a.n;
  auto ready = [&] { waited = true; };
  auto ahead = [&](i64 i, i64 j) {
    if (!waited || i >= a.m || j >= columns) emulator::fault("what no sum is added to");
    return static_cast<float>(i * 1000 + j);
  };
  auto finish = [&](const float(&acc)[Tile::sums], float held, i64 i, i64 j) {
    if (held != static_cast<float>(i * 1000 + j)) emulator::fault("what another sum is added to");
    for (int u = 0; u < Tile::sums; ++u) {
      float& to = a.out[u * a.m * columns + i * columns + j];
      if (to == to) emulator::fault("a sum that was finished before");
      to = acc[u];
    }
  };
  stream_block<Tile, Mates>(emulator::now->block->shared, b, static_cast<const typename Tile::T*>(a.x), a.x_row,
                            i64(blockIdx.x / Tile::split) * Tile::items, a.n, a.m, ready, ahead, finish);
}

/// How the weights of few bits are stored: forms/weight_form.h.
template <class Format>
void store(std::vector<char>& to, int slabs, int column, int k, int number) {
  constexpr int deep = Format::deep;
  char* const slab = to.data() + (column / 16 * slabs + k / deep) * 1024 + column % 16 * 64;
  const int of = k % deep, s = of / 16, rest = of % 16, lane = rest % 8 / 2, jj = rest % 2 + rest / 8 * 2;
  if (deep == 64) {
    slab[lane * 16 + 4 * s + jj] = static_cast<char>(number);
  } else {
    u32 word;
    memcpy(&word, slab + lane * 16 + s / 2 * 4, 4);
    word |= static_cast<u32>(number) << (4 * (2 * (s % 2) + jj / 2) + 16 * (jj % 2));
    memcpy(slab + lane * 16 + s / 2 * 4, &word, 4);
  }
}

template <class Tile>
Product<Tile> numbers(int m, int n) {
  typedef typename Tile::W W;
  typedef typename Tile::T T;
  typedef typename Tile::Scale Scale;
  constexpr int k = Tile::k, products = Tile::sums;
  Product<Tile> p{m, n};
  std::mt19937 rng(k + n);
  std::normal_distribution<float> normal;
  for (int i = 0; i < m * k; ++i) p.x.push_back(T(normal(rng)));
  p.b.assign(products, std::vector<float>(static_cast<size_t>(n) * k));
  const int groups = (k + Tile::group - 1) / Tile::group, slabs = (k + W::deep - 1) / W::deep;
  for (int u = 0; u < products; ++u) {
    for (int i = 0; W::few_bits && i < n * groups; ++i) {
      p.scales[u].push_back(Scale(0.01f + std::fabs(normal(rng)) * 0.1f));
      if (W::offsets) p.offsets[u].push_back(Scale(normal(rng)));
    }
    p.stored[u].assign(W::few_bits ? static_cast<size_t>((n + 15) / 16) * slabs * 1024 : static_cast<size_t>(n) * k * sizeof(T), 0);
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < k; ++i) {
        float& value = p.b[u][static_cast<size_t>(j) * k + i];
        if constexpr (W::few_bits) {
          typedef typename W::In In;
          const int byte = static_cast<int>(rng() % (In::deep == 128 ? 16 : 256));
          float number;
          if constexpr (std::is_same_v<In, Int4>) {
            number = static_cast<float>(byte);
          } else if constexpr (std::is_same_v<In, Int8>) {
            number = static_cast<float>(static_cast<signed char>(byte));
          } else {
            e4m3fn v;
            v.bits = static_cast<u8>(byte % 128 == 127 ? 5 : byte);
            number = v;
          }
          const int stored = std::is_same_v<In, E4m3> && byte % 128 == 127 ? 5 : byte;
          const size_t at = static_cast<size_t>(j) * groups + i / Tile::group;
          const float offset = W::offsets ? float(p.offsets[u][at]) : 0.0f;
          value = T(static_cast<float>(number * static_cast<double>(float(p.scales[u][at])) + offset));
          store<In>(p.stored[u], slabs, j, i, stored);
        } else {
          const T v(normal(rng));
          value = v;
          memcpy(p.stored[u].data() + (static_cast<size_t>(j) * k + i) * sizeof(T), &v, sizeof v);
        }
      }
  }
  return p;
}

/// The tile of a choice, as the forms know it.
template <class Tile>
aotc::emit::cuda::StreamTile known(int warps, int depth, int chunk) {
  typedef typename Tile::W W;
  aotc::emit::cuda::StreamTile t;
  t.warps = warps, t.along = Tile::along, t.strips = Tile::strips, t.run = Tile::run, t.depth = depth, t.split = Tile::split,
  t.chunk = chunk;
  t.rows = Tile::rows, t.sums = Tile::sums, t.k = Tile::k;
  if (W::few_bits) t.bits = 512 / W::deep, t.group = W::group, t.scale_bytes = sizeof(typename Tile::Scale), t.scales = W::offsets ? 2 : 1;
  return t;
}

/// m rows by n columns, or pairs of mates.
template <class W, int K, int Rows, int Warps, int Along, int Strips, int Run, int Depth, int Split, int Chunk, int Sums = 1, int Mates = 0,
          bool Made = false>
void check(int m, int n, int shift = 0) {
  typedef StreamTile<W, K, Rows, Warps, Along, Strips, Run, Depth, Split, Chunk, Sums, Made> Tile;
  typedef typename Tile::T T;
  INFO("k " << K << " rows " << m << " columns " << n << " warps " << Warps << " along " << Along << " strips " << Strips << " depth "
            << Depth);
  const auto t = known<Tile>(Warps, Depth, Chunk);
  CHECK(t.ring_bytes() == Tile::ring_bytes);
  CHECK(t.row_bytes() == Tile::rows_bytes);
  CHECK(t.scales_bytes() ==
        (W::few_bits ? int64_t(Tile::items) * Sums * Tile::scale_pitch * int64_t(sizeof(typename Tile::Scale)) * t.scales : 0));
  CHECK(t.smem_bytes() >= int64_t(Along) * Sums * Tile::sum_part * 4);
  CHECK(t.items() == Tile::items);
  const int columns = Mates ? 2 * n : n;
  const Product<Tile> p = numbers<Tile>(m, columns);
  std::vector<T> moved(p.x.size() + 16);
  T* const rows = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(moved.data()) + 15) / 16 * 16) + shift;
  std::copy(p.x.begin(), p.x.end(), rows);
  std::vector<float> out(static_cast<size_t>(m) * columns * Sums, NAN);
  const i64 next = W::few_bits ? (K + W::deep - 1) / W::deep * 1024 : K * i64(sizeof(T));
  const Arguments a{{p.stored[0].data(), p.stored[1].data()},
                    {next, next},
                    {p.scales[0].data(), p.scales[1].data()},
                    {p.offsets[0].data(), p.offsets[1].data()},
                    rows,
                    K,
                    n,
                    m,
                    out.data()};
  const unsigned grid[3] = {static_cast<unsigned>((n + Tile::items - 1) / Tile::items * Split), 1, 1}, block[3] = {Warps * 32, 1, 1};
  aotc_host_launch(kernel<Tile, Mates>, Split, grid, block, static_cast<unsigned>(t.smem_bytes()), &a);
  double worst = 0;
  for (int u = 0; u < Sums; ++u)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < columns; ++j) {
        const int column = Mates && u ? (j / Mates % 2 ? j - Mates : j + Mates) : j;
        const float* const b = p.b[Mates ? 0 : u].data() + static_cast<size_t>(column) * K;
        double sum = 0, size = 0;
        for (int e = 0; e < K; ++e) {
          const double product = static_cast<double>(float(p.x[static_cast<size_t>(i) * K + e])) * b[e];
          sum += product, size += std::fabs(product);
        }
        const double error = std::fabs(out[(static_cast<size_t>(u) * m + i) * columns + j] - sum) / size;
        worst = error <= worst ? worst : error == error ? error : 1;
      }
  CHECK(worst < 1e-6);
}

}  // namespace

TEST_CASE("products of few rows: weights as they are") {
  typedef PlainWeights<bf16> B;
  typedef PlainWeights<f16> F;
  check<B, 512, 8, 4, 2, 1, 1, 2, 1, 99>(8, 48);
  check<B, 512, 3, 4, 1, 1, 1, 4, 1, 99>(3, 37);
  check<F, 520, 1, 4, 4, 1, 1, 4, 1, 99>(1, 33);       // an end of k that is no whole slab
  check<F, 200, 8, 4, 2, 2, 1, 8, 1, 99>(5, 70);       // fewer rounds than are said to be under way
  check<B, 1032, 20, 2, 2, 1, 1, 2, 1, 2>(17, 19, 1);  // chunks; rows that are not aligned
  check<B, 1032, 20, 2, 2, 1, 1, 2, 1, 2>(17, 19);     //
  check<F, 1600, 9, 4, 1, 1, 1, 3, 1, 5>(9, 65);       //
  check<F, 1600, 32, 4, 2, 2, 2, 2, 1, 3>(32, 61);     // two slabs a round
  check<B, 1032, 8, 4, 2, 1, 1, 2, 4, 99>(8, 40);      // clusters, of which some have more steps than others
  check<B, 1032, 64, 2, 1, 1, 1, 2, 2, 2>(64, 33);     //
  check<F, 136, 12, 4, 4, 1, 1, 2, 2, 99>(10, 20);     // warps without a step
}

TEST_CASE("products of few rows: two of the same rows, and columns in pairs") {
  typedef PlainWeights<bf16> B;
  check<B, 264, 8, 4, 2, 1, 1, 2, 1, 99, 2>(8, 45);
  check<B, 264, 12, 2, 1, 2, 1, 2, 2, 99, 2>(11, 45);
  check<B, 264, 3, 4, 2, 1, 1, 2, 1, 99, 2, 0, true>(2, 45);
  check<B, 264, 3, 4, 2, 1, 1, 2, 1, 99, 2, 17>(3, 34);
  check<PlainWeights<f16>, 264, 16, 4, 2, 1, 1, 2, 1, 99, 2, 32>(13, 64);
  check<SlabWeights<bf16, Int4, bf16, 32, true>, 256, 3, 4, 2, 1, 1, 2, 1, 99, 2, 32>(3, 64);
  check<SlabWeights<bf16, Int4, bf16, 32, true>, 512, 1, 4, 2, 1, 1, 2, 1, 99, 2>(1, 45);
  check<SlabWeights<f16, Int8, float, 64, false>, 640, 8, 4, 1, 1, 1, 2, 2, 99, 2>(6, 40);
  check<SlabWeights<bf16, E4m3, bf16, 192, false>, 576, 8, 2, 2, 1, 1, 2, 1, 99, 2>(2, 37);  // scales of a column that do not lie in pairs
}

TEST_CASE("products of few rows: weights of few bits") {
  check<SlabWeights<bf16, Int4, bf16, 32, true>, 512, 8, 4, 2, 1, 1, 2, 1, 99>(8, 40);
  check<SlabWeights<bf16, Int4, bf16, 32, true>, 584, 8, 4, 2, 1, 1, 2, 1, 99>(8, 40);  // the last slab has groups that are not there
  check<SlabWeights<bf16, Int4, bf16, 32, true>, 616, 1, 4, 4, 1, 1, 2, 1, 99>(1, 40);
  check<SlabWeights<bf16, Int4, float, 64, true>, 680, 3, 4, 2, 2, 1, 2, 1, 99>(3, 40);
  check<SlabWeights<f16, Int4, f16, 128, true>, 520, 3, 2, 1, 2, 1, 4, 1, 99>(3, 37);
  check<SlabWeights<bf16, Int4, float, 64, true>, 672, 9, 4, 4, 1, 1, 2, 2, 99>(9, 20);
  check<SlabWeights<bf16, Int8, bf16, 32, false>, 512, 8, 4, 2, 2, 1, 2, 1, 99>(8, 40);
  check<SlabWeights<f16, Int8, f16, 128, false>, 1048, 20, 4, 2, 1, 1, 2, 4, 99>(18, 50);
  check<SlabWeights<bf16, Int8, bf16, 1048, true>, 1048, 8, 4, 1, 1, 1, 2, 2, 4>(8, 50);
  check<SlabWeights<f16, Int8, float, 136, false>, 136, 2, 4, 2, 1, 2, 2, 1, 99>(2, 30);
  check<SlabWeights<bf16, E4m3, bf16, 64, false>, 512, 8, 4, 2, 1, 1, 2, 1, 99>(7, 40);
  check<SlabWeights<f16, E4m3, f16, 520, false>, 520, 33, 2, 2, 1, 1, 2, 1, 2>(33, 40);
  check<SlabWeights<bf16, E4m3, float, 128, false>, 640, 8, 4, 2, 1, 1, 3, 2, 99>(8, 40);
}

TEST_CASE("numbers of few bits are what they are, NaN included") {
  u32 words[4];
  for (int byte = 0; byte < 256; ++byte) {
    for (u32& w : words) w = static_cast<u32>(byte) * 0x01010101u;
    e4m3fn f;
    f.bits = static_cast<u8>(byte);
    const float eight = f, four[] = {static_cast<float>(byte & 15), static_cast<float>(byte >> 4)};
    const auto same_number = [](float a, float b) { return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b)); };
    for (int s = 0; s < 4; ++s)
      for (int h = 0; h < 2; ++h) {
        CHECK(pair_low<bf16>(Int8::pair<bf16>(words, s, h)) == static_cast<signed char>(byte) * Int8::unit<bf16>);
        CHECK(pair_high<f16>(Int8::pair<f16>(words, s, h)) == static_cast<signed char>(byte));
        CHECK(same_number(pair_low<bf16>(E4m3::pair<bf16>(words, s, h)), eight));
        CHECK(same_number(pair_high<f16>(E4m3::pair<f16>(words, s, h)), eight));
        CHECK(pair_low<bf16>(Int4::pair<bf16>(words, s, h)) == four[h] * Int4::unit<bf16>);
        CHECK(pair_high<f16>(Int4::pair<f16>(words, s, h)) == four[h]);
      }
  }
}
#endif

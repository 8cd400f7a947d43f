// Convolutions of channels-last images, of one to three dimensions and few channels or many groups, on tensor cores by mma.sync: a block loads the
// pixels under a tile of outputs, a patch, to shared memory once, and reads the window of every output out of it, tap by tap. Its weights stay
// in shared memory from tile to tile.
//
// k counts slots of 16 bytes of channels of a tap; the channels of a block are filled up to whole slots by zeros. float32 is multiplied as
// gemm.cuh does it. Of several groups, those whose
// channels a block takes are one product with a matrix of blocks: zeros beside them. Where a number of one group is infinite or NaN, the sums
// that it makes NaN in others are added up one by one.
#pragma once
#include "gemm.cuh"
#include "wgmma_finish.cuh"

// Shape (generated): rank; kernel(d), stride(d), padding(d), dilation(d); tile(d), outputs of a tile (together 64, 128 or 256; the last at least
// 8); grouped, whether there are several groups; groups, of a block; channels and outputs, of one of them; cols, output channels of a block;
// constant, whether no step writes the weights; products, of tf32 for one of float32.
template <class T, class Shape> struct PatchTile {
  static constexpr int rank = Shape::rank, threads = 128;
  static constexpr int product(int (*of)(int)) {
    int n = 1;
    for (int d = 0; d < rank; ++d) n *= of(d);
    return n;
  }
  static constexpr int across(int d) { return (Shape::tile(d) - 1) * Shape::stride(d) + (Shape::kernel(d) - 1) * Shape::dilation(d) + 1; }
  static constexpr int pixels = product(Shape::tile), points = product(across), taps = product(Shape::kernel);
  static constexpr int chunk = 16 / int(sizeof(T)), products = Shape::products;              // elements of a slot
  static constexpr int real = Shape::groups * Shape::channels, slots = (real + chunk - 1) / chunk;  // channels of a block; slots of a tap
  static constexpr int pitch = (slots % 2 ? slots : slots + 1) * chunk;                      // elements of a point: no two of 8 neighbours in one bank
  static constexpr int steps = (taps * slots + 1) / 2, depth = (steps * 2 + 1) * chunk;      // of two slots of k; elements of a column of weights
  static constexpr int mt = pixels / 64, nt = Shape::cols / 8;
  static constexpr bool paired = slots % 2 == 0;  // the slots of a step are neighbours
  // Shared memory: weights, the patch, a slot of zeros.
  static constexpr int patch_at = Shape::cols * depth, zeros_at = patch_at + points * pitch, shared_bytes = (zeros_at + chunk) * int(sizeof(T));
  // The place of a slot behind the first of its window.
  static constexpr int slot_at(int slot) {
    int tap = slot / slots, at = 0, step = pitch;
    for (int d = rank - 1; d >= 0; --d) {
      at += tap % Shape::kernel(d) * Shape::dilation(d) * step;
      tap /= Shape::kernel(d);
      step *= across(d);
    }
    return at + slot % slots * chunk;
  }
  // The place of the window of output `pixel` of the tile.
  static AOTC_DI int window_at(int pixel) {
    int at = 0, step = pitch;
#pragma unroll
    for (int d = rank - 1; d >= 0; --d) {
      at += pixel % Shape::tile(d) * Shape::stride(d) * step;
      pixel /= Shape::tile(d);
      step *= across(d);
    }
    return at;
  }
};

// Images and outputs as they lie: [image, place.., channel].
template <class T, int Rank> struct PatchSizes {
  const T *x, *w;
  int images, in[Rank], out[Rank], channels, out_channels;
};
template <int Rank> struct PatchPlace { int image, at[Rank]; };

template <class Shape, class T> AOTC_DI int patch_tiles(const PatchSizes<T, Shape::rank>& z) {
  int n = z.images;
#pragma unroll
  for (int d = 0; d < Shape::rank; ++d) n *= (z.out[d] + Shape::tile(d) - 1) / Shape::tile(d);
  return n;
}
// Where a tile begins.
template <class Shape, class T> AOTC_DI PatchPlace<Shape::rank> patch_place(const PatchSizes<T, Shape::rank>& z, int tile) {
  PatchPlace<Shape::rank> p;
#pragma unroll
  for (int d = Shape::rank - 1; d >= 0; --d) {
    const int tiles = (z.out[d] + Shape::tile(d) - 1) / Shape::tile(d), rest = tile / tiles;
    p.at[d] = (tile - rest * tiles) * Shape::tile(d);
    tile = rest;
  }
  p.image = tile;
  return p;
}
// The row of output `pixel` of a tile among those of all images, or -1 outside.
template <class Shape, class T> AOTC_DI int patch_row(const PatchSizes<T, Shape::rank>& z, const PatchPlace<Shape::rank>& p, int pixel) {
  int row = 0, step = 1;
  bool inside = true;
#pragma unroll
  for (int d = Shape::rank - 1; d >= 0; --d) {
    const int at = p.at[d] + pixel % Shape::tile(d);
    pixel /= Shape::tile(d);
    inside = inside && at < z.out[d];
    row += at * step;
    step *= z.out[d];
  }
  return inside ? row + p.image * step : -1;
}

// The weights of output channels [first, first + cols) to shared memory.
template <class Shape, class T> AOTC_DI void patch_weights(const PatchSizes<T, Shape::rank>& z, T* to, int first) {
  typedef PatchTile<T, Shape> Tile;
  for (int i = threadIdx.x; i < Tile::patch_at / Tile::chunk; i += Tile::threads) reinterpret_cast<uint4*>(to)[i] = make_uint4(0, 0, 0, 0);
  if (threadIdx.x == 0) *reinterpret_cast<uint4*>(to + Tile::zeros_at) = make_uint4(0, 0, 0, 0);
  __syncthreads();
  constexpr int each = Shape::channels * Tile::taps;
#pragma unroll 4
  for (int i = threadIdx.x; i < Shape::cols * each; i += Tile::threads) {
    const int column = i / each, k = i % each, c = k / Tile::taps, tap = k % Tile::taps, group = Shape::groups > 1 ? column / Shape::outputs : 0;
    if (first + column < z.out_channels)
      to[column * Tile::depth + tap * Tile::slots * Tile::chunk + group * Shape::channels + c] = z.w[i64(first) * each + i];
  }
}

// The patch under a tile, of the channels from `first` on, to shared memory: on its way when this returns (copies_commit()). Wide: pixels are
// whole slots at multiples of 16 bytes.
template <bool Wide, class Shape, class T>
AOTC_DI void patch_load(const PatchSizes<T, Shape::rank>& z, T* patch, const PatchPlace<Shape::rank>& p, int first) {
  typedef PatchTile<T, Shape> Tile;
  i64 image = p.image;
  int from[Shape::rank];
#pragma unroll
  for (int d = 0; d < Shape::rank; ++d) image *= z.in[d], from[d] = p.at[d] * Shape::stride(d) - Shape::padding(d);
  const T* const x = z.x + image * z.channels + first;
  const auto place = [&](int point, i64& at) {  // whether it is inside; where
    bool inside = true;
    i64 step = 1;
    at = 0;
#pragma unroll
    for (int d = Shape::rank - 1; d >= 0; --d) {
      const int i = from[d] + point % Tile::across(d);
      point /= Tile::across(d);
      inside = inside && static_cast<u32>(i) < static_cast<u32>(z.in[d]);
      at += i * step;
      step *= z.in[d];
    }
    return inside;
  };
  if constexpr (Wide) {
#pragma unroll 4
    for (int i = threadIdx.x; i < Tile::points * Tile::slots; i += Tile::threads) {
      const int point = i / Tile::slots, slot = i % Tile::slots;
      i64 at;
      const bool inside = place(point, at);
      copy16_async(patch + point * Tile::pitch + slot * Tile::chunk, inside ? x + at * z.channels + slot * Tile::chunk : z.x, inside ? 16 : 0);
    }
  } else {
    constexpr int Batch = Tile::real <= 2 ? 8 : Tile::real <= 4 ? 4 : 1;  // slots of a thread that are under way together
    for (int i = threadIdx.x; i < Tile::points * Tile::slots; i += Tile::threads * Batch) {
      alignas(16) T v[Batch][Tile::chunk];
#pragma unroll
      for (int b = 0; b < Batch; ++b) {
        const int point = (i + b * Tile::threads) / Tile::slots, slot = (i + b * Tile::threads) % Tile::slots;
        i64 at;
        const bool inside = point < Tile::points && place(point, at);
#pragma unroll
        for (int e = 0; e < Tile::chunk; ++e) v[b][e] = inside && slot * Tile::chunk + e < Tile::real ? x[at * z.channels + slot * Tile::chunk + e] : T(0.0f);
      }
#pragma unroll
      for (int b = 0; b < Batch; ++b) {
        const int point = (i + b * Tile::threads) / Tile::slots, slot = (i + b * Tile::threads) % Tile::slots;
        if (point < Tile::points) memcpy(patch + point * Tile::pitch + slot * Tile::chunk, v[b], 16);
      }
    }
  }
}

// Sums of a warp's pixels with all columns: those of pixel tile i at window + its rows. Says whether f32 numbers were met that want OddNumbers.
template <class Shape, class T, class Numbers>
AOTC_DI bool patch_multiply(Numbers numbers, const T* shared, const int (&window)[PatchTile<T, Shape>::mt],
                            float (&acc)[PatchTile<T, Shape>::mt][PatchTile<T, Shape>::nt][4]) {
  typedef PatchTile<T, Shape> Tile;
  const int lane = threadIdx.x & 31;
  const T* const weights = shared + ((lane & 7) + (lane >> 4) * 8) * Tile::depth + (lane >> 3 & 1) * Tile::chunk;
  bool odd = false;
  clear(acc);
#pragma unroll(Numbers::odd ? 1 : Tile::steps)
  for (int step = 0; step < Tile::steps; ++step) {
    u32 b[Tile::nt / 2][4];
#pragma unroll
    for (int j = 0; j < Tile::nt / 2; ++j) load_matrices(b[j], weights + j * 16 * Tile::depth + step * 2 * Tile::chunk);
    const bool second = !Tile::paired && lane >= 16, none = second && step * 2 + 1 == Tile::taps * Tile::slots;
    const int behind = second ? Tile::slot_at(step * 2 + 1) : Tile::slot_at(step * 2);
    const auto pixels = [&](int i, u32(&a)[4]) { load_matrices(a, shared + (none ? Tile::zeros_at : window[i] + behind)); };
    if constexpr (same<T, float>::value) {
      Tf32<2, Tile::products> bf[Tile::nt];
#pragma unroll
      for (int j = 0; j < Tile::nt; ++j) {
        const float v[2] = {__uint_as_float(b[j / 2][j % 2 * 2]), __uint_as_float(b[j / 2][j % 2 * 2 + 1])};
        tf32_take(numbers, v, bf[j], odd);
      }
#pragma unroll
      for (int i = 0; i < Tile::mt; ++i) {
        u32 a[4];
        pixels(i, a);
        const float v[4] = {__uint_as_float(a[0]), __uint_as_float(a[1]), __uint_as_float(a[2]), __uint_as_float(a[3])};
        Tf32<4, Tile::products> af;
        tf32_take(numbers, v, af, odd);
#pragma unroll
        for (int j = 0; j < Tile::nt; ++j) tf32_multiply(acc[i][j], af, bf[j]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Tile::mt; ++i) {
        u32 a[4];
        pixels(i, a);
#pragma unroll
        for (int j = 0; j < Tile::nt / 2; ++j) {
          const u32 b0[2] = {b[j][0], b[j][1]}, b1[2] = {b[j][2], b[j][3]};
          mma_16(T(), acc[i][j * 2], a, b0);
          mma_16(T(), acc[i][j * 2 + 1], a, b1);
        }
      }
    }
  }
  return odd;
}
// One of them: of the output `pixel` of the tile and a column, over its group alone.
template <class Shape, class T> AOTC_DI float patch_sum(const T* shared, int pixel, int column) {
  typedef PatchTile<T, Shape> Tile;
  const int c0 = column / Shape::outputs * Shape::channels, window = Tile::patch_at + Tile::window_at(pixel);
  float sum = 0;
#pragma unroll 1
  for (int n = 0; n < Tile::taps * Shape::channels; ++n) {
    const int tap = n / Shape::channels, c = c0 + n % Shape::channels;
    sum += float(shared[window + Tile::slot_at(tap * Tile::slots) + c]) * float(shared[column * Tile::depth + tap * Tile::slots * Tile::chunk + c]);
  }
  return sum;
}

// Lane q of four holds columns 2q, 2q + 1 of 4 runs of 8 columns: then it holds run q.
AOTC_DI void patch_runs(const float (&low)[4], const float (&high)[4], float (&run)[8]) {
  const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
  const auto swapped = [](float v, int lanes) { return __uint_as_float(__shfl_xor_sync(~0u, __float_as_uint(v), lanes)); };
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const float(&v)[4] = e ? high : low;
    const float r0 = swapped(odd ? v[0] : v[1], 1), r1 = swapped(odd ? v[2] : v[3], 1);
    const float k0 = odd ? v[1] : v[0], k1 = odd ? v[3] : v[2];
    const float even0 = odd ? r0 : k0, odd0 = odd ? k0 : r0, even1 = odd ? r1 : k1, odd1 = odd ? k1 : r1;
    const float r2 = swapped(upper ? even0 : even1, 2), r3 = swapped(upper ? odd0 : odd1, 2);
    run[e] = upper ? r2 : even0, run[2 + e] = upper ? r3 : odd0;
    run[4 + e] = upper ? even1 : r2, run[6 + e] = upper ? odd1 : r3;
  }
}

// The whole kernel. blockIdx.y: which channels. Epilogue: as wgmma.cuh has it, over rows that count the outputs of all images.
template <class Shape, class Epilogue, class T> AOTC_DI void conv_patch(const Epilogue& e, const PatchSizes<T, Shape::rank>& z) {
  extern __shared__ __align__(16) char shared[];
  typedef PatchTile<T, Shape> Tile;
  T* const memory = reinterpret_cast<T*>(shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first_pixel = warp * Tile::mt * 16;
  const int first_column = blockIdx.y * Shape::cols, first_channel = Shape::grouped ? blockIdx.y * Tile::real : 0;
  next_step_may_start();
  if (Shape::constant) patch_weights<Shape>(z, memory, first_column);
  wait_for_step_before();
  if (!Shape::constant) patch_weights<Shape>(z, memory, first_column);
  int window[Tile::mt];
#pragma unroll
  for (int i = 0; i < Tile::mt; ++i)
    window[i] = Tile::patch_at + Tile::window_at(first_pixel + i * 16 + (lane & 15)) + (Tile::paired ? lane / 16 * Tile::chunk : 0);
  const bool wide = Tile::real % Tile::chunk == 0 && z.channels % Tile::chunk == 0 && (reinterpret_cast<u64>(z.x) & 15) == 0, aligned = e.aligned();
  const int tiles = patch_tiles<Shape>(z);
  const auto load = [&](int tile) {
    if (tile >= tiles) return;
    const PatchPlace<Shape::rank> p = patch_place<Shape>(z, tile);
    if (wide) patch_load<true, Shape>(z, memory + Tile::patch_at, p, first_channel);
    else patch_load<false, Shape>(z, memory + Tile::patch_at, p, first_channel);
  };
  load(blockIdx.x);
  copies_commit();
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    float acc[Tile::mt][Tile::nt][4];
    copies_wait<0>();
    __syncthreads();
    const bool odd = patch_multiply<Shape>(PlainNumbers(), memory, window, acc);
    if constexpr (same<T, float>::value && Tile::products > 1)
      if (__syncthreads_or(odd)) patch_multiply<Shape>(OddNumbers(), memory, window, acc);
    if constexpr (Shape::groups > 1) {
#pragma unroll
      for (int i = 0; i < Tile::mt; ++i)
#pragma unroll
        for (int j = 0; j < Tile::nt; ++j)
#pragma unroll
          for (int r = 0; r < 4; ++r)
            if (!(fabsf(acc[i][j][r]) <= highest<float>()))
              acc[i][j][r] = patch_sum<Shape>(memory, first_pixel + i * 16 + lane / 4 + r / 2 * 8, j * 8 + lane % 4 * 2 + r % 2);
    }
    __syncthreads();
    load(tile + gridDim.x);
    copies_commit();
    const PatchPlace<Shape::rank> p = patch_place<Shape>(z, tile);
    // In a loop that is not unrolled, so that the epilogue is there once: each turn takes other registers.
    constexpr int Pairs = Tile::nt / 2;
#pragma unroll 1
    for (int x = 0; x < Tile::mt * Pairs; ++x) {
      float low[4], high[4], run[8];
#pragma unroll
      for (int y = 0; y < Tile::mt * Pairs; ++y)
        if (x == y)
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const float(&of)[4] = acc[y / Pairs][y % Pairs * 2 + r / 2];
            low[r] = of[r % 2 * 2], high[r] = of[r % 2 * 2 + 1];
          }
      patch_runs(low, high, run);
      const int row = patch_row<Shape>(z, p, first_pixel + x / Pairs * 16 + lane / 4 + (lane & 1) * 8);
      const int column = first_column + x % Pairs * 16 + (lane & 2) * 4;
      if (row < 0 || column >= z.out_channels) continue;
      if (aligned && column + 8 <= z.out_channels) {
        typename Epilogue::Loads loads;
        e.load(loads, row, column, true);
        e.finish(run, loads, row, column);
      } else {
        e.finish_one_by_one(run, row, column, z.out_channels);
      }
    }
  }
}

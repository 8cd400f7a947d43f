// Convolutions of channels-last images of few channels, a network's first, as products on Hopper's tensor cores: a row of A is the window of an
// output pixel, a column of B the weights of an output channel, k the lines of the window, each filled up with zeros to a multiple of 16.
//
// A warpgroup loads the pixels under a tile of outputs, a patch, to shared memory, with so many elements a pixel that a step of the window to
// the right is 16 bytes. An operand without a swizzle is made of pieces of 8 lines of 16 bytes that lie behind each other; here they overlap:
// a piece's next line is the window one step to the right, its next 16 bytes of k are the same bytes. So the matrix of windows is read out of
// the patch and is nowhere written. What lies in a line of a window behind its last tap is multiplied by zero, which must not be an infinity
// or NaN: tiles over such numbers are summed one by one.
#pragma once
#include "wgmma.cuh"

// Shape (generated): channels; kernel(d), stride(d), padding(d) of lines and columns. Cols: output channels, filled up. As WgmmaInPlace asks of
// a tile.
template <class T, class Shape, int Cols, int Stages> struct FewTile {
  static constexpr int cols = Cols, blocks = 1, registers = Cols / 2, line_pieces = Cols / 8, share = line_pieces, split = 1, stages = Stages;
  static constexpr int run_pieces = 4;
  static constexpr bool swap = false;
  static constexpr int high = 16, wide = 8, groups = 2, threads = 128 * (groups + 1);  // outputs of a tile; warpgroups that multiply
  static constexpr int pixel = 8 / Shape::stride(1), deep = (Shape::kernel(1) * pixel + 15) / 16 * 16;  // elements of a pixel, of a window's line
  static constexpr int lines = (high - 1) * Shape::stride(0) + Shape::kernel(0), across = (wide - 1) * Shape::stride(1) + deep / pixel;
  static constexpr int pitch = (across * pixel * 2 + 15) / 16 * 16, patch_bytes = (lines * pitch + 127) / 128 * 128;
  static constexpr int line_bytes = deep * Cols * 2, weight_bytes = Shape::kernel(0) * line_bytes;  // of the weights
  static constexpr bool beyond = deep != Shape::kernel(1) * pixel;                                  // lines of windows go on behind their last tap
  // Shared memory: weights, patches, turns, words that say what a warp has loaded, barriers.
  static constexpr int patches_at = weight_bytes, turns_at = patches_at + Stages * patch_bytes, words_at = turns_at + groups * 4 * 2048;
  static constexpr int barriers_at = words_at + Stages * 16, shared_bytes = barriers_at + Stages * 16;
  static_assert(8 % Shape::stride(1) == 0 && Shape::channels <= pixel && Cols % 32 == 0, "what fits");
};

// An operand without a swizzle.
AOTC_DI u64 operand_in_pieces(u32 at, int next_k, int next_lines) {
  return u64((at & 0x3ffff) >> 4) | (u64(next_k >> 4) << 16) | (u64(next_lines >> 4) << 32);
}
// Where an element of a weight's line stands in it: pieces of 8 output channels, then the next 8 elements of k.
template <class Tile> AOTC_DI int few_weight_at(int channel, int k) { return (k / 8 * Tile::cols + channel) * 8 + k % 8; }

AOTC_DI bool is_far(f16 v) { return (v.bits & 0x7c00) == 0x7c00; }
AOTC_DI bool is_far(bf16 v) { return (v.bits & 0x7f80) == 0x7f80; }

// Images and outputs as they lie: [image, line, column, channel].
template <class T> struct FewSizes {
  const T *x, *w;
  int images, in_lines, in_columns, out_lines, out_columns, out_channels;
  AOTC_DI int tiles_down() const { return (out_lines + 15) / 16; }
  AOTC_DI int tiles_across() const { return (out_columns + 7) / 8; }
  AOTC_DI int tiles() const { return images * tiles_down() * tiles_across(); }
};
// Where a tile begins.
struct FewPlace { int image, line, column; };
template <class T> AOTC_DI FewPlace few_place(const FewSizes<T>& z, int tile) {
  const int across = z.tiles_across(), down = z.tiles_down(), rest = tile / across;
  return {rest / down, rest % down * 16, tile % across * 8};
}
// The outputs of a warp's 16 lines: two rows of 8 of a tile.
struct FewLines {
  int first, down, across, width;  // the row of the first; outputs left below and to the right
  AOTC_DI int at(int line) const { return first + line / 8 * width + line % 8; }
  AOTC_DI bool has(int line) const { return line / 8 < down && line % 8 < across; }
};

// A warpgroup: the patches of this block's tiles.
template <class Tile, class Shape, class T> AOTC_DI void few_produce(const FewSizes<T>& z, char* shared, u32 full, u32 empty) {
  constexpr int Pixels = Tile::lines * Tile::across, Batch = 8, Channels = Shape::channels;  // pixels of a thread that are under way together
  const int tid = threadIdx.x & 127;
  int s = 0;
  u32 parity = 1;
  for (int tile = blockIdx.x; tile < z.tiles(); tile += gridDim.x) {
    const FewPlace at = few_place(z, tile);
    const int line = at.line * Shape::stride(0) - Shape::padding(0), column = at.column * Shape::stride(1) - Shape::padding(1);
    const T* const image = z.x + i64(at.image) * z.in_lines * z.in_columns * Channels;
    bool far = false;
#pragma unroll 1
    for (int first = 0; first < Pixels; first += 128 * Batch) {
      T v[Batch][Channels];
#pragma unroll
      for (int i = 0; i < Batch; ++i) {  // none waits for another: what is outside is another pixel, and not used
        const int n = first + i * 128 + tid, y = line + n / Tile::across, x = column + n % Tile::across;
        const int in_y = y < 0 ? 0 : y < z.in_lines ? y : z.in_lines - 1, in_x = x < 0 ? 0 : x < z.in_columns ? x : z.in_columns - 1;
        if (first + i * 128 < Pixels)
#pragma unroll
          for (int c = 0; c < Channels; ++c) v[i][c] = image[(i64(in_y) * z.in_columns + in_x) * Channels + c];
      }
      if (first == 0) barrier_wait(empty + 8 * s, parity);
#pragma unroll
      for (int i = 0; i < Batch; ++i) {
        const int n = first + i * 128 + tid, y = line + n / Tile::across, x = column + n % Tile::across;
        if (n >= Pixels) continue;
        const bool inside = y >= 0 && y < z.in_lines && x >= 0 && x < z.in_columns;
        u32 words[Tile::pixel / 2] = {};
#pragma unroll
        for (int c = 0; c < Channels; ++c) {
          words[c / 2] |= inside ? u32(v[i][c].bits) << c % 2 * 16 : 0;
          far |= inside && is_far(v[i][c]);
        }
        const int place = n / Tile::across * Tile::pitch + n % Tile::across * Tile::pixel * 2;
        u32* const to = reinterpret_cast<u32*>(shared + Tile::patches_at + s * Tile::patch_bytes + place);
#pragma unroll
        for (int c = 0; c < Tile::pixel / 2; ++c) to[c] = words[c];
      }
    }
    const u32 any = __ballot_sync(~0u, far);
    if ((tid & 31) == 0) reinterpret_cast<u32*>(shared + Tile::words_at)[s * 4 + tid / 32] = any;
    products_may_read();
    barrier_arrive(full + 8 * s);
    if (++s == Tile::stages) s = 0, parity ^= 1;
  }
}

// Sums one by one: those that a thread holds of its warpgroup's 64 windows, from `patch` on.
template <class Tile, class Shape, class T> AOTC_DI void few_sums(float (&acc)[Tile::registers], const char* shared, const char* patch) {
  const int lane = threadIdx.x & 31, line = (threadIdx.x & 127) / 32 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < Tile::registers; ++i) {
    const int window = line + i % 4 / 2 * 8, channel = i / 4 * 8 + lane % 4 * 2 + i % 2;
    float sum = 0;
#pragma unroll 1
    for (int n = 0; n < Shape::kernel(0) * Shape::kernel(1) * Shape::channels; ++n) {
      const int r = n / (Shape::kernel(1) * Shape::channels), q = n / Shape::channels % Shape::kernel(1);
      const int k = q * Tile::pixel + n % Shape::channels;
      const char* const from = patch + (window / 8 * Shape::stride(0) + r) * Tile::pitch + window % 8 * 16;
      const T* const weights = reinterpret_cast<const T*>(shared + r * Tile::line_bytes);
      sum += float(reinterpret_cast<const T*>(from)[k]) * float(weights[few_weight_at<Tile>(channel, k)]);
    }
    acc[i] = sum;
  }
}

// A warpgroup: multiplies and finishes the upper or the lower half of each tile.
template <class Tile, class Mma, class Shape, class Epilogue, class T>
AOTC_DI void few_consume(const Epilogue& e, const FewSizes<T>& z, char* shared, u32 ring, u32 full, u32 empty, int group) {
  const int tid = threadIdx.x & 127, lane = tid & 31, warp = tid >> 5;
  char* const turn = shared + Tile::turns_at + (group * 4 + warp) * 2048;
  int s = 0;
  u32 parity = 0;
  for (int tile = blockIdx.x; tile < z.tiles(); tile += gridDim.x) {
    const FewPlace at = few_place(z, tile);
    const int line = at.line + group * 8 + warp * 2;
    const FewLines lines{(at.image * z.out_lines + line) * z.out_columns + at.column, z.out_lines - line, z.out_columns - at.column,
                         z.out_columns};
    float acc[1][Tile::registers];
    const auto multiply = [&] {
      barrier_wait(full + 8 * s, parity);
      const int patch_at = Tile::patches_at + s * Tile::patch_bytes + group * 8 * Shape::stride(0) * Tile::pitch;
      products_begin();
#pragma unroll
      for (int r = 0; r < Shape::kernel(0); ++r)
#pragma unroll
        for (int k = 0; k < Tile::deep; k += 16)
          Mma::multiply(acc[0], operand_in_pieces(ring + patch_at + r * Tile::pitch + k * 2, 16, Shape::stride(0) * Tile::pitch),
                        operand_in_pieces(ring + r * Tile::line_bytes + k * Tile::cols * 2, Tile::cols * 16, 128), (r | k) != 0);
      products_commit();
      products_wait<0>();
      if constexpr (Tile::beyond) {
        u32 far = 0;  // read by the lane that arrives, as those who check for races see it
        if (lane == 0) {
          const uint4 words = reinterpret_cast<const uint4*>(shared + Tile::words_at)[s];
          far = words.x | words.y | words.z | words.w;
        }
        if (__shfl_sync(~0u, far, 0) != 0) few_sums<Tile, Shape, T>(acc[0], shared, shared + patch_at);
        __syncwarp();
      }
      if (lane == 0) barrier_arrive(empty + 8 * s);
      if (++s == Tile::stages) s = 0, parity ^= 1;
    };
    bool done = false;
    if constexpr (WgmmaInPlace<Tile, Epilogue, FewLines>::fits) {
      if (e.aligned()) {
        WgmmaInPlace<Tile, Epilogue, FewLines> f{e, turn, lines, 0, z.out_channels};
#pragma unroll
        for (int c = 0; c < f.ahead; ++c) f.load(c);
        multiply();
        f.finish_all(acc);
        done = true;
      }
    }
    if (!done) {
      multiply();
#pragma unroll
      for (int i = 0; i < Tile::registers; ++i) {
        const int of_warp = lane / 4 + i % 4 / 2 * 8, channel = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (lines.has(of_warp) && channel < z.out_channels) e(acc[0][i], lines.at(of_warp), channel);
      }
    }
  }
}

// The whole kernel. Epilogue: as wgmma.cuh has it, over rows that count the outputs of all images.
template <class Tile, class Mma, class Shape, class Epilogue, class T> AOTC_DI void conv_few(const Epilogue& e, const FewSizes<T>& z) {
  extern __shared__ __align__(1024) char shared[];
  const u32 ring = shared_address(shared), full = ring + Tile::barriers_at, empty = full + 8 * Tile::stages;
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // the shuffle says that a warp has one role
  if (threadIdx.x == 0) {
    for (int s = 0; s < Tile::stages; ++s) {
      barrier_init(full + 8 * s, 128);
      barrier_init(empty + 8 * s, Tile::groups * 4);  // a warp's first lane, when all of it has read
    }
    barriers_are_made();
  }
  constexpr int Numbers = Tile::weight_bytes / 2;
#pragma unroll 4
  for (int i = threadIdx.x; i < Numbers; i += Tile::threads) {
    const int channel = i % Tile::cols, k = i / Tile::cols % Tile::deep, r = i / Tile::cols / Tile::deep;
    const int q = k / Tile::pixel, c = k % Tile::pixel;
    const bool there = channel < z.out_channels && q < Shape::kernel(1) && c < Shape::channels;
    T v(0.0f);
    if (there) v = z.w[((channel * Shape::channels + c) * Shape::kernel(0) + r) * Shape::kernel(1) + q];
    reinterpret_cast<T*>(shared + r * Tile::line_bytes)[few_weight_at<Tile>(channel, k)] = v;
  }
  products_may_read();
  __syncthreads();
  next_step_may_start();
  wait_for_step_before();
  if (group == Tile::groups) few_produce<Tile, Shape>(z, shared, full, empty);
  else few_consume<Tile, Mma, Shape>(e, z, shared, ring, full, empty, group);
}

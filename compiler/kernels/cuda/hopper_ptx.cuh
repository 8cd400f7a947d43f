// Hopper's own instructions (PTX ISA; sm_90a): bulk copies of boxes of a tensor, barriers in shared memory that count bytes, products of a
// warpgroup, clusters; and loads that nothing waits for. Addresses of shared memory are the 32-bit ones of shared_address(). The tests have
// functions of the same names (tests/cuda/hopper.h).
#ifndef AOTC_HOPPER_PTX
#define AOTC_HOPPER_PTX
#include "ptx.cuh"

struct alignas(64) TensorMap { u64 opaque[16]; };  // as the driver encodes it; a __grid_constant__ parameter

// ---- barriers ------------------------------------------------------------------------------------------------------------------------------
AOTC_DI void barrier_init(u32 barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory"); }
AOTC_DI void barriers_are_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
AOTC_DI void barrier_arrive(u32 barrier) { asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory"); }
// Arrives, and the phase ends only when this many bytes have come, too.
AOTC_DI void barrier_expect(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Until the phase of this parity has ended. No trap after many turns: one anywhere in a kernel keeps ptxas from giving warpgroups different
// numbers of registers.
AOTC_DI void barrier_wait(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile("{.reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
  } while (!done);
}
// Barriers of the block by number, of `threads` threads.
AOTC_DI void named_sync(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }
AOTC_DI void named_arrive(int number, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory"); }

// ---- bulk copies ---------------------------------------------------------------------------------------------------------------------------
AOTC_DI void map_prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
// A box of the tensor to shared memory; its bytes arrive at the barrier. Coordinates from the contiguous dimension outwards.
AOTC_DI void copy_box(u32 to, const TensorMap& map, u32 barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(&map),
               "r"(barrier), "r"(x), "r"(y)
               : "memory");
}
AOTC_DI void copy_box(u32 to, const TensorMap& map, u32 barrier, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
               "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
               : "memory");
}
AOTC_DI void copy_box(u32 to, const TensorMap& map, u32 barrier, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
               "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
// 64 channels of the pixels that lie under one tap of the windows that begin at (x, y ..) of image n and those after it.
AOTC_DI void copy_windows(u32 to, const TensorMap& map, u32 barrier, int c, int x, int n, u16 tap_x) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2], {%6};" ::"r"(
                   to),
               "l"(&map), "r"(barrier), "r"(c), "r"(x), "r"(n), "h"(tap_x)
               : "memory");
}
AOTC_DI void copy_windows(u32 to, const TensorMap& map, u32 barrier, int c, int x, int y, int n, u16 tap_x, u16 tap_y) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c), "r"(x), "r"(y), "r"(n), "h"(tap_x), "h"(tap_y)
      : "memory");
}
AOTC_DI void copy_windows(u32 to, const TensorMap& map, u32 barrier, int c, int x, int y, int z, int n, u16 tap_x, u16 tap_y, u16 tap_z) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, "
      "%10};" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c), "r"(x), "r"(y), "r"(z), "r"(n), "h"(tap_x), "h"(tap_y), "h"(tap_z)
      : "memory");
}

// ---- clusters ------------------------------------------------------------------------------------------------------------------------------
AOTC_DI u32 rank_in_cluster() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
AOTC_DI void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
AOTC_DI void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
// `bytes`, a multiple of 16, of this block's shared memory to another block's; they arrive at its barrier. Until then they stay as they are.
AOTC_DI void copy_to_block(u32 rank, u32 to, u32 from, int bytes, u32 barrier) {
  asm volatile(
      "{.reg .b32 x, y;\n mapa.shared::cluster.u32 x, %0, %4;\n mapa.shared::cluster.u32 y, %3, %4;\n"
      " cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [x], [%1], %2, [y];}" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier), "r"(rank)
      : "memory");
}

// A number to another block's shared memory; its bytes arrive at that block's barrier, whose waiters see it. Nothing else is ordered by it.
AOTC_DI void store_to_block(u32 rank, u32 to, float v, u32 barrier) {
  asm volatile(
      "{.reg .b32 x, y;\n mapa.shared::cluster.u32 x, %0, %3;\n mapa.shared::cluster.u32 y, %2, %3;\n"
      " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [x], %1, [y];}" ::"r"(to),
      "r"(__float_as_uint(v)), "r"(barrier), "r"(rank)
      : "memory");
}
AOTC_DI void store_to_block(u32 rank, u32 to, double v, u32 barrier) {
  asm volatile(
      "{.reg .b32 x, y;\n mapa.shared::cluster.u32 x, %0, %3;\n mapa.shared::cluster.u32 y, %2, %3;\n"
      " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [x], %1, [y];}" ::"r"(to),
      "l"(__double_as_longlong(v)), "r"(barrier), "r"(rank)
      : "memory");
}

// ---- products of a warpgroup ---------------------------------------------------------------------------------------------------------------
AOTC_DI void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// After a thread's own writes to shared memory, before others are told that products may take them as operands.
AOTC_DI void products_may_read() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
AOTC_DI void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending> AOTC_DI void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory"); }
// After the wait for products whose left operand these registers are: until here nothing else may be in them.
AOTC_DI void products_have_read(const u32 (&r)[4]) { asm volatile("" ::"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory"); }
template <int N> AOTC_DI void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> AOTC_DI void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

// Two sums of 16-bit numbers, rounded once (see f16_add()).
AOTC_DI u32 f16_add_pair(u32 a, u32 b) {
  u32 r;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
AOTC_DI u32 bf16_add_pair(u32 a, u32 b) {
  u32 r;
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

// Four 8x8 matrices of 16 bits as load_matrices() gives them, to shared memory: lane i says where row i % 8 of matrix i / 8 goes.
AOTC_DI void store_matrices(void* row, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
// The same, each matrix transposed.
AOTC_DI void store_matrices_transposed(void* row, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]),
               "r"(r[3])
               : "memory");
}

// ---- loads that go through the instruction where they are not `on`: a copy of what is under way would wait for it ---------------------------
AOTC_DI void load_4_words(u32& a, u32& b, u32& c, u32& d, const void* from, bool on) {
  asm volatile("{.reg .pred p;\n setp.ne.u32 p, %5, 0;\n @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];}"
               : "+r"(a), "+r"(b), "+r"(c), "+r"(d)
               : "l"(from), "r"(u32(on))
               : "memory");
}
AOTC_DI void load_2_words(u32& a, u32& b, const void* from, bool on) {
  asm volatile("{.reg .pred p;\n setp.ne.u32 p, %3, 0;\n @p ld.global.v2.u32 {%0, %1}, [%2];}"
               : "+r"(a), "+r"(b)
               : "l"(from), "r"(u32(on))
               : "memory");
}
AOTC_DI void load_word(u32& a, const void* from, bool on) {
  asm volatile("{.reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p ld.global.u32 %0, [%1];}" : "+r"(a) : "l"(from), "r"(u32(on)) : "memory");
}
AOTC_DI void load_half(u32& a, const void* from, bool on) {
  asm volatile("{.reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p ld.global.u16 %0, [%1];}" : "+r"(a) : "l"(from), "r"(u32(on)) : "memory");
}
AOTC_DI void load_byte(u32& a, const void* from, bool on) {
  asm volatile("{.reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p ld.global.u8 %0, [%1];}" : "+r"(a) : "l"(from), "r"(u32(on)) : "memory");
}
#endif

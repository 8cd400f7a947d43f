// Hopper's own instructions (PTX ISA; sm_90a): bulk copies of boxes of a tensor, barriers in shared memory that count bytes, products of a
// warpgroup, clusters. Addresses of shared memory are the 32-bit ones of shared_address().
#pragma once
#include "gemm.cuh"

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
struct alignas(64) TensorMap { u64 opaque[16]; };  // as the driver encodes it; a __grid_constant__ parameter

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

// ---- clusters ------------------------------------------------------------------------------------------------------------------------------
AOTC_DI u32 rank_in_cluster() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
AOTC_DI void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
AOTC_DI void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
// Four floats to the same place of another block's shared memory; their bytes arrive at its barrier.
AOTC_DI void push_to_block(u32 to, u32 barrier, u32 rank, float a, float b, float c, float d) {
  asm volatile(
      "{.reg .b32 x, y;\n mapa.shared::cluster.u32 x, %0, %2;\n mapa.shared::cluster.u32 y, %1, %2;\n"
      " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [x], {%3, %4, %5, %6}, [y];}" ::"r"(to),
      "r"(barrier), "r"(rank), "f"(a), "f"(b), "f"(c), "f"(d)
      : "memory");
}

// ---- products of a warpgroup ---------------------------------------------------------------------------------------------------------------
// An operand in shared memory, as copies with a swizzle of 128 bytes write it: rows of 128 bytes, groups of 8 rows, at a multiple of 1024.
// Along k: a row is 128 bytes of k of one line. Across k: a row is 64 lines at one k, the next 64 lines follow after 64 rows.
AOTC_DI u64 operand_along_k(u32 at) { return u64((at & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62); }
AOTC_DI u64 operand_across_k(u32 at) { return u64((at & 0x3ffff) >> 4) | (u64(8192 >> 4) << 16) | (64ull << 32) | (1ull << 62); }
template <bool AlongK> AOTC_DI u64 operand_at(u32 at) { return AlongK ? operand_along_k(at) : operand_across_k(at); }
template <bool AlongK> constexpr u64 kOperandStep = AlongK ? 32 >> 4 : 16 * 128 >> 4;  // to the k of the next instruction
constexpr u64 kOperandLines = 64 * 128 >> 4;                                           // to the next 64 lines

AOTC_DI void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
AOTC_DI void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending> AOTC_DI void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory"); }
template <int N> AOTC_DI void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> AOTC_DI void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

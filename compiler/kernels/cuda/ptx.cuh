// What is written in PTX: conversions, NaN-keeping minima, tensor-core products, asynchronous copies, clusters. All other device code is C++
// that the tests compile for the host, too, over functions of the same names (tests/cuda/host.h).
#ifndef AOTC_PTX
#define AOTC_PTX

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
#define AOTC_DI __device__ __forceinline__
#define AOTC_APART static __device__ __noinline__  // code that is there once

// Round to nearest even. Two in a word: the instruction that makes one number for itself has a quarter of its speed where the type is bf16.
AOTC_DI u32 f16_pair(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
AOTC_DI u32 bf16_pair(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
AOTC_DI u16 f16_bits(float f) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
}
AOTC_DI u16 bf16_bits(float f) { return static_cast<u16>(bf16_pair(f, 0.0f)); }
AOTC_DI float f16_value(u16 bits) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}
// Sums and products of 16-bit numbers, rounded once: what float gives them is rounded to the same number (24 digits are twice 11 and 2 more).
AOTC_DI u16 f16_add(u16 a, u16 b) {
  u16 r;
  asm("add.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
  return r;
}
AOTC_DI u16 f16_sub(u16 a, u16 b) {
  u16 r;
  asm("sub.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
  return r;
}
AOTC_DI u16 f16_mul(u16 a, u16 b) {
  u16 r;
  asm("mul.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
  return r;
}
// a * b + c of two numbers in a word, each rounded once.
AOTC_DI u32 f16_fma_pair(u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
AOTC_DI u32 bf16_fma_pair(u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
// Two e4m3fn in the low half of a word as f16, which holds them all.
AOTC_DI u32 f16_pair_of_e4m3(u32 two) {
#if __CUDA_ARCH__ >= 890
  u32 r;
  asm("{.reg .b16 low, high;\n mov.b32 {low, high}, %1;\n cvt.rn.f16x2.e4m3x2 %0, low;}" : "=r"(r) : "r"(two));
  return r;
#else  // by f16's own bits, 2^-8 of the numbers; 0x7f is NaN
  const u32 bytes = (two & 0xffu) | (two & 0xff00u) << 8, magnitude = bytes & 0x007f007fu, nan = (magnitude + 0x00010001u) >> 7 & 0x00010001u;
  return f16_fma_pair((bytes & 0x00800080u) << 8 | magnitude << 7 | nan * 0x7e00u, 0x5c005c00u, 0x80008000u);
#endif
}
// NaN when one of them is.
AOTC_DI float min_nan(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
AOTC_DI float max_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// 2^x, within two units in the last place; denormal results are zero.
AOTC_DI float exp2_fast(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// 1 / x, within a unit in the last place; of denormal numbers infinity.
AOTC_DI float reciprocal_fast(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// x^-1/2, within two units in the last place.
AOTC_DI float rsqrt_fast(float x) {
  float r;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// Neighbouring words to global memory with one instruction, which the compiler can neither take apart nor merge with stores of parts on
// another path. Streams: what is written is not read soon.
template <bool Streams> AOTC_DI void store_words(void* to, const u32 (&w)[1]) {
  if constexpr (Streams) asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(to), "r"(w[0]) : "memory");
  else asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(w[0]) : "memory");
}
template <bool Streams> AOTC_DI void store_words(void* to, const u32 (&w)[2]) {
  if constexpr (Streams) asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(w[0]), "r"(w[1]) : "memory");
  else asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(w[0]), "r"(w[1]) : "memory");
}
template <bool Streams> AOTC_DI void store_words(void* to, const u32 (&w)[4]) {
  if constexpr (Streams)
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
  else
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}

// Asks for the 128 bytes around p to be brought to the second cache, which sees what other steps still write.
AOTC_DI void prefetch_line(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// 16 bytes of global memory that are not read again soon: the first cache keeps what it has. Constant: no step writes them.
template <bool Constant> AOTC_DI void load_words_once(u32 (&w)[4], const void* from) {
  if constexpr (Constant)
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(from));
  else
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(from) : "memory");
}

// 16 bytes of global memory where `on`, else zeros: no branch, so that several are under way together.
AOTC_DI void load_words_if(u32 (&w)[4], const void* from, bool on) {
  asm volatile(
      "{.reg .pred p;\n setp.ne.u32 p, %5, 0;\n mov.u32 %0, 0;\n mov.u32 %1, 0;\n mov.u32 %2, 0;\n mov.u32 %3, 0;\n"
      " @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];}"
      : "=&r"(w[0]), "=&r"(w[1]), "=&r"(w[2]), "=&r"(w[3])
      : "l"(from), "r"(u32(on))
      : "memory");
}

// ---- one warp: c[16x8] += a[16xK] * b[Kx8] (PTX ISA, "Warp-level matrix instructions") -------------------------------------------------
AOTC_DI void mma_tf32(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
AOTC_DI void mma_bf16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
AOTC_DI void mma_f16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

AOTC_DI u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
// Copies `bytes` of 16 (or of 4); the rest of them becomes zero. from is not read when bytes is 0.
AOTC_DI void copy16_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
AOTC_DI void copy8_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
AOTC_DI void copy4_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
AOTC_DI void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending> AOTC_DI void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory"); }
AOTC_DI void load_matrices(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same, each 8x8 matrix transposed.
AOTC_DI void load_matrices_transposed(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// Blocks of one cluster (sm_90 and newer); elsewhere a cluster is one block.
#if __CUDA_ARCH__ >= 900
#define AOTC_CLUSTER(n) __cluster_dims__(n, 1, 1)
AOTC_DI void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
AOTC_DI float load_of_block(const float* p, int rank) {
  u32 there;
  float v;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
  return v;
}
// Four neighbours, from a multiple of 16 bytes on.
AOTC_DI void load_four_of_block(const float* p, int rank, float (&v)[4]) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(there)
               : "memory");
}
// v to where block `rank` of the cluster has *p, in shared memory.
AOTC_DI void store_to_block(u64* p, int rank, u64 v) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
  asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(there), "l"(v) : "memory");
}
constexpr bool has_clusters = true;
#else
#define AOTC_CLUSTER(n)
AOTC_DI void cluster_barrier() {}
AOTC_DI float load_of_block(const float* p, int) { return *p; }
AOTC_DI void load_four_of_block(const float* p, int, float (&v)[4]) {
  for (int i = 0; i < 4; ++i) v[i] = p[i];
}
AOTC_DI void store_to_block(u64* p, int, u64 v) { *p = v; }
constexpr bool has_clusters = false;
#endif
// ---- steps that overlap ------------------------------------------------------------------------------------------------------------------
// A step that is launched as overlapping waits for the step before it, of which it may read and overwrite nothing until then; constants it
// may read at once. What every block of a step has said lets the next one start.
AOTC_DI void next_step_may_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
AOTC_DI void wait_for_step_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif

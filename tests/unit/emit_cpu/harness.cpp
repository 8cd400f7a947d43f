#include "harness.h"

#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>

#include "aotc/detail/kernel_abi.h"
#include "base/target.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/loop_emitter.h"
#include "emit/cpu/unit.h"

namespace aotc::test {
namespace fs = std::filesystem;

std::vector<Isa> loop_isas() {
  std::vector<Isa> isas;
  for (Isa isa : isas_of(~0u))
    if (isa <= Isa::avx512_bf16) isas.push_back(isa);
  return isas;
}

namespace {
/// "ccache " where there is one: units that did not change are not compiled again.
const std::string& ccache() {
  static const std::string words =
      std::system("command -v ccache >/dev/null 2>&1") == 0 ? "CCACHE_SLOPPINESS=file_macro CCACHE_NOHASHDIR=1 ccache " : "";
  return words;
}
}  // namespace

CompiledUnit::CompiledUnit(const std::string& source, Isa isa) {
  static int count = 0;
  const fs::path dir = fs::temp_directory_path() / fmt::format("aotc_emit_{}_{}", getpid(), count++);
  dir_ = dir.string();
  fs::create_directories(dir);
  std::ofstream(dir / "k.cpp") << source;
  const fs::path root = fs::path(AOTC_TEST_DIR).parent_path();
  fs::create_directory_symlink(root / "runtime/include", dir / "runtime");  // every name in the command is the same for every unit and tree
  fs::create_directory_symlink(root / "compiler/kernels/cpu", dir / "kernels");
  std::string cmd = "cd " + dir_ + " && " + ccache() + "g++ -c";
  for (const std::string& f : emit::cpu::unit_flags(isa))
    cmd += " " + (f == "-fvisibility=hidden" ? std::string("-fvisibility=default") : f);
  cmd += " -Iruntime -Ikernels k.cpp -o k.o && g++ -shared -nostdlib k.o -o k.so -lgcc";  // what it takes of libc and libm the test has
  INFO(source);
  REQUIRE(std::system(cmd.c_str()) == 0);
  handle_ = dlopen((dir_ + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle_);
}
CompiledUnit::~CompiledUnit() {
  if (handle_) dlclose(handle_);
  fs::remove_all(dir_);
}
void* CompiledUnit::symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

namespace {
float half_to_float(uint16_t h) {
  _Float16 x;
  std::memcpy(&x, &h, 2);
  return static_cast<float>(x);
}
uint16_t float_to_half(float f) {
  const _Float16 x = static_cast<_Float16>(f);
  uint16_t h;
  std::memcpy(&h, &x, 2);
  return h;
}

Scalar read(DType t, const std::byte* p) {
  Scalar s;
  const auto get = [&](auto x) {
    std::memcpy(&x, p, sizeof x);
    return x;
  };
  switch (t) {
    case DType::f32: s.f = get(float()); break;
    case DType::f64: s.f = get(double()); break;
    case DType::f16: s.f = half_to_float(get(uint16_t())); break;
    case DType::bf16: {
      const uint32_t u = static_cast<uint32_t>(get(uint16_t())) << 16;
      float f;
      std::memcpy(&f, &u, 4);
      s.f = f;
      break;
    }
    case DType::i64: s.i = get(int64_t()); break;
    case DType::i32: s.i = get(int32_t()); break;
    case DType::i16: s.i = get(int16_t()); break;
    case DType::i8: s.i = get(int8_t()); break;
    default: s.i = get(uint8_t()); break;
  }
  return s;
}
void write_random(DType t, std::byte* p, std::mt19937& rng, const RunOptions& o) {
  const auto put = [&](auto x) { std::memcpy(p, &x, sizeof x); };
  double x = std::normal_distribution<double>()(rng);
  if (o.specials && rng() % 8 == 0) {
    const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1.0, 1.0};
    x = special[rng() % 8];
  }
  int64_t n = static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * o.int_range)) - o.int_range;
  switch (t) {
    case DType::f32: return put(static_cast<float>(x));
    case DType::f64: return put(x);
    case DType::f16: return put(float_to_half(static_cast<float>(x)));
    case DType::bf16: {
      uint32_t u;
      const float f = static_cast<float>(x);
      std::memcpy(&u, &f, 4);
      return put(static_cast<uint16_t>(x != x ? 0x7fc0 : u >> 16));
    }
    case DType::i64: return put(n);
    case DType::i32: return put(static_cast<int32_t>(n));
    case DType::i16: return put(static_cast<int16_t>(n));
    case DType::i8: return put(static_cast<int8_t>(n));
    case DType::u8: return put(static_cast<uint8_t>(n & 127));
    default: return put(static_cast<uint8_t>(n & 1));
  }
}

/// shift: bytes of all operands beyond a line.
void run_once(const LoopKernel& k, aotc_kernel_fn fn, const std::map<std::string, int64_t>& sizes, const RunOptions& o, int pieces,
              size_t shift) {
  const auto value = [&](SymId s) { return sizes.at(k.syms[s].name); };
  std::mt19937 rng(7);
  struct Line {
    alignas(64) std::byte bytes[64];
  };
  std::vector<std::vector<Line>> lines;  // aligned but for the shift: stores past the caches need it
  std::vector<std::span<std::byte>> memory;
  std::vector<void*> ptr;
  Memory expected;
  constexpr size_t kGuard = 64;
  for (const Param& p : k.params) {
    size_t n = 1;
    for (const Expr& d : p.dims) n *= static_cast<size_t>(d.eval(value));
    const size_t e = static_cast<size_t>(dtype_bytes(p.dtype));
    lines.emplace_back((n * e + 2 * kGuard + shift + 63) / 64);
    const std::span<std::byte> bytes(lines.back().data()->bytes + shift, n * e + 2 * kGuard);
    std::fill(bytes.begin(), bytes.end(), std::byte{0x5a});
    expected.params.emplace_back();
    for (size_t i = 0; i < n; ++i) {
      write_random(p.dtype, &bytes[kGuard + i * e], rng, o);
      expected.params.back().push_back(read(p.dtype, &bytes[kGuard + i * e]));
    }
    memory.push_back(bytes);
  }
  for (size_t p = 0; p < memory.size(); ++p)
    if (k.params.raw()[p].role != ParamRole::local) ptr.push_back(memory[p].data() + kGuard);
  std::vector<int64_t> size;
  for (SymId s : emit::cpu::kernel_symbols(k)) size.push_back(value(s));
  if (emit::cpu::may_store_far(k)) size.push_back(pieces > 1);
  const size_t scratch_bytes = static_cast<size_t>(emit::cpu::local_layout(k).bytes.eval(value));
  void* scratch = std::aligned_alloc(64, (scratch_bytes + 127) / 64 * 64);
  volatile int32_t fault = 0;
  aotc_kargs args{ptr.data(), size.data(), nullptr, scratch, 0, 1, &fault};
  const int64_t work = emit::cpu::loop_work(k).eval(value);
  for (int i = 0; i < pieces; ++i) fn(&args, work * i / pieces, work * (i + 1) / pieces);
  std::free(scratch);

  evaluate(k, sizes, expected);
  CHECK((fault != 0) == o.expect_fault);
  CHECK(expected.fault == o.expect_fault);
  for (size_t p = 0; p < memory.size(); ++p) {
    const Param& param = k.params.raw()[p];
    if (param.role == ParamRole::local) continue;
    const size_t e = static_cast<size_t>(dtype_bytes(param.dtype));
    size_t wrong = 0;
    for (size_t i = 0; i < expected.params[p].size(); ++i) {
      const Scalar want = expected.params[p][i], got = read(param.dtype, &memory[p][kGuard + i * e]);
      bool same = want.i == got.i;
      if (is_float(param.dtype)) {
        const double slack = is_half(param.dtype) ? (param.dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048) : 0;
        same = want.f == got.f || (want.f != want.f && got.f != got.f) ||
               std::abs(want.f - got.f) <= (o.tolerance + slack) * (1 + std::abs(want.f));
      }
      if (same) continue;
      if (wrong++ < 3) FAIL_CHECK(param.name << "[" << i << "]: got " << got.f << " / " << got.i << ", want " << want.f << " / " << want.i);
    }
    for (size_t g = 0; g < kGuard; ++g) {
      REQUIRE(memory[p][g] == std::byte{0x5a});
      REQUIRE(memory[p][memory[p].size() - 1 - g] == std::byte{0x5a});
    }
  }
}

}  // namespace

void check_kernel(const LoopKernel& k, const std::vector<std::map<std::string, int64_t>>& sizes, const RunOptions& o) {
  for (Isa isa : loop_isas()) {
    if (!runs_here(isa)) continue;
    const std::string symbol = k.name + "_" + std::string(isa_name(isa));
    const std::string source = emit::cpu::unit_source({emit::cpu::emit_function(k, emit::cpu::kernel_spec(k, symbol))});
    const CompiledUnit lib(source, isa);
    const auto fn = reinterpret_cast<aotc_kernel_fn>(lib.symbol(symbol));
    INFO(source);
    REQUIRE(fn);
    for (const auto& s : sizes) {
      std::string text;
      for (const auto& [n, v] : s) text += fmt::format("{}={} ", n, v);
      INFO(text);
      run_once(k, fn, s, o, 1, 0);
      run_once(k, fn, s, o, 3, 0);
      run_once(k, fn, s, o, 3, 16);
    }
  }
}

}  // namespace aotc::test

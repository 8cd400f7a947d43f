#include "forms/cpu/library.h"

#include "kernels/cpu/catalog.h"

namespace aotc::forms::cpu {

std::optional<std::vector<int64_t>> constants(const Exprs& xs) {
  std::vector<int64_t> r;
  for (const Expr& x : xs) {
    auto c = x.as_const();
    if (!c) return std::nullopt;
    r.push_back(*c);
  }
  return r;
}

std::string_view symbol_dtype(DType t) {
  switch (t) {
    case DType::boolean: return "bool";
    case DType::u8: return "u8";
    case DType::i8: return "i8";
    case DType::i16: return "i16";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::c64: return "c64";
    case DType::c128: return "c128";
    case DType::f8e4m3fn: return "f8e4m3fn";
    case DType::f8e5m2: return "f8e5m2";
  }
  return "?";
}

bool has_entry(std::string_view kernel, DType type) {
  return kernels::find_kernel(fmt::format("aotc_{}_{}", kernel, symbol_dtype(type))) != nullptr;
}

std::string entry_of(std::string_view kernel, DType type) {
  std::string entry = fmt::format("aotc_{}_{}", kernel, symbol_dtype(type));
  AOTC_CHECK(kernels::find_kernel(entry), "the kernel library has no {}", entry);
  return entry;
}

}  // namespace aotc::forms::cpu

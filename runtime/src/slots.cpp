#include "slots.h"

namespace aotc::rt {
namespace {

bool apply(int64_t op, int64_t a, int64_t b, int64_t* out) {
  switch (op) {
    case AOTC_X_ADD: return !__builtin_add_overflow(a, b, out);
    case AOTC_X_SUB: return !__builtin_sub_overflow(a, b, out);
    case AOTC_X_MUL: return !__builtin_mul_overflow(a, b, out);
    case AOTC_X_MIN: *out = a < b ? a : b; return true;
    case AOTC_X_MAX: *out = a > b ? a : b; return true;
    case AOTC_X_FLOORDIV:
    case AOTC_X_MOD: break;
    default: return false;
  }
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  int64_t quotient = a / b, rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    --quotient;
    rest += b;
  }
  *out = op == AOTC_X_FLOORDIV ? quotient : rest;
  return true;
}

}  // namespace

bool eval(const int64_t* code, uint32_t begin, uint32_t end, const int64_t* symbols, const int64_t* slots, int64_t* out) {
  int64_t stack[AOTC_X_MAX_DEPTH];
  int depth = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const int64_t op = code[i];
    if (op == AOTC_X_CONST || op == AOTC_X_SYM || op == AOTC_X_SLOT) {
      if (depth == AOTC_X_MAX_DEPTH || ++i >= end) return false;
      const int64_t word = code[i];
      stack[depth++] = op == AOTC_X_CONST ? word : op == AOTC_X_SYM ? symbols[word] : slots[word];
      continue;
    }
    if (depth < 2) return false;
    --depth;
    if (!apply(op, stack[depth - 1], stack[depth], &stack[depth - 1])) return false;
  }
  if (depth != 1) return false;
  *out = stack[0];
  return true;
}

bool eval_slots(const aotc_variant& variant, const int64_t* symbols, int64_t* slots) {
  for (uint32_t s = 0; s < variant.n_slots; ++s)
    if (!eval(variant.code, variant.slots[s].begin, variant.slots[s].end, symbols, slots, &slots[s])) return false;
  return true;
}

}  // namespace aotc::rt

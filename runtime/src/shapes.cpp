#include "shapes.h"

#include "dense.h"
#include "slots.h"
#include "status.h"

namespace aotc::rt {
namespace {

/// "[8, 1024]" of a tensor's shape, for messages.
struct ShapeText {
  char text[160];
  ShapeText(const int64_t* dims, int32_t rank) {
    text[0] = 0;
    Text to{text, text + sizeof text};
    to.add("[");
    for (int32_t d = 0; d < rank; ++d) to.add("%s%lld", d ? ", " : "", static_cast<long long>(dims[d]));
    to.add("]");
  }
};

/// Whose inputs and outputs they are, for messages: "the model", or the method of one that has several.
struct OwnerText {
  char text[96];
  explicit OwnerText(const Method& method) {
    text[0] = 0;
    Text to{text, text + sizeof text};
    if (method.model->module->n_methods > 1)
      to.add("method '%s'", method.desc->name);
    else
      to.add("the model");
  }
};

/// "1 to 64, a multiple of 2"
struct RangeText {
  char text[96];
  RangeText(int64_t min, int64_t max, int64_t multiple_of) {
    text[0] = 0;
    Text to{text, text + sizeof text};
    if (max == INT64_MAX)
      to.add("at least %lld", static_cast<long long>(min));
    else if (min == max)
      to.add("%lld", static_cast<long long>(min));
    else
      to.add("%lld to %lld", static_cast<long long>(min), static_cast<long long>(max));
    if (multiple_of > 1) to.add(", a multiple of %lld", static_cast<long long>(multiple_of));
  }
};

bool in_range(int64_t v, int64_t min, int64_t max, int64_t multiple_of) {
  return v >= min && v <= max && (multiple_of <= 1 || v % multiple_of == 0);
}

[[gnu::cold]] aotc_status bad_symbol(const aotc_method_desc& desc, const aotc_symbol_desc& s, int64_t dim) {
  const aotc_io_desc& io = desc.inputs[s.input];
  const aotc_dim_desc& d = desc.dims[io.first_dim + static_cast<uint32_t>(s.dim)];
  const RangeText range(s.min, s.max, s.multiple_of);
  return fail(AOTC_STATUS_SHAPE_MISMATCH, "input '%s': dimension %d is %lld, but must be %s, where %s is %s", io.name, s.dim,
              static_cast<long long>(dim), d.text ? d.text : s.name, s.name, range.text);
}

[[gnu::cold]] aotc_status no_variant(const aotc_method_desc& desc, const int64_t* symbols) {
  char buffer[256] = "";
  Text text{buffer, buffer + sizeof buffer};
  for (uint32_t s = 0; s < desc.n_symbols; ++s)
    text.add("%s%s=%lld", s ? ", " : "", desc.symbols[s].name, static_cast<long long>(symbols[s]));
  return fail(AOTC_STATUS_SHAPE_MISMATCH, "no variant of the model takes %s", buffer);
}

/// Whether symbol s occurs in the postfix words [begin, end).
bool mentions(const int64_t* code, uint32_t begin, uint32_t end, uint32_t s) {
  for (uint32_t i = begin; i + 1 < end; ++i) {
    if (code[i] > AOTC_X_SLOT) continue;
    if (code[i] == AOTC_X_SYM && code[i + 1] == static_cast<int64_t>(s)) return true;
    ++i;
  }
  return false;
}

[[gnu::cold]] aotc_status bad_guard(const aotc_method_desc& desc, const aotc_guard_desc& g, const int64_t* symbols) {
  char buffer[320] = "";
  Text text{buffer, buffer + sizeof buffer};
  for (uint32_t s = 0; s < desc.n_symbols; ++s) {
    if (!mentions(desc.dim_code, g.a_begin, g.a_end, s) && !mentions(desc.dim_code, g.b_begin, g.b_end, s)) continue;
    const aotc_symbol_desc& symbol = desc.symbols[s];
    text.add("%s%s=%lld (input '%s', dimension %d)", *buffer ? ", " : "", symbol.name, static_cast<long long>(symbols[s]),
             desc.inputs[symbol.input].name, symbol.dim);
  }
  return fail(AOTC_STATUS_SHAPE_MISMATCH, "the sizes %s do not fit the model: %s", buffer, g.why ? g.why : "a guard does not hold");
}

aotc_status check_guard(const aotc_method_desc& desc, const aotc_guard_desc& g, const int64_t* symbols) {
  enum { kEqual = 0, kLessEqual = 1, kDivisible = 2 };
  int64_t a, b;
  if (eval(desc.dim_code, g.a_begin, g.a_end, symbols, nullptr, &a) && eval(desc.dim_code, g.b_begin, g.b_end, symbols, nullptr, &b)) {
    const bool holds = g.kind == kEqual ? a == b : g.kind == kLessEqual ? a <= b : b != 0 && (b == -1 || a % b == 0);
    if (holds) return AOTC_STATUS_OK;
  }
  return bad_guard(desc, g, symbols);
}

/// Evaluates the dimensions of one input or output.
aotc_status eval_io(const aotc_method_desc& desc, const char* what, const aotc_io_desc& io, const int64_t* symbols, int64_t* dims,
                    uint64_t* bytes) {
  uint64_t total = dtype_bytes(io.dtype);
  bool empty = false;
  for (int32_t d = 0; d < io.rank; ++d) {
    const aotc_dim_desc& dim = desc.dims[io.first_dim + static_cast<uint32_t>(d)];
    int64_t value = dim.value;
    if (dim.begin != dim.end && !eval(desc.dim_code, dim.begin, dim.end, symbols, nullptr, &value))
      return fail(AOTC_STATUS_SHAPE_MISMATCH, "%s '%s': dimension %d (%s) overflows", what, io.name, d, dim.text);
    if (value < 0)
      return fail(AOTC_STATUS_SHAPE_MISMATCH, "%s '%s': dimension %d (%s) would be %lld", what, io.name, d, dim.text,
                  static_cast<long long>(value));
    dims[d] = value;
    empty |= value == 0;
  }
  for (int32_t d = 0; d < io.rank && !empty; ++d)
    if (__builtin_mul_overflow(total, static_cast<uint64_t>(dims[d]), &total) || total > static_cast<uint64_t>(INT64_MAX))
      return fail(AOTC_STATUS_SHAPE_MISMATCH, "%s '%s': the shape %s has too many bytes", what, io.name, ShapeText(dims, io.rank).text);
  *bytes = empty ? 0 : total;
  return AOTC_STATUS_OK;
}

bool overlap(const aotc_tensor& a, uint64_t a_bytes, const aotc_tensor& b, uint64_t b_bytes) {
  const uintptr_t x = reinterpret_cast<uintptr_t>(a.data), y = reinterpret_cast<uintptr_t>(b.data);
  return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

aotc_status check_kind(const char* what, const char* name, uint32_t dtype, int32_t rank, int32_t device, const aotc_tensor& t) {
  if (t.dtype != dtype)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': dtype is %s (%u), but must be %s", what, name, dtype_name(t.dtype), t.dtype,
                dtype_name(dtype));
  if (t.rank != rank) return fail(AOTC_STATUS_SHAPE_MISMATCH, "%s '%s': rank is %d, but must be %d", what, name, t.rank, rank);
  if (rank > 0 && !t.shape) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': shape is null", what, name);
  if (t.device != device && t.device != AOTC_DEVICE_HOST)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': device is %d, but must be %d (%s)", what, name, t.device, device,
                device < 0 ? "host memory" : "the model's GPU; host memory, -1, is copied");
  if (t.flags | t.reserved[0] | t.reserved[1])
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': flags and reserved must be zero", what, name);
  return AOTC_STATUS_OK;
}

aotc_status read_symbols(const Method& method, const aotc_tensor* in, int32_t n, int64_t* symbols) {
  const aotc_method_desc& desc = *method.desc;
  if (n < 0 || static_cast<uint32_t>(n) != desc.n_inputs)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%d inputs were given, but %s has %u", n, OwnerText(method).text, desc.n_inputs);
  if (n > 0 && !in) return fail(AOTC_STATUS_INVALID_ARGUMENT, "the inputs are null");
  for (uint32_t i = 0; i < desc.n_inputs; ++i) {
    const aotc_io_desc& io = desc.inputs[i];
    RT_TRY(check_kind("input", io.name, io.dtype, io.rank, method.model->device, in[i]));
  }
  for (uint32_t i = 0; i < desc.n_symbols; ++i) {
    const aotc_symbol_desc& s = desc.symbols[i];
    const int64_t dim = in[s.input].shape[s.dim];
    int64_t rest;
    if (dim < 0) return bad_symbol(desc, s, dim);
    if (s.mul == 1 && s.add == 0) {
      symbols[i] = dim;
    } else {
      if (__builtin_sub_overflow(dim, s.add, &rest) || s.mul == 0 || rest % s.mul != 0) return bad_symbol(desc, s, dim);
      symbols[i] = rest / s.mul;
    }
  }
  return AOTC_STATUS_OK;
}

aotc_status pick_variant(const Method& method, const int64_t* symbols, uint32_t* variant) {
  const aotc_method_desc& desc = *method.desc;
  for (uint32_t i = 0; i < desc.n_symbols; ++i) {
    const aotc_symbol_desc& s = desc.symbols[i];
    int64_t dim = 0;
    if (in_range(symbols[i], s.min, s.max, s.multiple_of)) continue;
    if (__builtin_mul_overflow(symbols[i], s.mul, &dim) || __builtin_add_overflow(dim, s.add, &dim)) dim = -1;
    return bad_symbol(desc, s, dim);
  }
  for (uint32_t g = 0; g < desc.n_guards; ++g) RT_TRY(check_guard(desc, desc.guards[g], symbols));
  for (uint32_t v = 0; v < desc.n_variants; ++v) {
    const aotc_range* ranges = desc.variants[v].ranges;
    bool fits = true;
    for (uint32_t i = 0; i < desc.n_symbols && fits; ++i) fits = in_range(symbols[i], ranges[i].min, ranges[i].max, ranges[i].multiple_of);
    if (fits) {
      *variant = v;
      return AOTC_STATUS_OK;
    }
  }
  return no_variant(desc, symbols);
}

aotc_status eval_interface(const Method& method, const int64_t* symbols, int64_t* dims, uint64_t* bytes) {
  const aotc_method_desc& desc = *method.desc;
  for (uint32_t i = 0; i < desc.n_inputs; ++i) {
    RT_TRY(eval_io(desc, "input", desc.inputs[i], symbols, dims, bytes++));
    dims += desc.inputs[i].rank;
  }
  for (uint32_t i = 0; i < desc.n_outputs; ++i) {
    RT_TRY(eval_io(desc, "output", desc.outputs[i], symbols, dims, bytes++));
    dims += desc.outputs[i].rank;
  }
  return AOTC_STATUS_OK;
}

aotc_status check_dims(const Method& method, const aotc_tensor* in, const int64_t* dims, const int64_t* symbols) {
  const aotc_method_desc& desc = *method.desc;
  for (uint32_t i = 0; i < desc.n_inputs; ++i) {
    const aotc_io_desc& io = desc.inputs[i];
    for (int32_t d = 0; d < io.rank; ++d, ++dims) {
      if (in[i].shape[d] == *dims) continue;
      const aotc_dim_desc& dim = desc.dims[io.first_dim + static_cast<uint32_t>(d)];
      if (dim.begin == dim.end)
        return fail(AOTC_STATUS_SHAPE_MISMATCH, "input '%s': dimension %d is %lld, but must be %lld", io.name, d,
                    static_cast<long long>(in[i].shape[d]), static_cast<long long>(*dims));
      char buffer[192] = "";
      Text text{buffer, buffer + sizeof buffer};
      for (uint32_t s = 0; s < desc.n_symbols; ++s)
        text.add("%s%s=%lld from input '%s'", s ? ", " : "", desc.symbols[s].name, static_cast<long long>(symbols[s]),
                 desc.inputs[desc.symbols[s].input].name);
      return fail(AOTC_STATUS_SHAPE_MISMATCH, "input '%s': dimension %d is %lld, but must be %lld (%s; %s)", io.name, d,
                  static_cast<long long>(in[i].shape[d]), static_cast<long long>(*dims), dim.text, buffer);
    }
  }
  return AOTC_STATUS_OK;
}

namespace {

/// bytes: what the shape and the strides need.
aotc_status check_memory(const char* what, const aotc_io_desc& io, const aotc_tensor& t, uint64_t bytes) {
  if (t.byte_size < bytes)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': byte_size is %llu, but the shape %s of %s needs %llu%s", what, io.name,
                static_cast<unsigned long long>(t.byte_size), ShapeText(t.shape, t.rank).text, dtype_name(io.dtype),
                static_cast<unsigned long long>(bytes), t.strides ? " with its strides" : "");
  if (!t.data) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': data is null", what, io.name);
  const uint64_t element = dtype_bytes(io.dtype), align = element < 8 ? element : 8;
  if (reinterpret_cast<uintptr_t>(t.data) & (align - 1))
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': data is not aligned to the %llu bytes that %s needs", what, io.name,
                static_cast<unsigned long long>(align), dtype_name(io.dtype));
  return AOTC_STATUS_OK;
}

/// `where`: what may have other strides, if anything.
aotc_status check_dense(const char* what, const aotc_io_desc& io, const aotc_tensor& t, const char* where) {
  int32_t dim;
  int64_t stride;
  if (!t.strides || is_dense(t, &dim, &stride)) return AOTC_STATUS_OK;
  return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': the stride of dimension %d is %lld, but must be %lld (dense row-major%s)", what,
              io.name, dim, static_cast<long long>(t.strides[dim]), static_cast<long long>(stride), where);
}

}  // namespace

aotc_status check_data(const char* what, const aotc_io_desc& io, const aotc_tensor& t, uint64_t bytes) {
  if (bytes == 0) return AOTC_STATUS_OK;
  RT_TRY(check_dense(what, io, t, ""));
  return check_memory(what, io, t, bytes);
}

aotc_status check_input(const aotc_io_desc& io, const aotc_tensor& t, uint64_t bytes) {
  if (bytes == 0) return AOTC_STATUS_OK;
  if (t.device != AOTC_DEVICE_HOST) RT_TRY(check_dense("input", io, t, "; inputs in host memory may have other strides"));
  uint64_t span;
  RT_TRY(tensor_span(io.name, t, bytes, &span));
  return check_memory("input", io, t, span);
}

aotc_status check_output_count(const Method& method, int32_t n_out) {
  if (n_out >= 0 && static_cast<uint32_t>(n_out) == method.desc->n_outputs) return AOTC_STATUS_OK;
  return fail(AOTC_STATUS_INVALID_ARGUMENT, "%d outputs were given, but %s has %u", n_out, OwnerText(method).text, method.desc->n_outputs);
}

aotc_status check_outputs(const Method& method, const aotc_tensor* in, const aotc_tensor* out, int32_t n_out, const int64_t* dims,
                          const uint64_t* bytes) {
  const aotc_method_desc& desc = *method.desc;
  RT_TRY(check_output_count(method, n_out));
  if (n_out > 0 && !out) return fail(AOTC_STATUS_INVALID_ARGUMENT, "the outputs are null");
  for (uint32_t i = 0; i < desc.n_inputs; ++i) dims += desc.inputs[i].rank;
  const uint64_t* out_bytes = bytes + desc.n_inputs;
  for (uint32_t o = 0; o < desc.n_outputs; ++o) {
    const aotc_io_desc& io = desc.outputs[o];
    RT_TRY(check_kind("output", io.name, io.dtype, io.rank, method.model->device, out[o]));
    for (int32_t d = 0; d < io.rank; ++d)
      if (out[o].shape[d] != dims[d])
        return fail(AOTC_STATUS_SHAPE_MISMATCH, "output '%s': dimension %d is %lld, but will be %lld (shape %s)", io.name, d,
                    static_cast<long long>(out[o].shape[d]), static_cast<long long>(dims[d]), ShapeText(dims, io.rank).text);
    dims += io.rank;
    RT_TRY(check_data("output", io, out[o], out_bytes[o]));
    for (uint32_t i = 0; i < desc.n_inputs; ++i) {
      uint64_t span;
      RT_TRY(tensor_span(desc.inputs[i].name, in[i], bytes[i], &span));
      const bool in_place = static_cast<int32_t>(i) == io.alias_input && out[o].data == in[i].data && !needs_copy(in[i], bytes[i]);
      if (overlap(out[o], out_bytes[o], in[i], span) && !in_place)
        return fail(AOTC_STATUS_INVALID_ARGUMENT, "output '%s' overlaps input '%s'", io.name, desc.inputs[i].name);
    }
    for (uint32_t p = 0; p < o; ++p)
      if (overlap(out[o], out_bytes[o], out[p], out_bytes[p]))
        return fail(AOTC_STATUS_INVALID_ARGUMENT, "output '%s' overlaps output '%s'", io.name, desc.outputs[p].name);
  }
  return AOTC_STATUS_OK;
}

}  // namespace aotc::rt

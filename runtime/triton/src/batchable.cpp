// Is the first dim a batch? Names do not tell: a sequence's positions are a first dim, too, and requests that were put one behind another
// along it would see each other. So the artifact is asked.
#include <cmath>
#include <cstring>

#include "config.h"

namespace aotc::triton {
namespace {

struct Value {
  std::vector<int64_t> shape;
  std::vector<unsigned char> bytes;
};

size_t elements(const std::vector<int64_t>& shape) {
  size_t n = 1;
  for (int64_t d : shape) n *= static_cast<size_t>(d);
  return n;
}

aotc_tensor view(const Tensor& t, Value& v) {
  return aotc_host_tensor(v.bytes.data(), v.shape.data(), static_cast<int32_t>(v.shape.size()), t.dtype, v.bytes.size());
}

uint16_t half(double v, bool bf16) {  // of numbers from 0.25 to 1
  const auto f = static_cast<float>(v);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (bf16) return static_cast<uint16_t>(bits >> 16);
  return static_cast<uint16_t>((((bits >> 23) - 112) << 10) | ((bits >> 13) & 0x3ff));
}

/// Element i of row r. Numbers from 0.25 to 1, other ones in each row; integers are first + r, which most tables have.
void fill(uint32_t dtype, size_t i, size_t r, int64_t first, unsigned char* at) {
  const double v = 0.25 + 0.75 * static_cast<double>((i * 2654435761u + r * 40503u + 12345u) % 65521u) / 65521.0;
  const int64_t n = first + static_cast<int64_t>(r);
  const auto put = [at](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (dtype) {
    case AOTC_DTYPE_F32: return put(static_cast<float>(v));
    case AOTC_DTYPE_F64: return put(v);
    case AOTC_DTYPE_C64: return put(static_cast<float>(v)), std::memset(at + 4, 0, 4), void();
    case AOTC_DTYPE_C128: return put(v), std::memset(at + 8, 0, 8), void();
    case AOTC_DTYPE_F16: return put(half(v, false));
    case AOTC_DTYPE_BF16: return put(half(v, true));
    case AOTC_DTYPE_BOOL: return put(static_cast<uint8_t>(1));
    case AOTC_DTYPE_I16: return put(static_cast<int16_t>(n));
    case AOTC_DTYPE_I32: return put(static_cast<int32_t>(n));
    case AOTC_DTYPE_I64: return put(n);
    default: return put(static_cast<uint8_t>(n));
  }
}

/// Rows [from, to) of all inputs, each other dim at its least.
std::vector<Value> make_inputs(const Program& p, int64_t from, int64_t to, int64_t first) {
  std::vector<Value> values;
  for (const Tensor& t : p.inputs) {
    Value v;
    for (const Dim& d : t.dims) v.shape.push_back(d.value >= 0 ? d.value : d.min);
    v.shape[0] = 1;
    const size_t row = elements(v.shape);
    v.shape[0] = to - from;
    v.bytes.resize(elements(v.shape) * t.element_bytes);
    for (size_t r = 0; r < static_cast<size_t>(to - from); ++r)
      for (size_t i = 0; i < row; ++i)
        fill(t.dtype, i, r + static_cast<size_t>(from), first, v.bytes.data() + (r * row + i) * t.element_bytes);
    values.push_back(std::move(v));
  }
  return values;
}

aotc::host::Status run(aotc::host::Context& context, const Program& p, std::vector<Value> in, std::vector<Value>* out) {
  std::vector<aotc_tensor> inputs, outputs;
  for (size_t i = 0; i < in.size(); ++i) inputs.push_back(view(p.inputs[i], in[i]));
  std::vector<std::vector<int64_t>> shapes;
  if (aotc::host::Status s = context.output_bounds(p.method, inputs, &shapes); !s) return s;
  out->assign(p.outputs.size(), {});
  for (size_t o = 0; o < p.outputs.size(); ++o) {
    (*out)[o].shape = shapes[o];
    (*out)[o].bytes.resize(elements(shapes[o]) * p.outputs[o].element_bytes);
    outputs.push_back(view(p.outputs[o], (*out)[o]));
  }
  return context.run(p.method, inputs, outputs);
}

template <class T>
bool floats_alike(const unsigned char* a, const unsigned char* b, size_t bytes) {
  double difference = 0, size = 0;
  for (size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    if (std::isnan(x) != std::isnan(y)) return false;
    if (std::isnan(x) || x == y) continue;
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return difference <= 1e-6 * size;  // a batch of two may be summed in another order
}
float widened(const unsigned char* at, bool bf16) {
  uint16_t h;
  std::memcpy(&h, at, 2);
  if (!bf16) {
    const int e = (h >> 10) & 31, m = h & 1023;
    const float v = e == 31 ? (m ? NAN : INFINITY) : std::ldexp(static_cast<float>(e ? m + 1024 : m), (e ? e : 1) - 25);
    return h & 0x8000 ? -v : v;
  }
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
bool halves_alike(const unsigned char* a, const unsigned char* b, size_t bytes, bool bf16) {
  double difference = 0, size = 0;
  for (size_t i = 0; i + 2 <= bytes; i += 2) {
    const float x = widened(a + i, bf16), y = widened(b + i, bf16);
    if (std::isnan(x) != std::isnan(y)) return false;
    if (std::isnan(x) || x == y) continue;
    difference += std::pow(static_cast<double>(x) - y, 2);
    size += static_cast<double>(y) * y;
  }
  return difference <= 1e-3 * size;
}
bool alike(uint32_t dtype, const unsigned char* a, const unsigned char* b, size_t bytes) {
  switch (dtype) {
    case AOTC_DTYPE_F32:
    case AOTC_DTYPE_C64: return floats_alike<float>(a, b, bytes);
    case AOTC_DTYPE_F64:
    case AOTC_DTYPE_C128: return floats_alike<double>(a, b, bytes);
    case AOTC_DTYPE_F16:
    case AOTC_DTYPE_BF16: return halves_alike(a, b, bytes, dtype == AOTC_DTYPE_BF16);
    default: return std::memcmp(a, b, bytes) == 0;
  }
}

/// Two rows together and each alone. *why_not stays empty where they agree.
void try_rows(const Artifact& artifact, const Program& p, std::string* why_not) {
  aotc::host::Context context;
  if (aotc::host::Status s = artifact.model.context(&context); !s) return void(*why_not = s.message);
  for (const int64_t first : {1, 0}) {  // ids 1 and 2; of tables of two rows 0 and 1
    std::vector<Value> both, alone;
    aotc::host::Status s = run(context, p, make_inputs(p, 0, 2, first), &both);
    if (s.code == AOTC_STATUS_INDEX_OUT_OF_RANGE && first > 0) continue;
    for (int64_t r = 0; r < 2 && s; ++r) {
      s = run(context, p, make_inputs(p, r, r + 1, first), &alone);
      for (size_t o = 0; s && o < p.outputs.size(); ++o) {
        const size_t row = alone[o].bytes.size();
        if (both[o].bytes.size() != 2 * row ||
            !alike(p.outputs[o].dtype, both[o].bytes.data() + static_cast<size_t>(r) * row, alone[o].bytes.data(), row))
          return void(*why_not = "output '" + p.outputs[o].name +
                                 "' of two rows together is not that of each alone, so the first dim is no batch");
      }
    }
    if (!s) *why_not = "two rows were tried and failed: " + s.message;
    return;
  }
}

}  // namespace

bool batchable(const Artifact& artifact, const Program& p, bool trust, int64_t* max_batch, std::string* why_not) {
  why_not->clear();
  *max_batch = 0;
  const Dim* batch = nullptr;
  const auto look = [&](const Tensor& t, const char* kind) {
    const std::string name = std::string(kind) + " '" + t.name + "'";
    if (t.dims.empty() || t.dims[0].symbol.empty()) {
      *why_not = name + " has no first dim of a variable size: it is " + t.describe();
    } else if (t.found) {
      *why_not = "sizes of " + name + " are found in the data";
    } else if (batch && t.dims[0].symbol != batch->symbol) {
      *why_not = "the first dim of " + name + " is " + t.dims[0].symbol + ", that of input '" + p.inputs[0].name + "' is " + batch->symbol;
    }
    if (!batch && why_not->empty()) batch = &t.dims[0];
    return why_not->empty();
  };
  for (const Tensor& t : p.inputs)
    if (!look(t, "input")) return false;
  if (!batch) return *why_not = "there is no input", false;
  for (const Tensor& t : p.outputs)
    if (!look(t, "output")) return false;
  if (batch->min > 1) return *why_not = "the first dim, " + batch->symbol + ", is at least " + std::to_string(batch->min), false;
  for (const std::string& m : p.multiples)
    if (batch->symbol == m) return *why_not = "the first dim, " + m + ", takes multiples of a number only", false;
  if (batch->symbol.find_first_of("+-*/ (") != std::string::npos) return *why_not = "the first dim is " + batch->symbol, false;
  *max_batch = batch->max;
  if (!trust && batch->max > 1) try_rows(artifact, p, why_not);
  return why_not->empty();
}

}  // namespace aotc::triton

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/scalar.h"
#include "import/bind_symbols.h"
#include "import/input_ranges.h"
#include "import/other_inputs.h"

namespace aotc::import {
namespace {

/// splitmix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return n <= 1 ? 0 : static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  double normal() {
    if (spare_) {
      const double v = *spare_;
      spare_.reset();
      return v;
    }
    const double r = std::sqrt(-2 * std::log(uniform())), a = 6.283185307179586 * uniform();
    spare_ = r * std::sin(a);
    return r * std::cos(a);
  }

 private:
  uint64_t state_;
  std::optional<double> spare_;
};

constexpr int64_t kSmallInts = 8;

/// What the numbers of an input are like that neither indexes nor masks.
enum class Like : uint8_t { usual, positive, unit, negative, small, large, ordered, ones, zeros, above, below, between };
constexpr Like kLikes[] = {Like::positive, Like::unit, Like::negative, Like::small, Like::large, Like::ordered, Like::ones, Like::zeros};
struct Manner {
  Like like = Like::usual;
  double mark = 0, next = 0;  ///< of above and below; of between both
};

/// Attempts go through all manners; inputs in step with each other at first, then each at its own.
Manner manner_of(int attempt, size_t input, const std::vector<double>& marks) {
  if (attempt == 0) return {};
  std::vector<Manner> all;
  for (const double m : marks) all.push_back({Like::above, m}), all.push_back({Like::below, m});
  std::vector<double> rising = marks;
  std::sort(rising.begin(), rising.end());
  for (size_t i = 1; i < rising.size(); ++i)
    if (rising[i - 1] < rising[i]) all.push_back({Like::between, rising[i - 1], rising[i]});
  for (const Like l : kLikes) all.push_back({l});
  all.push_back({Like::usual});
  const size_t turn = static_cast<size_t>(attempt - 1), round = turn / all.size();
  return all[round == 0 ? turn : Random(turn * 31 + input).next() % all.size()];
}

/// A normal number turned into one of that manner.
double in_manner(const Manner& m, double x) {
  switch (m.like) {
    case Like::positive: return std::fabs(x) + 1e-3;
    case Like::unit: return 0.5 + 0.5 * std::erf(x / 1.4142135623730951);
    case Like::between: return m.mark + (m.next - m.mark) * (0.5 + 0.5 * std::erf(x / 1.4142135623730951));
    case Like::negative: return -std::fabs(x) - 1e-3;
    case Like::small: return x / 64;
    case Like::large: return x * 64;
    case Like::ones: return 1;
    case Like::zeros: return 0;
    case Like::above: return m.mark + (std::fabs(x) + 1e-3) * std::max(1.0, std::fabs(m.mark) / 64);
    case Like::below: return m.mark - (std::fabs(x) + 1e-3) * std::max(1.0, std::fabs(m.mark) / 64);
    default: return x;
  }
}
int64_t in_manner(const Manner& m, Random& random) {
  switch (m.like) {
    case Like::positive: return 1 + random.below(kSmallInts);
    case Like::unit: return random.below(2);
    case Like::between: {
      const auto first = static_cast<int64_t>(std::ceil(m.mark));
      return first + random.below(std::max<int64_t>(1, static_cast<int64_t>(std::ceil(m.next)) - first));
    }
    case Like::negative: return -1 - random.below(kSmallInts);
    case Like::small: return random.below(3);
    case Like::large: return random.below(kSmallInts * kSmallInts);
    case Like::ones: return 1;
    case Like::zeros: return 0;
    case Like::above: return static_cast<int64_t>(std::floor(m.mark)) + 1 + random.below(kSmallInts);
    case Like::below: return static_cast<int64_t>(std::ceil(m.mark)) - 1 - random.below(kSmallInts);
    default: return random.below(kSmallInts);
  }
}

int64_t largest(DType d) { return dtype_bytes(d) >= 8 ? INT64_MAX : (int64_t{1} << (8 * dtype_bytes(d) - (d == DType::u8 ? 0 : 1))) - 1; }

/// The i-th element of an input of integers or bools.
class IntegerSource {
 public:
  IntegerSource(const HostTensor& t, const InputUse& use, const Manner& manner, Random& random)
      : use_(use),
        manner_(manner),
        random_(random),
        row_(t.dims.empty() ? 1 : std::max<int64_t>(t.dims.back(), 1)),
        boolean_(is_bool(t.dtype)) {
    top_ = largest(t.dtype);
  }
  int64_t at(int64_t i) {
    const int64_t column = i % row_;
    if (use_.offsets) {
      if (column == 0) draw_offsets();
      return offsets_[static_cast<size_t>(column)];
    }
    if (use_.index) return index(i);
    if (manner_.like == Like::ordered) return i;
    if (use_.divisor) return 1 + random_.below(kSmallInts);
    if (boolean_) return manner_.like == Like::zeros ? 0 : manner_.like == Like::ones || column == 0 ? 1 : random_.below(2);
    if (manner_.like != Like::usual) return in_manner(manner_, random_);
    if (use_.mask) {  // ones up to some length, as padded sequences have
      if (column == 0) ones_ = 1 + random_.below(row_);
      return column < ones_ ? 1 : 0;
    }
    return random_.below(kSmallInts);
  }

 private:
  int64_t index(int64_t i) {
    int64_t lo = use_.lo, hi = std::max(std::min(use_.hi, top_), lo + 1);
    if (manner_.like == Like::ordered) return lo + i % (hi - lo);
    if (manner_.like == Like::above) lo = std::clamp(static_cast<int64_t>(std::floor(manner_.mark)) + 1, lo, hi - 1);
    if (manner_.like == Like::below) hi = std::clamp(static_cast<int64_t>(std::ceil(manner_.mark)), lo + 1, hi);
    if (manner_.like == Like::ones) return std::clamp<int64_t>(1, lo, hi - 1);
    if (manner_.like == Like::zeros) return lo;
    return lo + random_.below(hi - lo);
  }
  void draw_offsets() {
    offsets_.resize(static_cast<size_t>(row_));
    for (int64_t& o : offsets_) o = random_.below(std::min(use_.indices, top_ - 1) + 1);
    std::sort(offsets_.begin(), offsets_.end());
    if (use_.ends) offsets_.back() = use_.indices;
    offsets_.front() = 0;
  }

  const InputUse& use_;
  const Manner manner_;
  Random& random_;
  std::vector<int64_t> offsets_;  ///< of a line
  int64_t row_, ones_ = 1, top_;
  bool boolean_;
};

void fill(HostTensor& t, const InputUse& use, const Manner& manner, Random& random) {
  int64_t n = t.elems();
  t.bytes.resize(static_cast<size_t>(n * dtype_bytes(t.dtype)));
  if (is_int(t.dtype) || is_bool(t.dtype)) {
    IntegerSource source(t, use, manner, random);
    std::vector<int64_t> v(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) v[static_cast<size_t>(i)] = source.at(i);
    store_i64(t.dtype, v.data(), t.bytes.data(), n);
    return;
  }
  const DType part = t.dtype == DType::c64 ? DType::f32 : t.dtype == DType::c128 ? DType::f64 : t.dtype;
  if (is_complex(t.dtype)) n *= 2;
  constexpr int64_t kChunk = 4096;
  double chunk[kChunk];
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t m = std::min(kChunk, n - i);
    for (int64_t k = 0; k < m; ++k)
      chunk[k] = manner.like == Like::ordered ? static_cast<double>(i + k) : in_manner(manner, random.normal());
    store_f64(part, chunk, t.bytes.data() + i * dtype_bytes(part), m);
  }
}

/// Sizes of the symbols that the caller left open: those of the sample inputs, else a size worth tuning for.
std::map<SymId, int64_t> complete(const Program& p, std::map<SymId, int64_t> sizes) {
  size_t i = 0;
  for (const ProgramInput& in : p.inputs) {
    if (in.kind != InputKind::user) continue;
    const TensorMeta& m = p.tensors.at(in.name);
    for (size_t d = 0; d < m.sizes.size(); ++d) {
      if (i < p.sample_inputs.size() && p.sample_inputs[i].type.dims.size() == m.sizes.size())
        if (const auto bound = solve(m.sizes[d], p.sample_inputs[i].type.dims[d].as_const().value_or(0), sizes)) sizes.insert(*bound);
    }
    ++i;
  }
  for (const ProgramInput& in : p.inputs) {
    if (in.kind != InputKind::user) continue;
    for (const Expr& e : p.tensors.at(in.name).sizes)
      for (const SymId s : e.symbols()) sizes.emplace(s, p.syms.hint(Expr::symbol(s)));
  }
  return sizes;
}

}  // namespace

std::vector<HostTensor> make_shapes(const Program& p, const std::map<SymId, int64_t>& wanted) {
  const std::map<SymId, int64_t> sizes = complete(p, wanted);
  std::vector<HostTensor> inputs;
  for (const ProgramInput& in : p.inputs) {
    if (in.kind != InputKind::user) continue;
    const TensorMeta& m = p.tensors.at(in.name);
    HostTensor t{m.dtype, {}, {}};
    for (const Expr& e : m.sizes) t.dims.push_back(e.eval([&](SymId s) { return sizes.at(s); }));
    inputs.push_back(std::move(t));
  }
  return inputs;
}

std::vector<HostTensor> example_inputs(const Program& p) {
  std::vector<HostTensor> inputs;
  for (const ConstData& c : p.sample_inputs) {
    HostTensor t{c.type.dtype, {}, {c.data, c.data + c.bytes}};
    for (const Expr& e : c.type.dims) t.dims.push_back(e.as_const().value_or(0));
    inputs.push_back(std::move(t));
  }
  return inputs;
}

bool have_example_sizes(const Program& p, const std::vector<HostTensor>& inputs) {
  return std::equal(p.sample_inputs.begin(), p.sample_inputs.end(), inputs.begin(), inputs.end(),
                    [](const ConstData& c, const HostTensor& t) {
                      return std::equal(c.type.dims.begin(), c.type.dims.end(), t.dims.begin(), t.dims.end(),
                                        [](const Expr& a, int64_t b) { return a.is(b); });
                    });
}

std::vector<HostTensor> make_inputs(const Program& p, const std::map<SymId, int64_t>& wanted, uint64_t seed, int attempt) {
  const std::map<SymId, int64_t> sizes = complete(p, wanted);
  std::vector<HostTensor> inputs = make_shapes(p, sizes);
  if (seed == 0 && attempt == 0 && have_example_sizes(p, inputs)) return example_inputs(p);
  const std::map<std::string, InputUse> uses = input_uses(p, sizes);
  const std::map<std::string, std::vector<double>> marks = attempt > 0 ? compared_with(p) : std::map<std::string, std::vector<double>>();
  size_t i = 0;
  for (const ProgramInput& in : p.inputs) {
    if (in.kind != InputKind::user) continue;
    Random random(seed * 1000003 + i + static_cast<uint64_t>(attempt) * 7919);
    const auto use = uses.find(in.name);
    const auto mark = marks.find(in.name);
    const Manner manner = manner_of(attempt, i, mark == marks.end() ? std::vector<double>() : mark->second);
    fill(inputs[i++], use == uses.end() ? InputUse{} : use->second, manner, random);
  }
  return inputs;
}

std::vector<HostTensor> make_inputs(const Program& p, const std::map<SymId, int64_t>& wanted, uint64_t seed) {
  return make_inputs(p, wanted, seed, 0);
}

}  // namespace aotc::import

#pragma once
// What the forms of sorting by keys and indices in one word have in common.
#include <bit>

#include "forms/cuda/common.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cuda {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
/// Digits of a value's key, from the lowest bit on that it may have (LowestKeyBit of the kernels).
inline int digits_of(DType t) {
  const int lowest = t == DType::bf16 ? 16 : t == DType::f16 ? 13 : 0;
  return (32 - lowest + kDigitBits - 1) / kDigitBits;
}

/// A form whose choices are the members of Tile, powers of two.
template <class Tile>
class SortForm : public FormOf<loop::LibraryKernel> {
 public:
  std::span<const Field> fields() const override { return fields_of<Tile>(); }

 protected:
  Fit fits(const loop::LibraryKernel& k, const Site& s) const override {
    if (k.algorithm != "sort") return {false, ""};
    const DType t = k.params.begin()->dtype;
    return dtype_bytes(t) > 4 ? refuse("{} and an index are more than 64 bits", dtype_name(t)) : takes(k, s);
  }
  virtual Fit takes(const loop::LibraryKernel&, const Site&) const { return Fit::yes(); }
  std::string contract(const loop::LibraryKernel& k, const Site& s) const override { return sort_contract(k, s); }
  static int64_t longest(const loop::LibraryKernel& k, const Site& s) { return s.syms.interval(s.syms.simplify(k.sizes[1])).max; }
  static double lines_of(const loop::LibraryKernel& k, const Site& s) {
    return static_cast<double>(at_least_one(k.sizes[0] * k.sizes[2], s));
  }
};

/// One whose blocks, or clusters of them, have a line each: Tile has threads, each and blocks.
template <class Tile>
class SortByBlocks : public SortForm<Tile> {
 public:
  Fit legal(const Choice& c) const override {
    const Tile t = unpack<Tile>(c);
    const bool powers = std::has_single_bit(static_cast<unsigned>(t.threads)) && std::has_single_bit(static_cast<unsigned>(t.blocks));
    return powers ? Fit::yes() : refuse("threads and blocks are powers of two");
  }

 protected:
  StepSpec step(const loop::LibraryKernel& k, const Site&, const Choice& c) const override {
    const Tile t = unpack<Tile>(c);
    return sort_step(k, t.threads, t.blocks, t.shared_bytes());
  }
  /// name(): "cuda_NAME" of kernels/cuda/NAME.cuh.
  std::string source(const loop::LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const Tile t = unpack<Tile>(c);
    return sort_source(std::string(this->name().substr(5)), k, t.threads, t.each, t.blocks, symbol);
  }
};

}  // namespace aotc::forms::cuda

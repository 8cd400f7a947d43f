#pragma once
// Discrete Fourier transforms as Op::fourier, and as products with matrices of waves, for targets without a kernel and for short lines.
#include <optional>

#include "decompose/tensor.h"

namespace aotc::decompose {

struct Complex {
  T re, im;
};

/// x with a dim cut or filled with zeros to n.
T resized(const T& x, int d, int64_t n);

/// The longest length that is taken in one product; longer ones must have factors of at most this.
constexpr int64_t kLongestWaves = 4096;
/// Whether transforms of n numbers can be products.
bool has_waves(int64_t n);

/// Op::fourier along a dim: its kinds.
enum class Spectrum : uint8_t { pairs, half, line };
struct Transform {
  Spectrum kind;
  int64_t n;
  bool inverse = false;
  double scale = 1;
};
/// Of what x has along d, the numbers that the transform reads. The result's im: not valid where it is a line.
Complex fourier(const T& re, const std::optional<T>& im, int d, const Transform& t);

/// The same, unscaled, for a length that is known when a run starts: products with waves that the run computes. What x has along d must be
/// what the transform reads, or provably more or less.
Complex fourier_of_size(Rule& r, const T& re, const std::optional<T>& im, int d, Spectrum kind, const Expr& n, bool inverse);

/// What Op::fourier says, by products.
std::vector<ValueId> fourier_by_products(Builder& b, const Node& n);
/// The multiply-adds of a line in products, with what moves numbers between them counted as such.
double products_cost(const Graph& g, const Node& fourier);

}  // namespace aotc::decompose

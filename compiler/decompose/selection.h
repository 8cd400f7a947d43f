#pragma once
// What masks select, where its number counts: the places of what is true come first, in order.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// Where a tensor is not zero, counted in its dense order: int64 [size], rising, size found in data. `archive`: what it is called there.
T places_where(Rule& r, const T& mask, const std::optional<Expr>& archive);
/// Of places in the dense order of a tensor of these dims: the place in each dim.
std::vector<T> coordinates(const T& places, const std::vector<Expr>& dims);
/// The places of a mask's true elements, one tensor a dim.
std::vector<T> coordinates_where(Rule& r, const T& mask, const std::optional<Expr>& archive);
/// Whether elements are not zero.
T nonzero(const T& x);

}  // namespace aotc::decompose

#pragma once
// Which elements of the input an element of a resized or padded tensor is made of: shared by the operators and their gradients.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// One spatial dim: where it is, its sizes, and the given scale (0: from the sizes).
struct ResizeAxis {
  int dim;
  Expr in, out;
  double scale = 0;
};
/// Of the k dims from 2 on; scales by the operator's arguments.
std::vector<ResizeAxis> resize_axes(Rule& r, const std::vector<Expr>& in, const std::vector<Expr>& out, int k);
/// A vector along the axis, broadcastable to `rank` dims.
T along_axis(const T& v, const ResizeAxis& a, int rank);
/// by_size: where the size stays or doubles it decides, whatever the scale.
/// The number that nearest resizing repeats each element by, where that is all it does.
std::optional<int64_t> nearest_repeats(Rule& r, const ResizeAxis& a, bool by_size);
/// The element that nearest resizing takes, per element of the result.
T nearest_index(Rule& r, const ResizeAxis& a, bool exact, bool by_size);
/// An element of the input and its factor, per element of the result; the sum over several is the result.
struct ResizeTap {
  T index, weight;
};
/// Whether linear resizing leaves the axis as it is.
bool linear_keeps(Rule& r, const ResizeAxis& a);
std::vector<ResizeTap> linear_taps(Rule& r, const ResizeAxis& a, bool align, DType t);
std::vector<ResizeTap> cubic_taps(Rule& r, const ResizeAxis& a, bool align, DType t);

// One pass over uint8 images in fixed point, from and to bytes; factors in float64.
/// Taps that lie on one element count as one.
T bytes_by_taps(const T& x, const ResizeAxis& a, const std::vector<ResizeTap>& taps);
/// index, factors: [taps, out]; elements whose factor is 0 count for nothing.
T bytes_by_grid(const T& x, const ResizeAxis& a, const T& index, const T& factors);

enum class PadMode { reflect, replicate, circular };
struct PadAmount {
  int dim;
  Expr lo, hi;
};
/// The list of pads goes from the last dim backwards, (lo, hi) each.
std::vector<PadAmount> pad_amounts(Rule& r, int rank, std::string_view name);
/// The element of a dim of `size` that is at each place of the padded one.
T pad_index(Rule& r, const PadAmount& a, const Expr& size, PadMode mode);

}  // namespace aotc::decompose

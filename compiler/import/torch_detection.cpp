// The operators of torchvision for LibTorch's dispatcher, where the reference finds them: they come with that library alone. Computed in
// the type of what they are given, 16-bit floats in float32.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

namespace {

using at::Tensor;

Tensor wide(const Tensor& x) { return (x.scalar_type() == at::kDouble ? x : x.to(at::kFloat)).contiguous(); }

/// The image's number at a place between elements, or 0 outside of it.
template <class F>
F number_at(const F* image, int64_t h, int64_t w, int64_t y, int64_t x) {
  return y >= 0 && y < h && x >= 0 && x < w ? image[y * w + x] : F(0);
}
template <class F>
F among_zeros(const F* image, int64_t h, int64_t w, F y, F x) {
  if (y <= -1 || y >= static_cast<F>(h) || x <= -1 || x >= static_cast<F>(w)) return 0;
  const F top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
  const auto i = static_cast<int64_t>(top), j = static_cast<int64_t>(left);
  return (1 - down) * (1 - right) * number_at(image, h, w, i, j) + (1 - down) * right * number_at(image, h, w, i, j + 1) +
         down * (1 - right) * number_at(image, h, w, i + 1, j) + down * right * number_at(image, h, w, i + 1, j + 1);
}
/// The same where the outermost elements reach one element outside.
template <class F>
F among_likes(const F* image, int64_t h, int64_t w, F y, F x) {
  if (y < -1 || y > static_cast<F>(h) || x < -1 || x > static_cast<F>(w)) return 0;
  const F last_y = static_cast<F>(h - 1), last_x = static_cast<F>(w - 1);
  return among_zeros(image, h, w, std::clamp(y, F(0), last_y), std::clamp(x, F(0), last_x));
}

struct Moved {
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, offset_groups;
};

/// [N, C * kh * kw, h * w]: what the taps read.
template <class F>
Tensor read_taps(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor* mask, const Moved& m) {
  const int64_t n = input.size(0), c = input.size(1), kh = weight.size(2), kw = weight.size(3), h = offset.size(2), w = offset.size(3);
  Tensor all = at::empty({n, c, kh, kw, h, w}, input.options());
  F* to = all.data_ptr<F>();
  for (int64_t image = 0; image < n; ++image)
    for (int64_t channel = 0; channel < c; ++channel) {
      const F* from = input.const_data_ptr<F>() + (image * c + channel) * input.size(2) * input.size(3);
      const int64_t group = channel / (c / m.offset_groups);
      for (int64_t tap = 0; tap < kh * kw; ++tap) {
        const int64_t at = (image * m.offset_groups + group) * kh * kw + tap;
        for (int64_t place = 0; place < h * w; ++place) {
          const auto base_y = static_cast<F>(place / w * m.stride_h - m.pad_h + tap / kw * m.dilation_h);
          const auto base_x = static_cast<F>(place % w * m.stride_w - m.pad_w + tap % kw * m.dilation_w);
          const F* moves = offset.const_data_ptr<F>() + 2 * at * h * w + place;
          const F v = among_zeros(from, input.size(2), input.size(3), base_y + moves[0], base_x + moves[h * w]);
          *to++ = mask ? mask->const_data_ptr<F>()[at * h * w + place] * v : v;
        }
      }
    }
  return all.view({n, c * kh * kw, h * w});
}

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask, const Tensor& bias,
                     int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                     int64_t groups, int64_t offset_groups, bool use_mask) {
  const Moved moved = {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, offset_groups};
  const Tensor x = wide(input), w = wide(weight), o = wide(offset), m = wide(mask);
  const Tensor taps = x.scalar_type() == at::kDouble ? read_taps<double>(x, w, o, use_mask ? &m : nullptr, moved)
                                                     : read_taps<float>(x, w, o, use_mask ? &m : nullptr, moved);
  const int64_t n = x.size(0), rows = w.size(0);
  const Tensor sums = at::matmul(w.reshape({1, groups, rows / groups, -1}), taps.view({n, groups, taps.size(1) / groups, -1}));
  return (sums.reshape({n, rows, o.size(2), o.size(3)}) + wide(bias).view({-1, 1, 1})).to(input.scalar_type());
}

/// What all operators on regions [K, 5] of images [N, C, H, W] take.
struct Regions {
  double scale;
  int64_t rows, columns;
  bool apart;  ///< every cell has channels of its own
};

/// [K, C, rows, columns] (C / cells where they are apart), and for each the int32 that `number` writes: number(image, roi, row, column,
/// place).
template <class F, class Number>
std::tuple<Tensor, Tensor> cells_of(const Tensor& input, const Tensor& rois, const Regions& r, const Number& number) {
  const int64_t k = rois.size(0), c = input.size(1), h = input.size(2), w = input.size(3), cells = r.rows * r.columns;
  Tensor all = at::empty({k, r.apart ? c / cells : c, r.rows, r.columns}, input.options()), places = at::empty_like(all, at::kInt);
  F* to = all.data_ptr<F>();
  int32_t* place = places.data_ptr<int32_t>();
  for (int64_t i = 0; i < k; ++i) {
    const F* roi = rois.const_data_ptr<F>() + 5 * i;
    TORCH_CHECK(roi[0] >= 0 && static_cast<int64_t>(roi[0]) < input.size(0), "a region of an image that is not there");
    for (int64_t each = 0; each < all.size(1) * cells; ++each) {
      const int64_t channel = r.apart ? each : each / cells, cell = each % cells;
      *place = static_cast<int32_t>(channel);
      const F* image = input.const_data_ptr<F>() + (static_cast<int64_t>(roi[0]) * c + channel) * h * w;
      *to++ = number(image, roi, cell / r.columns, cell % r.columns, place++);
    }
  }
  return {all, places};
}

/// The mean of samples between elements.
template <class F>
std::tuple<Tensor, Tensor> sampled(const Tensor& input, const Tensor& rois, const Regions& r, int64_t ratio, bool aligned) {
  const int64_t h = input.size(2), w = input.size(3);
  const F scale = static_cast<F>(r.scale), shift = aligned ? F(0.5) : F(0);
  return cells_of<F>(input, rois, r, [&](const F* image, const F* roi, int64_t row, int64_t column, int32_t*) {
    const F left = roi[1] * scale - shift, top = roi[2] * scale - shift;
    F width = roi[3] * scale - shift - left, height = roi[4] * scale - shift - top;
    if (!aligned) width = std::max(width, F(1)), height = std::max(height, F(1));
    const F cell_h = height / static_cast<F>(r.rows), cell_w = width / static_cast<F>(r.columns);
    const int64_t each_h = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(cell_h));
    const int64_t each_w = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(cell_w));
    F sum = 0;
    for (int64_t i = 0; i < each_h; ++i)
      for (int64_t j = 0; j < each_w; ++j) {
        const F y = top + static_cast<F>(row) * cell_h + (static_cast<F>(i) + F(0.5)) * cell_h / static_cast<F>(each_h);
        const F x = left + static_cast<F>(column) * cell_w + (static_cast<F>(j) + F(0.5)) * cell_w / static_cast<F>(each_w);
        sum += among_likes(image, h, w, y, x);
      }
    const int64_t count = each_h * each_w;
    return sum / static_cast<F>(r.apart ? count : std::max<int64_t>(count, 1));
  });
}

struct Span {
  int64_t from, past;
};

/// The largest number of whole elements, and where it lies.
template <class F>
std::tuple<Tensor, Tensor> largest(const Tensor& input, const Tensor& rois, const Regions& r) {
  const int64_t h = input.size(2), w = input.size(3);
  const F scale = static_cast<F>(r.scale);
  const auto span = [&](F begin, F end, int64_t cell, int64_t cells, int64_t size) {
    const F first = std::round(begin * scale), length = std::max(std::round(end * scale) - first + 1, F(1)) / static_cast<F>(cells);
    const auto inside = [&](F v) { return std::clamp<int64_t>(static_cast<int64_t>(v) + static_cast<int64_t>(first), 0, size); };
    return Span{inside(std::floor(static_cast<F>(cell) * length)), inside(std::ceil(static_cast<F>(cell + 1) * length))};
  };
  return cells_of<F>(input, rois, r, [&](const F* image, const F* roi, int64_t row, int64_t column, int32_t* place) {
    const Span y = span(roi[2], roi[4], row, r.rows, h), x = span(roi[1], roi[3], column, r.columns, w);
    F most = y.past <= y.from || x.past <= x.from ? F(0) : std::numeric_limits<F>::lowest();
    *place = -1;
    for (int64_t i = y.from; i < y.past; ++i)
      for (int64_t j = x.from; j < x.past; ++j)
        if (image[i * w + j] > most) most = image[i * w + j], *place = static_cast<int32_t>(i * w + j);
    return most;
  });
}

/// The mean of whole elements.
template <class F>
std::tuple<Tensor, Tensor> mean(const Tensor& input, const Tensor& rois, const Regions& r) {
  const int64_t h = input.size(2), w = input.size(3);
  const F scale = static_cast<F>(r.scale);
  const auto span = [&](F begin, F end, int64_t cell, int64_t cells, int64_t size) {
    const F first = std::round(begin * scale), length = std::max(std::round(end * scale) - first, F(1)) / static_cast<F>(cells);
    const auto inside = [&](F v) { return std::clamp<int64_t>(static_cast<int64_t>(v), 0, size - 1); };
    return Span{inside(std::floor(static_cast<F>(cell) * length + first)), inside(std::ceil(static_cast<F>(cell + 1) * length + first))};
  };
  return cells_of<F>(input, rois, r, [&](const F* image, const F* roi, int64_t row, int64_t column, int32_t*) {
    const Span y = span(roi[2], roi[4], row, r.rows, h), x = span(roi[1], roi[3], column, r.columns, w);
    F sum = 0;
    for (int64_t i = y.from; i < y.past; ++i)
      for (int64_t j = x.from; j < x.past; ++j) sum += image[i * w + j];
    const int64_t area = std::max<int64_t>(y.past - y.from, 0) * std::max<int64_t>(x.past - x.from, 0);
    return area == 0 ? F(0) : sum / static_cast<F>(area);
  });
}

/// fn(images, regions, a number of their type) in the type in which it is computed.
template <class Fn>
std::tuple<Tensor, Tensor> in_wide(const Tensor& input, const Tensor& rois, const Fn& fn) {
  const Tensor x = wide(input), boxes = rois.to(x.scalar_type()).contiguous();
  const auto [cells, places] = x.scalar_type() == at::kDouble ? fn(x, boxes, double{}) : fn(x, boxes, float{});
  return {cells.to(input.scalar_type()), places};
}

Tensor roi_align(const Tensor& input, const Tensor& rois, double scale, int64_t rows, int64_t columns, int64_t ratio, bool aligned) {
  const Regions r = {scale, rows, columns, false};
  return std::get<0>(in_wide(
      input, rois, [&](const Tensor& x, const Tensor& boxes, auto zero) { return sampled<decltype(zero)>(x, boxes, r, ratio, aligned); }));
}
std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois, double scale, int64_t rows, int64_t columns,
                                        int64_t ratio) {
  const Regions r = {scale, rows, columns, true};
  return in_wide(input, rois,
                 [&](const Tensor& x, const Tensor& boxes, auto zero) { return sampled<decltype(zero)>(x, boxes, r, ratio, true); });
}
std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double scale, int64_t rows, int64_t columns) {
  const Regions r = {scale, rows, columns, false};
  return in_wide(input, rois, [&](const Tensor& x, const Tensor& boxes, auto zero) { return largest<decltype(zero)>(x, boxes, r); });
}
std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois, double scale, int64_t rows, int64_t columns) {
  const Regions r = {scale, rows, columns, true};
  return in_wide(input, rois, [&](const Tensor& x, const Tensor& boxes, auto zero) { return mean<decltype(zero)>(x, boxes, r); });
}

template <class F>
Tensor apart(const Tensor& boxes, const Tensor& order, double threshold) {
  const int64_t n = boxes.size(0);
  std::vector<int64_t> stay;
  const auto row = [&](int64_t i) { return boxes.const_data_ptr<F>() + 4 * i; };
  const auto area = [](const F* b) { return (b[2] - b[0]) * (b[3] - b[1]); };
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = order.const_data_ptr<int64_t>()[i];
    const F* box = row(at);
    const bool overlapped = std::any_of(stay.begin(), stay.end(), [&](int64_t other) {
      const F* better = row(other);
      const F w = std::max(F(0), std::min(box[2], better[2]) - std::max(box[0], better[0]));
      const F h = std::max(F(0), std::min(box[3], better[3]) - std::max(box[1], better[1]));
      return static_cast<double>(w * h / (area(better) + area(box) - w * h)) > threshold;
    });
    if (!overlapped) stay.push_back(at);
  }
  return at::tensor(stay, at::kLong);
}

Tensor nms(const Tensor& dets, const Tensor& scores, double threshold) {
  const Tensor boxes = wide(dets), order = std::get<1>(scores.sort(true, 0, true)).contiguous();
  return boxes.scalar_type() == at::kDouble ? apart<double>(boxes, order, threshold) : apart<float>(boxes, order, threshold);
}

TORCH_LIBRARY(torchvision, m) {
  m.def("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor");
  m.def(
      "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, "
      "SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor");
  m.def(
      "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool "
      "aligned) -> Tensor");
  m.def(
      "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio) -> "
      "(Tensor, Tensor)");
  m.def("roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)");
  m.def("ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(torchvision, CPU, m) {
  m.impl("deform_conv2d", deform_conv2d);
  m.impl("roi_align", roi_align);
  m.impl("ps_roi_align", ps_roi_align);
  m.impl("roi_pool", roi_pool);
  m.impl("ps_roi_pool", ps_roi_pool);
  m.impl("nms", nms);
}

}  // namespace

// Operators of torchvision: regions cut out of images, convolutions whose taps are moved, boxes that do not overlap.
#include <cmath>
#include <limits>

#include "decompose/families.h"
#include "decompose/indexing.h"
#include "decompose/linalg.h"
#include "decompose/matrices.h"
#include "decompose/selection.h"

namespace aotc::decompose {
namespace {

/// One of the two elements along a dim between which a coordinate lies, and what of it is taken.
struct Neighbour {
  T index;   ///< int64, within the dim
  T weight;  ///< 0 where it is outside of the image
};

T size_of(const T& like, const Expr& size) { return scalar_of(like.b(), size, like.dtype()); }
T place(const T& at, const Expr& size) { return minimum(maximum(at, 0.0), size_of(at, size) - 1.0).to(DType::i64); }

/// Beyond the first and the last element lie zeros.
std::vector<Neighbour> among_zeros(const T& at, const Expr& size) {
  const T below = floor(at), behind = at - below, last = size_of(at, size) - 1.0;
  std::vector<Neighbour> both;
  for (const auto& [where_, weight] : {std::pair{below, 1.0 - behind}, std::pair{below + 1.0, behind}}) {
    const T inside = (where_ >= 0.0) & (where_ <= last);
    both.push_back({place(where_, size), where(inside, weight, 0.0)});
  }
  return both;
}

/// Beyond the first and the last element lie their likes for one element, then zeros.
std::vector<Neighbour> among_likes(const T& at, const Expr& size) {
  const T n = size_of(at, size), inside = (at >= -1.0) & (at <= n);
  const T from = minimum(maximum(at, 0.0), n - 1.0), below = floor(from), behind = from - below;
  return {{place(below, size), where(inside, 1.0 - behind, 0.0)}, {place(below + 1.0, size), where(inside, behind, 0.0)}};
}

/// images [N, C, H, W] between the neighbours, of images `which`: all of the places' dims P..; [P.., C].
T between(const T& images, const T& which, const std::vector<Neighbour>& rows, const std::vector<Neighbour>& columns) {
  Builder& b = images.b();
  const T lines = images.reshape({images.dim(0), images.dim(1), images.dim(2) * images.dim(3)});
  const T width = scalar_of(b, images.dim(3), DType::i64);
  std::optional<T> sum;
  for (const Neighbour& y : rows)
    for (const Neighbour& x : columns) {
      const T flat = y.index * width + x.index, weight = y.weight * x.weight;
      const T v(b, b.index(lines, {which.expand(flat.dims()), flat}, {0, 2}, 0));
      const T term = where(weight.unsqueeze(-1) == 0.0, 0.0, v * weight.unsqueeze(-1));
      sum = sum ? *sum + term : term;
    }
  return *sum;
}

/// (input [N, C, H, W], weight [R, C / groups, kh, kw], offset [N, offset_groups * kh * kw * 2, h, w], mask [N, offset_groups * kh * kw, h,
/// w], bias): a convolution whose taps read between elements, moved by their offsets, and count by the mask.
void deform_conv(Rule& r) {
  const T x = tensor(r, "input").up(), w = tensor(r, "weight").up(), offset = tensor(r, "offset").up();
  if (x.rank() != 4 || w.rank() != 4 || offset.rank() != 4) r.refuse("other than images [N, C, H, W]");
  Builder& b = r.b;
  const int64_t kh = r.constant(w.dim(2), "the window's height"), kw = r.constant(w.dim(3), "the window's width"), taps = kh * kw;
  const int64_t groups = r.integer("groups"), shifts = r.integer("offset_groups");
  const Expr n = x.dim(0), h = offset.dim(2), width = offset.dim(3), per = floordiv(x.dim(1), shifts), rows = w.dim(0);
  const std::vector<Expr> windows = {Expr(kh), Expr(kw), h, width}, places = {n * shifts, Expr(taps), h, width};
  const T moves = offset.reshape({n * shifts, Expr(taps), Expr(2), h, width});
  const auto at = [&](int d, const char* stride, const char* pad, const char* dilation) {
    const T window = iota(b, windows, 2 + d) * static_cast<double>(r.integer(stride)) - static_cast<double>(r.integer(pad));
    const T tap = iota(b, windows, d) * static_cast<double>(r.integer(dilation));
    return (window + tap).to(x.dtype()).reshape({Expr(taps), h, width}) + moves.select(2, d);
  };
  const T image = iota(b, places, 0);
  T read = between(x.reshape({n * shifts, per, x.dim(2), x.dim(3)}), image, among_zeros(at(0, "stride_h", "pad_h", "dilation_h"), x.dim(2)),
                   among_zeros(at(1, "stride_w", "pad_w", "dilation_w"), x.dim(3)));
  if (r.boolean("use_mask")) read = read * tensor(r, "mask").up().reshape(places).unsqueeze(-1);
  read = read.reshape({n, Expr(shifts), Expr(taps), h, width, per});
  const Expr windows_in_all = n * h * width, terms = floordiv(x.dim(1), groups) * taps;
  T sums = [&] {
    if (groups == 1) {  // the weight turns to the order in which the taps are read
      const T turned_weight = w.reshape({rows, Expr(shifts), per, Expr(taps)}).permute({1, 3, 2, 0}).reshape({terms, rows});
      return matmul(read.permute({0, 3, 4, 1, 2, 5}).reshape({windows_in_all, terms}), turned_weight, x.dtype());
    }
    const T lines = read.permute({0, 3, 4, 1, 5, 2}).reshape({windows_in_all, Expr(groups), terms}).permute({1, 0, 2});
    const T weights = w.reshape({Expr(groups), floordiv(rows, groups), terms}).permute({0, 2, 1});
    return matmul(lines, weights, x.dtype()).permute({1, 0, 2});
  }();
  sums = sums.reshape({n, h, width, rows}) + tensor(r, "bias").up();
  r.set(sums.permute({0, 3, 1, 2}).to(r.meta_result().dtype));
}

/// Along one dim of regions [K]: where each begins and how long one of its `cells` is.
struct Cells {
  T begin, length;  ///< [K]
  int64_t cells;
};

/// [K, cells, samples]: where the samples lie, `each` a cell.
T samples(const Cells& c, const Expr& n, const T& each) {
  Builder& b = c.begin.b();
  const auto along = [](const T& t) { return t.unsqueeze(-1).unsqueeze(-1); };
  const std::vector<Expr> dims = {Expr(c.cells), n};
  const T cell = iota(b, dims, 0, c.begin.dtype()), sample = iota(b, dims, 1, c.begin.dtype());
  return along(c.begin) + cell * along(c.length) + (sample + 0.5) * along(c.length) / (each.rank() ? along(each) : each);
}

/// [K, cells, size]: what of each element along a dim a cell of a region takes, the mean of as many samples as the cell is long. What is
/// long beyond twice the dim would need more samples than are made.
T shares(Rule& r, const Cells& c, const Expr& size) {
  Builder& b = r.b;
  const Expr most = size * 2 + 1;
  const T each = unary(Op::ceil, c.length), limit = scalar_of(b, most, c.length.dtype());
  r.check(T(each <= limit).reduce(ReduceKind::min, {0}, false), "a region of roi_align is more than twice as long as the image");
  const T at = samples(c, most, maximum(each, 1.0));
  const T counts = iota(b, {most}, 0, at.dtype()) < each.unsqueeze(-1).unsqueeze(-1);
  const T element = iota(b, {size}, 0);
  std::optional<T> sum;
  for (const Neighbour& n : among_likes(at, size)) {
    const T hit = counts.unsqueeze(-1) & (n.index.unsqueeze(-1) == element);
    const T term = where(hit, n.weight.unsqueeze(-1), 0.0).sum({2}, false);
    sum = sum ? *sum + term : term;
  }
  return *sum / maximum(each, 1.0).unsqueeze(-1).unsqueeze(-1);
}

/// (input [N, C, H, W], rois [K, 5]: image, left, top, right, bottom): each region's cells, the means of samples between elements.
void roi_align(Rule& r) {
  const T x = tensor(r, "input").up(), rois = tensor(r, "rois").to(x.dtype());
  if (x.rank() != 4 || rois.rank() != 2) r.refuse("other than images [N, C, H, W] and regions [K, 5]");
  const bool aligned = r.boolean("aligned");
  const double scale = r.number("spatial_scale");
  const auto cells = [&](const char* count, int first) {
    const T begin = rois.select(1, first) * scale - (aligned ? 0.5 : 0.0);
    const T end = rois.select(1, first + 2) * scale - (aligned ? 0.5 : 0.0);
    const T length = aligned ? end - begin : maximum(end - begin, 1.0);
    return Cells{begin, length / static_cast<double>(r.integer(count)), r.integer(count)};
  };
  const Cells rows = cells("pooled_height", 2), columns = cells("pooled_width", 1);
  const T image = from_start(rois.select(1, 0).to(DType::i64), x.dim(0));
  const int64_t each = r.integer("sampling_ratio");
  if (each > 0) {
    const T ratio = scalar_of(r.b, Expr(each), x.dtype());
    const auto along = [&](const Cells& c, const Expr& size, Ints at) {
      std::vector<Neighbour> both = among_likes(samples(c, Expr(each), ratio), size);
      for (Neighbour& n : both)
        for (const int64_t d : at) n = {n.index.unsqueeze(static_cast<int>(d)), n.weight.unsqueeze(static_cast<int>(d))};
      return both;
    };
    T which = image;
    for (int i = 0; i < 4; ++i) which = which.unsqueeze(-1);
    const T all = between(x, which, along(rows, x.dim(2), {2, 4}), along(columns, x.dim(3), {1, 3}));  // [K, h, w, y, x, C]
    return r.set((all.sum({3, 4}, false) / static_cast<double>(each * each)).permute({0, 3, 1, 2}).to(r.meta_result().dtype));
  }
  const T images = take_index(x, image, 0);
  const T lines = matmul(shares(r, rows, x.dim(2)).unsqueeze(1), images, x.dtype());
  r.set(matmul(lines, turned(shares(r, columns, x.dim(3))).unsqueeze(1), x.dtype()).to(r.meta_result().dtype));
}

/// (dets [n, 4]: left, top, right, bottom, scores [n], iou_threshold): from the best on, boxes that no better one that stays overlaps by
/// more than that.
void nms(Rule& r) {
  Builder& b = r.b;
  const T dets = tensor(r, "dets"), scores = tensor(r, "scores");
  if (dets.rank() != 2 || scores.rank() != 1) r.refuse("other than boxes [n, 4] and scores [n]");
  const T order(b, b.make(Op::sort, {scores}, {{Attr::dim, int64_t{0}}, {Attr::descending, true}, {Attr::stable, true}})[1]);
  const T boxes = take_index(dets, order, 0).up();
  const T left = boxes.select(1, 0), top = boxes.select(1, 1), right = boxes.select(1, 2), bottom = boxes.select(1, 3);
  const auto shared = [](const T& begin, const T& end) {
    return maximum(minimum(end.unsqueeze(1), end.unsqueeze(0)) - maximum(begin.unsqueeze(1), begin.unsqueeze(0)), 0.0);
  };
  const T area = (right - left) * (bottom - top), both = shared(left, right) * shared(top, bottom);
  const T part = both / (area.unsqueeze(1) + area.unsqueeze(0) - both);
  // A float is larger than the threshold where it is larger than the last float that is not.
  double threshold = r.number("iou_threshold");
  if (boxes.dtype() == DType::f32) {
    const auto nearest = static_cast<float>(threshold);
    threshold = nearest > threshold ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest;
  }
  const T stays(b, b.make1(Op::exclude, {part > threshold}));
  r.set(take_index(order, places_where(r, stays, r.meta_result().dims.at(0)), 0));
}

constexpr RuleRow kRows[] = {
    {"torchvision.deform_conv2d.default", deform_conv},
    {"torchvision.roi_align.default", roi_align},
    {"torchvision.nms.default", nms},
};
}  // namespace

RuleTable detection_rules() { return kRows; }

}  // namespace aotc::decompose

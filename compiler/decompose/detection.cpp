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

/// Images [N, C, H, W] and regions [K, 5] (image, left, top, right, bottom), each cut into cells.
struct Regions {
  T x, rois, image;  ///< image [K]: from the first on
  double scale;
  int64_t rows, columns;

  explicit Regions(Rule& r)
      : x(tensor(r, "input").up()),
        rois(tensor(r, "rois").to(x.dtype())),
        image(number_of_image(r, x, rois)),
        scale(r.number("spatial_scale")),
        rows(r.integer("pooled_height")),
        columns(r.integer("pooled_width")) {}

  Expr height() const { return x.dim(2); }
  Expr width() const { return x.dim(3); }
  /// [K, C, H, W]: each region's image.
  T images() const { return take_index(x, image, 0); }
  /// C of each cell, where every cell has channels of its own.
  Expr channels_of_a_cell() const { return floordiv(x.dim(1), rows * columns); }

  static T number_of_image(Rule& r, const T& x, const T& rois) {
    if (x.rank() != 4 || rois.rank() != 2) r.refuse("other than images [N, C, H, W] and regions [K, 5]");
    return from_start(rois.select(1, 0).to(DType::i64), x.dim(0));
  }
};

/// Cells of means of samples between elements. `aligned`: an element lies at its middle, and a region may be shorter than one.
struct Sampled {
  Cells rows, columns;

  Sampled(const Regions& at, bool aligned) : rows(cells(at, aligned, at.rows, 2)), columns(cells(at, aligned, at.columns, 1)) {}

  static Cells cells(const Regions& at, bool aligned, int64_t count, int first) {
    const T begin = at.rois.select(1, first) * at.scale - (aligned ? 0.5 : 0.0);
    const T end = at.rois.select(1, first + 2) * at.scale - (aligned ? 0.5 : 0.0);
    const T length = aligned ? end - begin : maximum(end - begin, 1.0);
    return Cells{begin, length / static_cast<double>(count), count};
  }
  /// [K, rows, columns, C]: means of each * each samples of `images`, of which `which` [K, rows or 1, columns or 1] says the one.
  T means(const T& images, const T& which, int64_t each) const {
    const T ratio = scalar_of(images.b(), Expr(each), images.dtype());
    const auto along = [&](const Cells& c, const Expr& size, Ints at) {
      std::vector<Neighbour> both = among_likes(samples(c, Expr(each), ratio), size);
      for (Neighbour& n : both)
        for (const int64_t d : at) n = {n.index.unsqueeze(static_cast<int>(d)), n.weight.unsqueeze(static_cast<int>(d))};
      return both;
    };
    const T all =
        between(images, which.unsqueeze(-1).unsqueeze(-1), along(rows, images.dim(2), {2, 4}), along(columns, images.dim(3), {1, 3}));
    return all.sum({3, 4}, false) / static_cast<double>(each * each);
  }
};

/// Each region's cells of all channels.
void roi_align(Rule& r) {
  const Regions at(r);
  const Sampled cells(at, r.boolean("aligned"));
  const DType result = r.meta_result().dtype;
  if (const int64_t each = r.integer("sampling_ratio"); each > 0)
    return r.set(cells.means(at.x, at.image.unsqueeze(-1).unsqueeze(-1), each).permute({0, 3, 1, 2}).to(result));
  const T lines = matmul(shares(r, cells.rows, at.height()).unsqueeze(1), at.images(), at.x.dtype());
  r.set(matmul(lines, turned(shares(r, cells.columns, at.width())).unsqueeze(1), at.x.dtype()).to(result));
}

/// int32 [K, C / cells, rows, columns]: from which channel each cell comes.
void set_channels(Rule& r, const Regions& at) {
  if (!r.wants(1)) return;
  const std::vector<Expr> one = {at.x.dim(1)}, all = {at.channels_of_a_cell(), Expr(at.rows), Expr(at.columns)};
  r.set(1, iota(r.b, one, 0).to(DType::i32).reshape(all).unsqueeze(0).expand({at.rois.dim(0), all[0], all[1], all[2]}));
}

/// Each region's cells, every cell of channels of its own.
void ps_roi_align(Rule& r) {
  const Regions at(r);
  const Sampled cells(at, true);
  const DType result = r.meta_result().dtype;
  const Expr k = at.rois.dim(0), n = at.x.dim(0), c = at.channels_of_a_cell(), h = at.height(), w = at.width(), rows(at.rows),
             columns(at.columns);
  set_channels(r, at);
  if (const int64_t each = r.integer("sampling_ratio"); each > 0) {
    const T images = at.x.reshape({n, c, rows * columns, h, w}).permute({0, 2, 1, 3, 4}).reshape({n * rows * columns, c, h, w});
    const T first = at.image.unsqueeze(-1).unsqueeze(-1) * static_cast<double>(at.rows * at.columns);
    const T which = first + iota(r.b, {rows * columns}, 0).reshape({rows, columns});
    return r.set(cells.means(images, which, each).permute({0, 3, 1, 2}).to(result));
  }
  const T images = at.images().reshape({k, c, rows, columns, h, w}).permute({0, 2, 4, 1, 3, 5}).reshape({k, rows, h, c * columns * w});
  const T lines = matmul(shares(r, cells.rows, h).unsqueeze(2), images, at.x.dtype()).reshape({k, rows, c, columns, w});
  const T all =
      matmul(lines.permute({0, 3, 2, 1, 4}).reshape({k, columns, c * rows, w}), shares(r, cells.columns, w).unsqueeze(3), at.x.dtype());
  r.set(all.reshape({k, columns, c, rows}).permute({0, 2, 3, 1}).to(result));
}

/// To the nearest integer, halves away from 0.
T nearest(const T& x) {
  const T whole = unary(Op::trunc, x), rest = x - whole;
  return whole + where(abs(rest) >= 0.5, binary(Op::copysign, x.like(1), rest), 0.0);
}

/// Cells of whole elements along a dim.
struct Elements {
  T member;  ///< bool [K, cells, size]
  T count;   ///< [K, cells]

  Elements(const T& begin, const T& past, const Expr& size) : member(members(begin, past, size)), count(maximum(past - begin, 0.0)) {}
  static T members(const T& begin, const T& past, const Expr& size) {
    const T element = iota(begin.b(), {size}, 0, begin.dtype());
    return (element >= begin.unsqueeze(-1)) & (element < past.unsqueeze(-1));
  }
};

/// The largest number of each cell, 0 of an empty one; numbers that are none are passed over.
void roi_pool(Rule& r) {
  const Regions at(r);
  const auto along = [&](int64_t count, int first, const Expr& size) {
    const T begin = nearest(at.rois.select(1, first) * at.scale), end = nearest(at.rois.select(1, first + 2) * at.scale);
    const T cell = (maximum(end - begin + 1.0, 1.0) / static_cast<double>(count)).unsqueeze(-1), from = begin.unsqueeze(-1);
    const T i = iota(r.b, {Expr(count)}, 0, cell.dtype()), n = scalar_of(r.b, size, cell.dtype());
    const auto inside = [&](const T& v) { return minimum(maximum(v + from, 0.0), n); };
    return Elements(inside(floor(i * cell)), inside(unary(Op::ceil, (i + 1.0) * cell)), size);
  };
  const Elements rows = along(at.rows, 2, at.height()), columns = along(at.columns, 1, at.width());
  const double least = at.x.dtype() == DType::f64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
  const T images = at.images(), numbers = where(images == images, images, least).unsqueeze(2);
  const T hit_rows = rows.member.unsqueeze(1), hit_columns = columns.member.unsqueeze(1).unsqueeze(1);
  const T lines = where(hit_rows.unsqueeze(-1), numbers, least).reduce(ReduceKind::max, {3}, false);
  const T most = maximum(where(hit_columns, lines.unsqueeze(3), least).reduce(ReduceKind::max, {4}, false), least);
  const T empty = ((rows.count.unsqueeze(-1) * columns.count.unsqueeze(-2)) == 0.0).unsqueeze(1);
  if (r.wants(1)) {
    const std::vector<Expr> dims = {at.height(), at.width()};
    const T hit = hit_rows.unsqueeze(3).unsqueeze(-1) & hit_columns.unsqueeze(4) &
                  (images.unsqueeze(2).unsqueeze(2) == most.unsqueeze(-1).unsqueeze(-1)) & (most > least).unsqueeze(-1).unsqueeze(-1);
    const T place = iota(r.b, {at.height() * at.width()}, 0).reshape(dims),
            none = place.like(static_cast<double>(std::numeric_limits<int32_t>::max()));
    const T first = where(hit, place, none).reduce(ReduceKind::min, {4, 5}, false);
    r.set(1, where(first == static_cast<double>(std::numeric_limits<int32_t>::max()), -1.0, first).to(DType::i32));
  }
  r.set(where(empty, 0.0, most).to(r.meta_result().dtype));
}

/// The mean of each cell, every cell of channels of its own; 0 of an empty one.
void ps_roi_pool(Rule& r) {
  const Regions at(r);
  const auto along = [&](int64_t count, int first, const Expr& size) {
    const T begin = nearest(at.rois.select(1, first) * at.scale), end = nearest(at.rois.select(1, first + 2) * at.scale);
    const T cell = (maximum(end - begin, 1.0) / static_cast<double>(count)).unsqueeze(-1), from = begin.unsqueeze(-1);
    const T i = iota(r.b, {Expr(count)}, 0, cell.dtype()), last = scalar_of(r.b, size, cell.dtype()) - 1.0;
    const auto inside = [&](const T& v) { return minimum(maximum(v, 0.0), last); };
    return Elements(inside(floor(i * cell + from)), inside(unary(Op::ceil, (i + 1.0) * cell + from)), size);
  };
  const Elements rows = along(at.rows, 2, at.height()), columns = along(at.columns, 1, at.width());
  const Expr k = at.rois.dim(0);
  const T images = at.images().reshape({k, at.channels_of_a_cell(), Expr(at.rows), Expr(at.columns), at.height(), at.width()});
  const T lines = where(rows.member.unsqueeze(1).unsqueeze(3).unsqueeze(-1), images, 0.0).sum({4}, false);
  const T sums = where(columns.member.unsqueeze(1).unsqueeze(1), lines, 0.0).sum({4}, false);
  const T area = (rows.count.unsqueeze(-1) * columns.count.unsqueeze(-2)).unsqueeze(1);
  set_channels(r, at);
  r.set((sums / maximum(area, 1.0)).to(r.meta_result().dtype));
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
    {"torchvision.deform_conv2d.default", deform_conv}, {"torchvision.roi_align.default", roi_align},
    {"torchvision.roi_pool.default", roi_pool},         {"torchvision.ps_roi_align.default", ps_roi_align},
    {"torchvision.ps_roi_pool.default", ps_roi_pool},   {"torchvision.nms.default", nms},
};
}  // namespace

RuleTable detection_rules() { return kRows; }

}  // namespace aotc::decompose

// Fused loops as generated CUDA C++ (emit/cuda/loop_kernel.h), one form a mapping of points to threads.
#include <algorithm>
#include <optional>

#include "emit/cuda/code.h"
#include "emit/cuda/launch.h"
#include "emit/cuda/loop_kernel.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "kernels/cuda/limits.cuh"

namespace aotc::forms::cuda {

using emit::cuda::is_wide;
using emit::cuda::LoopLaunch;
using emit::cuda::Mapping;
using loop::InstKind;
using loop::LoopKernel;
using loop::ParamId;
using loop::ParamRole;

namespace {

struct Shape {
  int threads = 256, lanes = 1, steps = 0, resident = 1, streams = 0;
  int rows = 1;    ///< of a block
  int blocks = 1;  ///< of a cluster, which share a row
  int across = 0;  ///< a thread takes all of a short loop beside its lanes
  int global = 0;  ///< rows keep their values in the run's scratch, for want of shared memory
  int pieces = 1;  ///< of an outer point's inner ones, a thread each (serial)
  static std::span<const Member<Shape>> members() {
    static constexpr Member<Shape> kRows[] = {
        {{"threads", 32, 1024, 32}, &Shape::threads},
        {{"lanes", 1, 32}, &Shape::lanes},
        {{"steps", 0, 64}, &Shape::steps},
        {{"resident", 1, 64}, &Shape::resident},
        {{"streams", 0, 1}, &Shape::streams},
        {{"global", 0, 1}, &Shape::global},
        {{"rows", 1, 32}, &Shape::rows},
        {{"across", 0, 1}, &Shape::across},
        {{"blocks", 1, 8}, &Shape::blocks},
        {{"pieces", 1, 32}, &Shape::pieces},
    };
    return kRows;
  }
};

/// What decides the mapping.
struct Traits {
  int reductions = 0, scans = 0, passes = 0;  ///< passes: over the points of a row
  bool stores_outside = false, has_local = false;
};

Traits traits_of(const LoopKernel& k) {
  Traits t;
  for (const loop::Block& b : k.blocks) {
    t.passes += b.over_inner;
    for (loop::InstId id : b.insts) {
      const InstKind kind = k.insts[id].kind;
      t.reductions += kind == InstKind::reduce;
      t.scans += kind == InstKind::scan;
      t.stores_outside |= kind == InstKind::store && !b.over_inner && !k.inner.empty();
    }
  }
  for (const loop::Param& p : k.params) t.has_local |= p.role == ParamRole::local;
  return t;
}

/// Neighbours of a row that a block has: all, or its part of what a cluster shares.
Expr points_of_block(const LoopKernel& k, const Shape& shape) {
  return shape.blocks > 1 ? ceildiv(k.inner_points(), shape.blocks * shape.lanes) * shape.lanes : k.inner_points();
}

/// A block's scratch for the rows' locals.
struct Scratch {
  std::vector<Expr> offset;  ///< by ParamId
  Expr bytes = 0;
};
Scratch scratch_of(const LoopKernel& k, const Shape& shape) {
  Scratch s;
  s.offset.resize(k.params.size());
  for (uint32_t p = 0; p < k.params.size(); ++p) {
    const loop::Param& param = k.params[static_cast<ParamId>(p)];
    if (param.role != ParamRole::local) continue;
    s.offset[p] = s.bytes;
    s.bytes = align_up(s.bytes + points_of_block(k, shape) * dtype_bytes(param.dtype), 16);
  }
  return s;
}

/// The most lanes that some access takes as a wide one, and all of tensors that could be wide fit kAccessBytes.
int lanes_of(const LoopKernel& k, Mapping mapping) {
  const loop::LoopVar* along = emit::cuda::lane_var(k, mapping);
  if (!along) return 1;
  for (int lanes : {8, 4, 2}) {
    if (!k.syms.proves_divisible(along->extent, lanes)) continue;
    int64_t bytes = 0;
    for (uint32_t n = 0; n < k.insts.size(); ++n) {
      const loop::InstId id = static_cast<loop::InstId>(n);
      if (!is_wide(k, id, along->sym, lanes)) continue;
      if (k.params[k.insts[id].param].role == ParamRole::local) continue;
      bytes = std::max<int64_t>(bytes, dtype_bytes(k.insts[id].dtype));
    }
    if (bytes > 0 && bytes * lanes <= kAccessBytes) return lanes;
  }
  return 1;
}

/// The extent of the lane variable when a thread had better take all of it at once, or 0: it is short, its elements are written 16 bytes at
/// a time, and places elsewhere are quotients of it, which then are constants.
int whole_lanes(const LoopKernel& k, Mapping mapping, const Site& s) {
  const loop::LoopVar* along = emit::cuda::lane_var(k, mapping);
  const auto extent = along ? along->extent.as_const() : std::nullopt;
  if (!extent || *extent < 2 || *extent > gpu_costs(s.machine).loop_whole_lanes) return 0;
  bool divides = false;
  for (uint32_t n = 0; n < k.insts.size(); ++n) {
    const loop::InstId id = static_cast<loop::InstId>(n);
    const loop::Inst& i = k.insts[id];
    const Expr index = k.syms.simplify(i.index);
    if (!index.symbols().count(along->sym)) continue;
    divides |= !index.linear_coefficient(along->sym);
    if (i.kind == InstKind::store &&
        (!is_wide(k, id, along->sym, static_cast<int>(*extent)) || *extent * dtype_bytes(i.dtype) % kAccessBytes != 0))
      return 0;
  }
  return divides ? static_cast<int>(*extent) : 0;
}

bool streams_of(const LoopKernel& k, const Site& s) {
  int64_t written = 0;
  for (const loop::Inst& i : k.insts)
    if (i.kind == InstKind::store && k.params[i.param].role == ParamRole::output)
      written += s.syms.hint(product(k.params[i.param].dims)) * dtype_bytes(i.dtype);
  return written > gpu_costs(s.machine).loop_cached;
}

/// 32 .. 256 threads for a row of this many points.
int row_threads(int64_t inner_hint, int lanes) {
  int threads = 32;
  while (threads < 256 && threads * lanes * 4 < inner_hint) threads *= 2;
  return threads;
}

/// Registers that hold a thread's part of a row in `steps` groups of lanes.
int64_t held_words(const LoopKernel& k, int64_t steps, int lanes) {
  int64_t bytes = 0;
  for (const loop::Param& p : k.params)
    if (p.role == ParamRole::local || p.role == ParamRole::input) bytes += steps * ((lanes * dtype_bytes(p.dtype) + 3) / 4 * 4);
  return bytes / 4;
}

/// Groups of lanes that a thread holds in registers, 0 when a row is too long for that or its length is not known, and in scans.
int steps_of(const LoopKernel& k, int threads, int lanes, const Site& s) {
  const GpuCosts& u = gpu_costs(s.machine);
  const auto points = k.syms.simplify(k.inner_points()).as_const();
  if (!points || *points == 0 || k.inner.empty() || traits_of(k).scans) return 0;
  const int64_t steps = (*points + threads * lanes - 1) / (threads * lanes);
  if (lanes == 1 && steps > u.loop_single_steps) return 0;
  return held_words(k, steps, lanes) <= u.loop_row_registers ? static_cast<int>(steps) : 0;
}

/// Blocks of one processor when a thread has 16 registers beside the row's values.
int resident_of(int64_t words, int threads, const Site& s) {
  const GpuCosts& u = gpu_costs(s.machine);
  const int64_t registers = (words + 16 + 7) / 8 * 8;
  return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({u.registers / (registers * threads), u.threads / threads * 3 / 4, 32})));
}

class LoopForm : public FormOf<LoopKernel> {
 public:
  explicit LoopForm(Mapping mapping) : mapping_(mapping) {}
  std::span<const Field> fields() const override { return fields_of<Shape>(); }
  bool is_part() const override { return true; }

 protected:
  /// The shape that the form would take, then others worth a look, in the order of hope.
  virtual std::vector<Shape> shapes(const LoopKernel& k, const Site& s) const = 0;
  virtual Expr grid(const LoopKernel& k, const Shape& shape, const Machine& machine) const = 0;
  /// How much longer than the bytes that are moved, and what a thread waits for beyond.
  virtual double slowness(const LoopKernel&, const Shape&, const Site&) const { return 1; }
  virtual double waits_ns(const LoopKernel&, const Shape&, const Site&) const { return 0; }
  virtual Fit fits_memory(const LoopKernel&, const Shape&, const Site&) const { return Fit::yes(); }

  std::vector<Candidate> candidates(const LoopKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    const double bytes = static_cast<double>(moved_bytes(k, s.syms)), launch_ns = gpu_costs(s.machine).launch;
    for (const Shape& shape : shapes(k, s)) {
      const double ns = launch_ns + memory_ns(bytes, s.machine) * slowness(k, shape, s) + waits_ns(k, shape, s);
      all.push_back({pack(*this, shape), fits_memory(k, shape, s), ns * (1 + gpu_costs(s.machine).tie * static_cast<double>(all.size()))});
    }
    return all;
  }

  std::string contract(const LoopKernel& k, const Site& s) const override { return sized("cuda loop", emit::cuda::size_symbols(k), s); }

  StepSpec step(const LoopKernel& k, const Site& s, const Choice& c) const override {
    const Shape shape = unpack<Shape>(c);
    const Expr scratch = scratch_of(k, shape).bytes * shape.rows;
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = shape.threads * shape.rows * shape.pieces;
    f.grid[0] = grid(k, shape, s.machine);
    if (shape.global) {
      f.scratch_bytes = f.grid[0] * scratch;
    } else {
      f.smem_bytes = s.syms.simplify(scratch + launch(shape).handed_bytes());
      f.max_smem_bytes = s.syms.interval(f.smem_bytes).max;
    }
    return f;
  }

  std::string source(const LoopKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const Shape shape = unpack<Shape>(c);
    const bool has_local = traits_of(k).has_local;
    Scratch scratch = scratch_of(k, shape);
    LoopLaunch l = launch(shape);
    if (shape.blocks > 1) l.part = k.syms.simplify(points_of_block(k, shape)), l.each = neighbours(k, shape);
    l.shared = (has_local && !shape.global) || shape.blocks > 1, l.global = has_local && shape.global;
    l.row_bytes = scratch.bytes;
    l.local_offset = std::move(scratch.offset);
    return emit::cuda::emit_loop_kernel(k, l, symbol);
  }
  /// What a thread takes at once of a part of a row in a scan; kInf: of any length.
  static int64_t neighbours_of(const LoopKernel& k, const Shape& shape) {
    const int64_t points = k.syms.interval(k.syms.simplify(points_of_block(k, shape))).max;
    return points == kInf ? kInf : (points + shape.threads - 1) / shape.threads;
  }
  LoopLaunch launch(const Shape& shape) const {
    LoopLaunch l;
    l.mapping = mapping_;
    l.threads = shape.threads, l.lanes = shape.lanes, l.steps = shape.steps, l.rows = shape.rows, l.across = shape.across != 0,
    l.resident = shape.resident, l.streams = shape.streams, l.blocks = shape.blocks, l.pieces = shape.pieces;
    return l;
  }

 private:
  static int neighbours(const LoopKernel& k, const Shape& shape) {
    return traits_of(k).scans ? static_cast<int>(std::max<int64_t>(1, neighbours_of(k, shape))) : 1;
  }
  static int64_t moved_bytes(const LoopKernel& k, const SymTable& syms) {
    int64_t bytes = 0;
    for (const loop::Param& p : k.params)
      if (loop::takes_argument(p.role)) bytes += std::max<int64_t>(0, syms.hint(product(p.dims))) * dtype_bytes(p.dtype);
    return bytes;
  }
  Mapping mapping_;
};

/// A thread a point.
class Flat final : public LoopForm {
 public:
  Flat() : LoopForm(Mapping::flat) {}
  std::string_view name() const override { return "cuda_flat"; }

 protected:
  Fit fits(const LoopKernel& k, const Site&) const override {
    const Traits t = traits_of(k);
    if (t.reductions || t.scans) return refuse("its points are not independent: it reduces or scans rows");
    if (t.has_local || t.stores_outside) return refuse("its rows have scratch or results of their own");
    return Fit::yes();
  }
  std::vector<Shape> shapes(const LoopKernel& k, const Site& s) const override {
    Shape first;
    first.threads = 256, first.lanes = lanes_of(k, Mapping::flat), first.streams = streams_of(k, s);
    std::vector<Shape> all;
    if (const int whole = whole_lanes(k, Mapping::flat, s); whole > first.lanes) all.push_back({128, whole, 0, 1, first.streams});
    if (const int lanes = first.lanes; lanes > 1 && emit::cuda::store_across(k, lanes) != kNone<loop::InstId>) {
      all.push_back(first);
      all.back().threads = 128, all.back().across = 1;
    }
    all.push_back(first);
    for (int threads : {128, 512}) all.push_back({threads, first.lanes, 0, 1, first.streams});
    if (first.lanes > 1) all.push_back({256, first.lanes / 2, 0, 1, first.streams});
    all.push_back({256, first.lanes, 0, 1, !first.streams});
    return all;
  }
  Expr grid(const LoopKernel& k, const Shape& shape, const Machine&) const override {
    const int64_t across = shape.across ? *k.outer.back().extent.as_const() : 1;
    return max(1, min(ceildiv(k.outer_points() * k.inner_points(), shape.threads * shape.lanes * across), kMaxGrid));
  }
};

/// A block a row.
class Row final : public LoopForm {
 public:
  Row() : LoopForm(Mapping::row) {}
  std::string_view name() const override { return "cuda_row"; }

 protected:
  std::vector<Shape> shapes(const LoopKernel& k, const Site& s) const override {
    const Traits t = traits_of(k);
    const int lanes = k.inner.empty() || t.scans ? 1 : lanes_of(k, Mapping::row);
    const bool streams = streams_of(k, s);
    std::vector<Shape> all;
    auto add = [&](int threads) {
      Shape x;
      x.threads = threads, x.lanes = lanes, x.streams = streams;
      x.steps = steps_of(k, threads, lanes, s);
      if (x.steps) x.resident = resident_of(held_words(k, x.steps, lanes), threads, s);
      all.push_back(x);
    };
    int first = row_threads(s.syms.hint(k.inner_points()), lanes);
    if (const auto many = warps_of_rows(k, s, t, lanes)) all.push_back(*many);
    while (first < 512 && !steps_of(k, first, lanes, s) && steps_of(k, 512, lanes, s))
      first *= 2;  // a row fits the registers of more threads
    add(first);
    for (int threads : {64, 128, 256, 512, 1024})
      if (threads != first && (threads <= 512 || t.scans)) add(threads);
    const size_t alone = all.size();
    for (const Shape& shape : together(k, s, t, lanes)) all.push_back(shape);
    for (size_t i = 0; i < alone && t.has_local; ++i) {
      if (all[i].rows > 1) continue;
      all.push_back(all[i]);
      all.back().global = 1;
    }
    return all;
  }
  /// Few rows, each of several blocks.
  static std::vector<Shape> together(const LoopKernel& k, const Site& s, const Traits& t, int lanes) {
    const int64_t points = s.syms.hint(k.inner_points());
    std::vector<Shape> all;
    if (k.inner.empty() || (t.scans && k.inner.size() > 1) || s.syms.hint(k.outer_points()) >= s.machine.cores) return all;
    for (int blocks : {2, 4, 8})
      for (int threads : {256, 512, 1024}) {
        Shape x;
        x.threads = threads, x.lanes = lanes, x.blocks = blocks, x.streams = streams_of(k, s);
        x.steps = steps_of(k, threads * blocks, lanes, s);
        if (x.steps) x.resident = resident_of(held_words(k, x.steps, lanes), threads, s);
        if (points >= int64_t{blocks} * threads * lanes) all.push_back(x);
      }
    return all;
  }
  Fit fits_memory(const LoopKernel& k, const Shape& shape, const Site& s) const override {
    if (shape.blocks > 1 && !s.machine.has(Feature::clusters)) return refuse("sm_90 or newer has clusters of blocks");
    if (shape.blocks > 1 && traits_of(k).scans && neighbours_of(k, shape) > kMostNeighbours)
      return refuse("a thread takes {} points of a scan at most", kMostNeighbours);
    const int64_t most = s.syms.interval(s.syms.simplify(scratch_of(k, shape).bytes * shape.rows + launch(shape).handed_bytes())).max;
    if (shape.global || most <= s.machine.shared_bytes) return Fit::yes();
    return refuse("a row needs {} bytes of shared memory; {} is the most", most == kInf ? "an unbounded number of" : std::to_string(most),
                  s.machine.shared_bytes);
  }
  static constexpr int64_t kMostNeighbours = 64;  ///< of a thread in a scan over a row that blocks share
  /// Many short rows: each a warp's, in its registers.
  static std::optional<Shape> warps_of_rows(const LoopKernel& k, const Site& s, const Traits& t, int lanes) {
    constexpr int kRows = 4, kMostSteps = 4;
    const auto points = k.syms.simplify(k.inner_points()).as_const();
    if (t.scans || lanes == 1 || !points || s.syms.hint(k.outer_points()) < int64_t{kRows} * s.machine.cores) return std::nullopt;
    while (lanes > 2 && *points <= 16 * lanes) lanes /= 2;  // half of the warp would have nothing
    const int64_t steps = (*points + 32 * lanes - 1) / (32 * lanes);
    int64_t words = 0;
    for (const loop::Param& p : k.params)
      if (p.role == ParamRole::input || p.role == ParamRole::local)
        words += steps * std::max<int64_t>(1, lanes * static_cast<int64_t>(dtype_bytes(p.dtype)) / 4);
    if (steps < 1 || steps > kMostSteps || words > gpu_costs(s.machine).loop_row_registers) return std::nullopt;
    Shape x;
    x.threads = 32, x.lanes = lanes, x.steps = static_cast<int>(steps), x.rows = kRows, x.streams = streams_of(k, s);
    x.resident = resident_of(words + steps * lanes, 32 * kRows, s);
    return x;
  }
  /// A row has one processor; loads that run along the outer loop are not neighbours; values of a row that leave the processor come back.
  double slowness(const LoopKernel& k, const Shape& shape, const Site& s) const override {
    const double rows = static_cast<double>(std::max<int64_t>(1, s.syms.hint(k.outer_points())));
    const GpuCosts& u = gpu_costs(s.machine);
    return std::max(1.0, s.machine.cores / (rows * shape.blocks)) * (k.lanes == loop::LaneAxis::outer ? u.loop_apart : 1) *
           (shape.global ? u.loop_global : 1);
  }
  double waits_ns(const LoopKernel& k, const Shape& shape, const Site& s) const override {
    const GpuCosts& u = gpu_costs(s.machine);
    const Traits t = traits_of(k);
    const double points = static_cast<double>(std::max<int64_t>(1, s.syms.hint(k.inner_points())));
    const double rows = static_cast<double>(std::max<int64_t>(1, s.syms.hint(k.outer_points())));
    const double filled = rows * shape.blocks * shape.threads / (s.machine.cores * static_cast<double>(u.threads));
    const double together = shape.blocks > 1 ? u.loop_begin + u.loop_hand_on * (t.reductions + t.scans) + u.loop_fill * filled : 0;
    const double iterations = points / (shape.threads * shape.lanes * shape.blocks);
    if (t.scans && shape.blocks == 1) {  // rows that find no room wait for others
      const int each = emit::cuda::neighbours_of_scan(s.syms.hint(k.inner.empty() ? Expr(1) : k.inner.back().extent), shape.threads);
      const double rounds = cuda::rounds(rows * shape.threads, s.machine.cores * u.loop_scan_threads);
      return rounds * (u.loop_round + std::ceil(iterations / each) * (u.loop_scan + u.loop_next * each));
    }
    if (t.scans) return together + iterations * u.loop_scan;
    const bool seen = shape.steps == 0 && rows * shape.blocks <= s.machine.cores;
    return together + iterations * (seen ? u.loop_loads * t.passes : u.loop_hidden);
  }
  Expr grid(const LoopKernel& k, const Shape& shape, const Machine& machine) const override {
    return max(1, min(ceildiv(k.outer_points(), shape.rows), shape.global ? 4 * machine.cores : kMaxGrid / shape.blocks)) * shape.blocks;
  }
};

/// A thread a row, or several neighbours.
class Serial final : public LoopForm {
  static constexpr int64_t kPlaceBytes = 16, kStaticShared = 48 << 10;  ///< of a scan's value; of a block, what the kernel declares

 public:
  Serial() : LoopForm(Mapping::serial) {}
  std::string_view name() const override { return "cuda_serial"; }

 protected:
  Fit fits(const LoopKernel& k, const Site&) const override {
    const Traits t = traits_of(k);
    if (t.has_local) return refuse("rows with scratch have no room in a thread");
    if (!t.reductions && !t.scans && !t.stores_outside) return refuse("its points are independent");
    return Fit::yes();
  }
  /// Rows that a block could share are read across by threads of their own; few rows keep few threads busy.
  double slowness(const LoopKernel& k, const Shape& shape, const Site& s) const override {
    const double rows = static_cast<double>(std::max<int64_t>(1, s.syms.hint(k.outer_points())));
    const GpuCosts& u = gpu_costs(s.machine);
    const double narrow = shape.lanes == 1 && lanes_of(k, Mapping::serial) > 1 ? u.loop_narrow : 1;
    return (k.lanes == loop::LaneAxis::outer ? 1 : u.loop_serial_across) * narrow *
           std::max(1.0, s.machine.cores * u.loop_serial_threads / (rows / shape.lanes * shape.pieces));
  }
  double waits_ns(const LoopKernel& k, const Shape& shape, const Site& s) const override {
    const double twice = shape.pieces > 1 ? 2 : 1;
    return static_cast<double>(std::max<int64_t>(1, s.syms.hint(k.inner_points()))) * twice / shape.pieces *
           gpu_costs(s.machine).loop_serial_point;
  }
  std::vector<Shape> shapes(const LoopKernel& k, const Site& s) const override {
    std::vector<Shape> all;
    for (int lanes = traits_of(k).scans ? 1 : lanes_of(k, Mapping::serial); lanes >= 1; lanes /= 2)
      for (int threads : {128, 64, 256}) all.push_back({threads, lanes, 0, 1, lanes > 1 && streams_of(k, s)});
    if (emit::cuda::scans_in_pieces(k) && s.syms.hint(k.inner_points()) >= gpu_costs(s.machine).loop_pieces)
      for (const auto& [lines, pieces] : {std::pair{32, 4}, {32, 8}, {64, 4}, {32, 16}}) {
        Shape shape{lines};
        shape.pieces = pieces;
        if (int64_t{traits_of(k).scans} * lines * pieces * kPlaceBytes <= kStaticShared) all.push_back(shape);
      }
    return all;
  }
  Expr grid(const LoopKernel& k, const Shape& shape, const Machine&) const override {
    return max(1, min(ceildiv(k.outer_points(), shape.threads * shape.lanes), kMaxGrid));
  }
};

}  // namespace

const Form& loop_flat() { return instance<Flat>(); }
const Form& loop_row() { return instance<Row>(); }
const Form& loop_serial() { return instance<Serial>(); }

}  // namespace aotc::forms::cuda

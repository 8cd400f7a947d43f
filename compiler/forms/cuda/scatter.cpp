// scatter and index_put (kernels/cuda/scatter.cuh): deterministic, a thread a line, a thread an element or a block a piece.
#include <algorithm>
#include <cmath>

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/scatter.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cuda {

using emit::cuda::IndexPutCode;
using emit::cuda::ScatterCode;
using emit::cuda::UpdateOrder;
using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 256;

struct Order : UpdateOrder {
  static std::span<const Member<Order>> members() {
    static const std::vector<Member<Order>> rows = {
        {{"by_element", 0, 1}, &Order::by_element}, {{"places", 0, 1024, 8}, &Order::places}, {{"frees", 1, 64}, &Order::frees}};
    return rows;
  }
  static Order piece(int places, int frees) {
    Order o;
    o.places = places, o.frees = frees;
    return o;
  }
  int threads() const { return places ? kPieceThreads : kBlockThreads; }
};

class Updates : public FormOf<LibraryKernel> {
 public:
  std::span<const Field> fields() const override { return fields_of<Order>(); }
  bool is_part() const override { return true; }

 protected:
  /// What the updates of one list of indices can reach: `places`, each with `frees` elements; `lists` of them.
  struct Reach {
    Expr lists, places, frees, updates;
  };
  /// `lists * frees` threads make `updates` each and copy `places`; or one of each element, or of `lanes`, looks at them; or blocks do,
  /// for pieces.
  std::vector<Candidate> orders(const Site& s, const Reach& r, int lanes = 1) const {
    const auto n = [&](const Expr& e) { return static_cast<double>(at_least_one(e, s)); };
    const GpuCosts& u = gpu_costs(s.machine);
    const double lines = n(r.lists * r.frees), updates = n(r.updates), extent = n(r.places),
                 per_ns = s.machine.cores * u.scatter_looks_per_ns;
    const double threads_per_ns = s.machine.cores * u.scatter_threads_per_ns;  // that begin and end
    const double filled = std::max(1.0, lines / (s.machine.cores * u.scatter_full));
    Order element;
    element.by_element = 1;
    std::vector<Candidate> all = {
        {pack(*this, Order{}), Fit::yes(), u.launch + filled * (updates * u.scatter_line_update + extent * u.scatter_line_element)},
        {pack(*this, element), Fit::yes(),
         u.launch + updates * u.scatter_update + lines * extent / lanes * (updates / per_ns + 1 / threads_per_ns)}};
    // A chunk of updates is looked through by all threads; those that are kept by each, who waits for what its own bring.
    for (const auto& [places, frees] : {std::pair{1024, 1}, {256, 1}, {128, 8}, {64, 16}, {32, 32}, {16, 64}, {8, 64}}) {
      if (frees > 1 && n(r.frees) < frees) continue;
      const double blocks = n(r.lists) * std::ceil(extent / places) * std::ceil(n(r.frees) / frees);
      const double kept = updates * std::min(1.0, places / extent), own = std::max(1.0, updates / extent);
      const double block =
          u.scatter_piece_begin + std::ceil(updates / u.scatter_chunk) * u.scatter_chunk_ns + kept * u.scatter_kept + own * u.scatter_own;
      all.push_back({pack(*this, Order::piece(places, frees)), Fit::yes(),
                     u.launch + whole_rounds(blocks, s.machine.cores * u.scatter_pieces) * block});
    }
    return all;
  }
  StepSpec updates_step(const LibraryKernel& k, const Order& o, const Reach& r, int lanes = 1) const {
    StepSpec f;
    f.kind = StepKind::cuda;
    f.symbol = emit::cuda::function_name(k.name);
    f.block[0] = o.threads();
    const Expr threads = o.by_element ? ceildiv(r.lists * r.frees * r.places, lanes) : r.lists * r.frees;
    f.grid[0] =
        min(o.places ? r.lists * ceildiv(r.places, o.places) * ceildiv(r.frees, o.frees) : ceildiv(threads, kBlockThreads), kMaxGrid);
    return f;
  }
};

class ScatterForm final : public Updates {
 public:
  std::string_view name() const override { return "cuda_scatter"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return {k.algorithm == "scatter", ""}; }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const ScatterDims d = ScatterDims::of(k);
    std::vector<Candidate> all = orders(s, reach(d));
    if (scatter_reduce(k) == AOTC_SCATTER_MEAN) all[0].fit = refuse("a line has no place for its counts");
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const ScatterDims d = ScatterDims::of(k);
    StepSpec f = updates_step(k, unpack<Order>(c), reach(d));
    f.sizes = d.sizes;
    return f;
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const ScatterDims d = ScatterDims::of(k);
    const Order o = unpack<Order>(c);
    const ScatterCode code{static_cast<int>(d.rank), static_cast<int>(d.dim), scatter_reduce(k), flag(k, Attr::include_self, true)};
    return emit::cuda::emit_scatter(k.params.begin()->dtype, code, o, o.threads(), symbol);
  }

 private:
  static Reach reach(const ScatterDims& d) { return {d.lines, d.extent, 1, d.updates()}; }
};

class IndexPutForm final : public Updates {
 public:
  std::string_view name() const override { return "cuda_index_put"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return {k.algorithm == "index_put", ""}; }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const auto d = IndexPutDims::of(k, s.syms);
    return orders(s, {1, d.indexed, d.free, d.entries}, d.code.lanes);
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice& c) const override {
    const auto d = IndexPutDims::of(k, s.syms);
    StepSpec f = updates_step(k, unpack<Order>(c), {1, d.indexed, d.free, d.entries}, d.code.lanes);
    f.sizes = d.sizes;
    return f;
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    const Order o = unpack<Order>(c);
    return emit::cuda::emit_index_put(k.params.begin()->dtype, IndexPutDims::of(k, s.syms).code, o, o.threads(), symbol);
  }
};

}  // namespace

ScatterDims ScatterDims::of(const LibraryKernel& k) {
  ScatterDims d{static_cast<size_t>(*k.sizes.at(0).as_const()), 0, {k.sizes.begin() + 1, k.sizes.end()}, 1, 1};
  if (d.rank == 0) d.rank = 1, d.sizes = {1, 1, 1};
  const auto rank = static_cast<int64_t>(d.rank);
  if (auto dim = k.attrs.find(Attr::dim); dim != k.attrs.end()) d.dim = static_cast<size_t>((std::get<int64_t>(dim->second) + rank) % rank);
  d.extent = d.sizes[d.dim];
  for (size_t i = 0; i < d.rank; ++i)
    if (i != d.dim) d.lines *= d.sizes[i];
  return d;
}

IndexPutDims IndexPutDims::of(const LibraryKernel& k, const SymTable& syms) {
  IndexPutDims d;
  auto at = k.sizes.begin();
  auto number = [&] { return static_cast<int>(*(at++)->as_const()); };
  d.code.rank = number();
  d.sizes.assign(at, at + d.code.rank);
  at += d.code.rank;
  d.code.n_index = number();
  d.code.indexed = 0;
  for (int i = 0; i < d.code.n_index; ++i) d.code.indexed |= uint64_t{1} << number();
  d.code.index_rank = number();
  for (int i = 0; i < d.code.index_rank; ++i, ++at) {
    d.sizes.push_back(*at);
    d.entries *= *at;
  }
  d.code.out_pos = number();
  d.code.accumulate = flag(k, Attr::accumulate, false);
  for (int i = 0; i < d.code.rank; ++i) (d.code.indexed >> i & 1 ? d.indexed : d.free) *= d.sizes[static_cast<size_t>(i)];
  const int last = d.code.rank - 1, free = d.code.rank - d.code.n_index;
  const int whole = 16 / static_cast<int>(dtype_bytes(k.params.begin()->dtype));
  if (last >= 0 && !(d.code.indexed >> last & 1) && d.code.out_pos < free &&
      syms.proves_divisible(d.sizes[static_cast<size_t>(last)], whole))
    d.code.lanes = whole;
  return d;
}

const Form& scatter() { return instance<ScatterForm>(); }
const Form& index_put() { return instance<IndexPutForm>(); }

}  // namespace aotc::forms::cuda

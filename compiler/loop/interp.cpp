#include "loop/interp.h"

#include <algorithm>

#include "graph/scalar.h"
#include "loop/attached.h"

namespace aotc::loop {
namespace {

using Dims = std::vector<int64_t>;
using Env = std::map<SymId, int64_t>;

HostTensor zeros(DType t, Dims dims) {
  HostTensor h{t, std::move(dims), {}};
  h.bytes.resize(static_cast<size_t>(h.elems() * dtype_bytes(t)));
  return h;
}

TensorType type_of(const HostTensor& t) { return {t.dtype, Exprs(t.dims.begin(), t.dims.end())}; }

/// One graph node on concrete tensors.
std::vector<HostTensor> run_node(Op op, const std::vector<const HostTensor*>& in, std::map<Attr, AttrValue> attrs,
                                 const std::vector<TensorType>& results) {
  Graph g;
  Node n;
  n.op = op;
  n.attrs = std::move(attrs);
  for (size_t i = 0; i < in.size(); ++i) n.inputs.push_back(g.add_input("x" + std::to_string(i), type_of(*in[i])));
  const NodeId id = g.add_node(std::move(n), results);
  return interpret_node(g, g.nodes[id], in);
}

class Machine {
 public:
  Machine(const Module& m, const Graph& g, const std::vector<HostTensor>& inputs) : m_(m), g_(g) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Exprs& dims = g.type(g.inputs[i].value).dims;
      for (size_t d = 0; d < dims.size(); ++d)
        if (auto s = dims[d].as_symbol()) shape_[*s] = inputs[i].dims.at(d);
    }
    for (const Buffer& b : m.buffers) {
      Dims dims;
      for (const Expr& e : b.type.dims) dims.push_back(eval(e, shape_));
      if (b.kind == BufferKind::input) {
        buffers_.push_back(inputs.at(b.index));
      } else {
        buffers_.push_back(zeros(b.type.dtype, dims));
        const ConstId c = b.kind == BufferKind::constant ? static_cast<ConstId>(b.index)
                          : b.kind == BufferKind::state  ? g.states[static_cast<StateId>(b.index)].initial
                                                         : kNone<ConstId>;
        if (c != kNone<ConstId>) std::copy_n(g.constants[c].data, g.constants[c].bytes, buffers_.back().bytes.data());
      }
      written_.emplace_back(static_cast<size_t>(buffers_.back().elems()), 0);
    }
  }

  std::vector<HostTensor> run() {
    for (const Call& c : m_.calls) {
      args_.clear();
      for (BufferId b : c.args) args_.push_back(idx(b));
      where_ = kernel_name(m_.kernels[c.kernel]);
      take_over_states(c);
      std::visit([this](const auto& k) { kernel(k); }, m_.kernels[c.kernel]);
    }
    std::vector<HostTensor> outputs(g_.outputs.size());
    std::vector<std::pair<uint32_t, HostTensor>> states;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const Buffer& b = m_.buffers[static_cast<BufferId>(i)];
      if (b.kind == BufferKind::output) outputs[b.index] = buffers_[i];
      if (b.kind == BufferKind::state_out) states.push_back({b.index, buffers_[i]});
      if (b.kind == BufferKind::output || b.kind == BufferKind::state_out || b.kind == BufferKind::temp)
        AOTC_CHECK(std::all_of(written_[i].begin(), written_[i].end(), [](char c) { return c == 1; }), "{} is not written once everywhere",
                   b.name);
    }
    std::sort(states.begin(), states.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& s : states) outputs.push_back(std::move(s.second));
    return outputs;
  }

 private:
  /// A state that the call updates in place starts as it was before the run.
  void take_over_states(const Call& c) {
    const Kernel& k = m_.kernels[c.kernel];
    const std::vector<ParamId> params = argument_params(k);
    for (size_t a = 0; a < params.size(); ++a) {
      const Buffer& b = m_.buffers[c.args[a]];
      if (kernel_params(k)[params[a]].role != ParamRole::inout || b.kind != BufferKind::state_out) continue;
      for (size_t i = 0; i < buffers_.size(); ++i)
        if (const Buffer& old = m_.buffers[static_cast<BufferId>(i)]; old.kind == BufferKind::state && old.index == b.index)
          buffers_[idx(c.args[a])] = buffers_[i];
      std::fill(written_[idx(c.args[a])].begin(), written_[idx(c.args[a])].end(), 1);
    }
  }

  static int64_t eval(const Expr& e, const Env& env) {
    return e.eval([&](SymId s) {
      auto it = env.find(s);
      AOTC_CHECK(it != env.end(), "a symbol without a value");
      return it->second;
    });
  }

  // ------------------------------------------------------------------------------------------------------------- loops
  struct Frame {
    const LoopKernel& k;
    Env env;                  ///< shape symbols and the outer point
    std::vector<Env> points;  ///< per inner point
    Dims inner_dims;
    std::vector<HostTensor> values;  ///< by InstId: [points] or [1]
    std::map<ParamId, HostTensor> locals;
    const HostTensor *acc = nullptr, *twin = nullptr;  ///< the whole accumulator tensors
    HostTensor* operand = nullptr;                     ///< of one batch element
    std::vector<size_t> buffer_of;                     ///< by ParamId; none where the param takes no argument
  };

  Frame frame(const LoopKernel& k) {
    Frame f{k, shape_, {}, {}, {}, {}, nullptr, nullptr, {}};
    size_t next = 0;
    for (const Param& p : k.params) f.buffer_of.push_back(takes_argument(p.role) ? args_.at(next++) : SIZE_MAX);
    f.values.resize(k.insts.size());
    for (const LoopVar& v : k.inner) f.inner_dims.push_back(eval(v.extent, shape_));
    return f;
  }

  void loops(Frame& f) {
    Dims dims;
    for (const LoopVar& v : f.k.outer) dims.push_back(eval(v.extent, shape_));
    for (int64_t d : dims)
      if (d == 0) return;
    Dims at(dims.size(), 0);
    do {
      for (size_t i = 0; i < at.size(); ++i) f.env[f.k.outer[i].sym] = at[i];
      outer_point(f);
    } while (next(at, dims));
  }

  static bool next(Dims& at, const Dims& dims) {
    for (size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d]) return true;
      at[d] = 0;
    }
    return false;
  }

  void outer_point(Frame& f) {
    f.points.clear();
    Dims at(f.inner_dims.size(), 0);
    if (std::all_of(f.inner_dims.begin(), f.inner_dims.end(), [](int64_t d) { return d > 0; })) do {
        Env e;
        for (size_t i = 0; i < at.size(); ++i) e[f.k.inner[i].sym] = at[i];
        f.points.push_back(std::move(e));
      } while (next(at, f.inner_dims));
    for (const Block& b : f.k.blocks)
      for (InstId i : b.insts) inst(f, i, b.over_inner);
  }

  int64_t index(Frame& f, const Expr& e, bool inner, size_t point) {
    return e.eval([&](SymId s) {
      if (inner)
        if (auto it = f.points[point].find(s); it != f.points[point].end()) return it->second;
      auto it = f.env.find(s);
      AOTC_CHECK(it != f.env.end(), "{}: symbol {} has no value", where_, f.k.syms[s].name);
      return it->second;
    });
  }

  static HostTensor spread(const HostTensor& t, size_t n) {
    HostTensor r = zeros(t.dtype, {static_cast<int64_t>(n)});
    const size_t b = static_cast<size_t>(dtype_bytes(t.dtype));
    for (size_t i = 0; i < n; ++i) std::copy_n(t.bytes.data() + (t.elems() == 1 ? 0 : i * b), b, r.bytes.data() + i * b);
    return r;
  }

  static int64_t int_at(const HostTensor& t, size_t i) {
    int64_t v = 0;
    const size_t at = t.elems() == 1 ? 0 : i;
    load_i64(t.dtype, t.bytes.data() + at * static_cast<size_t>(dtype_bytes(t.dtype)), &v, 1);
    return v;
  }

  void inst(Frame& f, InstId id, bool inner) {
    const Inst& i = f.k.insts[id];
    const size_t n = inner ? f.points.size() : 1;
    HostTensor& r = f.values[idx(id)];
    auto arg = [&](size_t a) { return spread(f.values[idx(i.args[a])], n); };
    auto masked_out = [&](size_t p) { return i.mask != kNone<InstId> && int_at(f.values[idx(i.mask)], p) == 0; };
    switch (i.kind) {
      case InstKind::op: {
        std::vector<HostTensor> in;
        std::vector<const HostTensor*> ptr;
        for (size_t a = 0; a < i.args.size(); ++a) in.push_back(arg(a));
        for (const HostTensor& t : in) ptr.push_back(&t);
        r = run_node(i.op, ptr, {}, {{i.dtype, {static_cast<int64_t>(n)}}})[0];
        break;
      }
      case InstKind::constant:
        r = zeros(i.dtype, {static_cast<int64_t>(n)});
        for (size_t p = 0; p < n; ++p) put_imm(r, p, i);
        break;
      case InstKind::index:
        r = zeros(DType::i64, {static_cast<int64_t>(n)});
        for (size_t p = 0; p < n; ++p) {
          const int64_t v = index(f, i.index, inner, p);
          store_i64(DType::i64, &v, r.bytes.data() + 8 * p, 1);
        }
        break;
      case InstKind::load:
        r = zeros(i.dtype, {static_cast<int64_t>(n)});
        for (size_t p = 0; p < n; ++p) {
          if (masked_out(p)) {
            put_imm(r, p, i);
            continue;
          }
          const HostTensor& src = memory(f, i.param);
          const int64_t at = index(f, i.index, inner, p);
          AOTC_CHECK(at >= 0 && at < src.elems(), "{}: v{} reads element {} of {}", where_, idx(id), at, src.elems());
          const int64_t b = dtype_bytes(i.dtype);
          std::copy_n(src.bytes.data() + at * b, b, r.bytes.data() + static_cast<int64_t>(p) * b);
        }
        break;
      case InstKind::store: {
        const HostTensor v = arg(0);
        HostTensor& dst = memory(f, i.param);
        for (size_t p = 0; p < n; ++p) {
          if (masked_out(p)) continue;
          const int64_t at = index(f, i.index, inner, p);
          AOTC_CHECK(at >= 0 && at < dst.elems(), "{}: v{} writes element {} of {}", where_, idx(id), at, dst.elems());
          const int64_t b = dtype_bytes(i.dtype);
          std::copy_n(v.bytes.data() + static_cast<int64_t>(p) * b, b, dst.bytes.data() + at * b);
          const size_t buffer = f.buffer_of[idx(i.param)];
          if (buffer != SIZE_MAX && f.k.params[i.param].role != ParamRole::inout) ++written_[buffer][static_cast<size_t>(at)];
        }
        break;
      }
      case InstKind::reduce: {
        const HostTensor v = arg(0);
        r = run_node(Op::reduce, {&v}, {{Attr::kind, std::string(reduce_name(i.reduce_kind))}, {Attr::dims, Ints{0}}}, {{i.dtype, {}}})[0];
        r.dims = {1};
        break;
      }
      case InstKind::scan: {
        HostTensor v = arg(0);
        v.dims = f.inner_dims;
        const bool argument = i.reduce_kind == ReduceKind::argmax || i.reduce_kind == ReduceKind::argmin;
        const ReduceKind kind = i.reduce_kind == ReduceKind::argmax   ? ReduceKind::max
                                : i.reduce_kind == ReduceKind::argmin ? ReduceKind::min
                                                                      : i.reduce_kind;
        r = run_node(argument ? Op::scan_arg : Op::scan, {&v},
                     {{Attr::kind, std::string(reduce_name(kind))}, {Attr::dim, static_cast<int64_t>(v.dims.size()) - 1}},
                     {{i.dtype, Exprs(v.dims.begin(), v.dims.end())}})[0];
        r.dims = {static_cast<int64_t>(n)};
        break;
      }
      case InstKind::check:
        for (size_t p = 0; p < n; ++p)
          if (int_at(f.values[idx(i.args[0])], p) == 0) throw Diagnostic(ExitCode::failed, {}, i.text);
        break;
    }
    if (i.bind != kNone<SymId>) {
      for (size_t p = 0; p < n; ++p) (inner ? f.points[p] : f.env)[i.bind] = int_at(r, p);
    }
  }

  static void put_imm(HostTensor& r, size_t p, const Inst& i) {
    std::byte* at = r.bytes.data() + p * static_cast<size_t>(dtype_bytes(i.dtype));
    if (is_float(i.dtype))
      store_f64(i.dtype, &i.imm_f, at, 1);
    else
      store_i64(i.dtype, &i.imm_i, at, 1);
  }

  HostTensor& memory(Frame& f, ParamId p) {
    const Param& param = f.k.params[p];
    if (param.role == ParamRole::acc) {
      const bool second = idx(p) > 0 && f.k.params[static_cast<ParamId>(idx(p) - 1)].role == ParamRole::acc;
      return const_cast<HostTensor&>(second ? *f.twin : *f.acc);
    }
    if (param.role == ParamRole::operand) return *f.operand;
    if (param.role != ParamRole::local) return buffers_[f.buffer_of[idx(p)]];
    auto [it, fresh] = f.locals.try_emplace(p);
    if (fresh) {
      Dims dims;
      for (const Expr& e : param.dims) dims.push_back(eval(e, shape_));
      it->second = zeros(param.dtype, dims);
    }
    return it->second;
  }

  void kernel(const LoopKernel& k) {
    Frame f = frame(k);
    loops(f);
  }

  // ------------------------------------------------------------------------------------------------------- contractions
  HostTensor gather(size_t buffer, const Dims& dims, const Dims& strides, int64_t base) {
    const HostTensor& src = buffers_[buffer];
    HostTensor r = zeros(src.dtype, dims);
    const int64_t b = dtype_bytes(src.dtype);
    if (r.elems() == 0) return r;
    Dims at(dims.size(), 0);
    int64_t to = 0;
    do {
      int64_t from = base;
      for (size_t i = 0; i < at.size(); ++i) from += at[i] * strides[i];
      AOTC_CHECK(from >= 0 && from < src.elems(), "{}: an operand reads element {} of {}", where_, from, src.elems());
      std::copy_n(src.bytes.data() + from * b, b, r.bytes.data() + to++ * b);
    } while (next(at, dims));
    return r;
  }

  Dims evals(const Exprs& es) {
    Dims d;
    for (const Expr& e : es) d.push_back(eval(e, shape_));
    return d;
  }

  /// What a prologue computes: [outer.., rows, columns].
  HostTensor computed(const LoopKernel& p, DType t) {
    Frame f = frame(p);
    Dims outer;
    for (const LoopVar& v : p.outer) outer.push_back(eval(v.extent, shape_));
    const int64_t rows = outer.back(), columns = f.k.inner.empty() ? 1 : f.inner_dims.at(0);
    Dims dims = outer;
    dims.push_back(columns);
    HostTensor all = zeros(t, dims), part = zeros(t, {rows, columns});
    f.operand = &part;
    if (all.elems() == 0) return all;
    Dims at(outer.size(), 0);
    std::byte* to = all.bytes.data();
    do {
      for (size_t i = 0; i < at.size(); ++i) f.env[p.outer[i].sym] = at[i];
      outer_point(f);
      if (at.back() + 1 == rows) to = std::copy(part.bytes.begin(), part.bytes.end(), to);
    } while (next(at, outer));
    return all;
  }

  /// Every element's mate (Segment::mates) in its place.
  static HostTensor mates_of(const HostTensor& sums, int64_t distance) {
    HostTensor r = sums;
    const int64_t e = dtype_bytes(sums.dtype);
    for (int64_t at = 0; at < sums.elems(); ++at) {
      const int64_t column = at % sums.dims.back(), mate = at + (column / distance % 2 ? -distance : distance);
      std::copy_n(sums.bytes.data() + mate * e, e, r.bytes.data() + at * e);
    }
    return r;
  }

  void kernel(const MatmulKernel& k) {
    const Dims batch = evals(k.batch);
    const int64_t m = eval(k.m, shape_), n = eval(k.n, shape_), kk = eval(k.k, shape_);
    auto operand = [&](const Operand& o, int64_t rows, int64_t cols) {
      if (o.prologue) return computed(*o.prologue, k.in);
      Dims dims = batch, strides = evals(o.batch_strides);
      dims.insert(dims.end(), {rows, cols});
      strides.insert(strides.end(), {eval(o.row_stride, shape_), eval(o.col_stride, shape_)});
      return gather(args_.at(idx(o.param)), dims, strides, eval(o.base, shape_));
    };
    const HostTensor a = operand(k.a, m, kk);
    Exprs dims(batch.begin(), batch.end());
    dims.insert(dims.end(), {Expr(m), Expr(n)});
    HostTensor b, acc;
    if (k.runs) {
      const Dims sizes = {eval(k.runs->count, shape_), kk, n},
                 strides = {eval(k.runs->stride, shape_), eval(k.b.row_stride, shape_), eval(k.b.col_stride, shape_)};
      b = gather(args_.at(idx(k.b.param)), sizes, strides, eval(k.b.base, shape_));
      acc = run_node(Op::grouped_matmul, {&a, &b, &buffers_[args_.at(idx(k.runs->ends))]}, {}, {{k.acc, dims}})[0];
    } else {
      b = operand(k.b, kk, n);
      acc = run_node(Op::matmul, {&a, &b}, {}, {{k.acc, dims}})[0];
    }
    HostTensor twin;
    if (k.twin) {
      const HostTensor other = operand(*k.twin, kk, n);
      twin = run_node(Op::matmul, {&a, &other}, {}, {{k.acc, dims}})[0];
    }
    for (const Segment& s : k.segments) {
      const int64_t begin = eval(s.n_begin, shape_), end = eval(s.n_end, shape_);
      // The accumulators of one batch element: rows by the columns of the segment.
      int64_t batches = 1;
      for (int64_t d : batch) batches *= d;
      Frame f = frame(s.epilogue);
      Dims at(batch.size(), 0);
      for (int64_t i = 0; i < batches; ++i, next(at, batch)) {
        const auto columns = [&](const HostTensor& all) {
          HostTensor part = zeros(k.acc, {m, end - begin});
          const int64_t e = dtype_bytes(k.acc);
          for (int64_t r = 0; r < m; ++r)
            std::copy_n(all.bytes.data() + ((i * m + r) * n + begin) * e, (end - begin) * e, part.bytes.data() + r * (end - begin) * e);
          return part;
        };
        const HostTensor part = columns(acc), second = k.twin ? columns(twin) : s.mates ? mates_of(part, s.mates) : HostTensor{};
        f.acc = &part, f.twin = &second;
        for (size_t d = 0; d < at.size(); ++d) f.env[s.epilogue.outer[d].sym] = at[d];
        for (int64_t r = 0; r < m; ++r) {
          f.env[s.epilogue.outer.back().sym] = r;
          outer_point(f);
        }
      }
    }
  }

  void kernel(const ConvKernel& k) {
    HostTensor x = buffers_[args_.at(idx(k.x))], w = buffers_[args_.at(idx(k.w))];
    const auto placed = [&](Dims d) {
      if (k.channels_last) std::rotate(d.begin() + 1, d.begin() + 2, d.end());
      return d;
    };
    x.dims = evals(k.x_dims);
    Ints out_padding;
    for (size_t i = 0; i < k.kernel.size(); ++i) {
      const int64_t full = (x.dims[i + 2] - 1) * k.stride[i] - k.padding[i] - k.padding_hi[i] + k.dilation[i] * (k.kernel[i] - 1) + 1;
      out_padding.push_back(eval(k.out_dims[i + 2], shape_) - full);
    }
    Dims w_dims = {k.transposed ? x.dims[1] : eval(k.out_dims[1], shape_),
                   (k.transposed ? eval(k.out_dims[1], shape_) : x.dims[1]) / k.groups};
    w_dims.insert(w_dims.end(), k.kernel.begin(), k.kernel.end());
    w.dims = w_dims;
    std::map<Attr, AttrValue> attrs = {{Attr::stride, k.stride},
                                       {Attr::padding, k.padding},
                                       {Attr::padding_hi, k.padding_hi},
                                       {Attr::dilation, k.dilation},
                                       {Attr::groups, k.groups}};
    if (k.transposed) attrs[Attr::output_padding] = out_padding;
    if (k.channels_last) attrs[Attr::channels_last] = true;
    if (k.around) attrs[Attr::value] = k.around;
    x.dims = placed(x.dims);
    const Dims out = placed(evals(k.out_dims));
    if (k.acc != k.in) {  // the node's result has the dtype of x
      x = run_node(Op::cast, {&x}, {}, {{k.acc, Exprs(x.dims.begin(), x.dims.end())}})[0];
      w = run_node(Op::cast, {&w}, {}, {{k.acc, Exprs(w.dims.begin(), w.dims.end())}})[0];
    }
    const HostTensor acc =
        run_node(k.transposed ? Op::conv_transpose : Op::conv, {&x, &w}, attrs, {{k.acc, Exprs(out.begin(), out.end())}})[0];
    Frame f = frame(k.epilogue);
    f.acc = &acc;
    loops(f);
  }

  void kernel(const AttentionKernel& k) {
    const int64_t b = eval(k.batch, shape_), h = eval(k.heads, shape_), hkv = eval(k.kv_heads, shape_), l = eval(k.q_len, shape_),
                  s = eval(k.kv_len, shape_), e = eval(k.head_dim, shape_), ev = eval(k.v_dim, shape_);
    auto view = [&](const AttentionKernel::View& v, Dims dims) {
      return gather(args_.at(idx(v.param)), dims, evals({v.b, v.h, v.s, v.e}), eval(v.base, shape_));
    };
    const HostTensor q = view(k.q, {b, h, l, e}), kk = view(k.k, {b, hkv, s, e}), v = view(k.v, {b, hkv, s, ev});
    std::vector<const HostTensor*> in = {&q, &kk, &v};
    HostTensor mask;
    if (k.mask) in.push_back(&(mask = view(*k.mask, {b, h, l, s})));
    HostTensor sinks;
    if (k.sinks) in.push_back(&(sinks = view(*k.sinks, {b, h, l, 1})));
    HostTensor of_k, of_v;
    if (k.row_scales) {
      in.push_back(&(of_k = view(k.row_scales->k, {b, hkv, s, 1})));
      in.push_back(&(of_v = view(k.row_scales->v, {b, hkv, s, 1})));
    }
    const HostTensor r = run_node(Op::attention, in,
                                  {{Attr::scale, k.scale},
                                   {Attr::causal, k.causal},
                                   {Attr::nan_rows, k.nan_rows},
                                   {Attr::mask_fills, k.mask_fills},
                                   {Attr::sinks, k.sinks.has_value()}},
                                  {{k.dtype, {b, h, l, ev}}})[0];
    const Dims strides = evals({k.out.b, k.out.h, k.out.s, k.out.e}), dims = {b, h, l, ev};
    const size_t to = args_.at(idx(k.out.param));
    const int64_t bytes = dtype_bytes(k.dtype), base = eval(k.out.base, shape_);
    if (r.elems() == 0) return;
    Dims at(4, 0);
    int64_t from = 0;
    do {
      int64_t p = base;
      for (size_t i = 0; i < 4; ++i) p += at[i] * strides[i];
      AOTC_CHECK(p >= 0 && p < buffers_[to].elems(), "{} writes element {} of {}", where_, p, buffers_[to].elems());
      std::copy_n(r.bytes.data() + from++ * bytes, bytes, buffers_[to].bytes.data() + p * bytes);
      ++written_[to][static_cast<size_t>(p)];
    } while (next(at, dims));
  }

  void kernel(const LibraryKernel& k) {
    const auto op = parse_op(k.algorithm);
    AOTC_CHECK(op, "{} is not interpreted", k.algorithm);
    std::vector<const HostTensor*> in;
    std::vector<TensorType> results;
    std::vector<size_t> out;
    for (size_t i = 0; i < args_.size(); ++i) {
      if (k.params[static_cast<ParamId>(i)].role == ParamRole::input) {
        in.push_back(&buffers_[args_[i]]);
      } else {
        out.push_back(args_[i]);
        results.push_back(type_of(buffers_[args_[i]]));
      }
    }
    std::map<Attr, AttrValue> attrs = k.attrs;
    for (auto& [a, v] : attrs)
      if (auto e = std::get_if<Expr>(&v)) v = Expr(eval(*e, shape_));
    auto r = run_node(*op, in, attrs, results);
    for (size_t i = 0; i < out.size(); ++i) {
      buffers_[out[i]].bytes = std::move(r[i].bytes);
      for (char& c : written_[out[i]]) ++c;
    }
  }

  const Module& m_;
  const Graph& g_;
  Env shape_;
  std::vector<HostTensor> buffers_;
  std::vector<std::vector<char>> written_;
  std::vector<size_t> args_;
  std::string where_;
};

}  // namespace

std::vector<HostTensor> interpret(const Module& m, const Graph& g, const std::vector<HostTensor>& inputs) {
  return Machine(m, g, inputs).run();
}

}  // namespace aotc::loop

#include "loop/build.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "graph/ranges.h"
#include "graph/scalar.h"

namespace aotc::loop {

// ---------------------------------------------------------------------------------------------------------------- buffers
BufferId Buffers::make(std::string name, BufferKind kind, TensorType type, uint32_t index) {
  if (const int n = names_[name]++; n > 0) name += "." + std::to_string(n);
  return m_.buffers.push({std::move(name), kind, std::move(type), index, -1});
}

BufferId Buffers::of(ValueId root) {
  if (auto it = of_.find(root); it != of_.end()) return it->second;
  const Graph& g = p_.g;
  const Value& v = g.values[root];
  BufferId b = kNone<BufferId>;
  switch (v.kind) {
    case ValueKind::input: b = make(g.inputs[v.input].name, BufferKind::input, v.type, v.input); break;
    case ValueKind::constant: b = make(g.constants[v.constant].name, BufferKind::constant, v.type, idx(v.constant)); break;
    case ValueKind::state: b = make(g.states[v.state].name, BufferKind::state, v.type, idx(v.state)); break;
    case ValueKind::node:
      if (p_.output_of[root] >= 0) {
        b = output(static_cast<uint32_t>(p_.output_of[root]));
      } else if (p_.state_of[root] >= 0) {
        b = state_update(static_cast<uint32_t>(p_.state_of[root]));
      } else {
        const std::string& name = g.nodes[v.node].name;
        b = make(name.empty() ? std::string(op_name(g.nodes[v.node].op)) : name, BufferKind::temp, v.type, 0);
      }
      break;
  }
  of_[root] = b;
  return b;
}

BufferId Buffers::output(uint32_t number) {
  auto it = outputs_.find(number);
  if (it != outputs_.end()) return it->second;
  const OutputInfo& o = p_.g.outputs[number];
  const BufferId b = make(o.name, BufferKind::output, p_.g.type(o.value), number);
  m_.buffers[b].alias_input = o.alias_input;
  return outputs_[number] = b;
}

BufferId Buffers::state_update(uint32_t number) {
  auto it = states_.find(number);
  if (it != states_.end()) return it->second;
  const StateInfo& s = p_.g.states[static_cast<StateId>(number)];
  return states_[number] = make(s.name + ".next", BufferKind::state_out, s.type, number);
}

// ---------------------------------------------------------------------------------------------------------------- builder
KernelBuilder::KernelBuilder(const Partition& p, GroupId id, Buffers& buffers) : p_(p), g_(p.g), id_(id), buffers_(buffers) {
  const Group& gr = p.groups[id];
  k_.syms = gr.syms;
  k_.nodes = gr.nodes;
  std::sort(k_.nodes.begin(), k_.nodes.end());
  if (gr.kind != GroupKind::loop) return;
  for (SymId v : gr.outer) k_.outer.push_back({v, *gr.syms[v].extent});
  for (SymId v : gr.inner) k_.inner.push_back({v, *gr.syms[v].extent});
}

ParamId KernelBuilder::param(BufferId b, ParamRole role) {
  auto [it, fresh] = params_.emplace(std::pair{b, role}, kNone<ParamId>);
  if (fresh) {
    const TensorType& t = buffers_[b].type;
    it->second = k_.params.push({"p" + std::to_string(args_.size()), role, t.dtype, t.dims});
    args_.push_back(b);
  }
  return it->second;
}

void KernelBuilder::share_params(const KernelBuilder& other) {
  k_.params = other.k_.params;
  params_ = other.params_;
  args_ = other.args_;
}

void KernelBuilder::accumulator(ValueId result, DType acc, const Expr& index) {
  // The parameter is added last, when all others are known: until then loads of it have no parameter.
  acc_value_ = result;
  Inst i;
  i.kind = InstKind::load;
  i.dtype = acc;
  i.index = index;
  acc_load_ = k_.insts.push(std::move(i));
}

Exprs KernelBuilder::moved(const Exprs& at) const {
  if (with_.empty()) return at;
  Exprs out;
  for (const Expr& e : at) out.push_back(k_.syms.simplify(e.substitute(with_)));
  return out;
}

void KernelBuilder::store(const StoreAt& s) {
  const Exprs at = moved(s.idx);
  InstId value = eval(s.value, at, kNone<InstId>);
  BufferId b = kNone<BufferId>;
  Expr index;
  const Exprs& dims = g_.type(s.value).dims;
  switch (s.where) {
    case StoreAt::Where::output:
      b = buffers_.output(s.number);
      index = linearise(dims, at, k_.syms);
      break;
    case StoreAt::Where::state:
      b = buffers_.state_update(s.number);
      index = linearise(dims, at, k_.syms);
      break;
    case StoreAt::Where::own:
    case StoreAt::Where::cat_part: {
      std::pair<ValueId, Expr> root;
      if (s.where == StoreAt::Where::own) {
        root = p_.locate_offset(s.value, at, k_.syms);
      } else {
        const Node& n = g_.nodes[s.cat];
        root = p_.locate_offset(n.outputs[0], *view_forward(g_, n, s.number, at, k_.syms), k_.syms);
      }
      b = buffers_.of(root.first);
      index = root.second;
      break;
    }
  }
  Inst i;
  i.kind = InstKind::store;
  i.dtype = g_.type(s.value).dtype;
  i.args = {cast(value, i.dtype)};
  i.param = param(b, ParamRole::output);
  i.index = index;
  k_.insts.push(std::move(i));
}

void KernelBuilder::operand(ValueId v, const Exprs& at, const Expr& index) {
  Inst i;  // its parameter is added last, as that of the accumulators
  i.kind = InstKind::store;
  i.dtype = g_.type(v).dtype;
  i.args = {cast(eval(v, moved(at), kNone<InstId>), i.dtype)};
  i.index = index;
  k_.insts.push(std::move(i));
}

// ------------------------------------------------------------------------------------------------------------ instructions
InstId KernelBuilder::push(Inst i) {
  const Key key{i.kind, i.op, i.dtype, i.args, i.param, i.mask, std::bit_cast<int64_t>(i.imm_f), i.imm_i, i.reduce_kind};
  auto& same = same_[key];
  for (InstId s : same)
    if (k_.insts[s].index == i.index) return s;
  const InstId id = k_.insts.push(std::move(i));
  same.push_back(id);
  return id;
}

InstId KernelBuilder::op(Op o, DType t, std::vector<InstId> args) {
  Inst i;
  i.op = o;
  i.dtype = t;
  i.args = std::move(args);
  return push(std::move(i));
}

InstId KernelBuilder::constant(DType t, double f, int64_t v) {
  Inst i;
  i.kind = InstKind::constant;
  i.dtype = t;
  i.imm_f = f;
  i.imm_i = v;
  return push(std::move(i));
}

InstId KernelBuilder::index_value(const Expr& e) {
  if (auto c = e.as_const()) return constant(DType::i64, static_cast<double>(*c), *c);
  Inst i;
  i.kind = InstKind::index;
  i.dtype = DType::i64;
  i.index = e;
  return push(std::move(i));
}

InstId KernelBuilder::cast(InstId i, DType to) {
  const Inst& x = k_.insts[i];
  if (x.dtype == to) return i;
  if (x.kind == InstKind::op && x.op == Op::cast && (is_half(to) || is_float8(to)) && k_.insts[x.args[0]].dtype == to && is_float(x.dtype))
    return x.args[0];
  return op(Op::cast, to, {i});
}

InstId KernelBuilder::rounded(InstId i, DType t) {
  if (!(is_half(t) || is_float8(t)) || representable_.is(k_.insts, i, t)) return i;
  return cast(cast(i, t), compute_type(t));
}

InstId KernelBuilder::within(const std::vector<Within>& terms, InstId mask) {
  auto both = [&](InstId c) { mask = mask == kNone<InstId> ? c : op(Op::bit_and, DType::boolean, {mask, c}); };
  for (const Within& w : terms) {
    const InstId v = index_value(w.value);
    if (!k_.syms.proves_le(0, w.value)) both(op(Op::ge, DType::boolean, {v, constant(DType::i64, 0, 0)}));
    if (!k_.syms.proves_lt(w.value, w.extent)) both(op(Op::lt, DType::boolean, {v, index_value(w.extent)}));
  }
  return mask;
}

// -------------------------------------------------------------------------------------------------------------- evaluation
InstId KernelBuilder::eval(ValueId v, const Exprs& given, InstId mask) {
  Exprs at = given;
  const DType t = g_.type(v).dtype;
  if (v == acc_value_) return rounded(cast(acc_load_, compute_type(t)), t);
  const Group& gr = p_.groups[id_];
  if (!p_.is_leaf(v) && gr.node != kNone<NodeId> && p_.anchor[v] == gr.node && !p_.reads(id_, v)) at = moved(p_.at[v]);
  auto& memo = memo_[{v, mask}];
  for (const auto& [i, inst] : memo)
    if (i == at) return inst;
  const InstId r = p_.reads(id_, v) ? load(v, at, mask, 0, 0) : rounded(eval_node(v, *g_.def(v), at, mask), t);
  memo_[{v, mask}].push_back({at, r});
  return r;
}

InstId KernelBuilder::load(ValueId v, const Exprs& at, InstId mask, double imm_f, int64_t imm_i) {
  const auto [root, offset] = p_.locate_offset(v, at, k_.syms);
  Inst i;
  i.kind = InstKind::load;
  i.dtype = g_.type(v).dtype;
  i.param = param(buffers_.of(root), ParamRole::input);
  i.index = offset;
  i.mask = mask;
  if (mask != kNone<InstId>) {
    i.imm_f = imm_f;
    i.imm_i = imm_i;
  }
  return cast(push(std::move(i)), compute_type(g_.type(v).dtype));
}

namespace {
/// The scalar of an attribute `value`, as both kinds.
std::pair<double, int64_t> scalar(const Node& n) {
  const AttrValue& a = n.attrs.at(Attr::value);
  if (auto d = std::get_if<double>(&a)) {
    const bool fits = *d > -9.2e18 && *d < 9.2e18;
    return {*d, fits ? static_cast<int64_t>(*d) : *d > 0 ? INT64_MAX : INT64_MIN};
  }
  if (auto i = std::get_if<int64_t>(&a)) return {static_cast<double>(*i), *i};
  const bool b = std::get<bool>(a);
  return {b ? 1.0 : 0.0, b};
}
double in_type(DType t, double x) { return is_float(t) ? round_to(t, x) : x; }
}  // namespace

InstId KernelBuilder::eval_node(ValueId v, const Node& n, const Exprs& at, InstId mask) {
  const DType t = compute_type(g_.type(v).dtype);
  if (op_class(n.op) == OpClass::nullary) {
    if (n.op == Op::iota) return index_value(at[static_cast<size_t>(n.get<int64_t>(Attr::dim))]);
    if (n.op == Op::sym) return index_value(n.get<Expr>(Attr::expr));
    const auto [f, i] = scalar(n);
    return constant(t, in_type(g_.type(v).dtype, f), i);
  }
  const LookUp look_up = [&](ValueId u, const Exprs& u_at, const Expr& extent) { return loaded_index(u, u_at, &mask, extent); };
  const std::vector<InputRead> reads = input_reads(g_, n, at, p_.groups[id_].inner, k_.syms, look_up);
  switch (op_class(n.op)) {
    case OpClass::unary:
    case OpClass::binary:
    case OpClass::ternary: return pointwise(n, reads, mask);
    case OpClass::view: return view(n, reads[0], mask);
    case OpClass::cat: return cat(n, reads, mask);
    case OpClass::index: return eval(reads[0].value, reads[0].at, mask);
    case OpClass::reduce: return reduce(n, reads[0], mask);
    default: break;
  }
  AOTC_CHECK(op_class(n.op) == OpClass::scan, "{} cannot be computed in a loop", op_name(n.op));
  Inst i;
  i.kind = InstKind::scan;
  i.reduce_kind = n.reduce_kind();
  if (n.op == Op::scan_arg) i.reduce_kind = i.reduce_kind == ReduceKind::max ? ReduceKind::argmax : ReduceKind::argmin;
  i.dtype = t;
  i.args = {eval(reads[0].value, reads[0].at, kNone<InstId>)};  // of whole rows, as a reduction
  return push(std::move(i));
}

InstId KernelBuilder::pointwise(const Node& n, const std::vector<InputRead>& reads, InstId mask) {
  const DType t = g_.type(n.outputs[0]).dtype;
  if (n.op == Op::cast) return cast(eval(reads[0].value, reads[0].at, mask), compute_type(t));
  std::vector<InstId> args;
  for (const InputRead& r : reads) args.push_back(eval(r.value, r.at, mask));
  if (n.op == Op::bitcast || n.op == Op::nextafter) {  // these see the bits of their own type
    for (size_t i = 0; i < args.size(); ++i) args[i] = cast(args[i], g_.type(n.inputs[i]).dtype);
    return cast(op(n.op, t, std::move(args)), compute_type(t));
  }
  return op(n.op, compute_type(t), std::move(args));
}

InstId KernelBuilder::view(const Node& n, const InputRead& in, InstId mask) {
  const ValueId u = in.value;
  if (in.within.empty()) return eval(u, in.at, mask);
  const auto [f, i] = scalar(n);
  const InstId inside = within(in.within, kNone<InstId>);
  InstId both = inside;
  if (mask != kNone<InstId>) both = op(Op::bit_and, DType::boolean, {mask, inside});
  const DType t = compute_type(g_.type(u).dtype);
  if (p_.reads(id_, u) && compute_type(g_.type(u).dtype) == g_.type(u).dtype) return load(u, in.at, both, f, i);
  return op(Op::where, t, {inside, eval(u, in.at, both), constant(t, in_type(g_.type(u).dtype, f), i)});
}

InstId KernelBuilder::cat(const Node& n, const std::vector<InputRead>& reads, InstId mask) {
  const DType t = compute_type(g_.type(n.outputs[0]).dtype);
  InstId result = kNone<InstId>;
  struct Part {
    InstId inside, value;
  };
  std::vector<Part> parts;
  for (const InputRead& r : reads) {
    if (r.within[0].extent.is(0)) continue;
    const InstId inside = within(r.within, kNone<InstId>);
    InstId both = inside == kNone<InstId> ? mask : inside;
    if (inside != kNone<InstId> && mask != kNone<InstId>) both = op(Op::bit_and, DType::boolean, {mask, inside});
    parts.push_back({inside, eval(r.value, r.at, both)});
  }
  if (parts.empty()) return constant(t, 0, 0);
  for (size_t i = parts.size(); i-- > 0;) {
    if (result == kNone<InstId> || parts[i].inside == kNone<InstId>)
      result = parts[i].value;
    else
      result = op(Op::where, t, {parts[i].inside, parts[i].value, result});
  }
  return result;
}

InstId KernelBuilder::reduce(const Node& n, const InputRead& read, InstId mask) {
  const Ints& dims = n.get<Ints>(Attr::dims);
  const Exprs& in = g_.type(n.inputs[0]).dims;
  Inst i;
  i.kind = InstKind::reduce;
  i.reduce_kind = n.reduce_kind();
  i.dtype = compute_type(g_.type(n.outputs[0]).dtype);
  if (std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return in[static_cast<size_t>(d)].is(1); })) {
    const bool position = i.reduce_kind == ReduceKind::argmax || i.reduce_kind == ReduceKind::argmin;
    return position ? constant(i.dtype, 0, 0) : eval(read.value, read.at, mask);
  }
  // Of nothing: the neutral element, so that no row of no elements is ever looked at.
  if (std::any_of(dims.begin(), dims.end(), [&](int64_t d) { return in[static_cast<size_t>(d)].is(0); })) {
    const double inf = std::numeric_limits<double>::infinity();
    switch (i.reduce_kind) {
      case ReduceKind::prod: return constant(i.dtype, 1, 1);
      case ReduceKind::max:
      case ReduceKind::logsumexp: return constant(i.dtype, -inf, is_bool(i.dtype) ? 0 : INT64_MIN);
      case ReduceKind::min: return constant(i.dtype, inf, is_bool(i.dtype) ? 1 : INT64_MAX);
      default: return constant(i.dtype, 0, 0);
    }
  }
  // Of whole rows, each of which the group's own variables reach once: where a result is looked at (a mask) says nothing of what it is made
  // of.
  i.args = {eval(read.value, read.at, kNone<InstId>)};
  return push(std::move(i));
}

Expr KernelBuilder::bound(InstId i, const Expr& extent) {
  auto [it, fresh] = bound_.emplace(i, kNone<SymId>);
  if (fresh) {
    SymInfo s;
    s.name = "x" + std::to_string(bound_.size() - 1);
    s.kind = SymKind::value;
    s.extent = extent;
    it->second = k_.syms.add(s);
    k_.insts[i].bind = it->second;
  }
  return Expr::symbol(it->second);
}

/// Of dims whose places 32 bits hold, with room for their sum: half the lanes' bytes, and operations that AVX2 lacks for 64.
constexpr int64_t kNearExtent = int64_t{1} << 30;

InstId KernelBuilder::near_index(InstId x, const std::optional<Interval>& range) {
  const DType own = k_.insts[x].dtype;
  const bool within = range ? range->min >= -kNearExtent - 1 && range->max <= kNearExtent : own != DType::i64 && own != DType::i32;
  if (!within) x = op(Op::maximum, own, {op(Op::minimum, own, {x, constant(own, 0, kNearExtent)}), constant(own, 0, -kNearExtent - 1)});
  return cast(x, DType::i32);
}

Expr KernelBuilder::loaded_index(ValueId v, const Exprs& at, InstId* mask, const Expr& extent) {
  const DType b = DType::boolean, t = k_.syms.interval(extent).max < kNearExtent ? DType::i32 : DType::i64;
  const auto range = int_range(g_, v);
  const InstId loaded = eval(v, at, *mask), raw = t == DType::i32 ? near_index(loaded, range) : cast(loaded, t);
  if (range && range->min >= 0 && k_.syms.proves_lt(range->max, extent)) return bound(raw, extent);
  const auto fixed = extent.as_const();
  const InstId zero = constant(t, 0, 0), size = fixed ? constant(t, static_cast<double>(*fixed), *fixed) : cast(index_value(extent), t);
  const InstId from_end = op(Op::add, t, {raw, size});
  const InstId wrapped = op(Op::where, t, {op(Op::lt, b, {raw, zero}), from_end, raw});
  InstId good = op(Op::bit_and, b, {op(Op::ge, b, {wrapped, zero}), op(Op::lt, b, {wrapped, size})});
  Inst c;
  c.kind = InstKind::check;
  c.dtype = b;
  c.args = {*mask == kNone<InstId> ? good : op(Op::bit_or, b, {op(Op::logical_not, b, {*mask}), good})};
  c.text = "index out of range";
  push(std::move(c));
  // After a failed check the kernel goes on to its end: it must still read within the buffer.
  const InstId safe = op(Op::maximum, t, {op(Op::minimum, t, {wrapped, op(Op::sub, t, {size, constant(t, 1, 1)})}), zero});
  if (!k_.syms.proves_le(1, extent)) *mask = *mask == kNone<InstId> ? good : op(Op::bit_and, b, {*mask, good});
  return bound(safe, extent);
}

}  // namespace aotc::loop

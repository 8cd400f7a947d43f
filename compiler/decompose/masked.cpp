#include "decompose/masked.h"

#include <algorithm>

#include "base/words.h"
#include "decompose/masked_walk.h"
#include "graph/guard.h"
#include "import/operands.h"

namespace aotc::decompose {
namespace masked {

using namespace import;

namespace {
struct Row {
  std::string_view names;
  Use use;
  Neutral neutral = Neutral::zero;
};
/// Operators that read tensors beyond what is selected, or that may fail on a number that is not, are not here.
constexpr Row kUses[] = {
    {"abs absolute acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil celu "
     "clamp clamp_max clamp_min clip clone cos cosh detach div divide dropout elu eq erf erfc exp exp2 expm1 floor fmax fmin frac ge gelu "
     "gt hardshrink hardsigmoid hardswish hardtanh hypot isfinite isinf isnan le leaky_relu lerp log log10 log1p log2 logical_and "
     "logical_not logical_or logical_xor logit lt masked_fill maximum minimum mish mul multiply nan_to_num ne neg negative positive pow "
     "reciprocal relu relu6 round rsqrt rsub selu sgn sigmoid sign silu sin sinh softplus softshrink softsign sqrt square sub subtract tan "
     "tanh threshold to _to_copy true_divide trunc where xlogy",
     Use::elementwise},
    {"linear layer_norm", Use::rows},
    {"sum", Use::sum},
    {"mean", Use::mean},
    {"var", Use::variance},
    {"std", Use::deviation},
    {"median", Use::median},
    {"cumsum", Use::line},
    {"cumprod", Use::line, Neutral::one},
    {"logcumsumexp softmax _softmax log_softmax _log_softmax", Use::line, Neutral::least},
    {"all prod", Use::fold, Neutral::one},
    {"amax logsumexp max", Use::fold, Neutral::least},
    {"amin min", Use::fold, Neutral::greatest},
    {"any count_nonzero linalg_vector_norm nansum norm", Use::fold},
    {"mse_loss l1_loss", Use::loss},
    {"index_put", Use::write},
    {"broadcast_tensors", Use::alike},
};

struct Target {
  std::string name;  ///< "add" of "aten.add_.Tensor"
  bool in_place = false;
};
Target target_of(const PNode& n) {
  if (n.target.rfind("aten.", 0) != 0) return {};
  Target t{n.target.substr(5, n.target.find('.', 5) - 5)};
  if (t.name.size() > 1 && t.name.back() == '_' && t.name[t.name.size() - 2] != '_') {
    t.name.pop_back();
    t.in_place = true;
  }
  return t;
}

}  // namespace

Arg* arg(PNode& n, std::string_view name) {
  for (NamedArg& a : n.args)
    if (a.name == name) return &a.value;
  return nullptr;
}
const std::string* tensor_name(const Arg* a) {
  const auto* t = a ? std::get_if<TensorRef>(a) : nullptr;
  return t ? &t->name : nullptr;
}

bool Walk::run(const std::vector<PNode>& nodes) {
  for (const PNode& n : nodes)
    if (!node(n)) return false;
  for (const ProgramOutput& o : p_.outputs) {
    if (const std::string* name = tensor_name(&o.value); name && packed_.count(*name)) return fail(*name);
    if (const std::string* counted = counted_in(o.value)) return fail(*counted);
  }
  for (const auto& [symbol, of] : counts_)
    if (excluded(symbol, of)) return fail(of);
  return true;
}

const std::string* Walk::counted_in(const Arg& a) const {
  const auto in = [&](const Expr& e) -> const std::string* {
    for (const auto& [symbol, of] : counts_)
      if (e.depends_on(symbol)) return &of;
    return nullptr;
  };
  if (const auto* e = std::get_if<Expr>(&a)) return in(*e);
  if (const auto* es = std::get_if<std::vector<Expr>>(&a))
    for (const Expr& e : *es)
      if (const std::string* of = in(e)) return of;
  if (const auto* s = std::get_if<SymbolicArg>(&a))
    for (const auto& [symbol, of] : counts_)
      if (s->text.find(p_.syms[symbol].name) != std::string::npos) return &of;
  return nullptr;
}

bool Walk::excluded(SymId count, const std::string& of) const {
  const SymInfo& info = p_.syms[count];
  const Expr most = product(sizes(packed_.at(of).mask));
  if (info.min > 0 || (info.max != kInf && !p_.syms.proves_le(most, info.max))) return true;
  const auto may_fail = [&](const ShapeGuard& q) {
    if (!q.a.depends_on(count) && !q.b.depends_on(count)) return false;
    SymTable syms = p_.syms;
    syms.edit(count).extent = most + 1;
    return decided(q, syms) != true;
  };
  return std::any_of(p_.guards.begin(), p_.guards.end(), may_fail) ||
         std::any_of(p_.branch_guards.begin(), p_.branch_guards.end(), [&](const import::BranchGuard& b) { return may_fail(b.guard); });
}

bool Walk::fail(const std::string& packed) {
  failed = packed_.at(packed).mask;
  return false;
}

void Walk::set_sizes(const std::string& name, std::vector<Expr> sizes) {
  TensorMeta& m = p_.tensors[name];
  m.sizes = std::move(sizes);
  m.strides.assign(m.sizes.size(), Expr(1));
  for (size_t d = m.sizes.size(); d-- > 1;) m.strides[d - 1] = m.strides[d] * m.sizes[d];
  m.storage_offset = 0;
}

/// x[:, mask]: the mask alone among the indices.
std::optional<Packed> Walk::selected(const PNode& n, const std::string& x, const Arg* indices) const {
  const auto* list = std::get_if<OptTensorList>(indices);
  if (!list) return std::nullopt;
  Packed p;
  size_t given = 0;
  for (size_t i = 0; i < list->size(); ++i)
    if ((*list)[i]) {
      p = {(*list)[i]->name, i};
      ++given;
    }
  if (given != 1 || packed_.count(p.mask) || packed_.count(x) || kept_.count(p.mask)) return std::nullopt;
  const TensorMeta& m = p_.tensors.at(p.mask);
  if (m.dtype != DType::boolean || m.sizes.empty()) return std::nullopt;
  if (n.results.size() != 1 || !std::holds_alternative<TensorRef>(n.results[0])) return std::nullopt;
  return p;
}

bool Walk::node(const PNode& n) {
  PNode own = n;
  const Target target = target_of(n);
  std::vector<std::string> operands;  // packed
  for (const NamedArg& a : n.args) {
    const auto add = [&](const std::string& name) {
      if (packed_.count(name)) operands.push_back(name);
    };
    each_tensor(a.value, add);
  }
  if (target.in_place)
    if (const std::string* written = tensor_name(own.args.empty() ? nullptr : &own.args[0].value))
      for (const auto& [name, p] : packed_)
        if (p_.tensors.at(*written).dtype == DType::boolean) return fail(name);  // maybe the mask, or a view of it
  const auto is_tensor = [](const Arg& a) { return std::holds_alternative<TensorRef>(a) || std::holds_alternative<TensorList>(a); };
  const bool of_numbers = std::none_of(n.results.begin(), n.results.end(), is_tensor);
  for (const NamedArg& a : n.args)
    if (const std::string* counted = of_numbers ? nullptr : counted_in(a.value)) return fail(*counted);
  if (operands.empty()) {
    if (n.target == "aten.masked_select.default") index_by_mask(own);
    if (own.target == "aten.index.Tensor") select(own);
    p_.nodes.push_back(std::move(own));
    return true;
  }
  const Packed p = packed_.at(operands[0]);
  for (const std::string& o : operands)
    if (packed_.at(o).mask != p.mask || packed_.at(o).at != p.at) return fail(o);
  if (of_numbers) {
    p_.nodes.push_back(std::move(own));  // the number itself: whether anything needs it is seen later
    return true;
  }
  const auto row = std::find_if(std::begin(kUses), std::end(kUses), [&](const Row& r) { return has_word(r.names, target.name); });
  const bool list = row != std::end(kUses) && row->use == Use::alike;
  const bool fitting = n.results.size() == 1 && std::holds_alternative<TensorList>(n.results[0]) == list && is_tensor(n.results[0]);
  const Arg* rounding = arg(own, "rounding_mode");  // whole numbers fail on a divisor of zero
  const bool whole = rounding && !std::holds_alternative<NoneArg>(*rounding);
  const Use use = row == std::end(kUses) || !fitting || whole ? Use::none : row->use;
  bool fits = false;
  switch (use) {
    case Use::none: break;
    case Use::elementwise:
    case Use::rows: fits = elementwise(own, p, use); break;
    case Use::sum: fits = sum(own, p, false); break;
    case Use::mean: fits = sum(own, p, true); break;
    case Use::variance: fits = spread(own, p, false); break;
    case Use::deviation: fits = spread(own, p, true); break;
    case Use::median: fits = median(own, p); break;
    case Use::fold: fits = fold(own, p, row->neutral); break;
    case Use::line: fits = !target.in_place && along_lines(own, p, row->neutral); break;
    case Use::loss: fits = loss(own, p); break;
    case Use::write: fits = write(own, p, target.in_place); break;
    case Use::alike: fits = alike(own, p); break;
  }
  return fits || fail(operands[0]);
}

void Walk::index_by_mask(PNode& n) const {
  const std::string *x = tensor_name(arg(n, "self")), *mask = tensor_name(arg(n, "mask"));
  if (!x || !mask || sizes(*x) != sizes(*mask) || sizes(*x).empty() || kept_.count(*mask)) return;
  const std::string of = *x, by = *mask;
  n.target = "aten.index.Tensor";
  n.args = {{"self", TensorRef{of}}, {"indices", OptTensorList{TensorRef{by}}}};
}

void Walk::select(PNode& n) {
  const std::string* x = tensor_name(arg(n, "self"));
  const std::optional<Packed> p = x ? selected(n, *x, arg(n, "indices")) : std::nullopt;
  if (!p) return;
  const std::string result = std::get<TensorRef>(n.results[0]).name;
  packed_[result] = *p;
  if (const auto count = sizes(result).at(p->at).as_symbol()) counts_.emplace(*count, result);
  set_sizes(result, sizes(*x));
  n.target = "aten.clone.default";
  n.args = {{"self", TensorRef{*x}}, {"memory_format", NoneArg{}, true}};
}

bool Walk::lies_after(const std::string& name, const Packed& p, size_t after) const {
  const std::vector<Expr>& dims = sizes(name);
  if (dims.size() <= after) return true;
  return dims[dims.size() - 1 - after].is(1) && (mask_rank(p) == 1 || dims.size() == after + 1);
}

bool Walk::elementwise(PNode& n, const Packed& p, Use use) {
  const std::string& result = std::get<TensorRef>(n.results[0]).name;
  const std::vector<Expr> logical = sizes(result);
  std::vector<Expr> whole(logical.begin(), logical.begin() + static_cast<int64_t>(std::min(p.at, logical.size())));
  if (logical.size() <= p.at) return false;
  const size_t after = logical.size() - p.at - 1;
  for (const NamedArg& a : n.args) {
    const std::string* name = tensor_name(&a.value);
    if (!name) continue;
    if (use == Use::rows) {
      if (packed_.count(*name) ? a.name != "input" || after == 0 : a.name == "input") return false;
    } else if (packed_.count(*name) ? tail(*name, p) != after : !lies_after(*name, p, after)) {
      return false;
    }
  }
  if (const Arg* shape = arg(n, "normalized_shape"); shape && std::get<std::vector<Expr>>(*shape).size() > after) return false;
  whole.insert(whole.end(), sizes(p.mask).begin(), sizes(p.mask).end());
  whole.insert(whole.end(), logical.end() - static_cast<int64_t>(after), logical.end());
  set_sizes(result, std::move(whole));
  packed_[result] = p;
  p_.nodes.push_back(std::move(n));
  return true;
}

std::string Walk::add(const PNode& like, const std::string& suffix, const std::string& target, std::vector<NamedArg> args, DType t,
                      std::vector<Expr> of) {
  PNode n = like;
  n.name = std::get<TensorRef>(like.results[0]).name + suffix;
  n.target = target;
  n.args = std::move(args);
  n.results = {TensorRef{n.name}};
  p_.tensors[n.name].dtype = t;
  set_sizes(n.name, std::move(of));
  p_.nodes.push_back(n);
  return n.name;
}

std::string Walk::mask_before(const PNode& like, const Packed& p, size_t after) {
  if (after == 0) return p.mask;
  if (const std::string made = std::get<TensorRef>(like.results[0]).name + ".mask"; p_.tensors.count(made)) return made;
  std::vector<Expr> dims = sizes(p.mask);
  dims.insert(dims.end(), after, Expr(1));
  return add(like, ".mask", "aten.reshape.default", {{"self", TensorRef{p.mask}}, {"shape", dims}}, DType::boolean, dims);
}

std::string Walk::selected_or(const PNode& n, const Packed& p, const std::string& x, Arg other, const std::string& suffix) {
  return add(n, suffix, "aten.where.ScalarOther",
             {{"condition", TensorRef{mask_before(n, p, tail(x, p))}}, {"self", TensorRef{x}}, {"other", std::move(other)}},
             p_.tensors.at(x).dtype, sizes(x));
}

bool Walk::write(PNode& n, const Packed& p, bool in_place) {
  const std::string *y = tensor_name(arg(n, "self")), *values = tensor_name(arg(n, "values"));
  const auto* accumulate = std::get_if<bool>(arg(n, "accumulate"));
  if (!y || !values || !packed_.count(*values) || !accumulate || *accumulate) return false;
  const std::optional<Packed> to = selected(n, *y, arg(n, "indices"));
  if (!to || to->mask != p.mask || to->at != p.at || sizes(*y).size() < p.at + mask_rank(p)) return false;
  const size_t after = tail(*y, p);
  if (tail(*values, p) != after) return false;
  const std::string mask = mask_before(n, p, after), x = *y, v = *values;
  std::vector<NamedArg> args = {{"condition", TensorRef{mask}}, {"self", TensorRef{v}}, {"other", TensorRef{x}}};
  if (!in_place) {
    n.target = "aten.where.self";
    n.args = std::move(args);
  } else {
    const std::string whole = add(n, ".whole", "aten.where.self", std::move(args), p_.tensors.at(x).dtype, sizes(x));
    n.target = "aten.copy_.default";
    n.args = {{"self", TensorRef{x}}, {"src", TensorRef{whole}}, {"non_blocking", false, true}};
  }
  p_.nodes.push_back(std::move(n));
  return true;
}

bool Walk::alike(PNode& n, const Packed& p) {
  const auto* from = std::get_if<TensorList>(arg(n, "tensors"));
  const TensorList to = std::get<TensorList>(n.results[0]);
  if (!from || from->size() != to.size()) return false;
  for (const TensorRef& t : *from)
    if (!packed_.count(t.name) || tail(t.name, p) != tail(from->front().name, p)) return false;
  for (size_t i = 0; i < to.size(); ++i) {
    PNode copy = n;
    copy.name = to[i].name;
    copy.target = "aten.clone.default";
    copy.args = {{"self", (*from)[i]}, {"memory_format", NoneArg{}, true}};
    copy.results = {to[i]};
    set_sizes(to[i].name, sizes((*from)[i].name));
    packed_[to[i].name] = p;
    p_.nodes.push_back(std::move(copy));
  }
  return true;
}

}  // namespace masked

namespace {

using namespace import;

bool selects(const PNode& n, const Program& p) {
  if (n.target == "aten.masked_select.default") return true;
  if (n.target != "aten.index.Tensor") return false;
  const auto boolean = [&](const std::string& t) { return p.tensors.at(t).dtype == DType::boolean; };
  return n.args.size() > 1 && any_tensor(n.args[1].value, boolean);
}

}  // namespace

void keep_masked_whole(Program& program) {
  if (std::none_of(program.nodes.begin(), program.nodes.end(), [&](const PNode& n) { return selects(n, program); })) return;
  for (std::set<std::string> kept;;) {
    masked::Walk walk(program, kept);
    if (walk.run(program.nodes)) {
      if (walk.any()) program = walk.take();
      return;
    }
    kept.insert(walk.failed);
  }
}

}  // namespace aotc::decompose

#include "decompose/masked.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace aotc::decompose {
namespace {

using namespace import;

/// A tensor of selected elements: [before.., selected, after..], which stands for [before.., mask.., after..].
struct Packed {
  std::string mask;
  size_t at = 0;  ///< of the selected ones among its dims
};

/// How an operator may read selected elements.
enum class Use : uint8_t { none, elementwise, rows, sum, mean, fold, loss, write, alike };
/// What a fold sees in the place of an element that is not selected, by its kind: it changes nothing.
enum class Neutral : uint8_t { zero, one, least, greatest };
struct Row {
  std::string_view name;
  Use use;
  Neutral neutral = Neutral::zero;
};
/// Operators that read tensors beyond what is selected, or that may fail on a number that is not, are not here.
constexpr Row kUses[] = {
    {"abs", Use::elementwise},
    {"add", Use::elementwise},
    {"atan", Use::elementwise},
    {"bitwise_and", Use::elementwise},
    {"bitwise_not", Use::elementwise},
    {"bitwise_or", Use::elementwise},
    {"ceil", Use::elementwise},
    {"clamp", Use::elementwise},
    {"clamp_max", Use::elementwise},
    {"clamp_min", Use::elementwise},
    {"clone", Use::elementwise},
    {"cos", Use::elementwise},
    {"detach", Use::elementwise},
    {"eq", Use::elementwise},
    {"erf", Use::elementwise},
    {"exp", Use::elementwise},
    {"expm1", Use::elementwise},
    {"floor", Use::elementwise},
    {"ge", Use::elementwise},
    {"gelu", Use::elementwise},
    {"gt", Use::elementwise},
    {"hardtanh", Use::elementwise},
    {"le", Use::elementwise},
    {"leaky_relu", Use::elementwise},
    {"log", Use::elementwise},
    {"log1p", Use::elementwise},
    {"log2", Use::elementwise},
    {"logical_and", Use::elementwise},
    {"logical_not", Use::elementwise},
    {"logical_or", Use::elementwise},
    {"lt", Use::elementwise},
    {"maximum", Use::elementwise},
    {"minimum", Use::elementwise},
    {"mul", Use::elementwise},
    {"ne", Use::elementwise},
    {"neg", Use::elementwise},
    {"pow", Use::elementwise},
    {"reciprocal", Use::elementwise},
    {"relu", Use::elementwise},
    {"round", Use::elementwise},
    {"rsqrt", Use::elementwise},
    {"rsub", Use::elementwise},
    {"sigmoid", Use::elementwise},
    {"sign", Use::elementwise},
    {"silu", Use::elementwise},
    {"sin", Use::elementwise},
    {"softplus", Use::elementwise},
    {"sqrt", Use::elementwise},
    {"square", Use::elementwise},
    {"sub", Use::elementwise},
    {"tanh", Use::elementwise},
    {"to", Use::elementwise},
    {"_to_copy", Use::elementwise},
    {"where", Use::elementwise},
    {"linear", Use::rows},
    {"sum", Use::sum},
    {"mean", Use::mean},
    {"all", Use::fold, Neutral::one},
    {"amax", Use::fold, Neutral::least},
    {"amin", Use::fold, Neutral::greatest},
    {"any", Use::fold},
    {"count_nonzero", Use::fold},
    {"linalg_vector_norm", Use::fold},
    {"logsumexp", Use::fold, Neutral::least},
    {"max", Use::fold, Neutral::least},
    {"min", Use::fold, Neutral::greatest},
    {"nansum", Use::fold},
    {"norm", Use::fold},
    {"prod", Use::fold, Neutral::one},
    {"mse_loss", Use::loss},
    {"l1_loss", Use::loss},
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

Arg* arg(PNode& n, std::string_view name) {
  for (NamedArg& a : n.args)
    if (a.name == name) return &a.value;
  return nullptr;
}
const std::string* tensor_name(const Arg* a) {
  const auto* t = a ? std::get_if<TensorRef>(a) : nullptr;
  return t ? &t->name : nullptr;
}
/// A reduction over all elements: 1 is the mean of a loss, 2 its sum.
int64_t reduction(PNode& n) {
  const Arg* a = arg(n, "reduction");
  const Expr* e = a ? std::get_if<Expr>(a) : nullptr;
  return e ? e->as_const().value_or(0) : 1;
}

/// One walk that leaves `kept` masks as they are. A use that needs the number of selected elements is another walk's kept mask.
class Walk {
 public:
  Walk(const Program& p, const std::set<std::string>& kept) : p_(p), kept_(kept) { p_.nodes.clear(); }

  /// False: `failed` is a mask to keep.
  bool run(const std::vector<PNode>& nodes) {
    for (const PNode& n : nodes)
      if (!node(n)) return false;
    for (const ProgramOutput& o : p_.outputs)
      if (const std::string* name = tensor_name(&o.value); name && packed_.count(*name)) return fail(*name);
    return true;
  }
  bool any() const { return !packed_.empty(); }
  Program take() { return std::move(p_); }
  std::string failed;

 private:
  bool fail(const std::string& packed) {
    failed = packed_.at(packed).mask;
    return false;
  }
  const std::vector<Expr>& sizes(const std::string& name) const { return p_.tensors.at(name).sizes; }
  void set_sizes(const std::string& name, std::vector<Expr> sizes) {
    TensorMeta& m = p_.tensors[name];
    m.sizes = std::move(sizes);
    m.strides.assign(m.sizes.size(), Expr(1));
    for (size_t d = m.sizes.size(); d-- > 1;) m.strides[d - 1] = m.strides[d] * m.sizes[d];
    m.storage_offset = 0;
  }

  /// x[:, mask]: the mask alone among the indices.
  std::optional<Packed> selected(const PNode& n, const std::string& x, const Arg* indices) const {
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

  bool node(const PNode& n) {
    PNode own = n;
    const Target target = target_of(n);
    std::vector<std::string> operands;  // packed
    for (const NamedArg& a : n.args) {
      const auto add = [&](const std::string& name) {
        if (packed_.count(name)) operands.push_back(name);
      };
      if (const auto* t = std::get_if<TensorRef>(&a.value)) add(t->name);
      if (const auto* l = std::get_if<TensorList>(&a.value))
        for (const TensorRef& t : *l) add(t.name);
      if (const auto* l = std::get_if<OptTensorList>(&a.value))
        for (const auto& t : *l)
          if (t) add(t->name);
    }
    if (target.in_place)
      if (const std::string* written = tensor_name(own.args.empty() ? nullptr : &own.args[0].value))
        for (const auto& [name, p] : packed_)
          if (p_.tensors.at(*written).dtype == DType::boolean) return fail(name);  // maybe the mask, or a view of it
    if (operands.empty()) {
      if (n.target == "aten.masked_select.default") index_by_mask(own);
      if (own.target == "aten.index.Tensor") select(own);
      p_.nodes.push_back(std::move(own));
      return true;
    }
    const Packed p = packed_.at(operands[0]);
    for (const std::string& o : operands)
      if (packed_.at(o).mask != p.mask || packed_.at(o).at != p.at) return fail(o);
    const auto is_tensor = [](const Arg& a) { return std::holds_alternative<TensorRef>(a) || std::holds_alternative<TensorList>(a); };
    if (std::none_of(n.results.begin(), n.results.end(), is_tensor)) {
      p_.nodes.push_back(std::move(own));  // the number itself: whether anything needs it is seen later
      return true;
    }
    const auto row = std::find_if(std::begin(kUses), std::end(kUses), [&](const Row& r) { return r.name == target.name; });
    const bool list = row != std::end(kUses) && row->use == Use::alike;
    const bool fitting = n.results.size() == 1 && std::holds_alternative<TensorList>(n.results[0]) == list && is_tensor(n.results[0]);
    const Use use = row == std::end(kUses) || !fitting ? Use::none : row->use;
    bool fits = false;
    switch (use) {
      case Use::none: break;
      case Use::elementwise:
      case Use::rows: fits = elementwise(own, p, use); break;
      case Use::sum: fits = sum(own, p, false); break;
      case Use::mean: fits = sum(own, p, true); break;
      case Use::fold: fits = fold(own, p, row->neutral); break;
      case Use::loss: fits = loss(own, p); break;
      case Use::write: fits = write(own, p, target.in_place); break;
      case Use::alike: fits = alike(own, p); break;
    }
    return fits || fail(operands[0]);
  }

  /// masked_select of a mask of x's own sizes is x[mask].
  void index_by_mask(PNode& n) const {
    const std::string *x = tensor_name(arg(n, "self")), *mask = tensor_name(arg(n, "mask"));
    if (!x || !mask || sizes(*x) != sizes(*mask) || sizes(*x).empty() || kept_.count(*mask)) return;
    const std::string of = *x, by = *mask;
    n.target = "aten.index.Tensor";
    n.args = {{"self", TensorRef{of}}, {"indices", OptTensorList{TensorRef{by}}}};
  }

  /// x[mask] becomes a copy of x.
  void select(PNode& n) {
    const std::string* x = tensor_name(arg(n, "self"));
    const std::optional<Packed> p = x ? selected(n, *x, arg(n, "indices")) : std::nullopt;
    if (!p) return;
    const std::string result = std::get<TensorRef>(n.results[0]).name;
    packed_[result] = *p;
    set_sizes(result, sizes(*x));
    n.target = "aten.clone.default";
    n.args = {{"self", TensorRef{*x}}, {"memory_format", NoneArg{}, true}};
  }

  size_t mask_rank(const Packed& p) const { return sizes(p.mask).size(); }
  size_t tail(const std::string& name, const Packed& p) const { return sizes(name).size() - p.at - mask_rank(p); }

  /// Other tensors lie along the dims after the selected ones.
  bool elementwise(PNode& n, const Packed& p, Use use) {
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
      } else if (packed_.count(*name) ? tail(*name, p) != after : sizes(*name).size() > after) {
        return false;
      }
    }
    whole.insert(whole.end(), sizes(p.mask).begin(), sizes(p.mask).end());
    whole.insert(whole.end(), logical.end() - static_cast<int64_t>(after), logical.end());
    set_sizes(result, std::move(whole));
    packed_[result] = p;
    p_.nodes.push_back(std::move(n));
    return true;
  }

  /// A node made beside `like`; its result has these sizes.
  std::string add(const PNode& like, const std::string& suffix, const std::string& target, std::vector<NamedArg> args, DType t,
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
  /// The mask with dims of one element for those after it.
  std::string mask_before(const PNode& like, const Packed& p, size_t after) {
    if (after == 0) return p.mask;
    std::vector<Expr> dims = sizes(p.mask);
    dims.insert(dims.end(), after, Expr(1));
    return add(like, ".mask", "aten.reshape.default", {{"self", TensorRef{p.mask}}, {"shape", dims}}, DType::boolean, dims);
  }

  /// A reduction over dims after the selected one, given for the whole tensor.
  bool of_rows(PNode& n, const Packed& p, bool keep) {
    const std::vector<Expr> dims = std::get<std::vector<Expr>>(*arg(n, "dim"));
    const std::vector<Expr>& x = sizes(*tensor_name(arg(n, "self")));
    std::vector<Expr> whole;
    for (size_t d = 0; d < x.size(); ++d) {
      const bool reduced = std::count(dims.begin(), dims.end(), Expr(static_cast<int64_t>(d))) > 0;
      if (reduced && d < p.at) return false;
      if (!reduced || keep) whole.push_back(reduced ? Expr(1) : x[d]);
    }
    const std::string result = std::get<TensorRef>(n.results[0]).name;
    set_sizes(result, std::move(whole));
    packed_[result] = p;
    p_.nodes.push_back(std::move(n));
    return true;
  }

  /// The dims that a reduction is over become those of the whole tensor. `others`: elements that go into it for each selected one.
  bool whole_dims(PNode& n, const Packed& p, bool& over_selected, Expr& others) {
    const std::string x = *tensor_name(arg(n, "self"));
    const size_t k = mask_rank(p), rank = sizes(x).size() - k + 1;
    const auto* keep = std::get_if<bool>(arg(n, "keepdim"));
    const auto* given = std::get_if<std::vector<Expr>>(arg(n, "dim"));
    if (!given || given->empty() || !keep || (*keep && k > 1)) return false;
    std::vector<Expr> dims;
    for (const Expr& e : *given) {
      int64_t d = e.as_const().value_or(INT64_MIN);
      if (d < 0) d += static_cast<int64_t>(rank);
      if (d < 0 || d >= static_cast<int64_t>(rank)) return false;
      const auto at = static_cast<size_t>(d);
      over_selected |= at == p.at;
      for (size_t i = 0; i < (at == p.at ? k : 1); ++i) dims.emplace_back(static_cast<int64_t>(at + i + (at > p.at ? k - 1 : 0)));
      if (at != p.at) others *= sizes(x)[at + (at > p.at ? k - 1 : 0)];
    }
    *arg(n, "dim") = dims;
    return true;
  }

  /// x with something else where nothing is selected.
  std::string selected_or(const PNode& n, const Packed& p, const std::string& x, Arg other) {
    return add(n, ".selected", "aten.where.ScalarOther",
               {{"condition", TensorRef{mask_before(n, p, tail(x, p))}}, {"self", TensorRef{x}}, {"other", std::move(other)}},
               p_.tensors.at(x).dtype, sizes(x));
  }

  static std::optional<Arg> neutral_of(Neutral kind, DType t) {
    if (kind == Neutral::zero || kind == Neutral::one) {
      const bool one = kind == Neutral::one;
      if (t == DType::boolean) return Arg(one);
      return is_float(t) ? Arg(one ? 1.0 : 0.0) : Arg(Expr(int64_t{one}));
    }
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const bool least = kind == Neutral::least;
    if (t == DType::boolean) return Arg(!least);
    if (is_float(t)) return Arg(least ? -infinity : infinity);
    if (!is_int(t)) return std::nullopt;
    const int bits = static_cast<int>(dtype_bytes(t)) * 8;
    const int64_t greatest = t == DType::u8 ? 255 : static_cast<int64_t>(UINT64_MAX >> (65 - bits));
    return Arg(Expr(!least ? greatest : t == DType::u8 ? 0 : -greatest - 1));
  }

  /// A reduction that an element of its own leaves as it is, over all elements or over some dims.
  bool fold(PNode& n, const Packed& p, Neutral kind) {
    const std::string* self = tensor_name(arg(n, "self"));
    if (!self) return false;
    const std::string x = *self;
    for (const std::string_view name : {"ord", "p"})  // norms of other orders are no sums of powers
      if (const Arg* order = arg(n, name); order && !std::holds_alternative<NoneArg>(*order)) {
        const auto* real = std::get_if<double>(order);
        const auto* whole = std::get_if<Expr>(order);
        if (!(real ? *real > 0 : whole && whole->as_const().value_or(0) > 0)) return false;
      }
    Arg* dim = arg(n, "dim");
    const bool single = dim && std::holds_alternative<Expr>(*dim);  // a schema that takes one dim
    if (single && mask_rank(p) > 1) return false;
    if (single) *dim = std::vector<Expr>{std::get<Expr>(*dim)};
    const auto* list = dim ? std::get_if<std::vector<Expr>>(dim) : nullptr;
    const bool all = !dim || std::holds_alternative<NoneArg>(*dim) || (list && list->empty());
    bool over_selected = all;
    Expr others(1);
    if (all) {
      const Arg* keep = arg(n, "keepdim");
      if (keep && *std::get_if<bool>(keep)) return false;
    } else if (!whole_dims(n, p, over_selected, others)) {
      return false;
    }
    if (single && !over_selected) return false;
    if (!over_selected) return of_rows(n, p, *std::get_if<bool>(arg(n, "keepdim")));
    if (single) *dim = Arg(std::vector<Expr>(std::get<std::vector<Expr>>(*dim)).front());
    std::optional<Arg> other = neutral_of(kind, p_.tensors.at(x).dtype);
    if (!other) return false;
    const std::string kept = selected_or(n, p, x, std::move(*other));
    *arg(n, "self") = TensorRef{kept};
    p_.nodes.push_back(std::move(n));
    return true;
  }

  /// Over all elements, or over some dims.
  bool sum(PNode& n, const Packed& p, bool mean) {
    const std::string x = *tensor_name(arg(n, "self"));
    const DType t = p_.tensors.at(x).dtype;
    const bool all = n.target == "aten.sum.default" || n.target == "aten.mean.default";
    const size_t k = mask_rank(p);
    if (!all && n.target != "aten.sum.dim_IntList" && n.target != "aten.mean.dim") return false;
    if (mean && t != DType::f32 && t != DType::f64) return false;
    if (Arg* dtype = arg(n, "dtype"); mean && dtype && !std::holds_alternative<NoneArg>(*dtype)) return false;
    Expr others(1);  // elements that are summed for each selected one
    bool over_selected = all;
    if (all) {
      for (size_t d = 0; d < sizes(x).size(); ++d)
        if (d < p.at || d >= p.at + k) others *= sizes(x)[d];
    } else if (!whole_dims(n, p, over_selected, others)) {
      return false;
    }
    const std::vector<Expr> dims = all ? std::vector<Expr>() : std::get<std::vector<Expr>>(*arg(n, "dim"));
    if (!over_selected) return of_rows(n, p, *std::get_if<bool>(arg(n, "keepdim")));
    const std::string kept = selected_or(n, p, x, Expr(0));
    *arg(n, "self") = TensorRef{kept};
    if (!mean) {
      p_.nodes.push_back(std::move(n));
      return true;
    }
    const std::string result = std::get<TensorRef>(n.results[0]).name;
    std::vector<NamedArg> args = {{"self", TensorRef{kept}}};
    if (!all) args.insert(args.end(), {{"dim", dims}, {"keepdim", *arg(n, "keepdim")}});
    args.push_back({"dtype", NoneArg{}, true});
    const std::string sums = add(n, ".sum", all ? "aten.sum.default" : "aten.sum.dim_IntList", std::move(args), t, sizes(result));
    const std::string selected =
        add(n, ".selected_count", "aten.sum.default", {{"self", TensorRef{p.mask}}, {"dtype", NoneArg{}, true}}, DType::i64, {});
    const std::string count = add(n, ".count", "aten.mul.Tensor", {{"self", TensorRef{selected}}, {"other", others}}, DType::i64, {});
    n.target = "aten.div.Tensor";
    n.args = {{"self", TensorRef{sums}}, {"other", TensorRef{count}}};
    p_.nodes.push_back(std::move(n));
    return true;
  }

  /// The loss of each element, then its sum or mean.
  bool loss(PNode& n, const Packed& p) {
    const int64_t how = reduction(n);
    const std::string *a = tensor_name(arg(n, "self")), *b = tensor_name(arg(n, "target"));
    Arg* weight = arg(n, "weight");
    if (!a || !b || !packed_.count(*a) || !packed_.count(*b) || tail(*a, p) != tail(*b, p)) return false;
    if ((how != 1 && how != 2) || (weight && !std::holds_alternative<NoneArg>(*weight))) return false;
    std::vector<NamedArg> args = n.args;
    for (NamedArg& x : args)
      if (x.name == "reduction") x.value = Expr(0);
    const std::string each =
        add(n, ".each", n.target, std::move(args), p_.tensors.at(std::get<TensorRef>(n.results[0]).name).dtype, sizes(*a));
    packed_[each] = p;
    n.target = how == 1 ? "aten.mean.default" : "aten.sum.default";
    n.args = {{"self", TensorRef{each}}, {"dtype", NoneArg{}, true}};
    return sum(n, p, how == 1);
  }

  /// Tensors of the same elements are of one size already.
  bool alike(PNode& n, const Packed& p) {
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

  /// y[mask] = selected elements.
  bool write(PNode& n, const Packed& p, bool in_place) {
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

  Program p_;
  const std::set<std::string>& kept_;
  std::map<std::string, Packed> packed_;
};

bool selects(const PNode& n, const Program& p) {
  if (n.target == "aten.masked_select.default") return true;
  if (n.target != "aten.index.Tensor") return false;
  for (const NamedArg& a : n.args)
    if (const auto* l = std::get_if<OptTensorList>(&a.value))
      for (const auto& t : *l)
        if (t && p.tensors.at(t->name).dtype == DType::boolean) return true;
  return false;
}

}  // namespace

void keep_masked_whole(Program& program) {
  if (std::none_of(program.nodes.begin(), program.nodes.end(), [&](const PNode& n) { return selects(n, program); })) return;
  for (std::set<std::string> kept;;) {
    Walk walk(program, kept);
    if (walk.run(program.nodes)) {
      if (walk.any()) program = walk.take();
      return;
    }
    kept.insert(walk.failed);
  }
}

}  // namespace aotc::decompose

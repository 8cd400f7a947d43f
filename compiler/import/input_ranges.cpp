#include "import/input_ranges.h"

#include <algorithm>

#include "base/words.h"

namespace aotc::import {
namespace {

/// value = the input's element + offset
struct Trace {
  std::string input;
  int64_t offset = 0;
};

/// "aten.view.default" → "view"; an in-place name without its underscore. Rows of a map by its own name.
std::string_view base_name(std::string_view target) {
  constexpr std::string_view kMaps = "torch._functorch.predispatch.";
  if (target.substr(0, kMaps.size()) == kMaps) return target.substr(kMaps.size());
  const size_t a = target.find('.'), b = target.rfind('.');
  if (target.substr(0, 5) != "aten." || a == b) return {};
  std::string_view n = target.substr(a + 1, b - a - 1);
  if (n.size() > 1 && n.back() == '_') n.remove_suffix(1);
  return n;
}

/// Results hold elements of the first argument unchanged.
constexpr std::string_view kMoves =
    "view reshape _unsafe_view unsqueeze squeeze expand expand_as permute transpose t slice select flatten contiguous clone detach alias "
    "repeat to _to_copy view_as flip roll movedim narrow repeat_interleave swapaxes split chunk unbind int long squeeze_copy "
    "split_with_sizes lift_fresh_copy type_as _add_batch_dim _remove_batch_dim";
/// Conditions and arithmetic of masks.
constexpr std::string_view kMaskUses =
    "eq ne lt le gt ge logical_not logical_and logical_or bitwise_and bitwise_or bitwise_not __and__ __or__ where masked_fill masked_fill_ "
    "mul rsub sub any all sum";

/// Arguments that say where along `dim` of `self` something is that is `length` long, or that ends at `end`.
struct PlaceUse {
  std::string_view op, place, length, end;
};
constexpr PlaceUse kPlaceUses[] = {
    {"select", "index", "", ""},   {"select_scatter", "index", "", ""},   {"narrow", "start", "length", ""},
    {"slice", "start", "", "end"}, {"slice_scatter", "start", "", "end"},
};

/// Operators whose argument `other` divides.
constexpr std::string_view kDivisions = "div divide floor_divide remainder fmod true_divide";

/// Arguments that hold indices: of which argument's which dimension they choose.
struct IndexUse {
  std::string_view ops, index, table, dim;  ///< dim: the argument that says which; empty: `fixed_dim`; "*": of all elements
  int fixed_dim = 0;
};
constexpr IndexUse kIndexUses[] = {
    {"embedding embedding_bag _embedding_bag _embedding_bag_forward_only", "indices", "weight", "", 0},
    {"index_select gather index_add index_copy index_fill index_reduce scatter scatter_add scatter_reduce", "index", "self", "dim"},
    {"take_along_dim", "indices", "self", "dim"},
    {"take", "index", "self", "*"},
    {"nll_loss_forward nll_loss nll_loss_nd cross_entropy_loss", "target", "self", "", 1},
};

class Follower {
 public:
  Follower(const Program& p, const std::map<SymId, int64_t>& sizes) : p_(p), sizes_(sizes) {}

  std::map<std::string, InputUse> run() {
    for (const ProgramInput& in : p_.inputs) {
      if (in.kind != InputKind::user) continue;
      const DType d = p_.tensors.at(in.name).dtype;
      if (is_int(d) || is_bool(d)) traces_[in.name] = {in.name};
    }
    for (const PNode& n : p_.nodes) visit(n);
    return uses_;
  }

 private:
  void visit(const PNode& n) {
    const std::string_view op = base_name(n.target);
    if (op.empty()) return;
    use_as_index(n, op);
    if (op == "item" || op == "_local_scalar_dense") use_as_size(n);
    if (!numbers_.empty()) use_as_place(n, op);
    if (has_word(kMaskUses, op)) mark_masks(n);
    if (has_word(kDivisions, op))
      if (const Trace* t = trace(find(n, "other"))) uses_[t->input].divisor = true;
    const Trace* first = n.args.empty() ? nullptr : trace(n.args[0].value);
    if (!first) return;
    Trace t = *first;
    bool follows = has_word(kMoves, op);
    if ((op == "add" || op == "sub") && n.args.size() > 1) {
      const Expr* e = std::get_if<Expr>(&n.args[1].value);
      if (e && e->is_const()) {
        const int64_t c = e->as_const().value_or(0);
        t.offset += op == "add" ? c : -c;
        follows = true;
      }
    }
    if ((op == "clamp_min" || (op == "clamp" && none(n, "max"))) && n.args.size() > 1) follows = true;
    if (!follows) return;
    for (const Arg& r : n.results) {
      const auto put = [&](const TensorRef& ref) {
        const DType d = p_.tensors.at(ref.name).dtype;
        // A mask is often cast to bool or float first.
        if (!is_int(d) && !is_bool(d)) uses_[t.input].mask = true;
        traces_[ref.name] = t;
      };
      if (const TensorRef* ref = std::get_if<TensorRef>(&r)) put(*ref);
      if (const TensorList* l = std::get_if<TensorList>(&r)) std::for_each(l->begin(), l->end(), put);
    }
  }

  void use_as_index(const PNode& n, std::string_view op) {
    for (const IndexUse& u : kIndexUses) {
      if (!has_word(u.ops, op)) continue;
      const Arg* table = find(n, u.table);
      const Trace* t = trace(find(n, u.index));
      if (!table || !t) continue;
      const Arg* dim = u.dim.empty() || u.dim == "*" ? nullptr : find(n, u.dim);
      int64_t d = u.fixed_dim;
      if (dim) {
        const Expr* e = std::get_if<Expr>(dim);
        if (!e || !e->is_const()) continue;
        d = e->as_const().value_or(0);
      }
      if (const auto size = u.dim == "*" ? elements(*table) : extent(*table, d)) bound(*t, *size);
    }
    if (op == "one_hot") {
      const Expr* e = n.args.size() > 1 ? std::get_if<Expr>(&n.args[1].value) : nullptr;
      const int64_t classes = e ? e->as_const().value_or(0) : 0;
      if (const Trace* t = trace(n.args[0].value)) bound(*t, classes > 0 ? classes : 8);
    }
    if (op == "index" || op == "index_put" || op == "_unsafe_index" || op == "_index_put_impl" || op == "_unsafe_index_put") {
      const OptTensorList* list = n.args.size() > 1 ? std::get_if<OptTensorList>(&n.args[1].value) : nullptr;
      int64_t dim = 0;
      for (size_t i = 0; list && i < list->size(); ++i, ++dim) {
        if (!(*list)[i]) continue;
        const TensorMeta& m = p_.tensors.at((*list)[i]->name);
        const Trace* t = trace(Arg(*(*list)[i]));
        if (is_bool(m.dtype)) {
          dim += static_cast<int64_t>(m.sizes.size()) - 1;
        } else if (const auto size = t ? extent(n.args[0].value, dim) : std::nullopt) {
          bound(*t, *size);
        }
      }
    }
    if (op == "embedding_bag" || op == "_embedding_bag" || op == "_embedding_bag_forward_only") use_as_offsets(n);
  }

  void use_as_offsets(const PNode& n) {
    const Trace* t = trace(find(n, "offsets"));
    const Arg* indices = find(n, "indices");
    const auto count = t && indices ? extent(*indices, 0) : std::nullopt;
    if (!count) return;
    InputUse& u = uses_[t->input];
    u.indices = u.offsets ? std::min(u.indices, *count) : *count;
    u.offsets = true;
    const Arg* ends = find(n, "include_last_offset");
    const bool* with_end = ends ? std::get_if<bool>(ends) : nullptr;
    u.ends |= with_end && *with_end;
  }

  /// The value becomes a size or an index: what export noted as its range.
  void use_as_size(const PNode& n) {
    const Trace* t = trace(n.args[0].value);
    const Expr* e = n.results.empty() ? nullptr : std::get_if<Expr>(&n.results[0]);
    const auto s = e ? e->as_symbol() : std::nullopt;
    if (!t || !s) return;
    numbers_[*s] = *t;
    const int64_t max = p_.syms[*s].max;
    bound(*t, max == kInf ? 8 : max + 1, std::max<int64_t>(p_.syms[*s].min, 0));
  }

  /// A number that was read out of an input says a place.
  void use_as_place(const PNode& n, std::string_view op) {
    for (const PlaceUse& u : kPlaceUses) {
      if (u.op != op) continue;
      const auto number = [&](std::string_view name) {
        const Arg* a = name.empty() ? nullptr : find(n, name);
        return a ? std::get_if<Expr>(a) : nullptr;
      };
      const Expr *place = number(u.place), *dim = number("dim"), *length = number(u.length), *end = number(u.end);
      const auto size = place && dim && dim->is_const() ? extent(n.args[0].value, *dim->as_const()) : std::nullopt;
      if (!size) continue;
      const int64_t elems = length ? length->as_const().value_or(1) : end ? p_.syms.simplify(*end - *place).as_const().value_or(1) : 1;
      for (const auto& [s, trace] : numbers_) {
        const auto offset = p_.syms.simplify(*place - Expr::symbol(s)).as_const();
        if (offset) bound({trace.input, trace.offset + *offset}, *size - elems + 1);
      }
    }
  }

  void mark_masks(const PNode& n) {
    for (const NamedArg& a : n.args)
      if (const Trace* t = trace(a.value)) uses_[t->input].mask = true;
  }

  void bound(const Trace& t, int64_t size, int64_t from = 0) {
    InputUse& u = uses_[t.input];
    const int64_t lo = std::max<int64_t>(0, from - t.offset), hi = size - t.offset;
    u.lo = u.index ? std::max(u.lo, lo) : lo;
    u.hi = u.index ? std::min(u.hi, hi) : hi;
    u.index = true;
  }

  const Trace* trace(const Arg& a) const {
    const TensorRef* r = std::get_if<TensorRef>(&a);
    const auto it = r ? traces_.find(r->name) : traces_.end();
    return it == traces_.end() ? nullptr : &it->second;
  }
  const Trace* trace(const Arg* a) const { return a ? trace(*a) : nullptr; }
  static const Arg* find(const PNode& n, std::string_view name) {
    for (const NamedArg& a : n.args)
      if (a.name == name) return &a.value;
    return nullptr;
  }
  static bool none(const PNode& n, std::string_view name) {
    const Arg* a = find(n, name);
    return !a || std::holds_alternative<NoneArg>(*a);
  }
  std::optional<int64_t> size_of(const Expr& e) const {
    return e.try_eval([&](SymId s) -> std::optional<int64_t> {
      const auto it = sizes_.find(s);
      if (it == sizes_.end()) return std::nullopt;
      return it->second;
    });
  }
  const std::vector<Expr>* sizes_of(const Arg& tensor) const {
    const TensorRef* r = std::get_if<TensorRef>(&tensor);
    return r ? &p_.tensors.at(r->name).sizes : nullptr;
  }
  std::optional<int64_t> extent(const Arg& tensor, int64_t dim) const {
    const auto* sizes = sizes_of(tensor);
    if (!sizes) return std::nullopt;
    const auto rank = static_cast<int64_t>(sizes->size());
    if (dim < 0) dim += rank;
    if (dim < 0 || dim >= rank) return std::nullopt;
    return size_of((*sizes)[static_cast<size_t>(dim)]);
  }
  std::optional<int64_t> elements(const Arg& tensor) const {
    const auto* sizes = sizes_of(tensor);
    return sizes ? size_of(product(*sizes)) : std::nullopt;
  }

  const Program& p_;
  const std::map<SymId, int64_t>& sizes_;
  std::map<std::string, Trace> traces_;
  std::map<SymId, Trace> numbers_;  ///< read out of inputs
  std::map<std::string, InputUse> uses_;
};

}  // namespace

std::map<std::string, std::vector<double>> compared_with(const Program& program) {
  constexpr std::string_view kComparisons = "lt le gt ge eq ne less less_equal greater greater_equal";
  constexpr std::string_view kSummaries = "max min amax amin aminmax sum mean abs item _local_scalar_dense";
  std::map<std::string, std::string> from;  // value → the user input
  std::map<SymId, std::string> numbers;
  std::map<std::string, std::vector<double>> out;
  for (const ProgramInput& in : program.inputs)
    if (in.kind == InputKind::user) from[in.name] = in.name;
  const auto number = [](const Arg& a) -> std::optional<double> {
    if (const double* d = std::get_if<double>(&a)) return *d;
    const Expr* e = std::get_if<Expr>(&a);
    const auto c = e ? e->as_const() : std::nullopt;
    return c ? std::optional(static_cast<double>(*c)) : std::nullopt;
  };
  for (const PNode& n : program.nodes) {
    const std::string_view op = base_name(n.target);
    const TensorRef* first = n.args.empty() ? nullptr : std::get_if<TensorRef>(&n.args[0].value);
    const auto it = first ? from.find(first->name) : from.end();
    if (it == from.end()) continue;
    const std::string input = it->second;
    if (has_word(kComparisons, op) && n.args.size() > 1)
      if (const auto c = number(n.args[1].value)) out[input].push_back(*c);
    if (!has_word(kMoves, op) && !has_word(kSummaries, op)) continue;
    for (const Arg& r : n.results) {
      if (const TensorRef* ref = std::get_if<TensorRef>(&r)) from[ref->name] = input;
      const Expr* e = std::get_if<Expr>(&r);
      if (const auto s = e ? e->as_symbol() : std::nullopt) numbers[*s] = input;
    }
  }
  for (const auto& [s, input] : numbers)
    if (const auto least = program.least.find(s); least != program.least.end() && least->second != INT64_MIN)
      out[input].push_back(static_cast<double>(least->second));
  return out;
}

std::map<std::string, InputUse> input_uses(const Program& program, const std::map<SymId, int64_t>& sizes) {
  return Follower(program, sizes).run();
}

}  // namespace aotc::import

#include "decompose/env.h"

#include <algorithm>

#include "decompose/alias.h"
#include "decompose/complex.h"
#include "decompose/decompose.h"
#include "decompose/indexing.h"
#include "decompose/overwritten.h"
#include "decompose/own_kernel.h"
#include "decompose/size_arithmetic.h"
#include "decompose/tensor.h"
#include "decompose/writing.h"
#include "import/operands.h"

namespace aotc::decompose {

using import::PNode;
using import::result_names;

namespace {
bool is_complex_tensor(const import::Program& p, const std::string& name) {
  const auto it = p.tensors.find(name);
  return it != p.tensors.end() && is_complex(it->second.dtype);
}

bool touches_complex(const import::Program& p, const PNode& node) {
  for (const std::string& name : result_names(node))
    if (is_complex_tensor(p, name)) return true;
  for (const import::NamedArg& a : node.args) {
    if (const auto* t = std::get_if<import::TensorRef>(&a.value); t && is_complex_tensor(p, t->name)) return true;
    if (const auto* l = std::get_if<import::TensorList>(&a.value))
      for (const import::TensorRef& t : *l)
        if (is_complex_tensor(p, t.name)) return true;
  }
  return false;
}
}  // namespace

bool has_rule(std::string_view target, bool complex) {
  const auto find = complex ? find_complex_rule : find_rule;
  if (find(target)) return true;
  const std::string functional = functional_name(std::string(target));
  return !functional.empty() && find(functional);
}

void Env::declare(const std::string& name, std::function<ValueId()> make) {
  Tensor t;
  t.make = std::move(make);
  tensors_[name] = std::move(t);
}

Env::Tensor& Env::find(const std::string& name) {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) throw Refused{fmt::format("the value '{}' is not computed by this compiler", name), ""};
  return it->second;
}

const std::string& Env::base_of(const std::string& name) const {
  const std::string* at = &name;
  for (;;) {
    const auto it = tensors_.find(*at);
    if (it == tensors_.end() || it->second.kind == Kind::none) return *at;
    at = &it->second.parent;
  }
}

bool Env::written(const std::string& name) const { return versions_.count(base_of(name)) != 0; }

ValueId Env::get(const std::string& name) {
  if (place_of_ && name == *place_of_) return places_;
  Tensor& t = find(name);
  if (t.make) {
    t.value = t.make();
    t.make = nullptr;
  }
  if (t.kind == Kind::none) return t.value;
  const auto version = versions_.find(base_of(name));
  if (version == versions_.end() || version->second == t.version) return t.value;
  if (t.kind == Kind::unclear)
    throw Refused{fmt::format("'{}' is read after a tensor that it may be a view of was written in place", name),
                  "export with run_decompositions()"};
  if (t.kind == Kind::same) {
    t.value = get(t.parent);
  } else {
    t.value = view_again(name, t, kNone<ValueId>);
  }
  t.version = version->second;
  return t.value;
}

std::map<std::string, ValueId> Env::defined_by(RuleFn fn, Rule& rule) {
  std::map<std::string, ValueId> made;
  // Rules may refuse: what they define meanwhile goes nowhere else either way.
  struct Outer {
    Env& env;
    std::map<std::string, ValueId>* capture;
    ~Outer() {
      env.capture_ = capture;
      env.place_of_ = nullptr;
    }
  } const outer{*this, std::exchange(capture_, &made)};
  fn(rule);
  return made;
}

ValueId Env::view_again(const std::string& name, const Tensor& t, ValueId places) {
  Rule r(b_, program_, *t.node, *this);
  r.pairs = touches_complex(program_, *t.node);
  r.places = places != kNone<ValueId>;
  const RuleFn fn = r.pairs ? find_complex_rule(t.node->target) : find_rule(t.node->target);
  AOTC_CHECK(fn, "a view by {}, which has no rule", t.node->target);
  if (r.places) {
    places_ = places;
    place_of_ = &t.parent;
  }
  return defined_by(fn, r).at(t.node->results.empty() ? name : result_names(*t.node).at(t.result));
}

bool Env::conjugate_view(const Tensor& t) {
  if (t.kind != Kind::view) return false;
  Rule r(b_, program_, *t.node, *this);
  r.pairs = touches_complex(program_, *t.node);
  return conjugates(r);
}

bool Env::in_conjugate(const std::string& name) {
  bool odd = false;
  for (const std::string* at = &name; find(*at).kind != Kind::none; at = &find(*at).parent) odd = odd != conjugate_view(find(*at));
  return odd;
}

ValueId Env::places_in(const std::string& name, const std::string& of) {
  if (name == of) {
    const std::vector<Expr> dims = b_.dims(get(of)), flat = {product(dims)};
    return iota(b_, flat, 0).reshape(dims);
  }
  const Tensor t = find(name);
  const ValueId parent = places_in(t.parent, of);
  if (t.kind == Kind::same) return parent;
  if (conjugate_view(t)) throw Refused{"an in-place write through a conjugate is not supported here", "write to the tensor itself"};
  const ValueId places = view_again(name, t, parent);
  if (b_.type(places).dtype != DType::i64)
    throw Refused{fmt::format("an in-place write through {} is not supported", t.node->target), "export with run_decompositions()"};
  return places;
}

std::string Env::beneath_overlap(const std::string& name) {
  std::string found;
  for (std::string at = name; find(at).kind == Kind::view || find(at).kind == Kind::same; at = find(at).parent) {
    const Tensor& t = find(at);
    if (t.kind == Kind::same || touches_complex(program_, *t.node)) continue;
    Rule r(b_, program_, *t.node, *this);
    if (may_overlap(r)) found = t.parent;
  }
  return found;
}

void Env::define(const std::string& name, ValueId v) {
  if (capture_) {
    (*capture_)[name] = v;
    return;
  }
  Tensor t;
  t.value = v;
  tensors_[name] = std::move(t);
}

ValueId Env::number(const import::SymbolicArg& arg) { return compute_from_sizes(b_, program_, arg, read_); }

void Env::read_number(const PNode& node) {
  running_ = &node;
  const auto* of = node.args.empty() ? nullptr : std::get_if<import::TensorRef>(&node.args[0].value);
  if (of && is_complex_tensor(program_, of->name)) throw Refused{"a complex number read out of a tensor", "keep it a tensor"};
  if (!of && !import::makes_symbol(node)) throw Refused{"a number read out of something else than a tensor", ""};
  const ValueId read = of ? get(of->name) : compute_from_sizes(b_, program_, node, read_);
  read_.add(b_, node, read, [&](SymId s) { return of_input(s); });
  check_stated(node, read);
  for (const import::Arg& a : node.results) {
    const auto* e = std::get_if<Expr>(&a);
    const auto s = e ? e->as_symbol() : std::nullopt;
    if (!s || found_.count(*s) || of_input(*s)) continue;
    const ValueId number = *read_.integer(b_, *e);
    // Where nothing says how large it may be it is no size, but may be a number.
    if (const std::optional<Expr> most = largest(*e)) {
      const SymInfo& info = b_.syms()[*s];
      if (!most->is_const())
        check(T(b_, number) <= scalar_of(b_, *most, DType::i64),
              fmt::format("{} (a number found in data) is more than {}, which the program excludes", info.name, most->str(b_.syms())));
      define_found(*s, number, *most);
    } else {
      check_range(*s, number, std::nullopt);
    }
  }
}

ValueId Env::where_taken(const std::vector<import::Branch>& branches, ValueId condition) {
  T all(b_, condition);
  for (const import::Branch& branch : branches) {
    const T taken = T(b_, get(branch.condition.name)).reshape({});
    all = all | (branch.taken ? !taken : taken);
  }
  return all;
}

void Env::check(ValueId condition, std::string message) {
  checks_.push_back({running_ ? where_taken(running_->branches, condition) : condition, std::move(message)});
}

void Env::check_stated(const PNode& node, ValueId read) {
  const T number = T(b_, read).reshape({});
  const auto must = [&](const T& condition, const std::string& stated) {
    check(condition, fmt::format("{} (a number found in data) is not {}, as the program has it", node.name, stated));
  };
  for (const import::Arg& a : node.results) {
    const auto* e = std::get_if<Expr>(&a);
    const auto known = [&](SymId s) { return of_input(s) || found_.count(s) != 0; };
    const std::set<SymId> used = e ? e->symbols() : std::set<SymId>();
    const bool own = e && e->as_symbol() && !of_input(*e->as_symbol());
    if (e && !own && std::all_of(used.begin(), used.end(), known))
      must(number.to(DType::i64) == scalar_of(b_, *e, DType::i64), e->str(b_.syms()));
    if (const auto* s = std::get_if<import::SymbolicArg>(&a); s && (s->text == "true" || s->text == "false")) {
      const T truth = is_bool(number.dtype()) ? number : number != 0.0;
      must(s->text == "true" ? truth : !truth, s->text);
    }
  }
}

/// Without what is taken away of it that is not known and not negative: at least the room that there is.
template <class Known>
static Expr without_parts(Expr room, const SymTable& syms, const Known& known) {
  for (const SymId u : room.symbols()) {
    const std::optional<Expr> slope = room.linear_coefficient(u);
    const std::optional<int64_t> c = slope ? slope->as_const() : std::nullopt;
    if (c && *c < 0 && syms[u].min >= 0 && !known(Expr::symbol(u))) room = room - *slope * Expr::symbol(u);
  }
  return room;
}

std::optional<Expr> Env::largest(const Expr& archive) const {
  const auto symbol = archive.as_symbol();
  std::set<SymId> asked;
  return symbol ? largest(*symbol, asked) : std::nullopt;
}

/// `asked`: whose bounds this one is to be made of.
std::optional<Expr> Env::largest(SymId s, std::set<SymId>& asked) const {
  asked.insert(s);
  const auto is_known = [&](SymId u) { return u != s && (of_input(u) || found_.count(u) != 0); };
  const auto known = [&](const Expr& e) {
    const std::set<SymId> used = e.symbols();
    return std::all_of(used.begin(), used.end(), is_known);
  };
  /// With the bounds of what it grows with and is not known yet: of "a <= b" and "b <= n", b.
  const auto with_bounds = [&](Expr room) {
    for (const SymId u : room.symbols()) {
      const std::optional<Expr> slope = is_known(u) || asked.count(u) ? std::nullopt : room.linear_coefficient(u);
      const std::optional<int64_t> c = slope ? slope->as_const() : std::nullopt;
      if (!c || *c < 0) continue;
      if (const std::optional<Expr> most = largest(u, asked)) room = room - *slope * Expr::symbol(u) + *slope * *most;
    }
    return room;
  };
  for (const ShapeGuard& q : b_.graph().guards) {
    if (q.kind == ShapeGuard::Kind::divisible) continue;
    for (const bool turned : {false, true}) {
      if (turned && q.kind != ShapeGuard::Kind::eq) break;
      const Expr room = turned ? q.a - q.b : q.b - q.a;  // never negative
      const std::optional<Expr> slope = room.linear_coefficient(s);
      const std::optional<int64_t> c = slope ? slope->as_const() : std::nullopt;
      if (!c || *c >= 0) continue;
      const Expr stated = without_parts(room - *slope * Expr::symbol(s), b_.syms(), known), rest = with_bounds(stated);
      if (!stated.is_const() && known(rest)) return b_.syms().simplify(max(floordiv(rest, -*c), 0));
    }
  }
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t most = b_.syms()[s].max;
  return most <= kMost ? std::optional(Expr(std::max<int64_t>(most, 0))) : std::nullopt;
}

bool Env::of_input(SymId symbol) const {
  for (const import::ProgramInput& in : program_.inputs)
    if (const auto it = program_.tensors.find(in.name); it != program_.tensors.end())
      for (const Expr& e : it->second.sizes)
        if (e.depends_on(symbol)) return true;
  return false;
}

void Env::check_range(SymId s, ValueId number, const std::optional<Expr>& bound) {
  const T n(b_, number);
  const SymInfo info = b_.syms()[s];
  const auto must = [&](const T& condition, const char* relation, int64_t limit) {
    check(condition, fmt::format("{} (a number found in data) is {} {}, which the program excludes", info.name, relation, limit));
  };
  const auto least = bound ? program_.least.end() : program_.least.find(s);
  const int64_t min = least == program_.least.end() ? info.min : least->second;
  if (min > (bound ? 0 : INT64_MIN)) must(n >= scalar_of(b_, min, DType::i64), "less than", min);
  if (info.max < (int64_t{1} << 62) && !(bound && b_.syms().proves_le(*bound, info.max)))
    must(n <= scalar_of(b_, info.max, DType::i64), "more than", info.max);
  if (info.multiple_of > 1) {
    const T factor = scalar_of(b_, info.multiple_of, DType::i64);
    must(binary(Op::remainder, n, factor) == scalar_of(b_, 0, DType::i64), "no multiple of", info.multiple_of);
  }
}

Expr Env::define_found(SymId s, ValueId count, const Expr& bound) {
  check_range(s, count, read_.occurs_in(Expr::symbol(s)) ? std::nullopt : std::optional(bound));
  b_.syms().edit(s).extent = bound + 1;
  found_.insert_or_assign(s, FoundSize{count, bound});
  return Expr::symbol(s);
}

Expr Env::found(const std::optional<Expr>& archive, ValueId count, const Expr& bound) {
  if (!archive)
    return [&] {
      SymInfo own;
      own.name = "found";
      return define_found(b_.syms().add(own), count, bound);
    }();
  const auto s = archive->as_symbol();
  if (s && !found_.count(*s) && !of_input(*s)) return define_found(*s, count, bound);
  if (!s || !found_.count(*s) || found_.at(*s).value != count)
    check(T(b_, count) == T(b_, b_.sym(*archive)),
          fmt::format("a size found in data is not {}, as the program has it", archive->str(b_.syms())));
  return *archive;
}

const std::string& Env::name_now(const std::string& name) const {
  if (const auto it = now_.find(name); it != now_.end()) return it->second;
  const auto t = tensors_.find(name);
  return t != tensors_.end() && t->second.kind == Kind::same ? name_now(t->second.parent) : name;
}

TensorEnv::Owner Env::owner(const std::string& name) {
  for (const std::string* at = &name;;) {
    const Tensor& t = find(*at);
    if (t.kind == Kind::unclear)
      throw Refused{fmt::format("'{}' may be a view or a copy, and this reads the memory that it lies in", *at),
                    "use slicing, permute or unfold"};
    if (conjugate_view(t))
      throw Refused{fmt::format("'{}' is a conjugate, and this reads the memory that it lies in", *at), "clone it first"};
    if (t.kind == Kind::none) break;
    at = &t.parent;
  }
  const std::string& base = base_of(name);
  const auto before = renamed_.find(base);
  const auto meta = program_.tensors.find(before == renamed_.end() ? base : before->second);
  if (meta == program_.tensors.end()) throw Refused{fmt::format("the archive has no metadata for '{}'", base), ""};
  return {get(base), &meta->second};
}

void Env::note_aliases(const PNode& node) {
  const std::vector<std::string> names = result_names(node);
  const std::vector<import::Alias> aliases = import::aliases_of(node, program_.tensors, b_.syms());
  for (size_t i = 0; i < names.size(); ++i) {
    const import::Alias& alias = aliases[i];
    if (alias.kind == Kind::none || !known(names[i]) || !known(alias.of)) continue;
    if (node.target == "aten.resolve_conj.default" && in_conjugate(alias.of)) continue;  // a copy
    const auto version = versions_.find(base_of(alias.of));
    Tensor& t = find(names[i]);
    t.kind = alias.kind;
    t.parent = import::views_memory(node) ? base_of(alias.of) : alias.of;
    t.node = &node;
    t.result = i;
    t.version = version == versions_.end() ? 0 : version->second;
  }
}

bool Env::last_of_memory(const std::string& name) {
  const std::vector<PNode>& nodes = program_.nodes;
  const auto now = std::find_if(nodes.begin(), nodes.end(), [&](const PNode& n) { return &n == running_; });
  const std::string& base = base_of(name);
  const auto is_base = [&](const import::ProgramInput& in) { return in.name == base; };
  if (now == nodes.end() || std::any_of(program_.inputs.begin(), program_.inputs.end(), is_base)) return false;
  const auto other = [&](const std::string& t) {
    if (!known(t) || base_of(t) != base) return false;
    for (const std::string* at = &t; *at != name; at = &find(*at).parent)
      if (find(*at).kind == Kind::none) return true;
    return false;
  };
  const auto holds_other = [&](const import::Arg& a) { return any_tensor(a, other); };
  return std::none_of(now, nodes.end(),
                      [&](const PNode& n) {
                        return std::any_of(n.args.begin(), n.args.end(), [&](const import::NamedArg& a) { return holds_other(a.value); });
                      }) &&
         std::none_of(program_.outputs.begin(), program_.outputs.end(),
                      [&](const import::ProgramOutput& o) { return holds_other(o.value); });
}

void Env::write(const std::string& name, ValueId v) {
  Tensor& t = find(name);
  if (t.kind == Kind::none) {
    t.value = v;
    t.make = nullptr;
    t.version = ++versions_[name];
    return;
  }
  if (t.kind == Kind::unclear) {
    if (!last_of_memory(name))
      throw Refused{fmt::format("an in-place write to '{}', which may be a view or a copy", name), "export with run_decompositions()"};
    // Nobody sees whether it is one: it is a copy.
    versions_[name] = versions_[base_of(name)] + 1;
    t.kind = Kind::none;
    t.value = v;
    t.version = versions_[name];
    return;
  }
  if (t.kind == Kind::same) {
    write(t.parent, v);
  } else if (const std::string below = beneath_overlap(name); !below.empty()) {
    // Only what is written, by places: elements that others of a view share must not bring back their old values. The view is read again.
    if (b_.type(get(below)).dtype != b_.type(v).dtype)
      throw Refused{"an in-place write through a view of another type, of a view whose elements share memory",
                    "clone the tensor before the write"};
    write(below, write_places({b_, get(below)}, {b_, v}, {b_, places_in(name, below)}));
    return;
  } else {
    const ValueId parent = get(t.parent);
    ValueId whole = kNone<ValueId>;
    const bool pairs = touches_complex(program_, *t.node);
    Rule r(b_, program_, *t.node, *this);
    r.pairs = pairs;
    if (!pairs || pair_rides_along(t.node->target) || conjugates(r)) whole = write_back(r, parent, v, t.result);
    if (whole == kNone<ValueId>) whole = write_places({b_, parent}, {b_, v}, {b_, places_in(name, t.parent)});
    write(t.parent, whole);
  }
  t.value = v;
  t.version = versions_[base_of(name)];
}

void Env::run_in_place(const PNode& node, RuleFn fn, const std::vector<std::string>& targets) {
  const std::vector<std::string> names = result_names(node);
  const auto unsupported = [] { return Refused{"this in-place operator is not supported", "export with run_decompositions()"}; };
  if (targets.empty() || targets[0].empty() || names.size() > targets.size()) throw unsupported();
  for (const std::string& target : targets) get(target);
  Rule r(b_, program_, node, *this);
  r.cast_results = true;
  r.pairs = touches_complex(program_, node);
  const std::map<std::string, ValueId> made = defined_by(fn, r);
  if (made.size() != targets.size()) throw unsupported();
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto result = targets.size() == 1 ? made.begin() : made.find(names.at(i));
    if (result == made.end()) throw unsupported();
    replace(node, targets[i], result->first, result->second);
  }
}

void Env::replace(const PNode& node, const std::string& target, const std::string& result, ValueId after) {
  const ValueId before = get(target);
  if (b_.type(before).elems().is(0) && functional_name(node.target).empty() && find(target).kind == Kind::none) {
    // A tensor without elements takes the result's size.
    find(target).value = after;
    renamed_[target] = result;
    note_written(result, target, after);
    return;
  }
  if (b_.rank(after) != b_.rank(before)) throw Refused{"an in-place change of shape", "export with run_decompositions()"};
  for (int d = 0; d < b_.rank(after); ++d) {
    const Expr &was = b_.dims(before)[static_cast<size_t>(d)], &is = b_.dims(after)[static_cast<size_t>(d)];
    if (b_.syms().proves_ne(was, is)) throw Refused{"an in-place change of shape", "export with run_decompositions()"};
  }
  write(target, after);
  note_written(result, target, after);
}

void Env::note_written(const std::string& result, const std::string& target, ValueId v) {
  Tensor t;
  t.value = v;
  t.kind = Kind::same;
  t.parent = target;
  t.version = versions_[base_of(target)];
  t.other_name = true;
  tensors_[result] = std::move(t);
}

namespace {

/// What can be done about an operator that has no rule, by the start of its name; the first that fits.
struct Advice {
  std::string_view starts, why, hint;
};
constexpr Advice kAdvice[] = {
    {"higher_order.auto_functionalized", "a custom operator that writes its arguments (Tensor(a!)) is not compiled",
     "let it give new tensors, and copy_ them in the model"},
    {"higher_order.cond", "a branch on data (torch.cond) whose sides give other things than tensors is not compiled",
     "return tensors from both branches, compute both and take torch.where, or export each branch as a model"},
    {"higher_order.while_loop",
     "a loop on data (while_loop) whose number of rounds has no bound that can be seen, or of very many, is not compiled",
     "bound it by a counter of its own (carry i from a constant, i + 1 in the body, (i < 64) & .. in the condition, or a size with a "
     "maximum in place of 64), or export the body as a model and loop in the program"},
    {"higher_order.scan", "a loop over steps (scan) whose number has no bound, or of very many steps, is not compiled",
     "export with this length fixed or with a small largest size (Dim(.., max=64)), or export one step as a model and loop in the program"},
    {"higher_order.map", "a loop over rows (map) of tensors of different lengths is not compiled",
     "write it over the whole batch (torch.vmap does so)"},
    {"higher_order.", "this region of the model is not compiled",
     "ep.run_decompositions() before torch.export.save takes some of its kind apart; else write it without the region"},
    {"export.access_subclass_inner_tensor", "a part of a tensor of a class of its own (torchao's quantize_ makes them) is not read",
     "torch.export.save(ep.run_decompositions(), ..), in which there are plain tensors"},
    {"aten.", kNoRule, "ep.run_decompositions() before torch.export.save takes many operators apart; else rewrite it, or report it"},
    {"prims.", kNoRule, "rewrite it with supported operators, or report it"},
    {"", "a custom operator, whose code is not in the archive",
     "--kernels kernels.json takes a kernel of your own for it (samples/custom_kernel); where it is made of others, "
     "ep.run_decompositions() before torch.export.save takes it apart, and where it is not, "
     "ep.run_decompositions({op: fn}), with fn what op computes in torch's operators; else end the model before it and call it between "
     "two artifacts"},
};

Refused without_rule(const std::string& target) {
  for (const Advice& a : kAdvice)
    if (target.rfind(a.starts, 0) == 0) return {std::string(a.why), std::string(a.hint)};
  return {std::string(kNoRule), ""};
}

}  // namespace

void Env::run_view_in_place(const PNode& node, std::string_view functional) {
  const std::string target = written_first(node);
  const std::vector<std::string> names = result_names(node);
  if (target.empty() || names.size() != 1) throw Refused{"this in-place operator is not supported", "export with run_decompositions()"};
  std::string name = target;
  while (find(name).other_name) name = find(name).parent;  // one tensor, by its first name
  const auto input = [&](const import::ProgramInput& in) { return in.name == name; };
  if (std::any_of(program_.inputs.begin(), program_.inputs.end(), input))
    throw Refused{"an in-place change of an input's shape", "change the shape of a view of it"};
  // What the name meant goes on under another one; the name is a view of that.
  const std::string before = fmt::format("{} before {}", name, node.name);
  const bool base = find(name).kind == Kind::none;
  tensors_[before] = find(name);
  renamed_[before] = name;
  now_[before] = name_now(name);
  now_[name] = names[0];
  if (base)
    if (const auto v = versions_.extract(name)) versions_[before] = v.mapped();
  const auto of_before = [&](const PNode& n) {
    PNode& own = own_nodes_.emplace_back(n);
    for (import::NamedArg& a : own.args) {
      if (auto* one = std::get_if<import::TensorRef>(&a.value); one && (one->name == name || &n == &node)) one->name = before;
      if (auto* list = std::get_if<import::TensorList>(&a.value))
        for (import::TensorRef& one : *list)
          if (one.name == name) one.name = before;
    }
    return &own;
  };
  for (auto& [other, t] : tensors_) {
    if (t.parent != name || t.other_name) continue;
    t.parent = before;
    if (t.node) t.node = of_before(*t.node);
  }
  of_before(node)->target = functional;
  const PNode& own = own_nodes_.back();
  Rule r(b_, program_, own, *this);
  r.pairs = touches_complex(program_, node);
  const RuleFn fn = r.pairs ? find_complex_rule(own.target) : find_rule(own.target);
  if (!fn) throw without_rule(own.target);
  fn(r);
  const auto version = versions_.find(base_of(before));
  Tensor t;
  t.value = find(names[0]).value;
  t.kind = Kind::view;
  t.parent = import::views_memory(own) ? base_of(before) : before;
  t.node = &own;
  t.version = version == versions_.end() ? 0 : version->second;
  tensors_[name] = t;
  t.kind = Kind::same;
  t.parent = name;
  t.other_name = true;
  tensors_[names[0]] = t;
}

void Env::run(const PNode& node) {
  capture_ = nullptr;
  running_ = &node;
  const bool pairs = touches_complex(program_, node);
  const auto rule = [&](std::string_view target) { return pairs ? find_complex_rule(target) : find_rule(target); };
  if (const std::string_view view = import::functional_view(node.target); !view.empty()) return run_view_in_place(node, view);
  if (const RuleFn fn = rule(node.target)) {
    Rule r(b_, program_, node, *this);
    r.pairs = pairs;
    if (only_overwritten(program_, node)) {
      const TensorType t = r.meta_result();
      r.set(full(b_, t.dtype, t.dims, 0.0));
    } else {
      fn(r);
    }
    note_aliases(node);
    return;
  }
  for (const Writing& w : writings_of(node))
    if (const RuleFn fn = rule(w.functional)) return run_in_place(node, fn, w.targets);
  if (own_ && own_->has(node.target)) {
    Rule r(b_, program_, node, *this);
    return run_own(r, *own_);
  }
  if (pairs) throw Refused{"complex tensors are not supported by this operator", "use view_as_real and real arithmetic"};
  throw without_rule(node.target);
}

}  // namespace aotc::decompose

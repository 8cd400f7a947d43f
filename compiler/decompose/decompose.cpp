#include "decompose/decompose.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "decompose/env.h"
#include "decompose/map_walk.h"
#include "decompose/masked.h"
#include "decompose/narrowed.h"
#include "decompose/promote.h"
#include "decompose/tensor.h"
#include "decompose/true_slices.h"
#include "decompose/writing.h"
#include "graph/guard.h"
#include "graph/infer.h"
#include "graph/type_error.h"
#include "graph/verify.h"
#include "import/hidden_writes.h"
#include "import/operands.h"
#include "import/result_name.h"
#include "import/shared_storage.h"
#include "import/size_conditions.h"
#include "sym/sym_error.h"

namespace aotc::decompose {
namespace {

using import::InputKind;
using import::OutputKind;
using import::PNode;
using import::Program;
using import::result_names;

/// The tensors that an output or a write into something depends on. torch.export keeps operators whose results nobody reads where they have
/// an effect of no interest here (drawing random numbers).
class NeededTensors {
 public:
  explicit NeededTensors(const Program& p) {
    for (const import::ProgramOutput& o : p.outputs) add(o.value);
    for (size_t i = p.nodes.size(); i-- > 0;) {
      const PNode& n = p.nodes[i];
      for (const import::Branch& b : n.branches) names_.insert(b.condition.name);
      if (needs(n))
        for (const import::NamedArg& a : n.args) add(a.value);
    }
  }
  /// False only for an operator all of whose results are tensors that nothing depends on, and that writes into none.
  bool needs(const PNode& n) const {
    const std::vector<std::string> names = result_names(n);
    const auto out = [](const import::NamedArg& a) { return a.name == "out" && std::holds_alternative<import::TensorRef>(a.value); };
    return !functional_name(n.target).empty() || names.empty() || std::any_of(n.args.begin(), n.args.end(), out) ||
           !import::hidden_writes(n).empty() ||
           std::any_of(names.begin(), names.end(), [&](const std::string& s) { return names_.count(s) != 0; });
  }

 private:
  void add(const import::Arg& a) {
    each_tensor(a, [&](const std::string& t) { names_.insert(t); });
  }
  std::set<std::string> names_;
};

/// One walk over the program: the graph, and what stands in its way.
class Driver {
 public:
  explicit Driver(const Program& p, const own::Kernels* own = nullptr) : p_(p), needed_(p), b_(g_), env_(b_, p, own), maps_(b_, p, env_) {
    g_.syms = p.syms;
    g_.guards = p.guards;
    for (const import::BranchGuard& b : p.branch_guards) g_.guards.push_back(b.guard);
  }

  void run() {
    for (const import::ProgramOutput& o : p_.outputs)
      if (o.kind == OutputKind::buffer_mutation) mutated_.insert(o.target);
    for (const import::ProgramInput& in : p_.inputs) input(in);
    for (const PNode& n : p_.nodes) {
      const size_t before = g_.guards.size();
      node(n);
      for (size_t i = before; i < g_.guards.size(); ++i) needs_.push_back({g_.guards[i], &n});
      note_symbols(n);
    }
    for (const import::ProgramOutput& o : p_.outputs) output(o);
  }
  const std::vector<Need>& needs() const { return needs_; }  ///< what the nodes added to the archive's conditions
  /// The graph of a program without unsupported operators, at the bounds of sizes that are found in data.
  Graph finish() {
    const FoundSizes& sizes = env_.found_sizes();
    for (const Env::Check& c : env_.checks()) check(c.condition, c.message);
    EqualSizes equal;
    try {
      equal = guards_on(sizes);
    } catch (const Refused& why) {
      throw Diagnostic(ExitCode::unsupported, Loc{.file = p_.file}, "a condition on numbers found in data: " + why.why).note(why.hint);
    }
    std::set<SymId> told;
    for (const OutputInfo& o : g_.outputs)
      for (const Expr& d : g_.type(o.value).dims) told.merge(d.symbols());
    for (const auto& [s, size] : sizes)
      if (told.count(s)) g_.outputs.push_back({g_.syms[s].name, size.value, "", -1, "", {}, OutputRole::size});
    // Results come first.
    std::stable_sort(g_.outputs.begin(), g_.outputs.end(), [](const OutputInfo& a, const OutputInfo& b) { return a.role < b.role; });
    take_bounds(g_, sizes, equal, p_.file);
    return std::move(g_);
  }
  const std::vector<Unsupported>& unsupported() const { return unsupported_; }

 private:
  void input(const import::ProgramInput& in) {
    switch (in.kind) {
      case InputKind::user: {
        const auto it = p_.tensors.find(in.name);
        if (it == p_.tensors.end()) throw Diagnostic(Loc{.file = p_.file}, fmt::format("input '{}' has no metadata", in.name));
        const ValueId v = g_.add_input(in.name, pair_type({it->second.dtype, it->second.sizes}));
        b_.at(in.name, "");
        try {
          for (const Expr& d : it->second.sizes) b_.require_size(d);
        } catch (const TypeError& e) { throw Diagnostic(Loc{.file = p_.file, .node = in.name}, e.what()); }
        g_.inputs.back().tree_path = in.tree_path;
        g_.inputs.back().complex = is_complex(it->second.dtype);
        input_of_[in.name] = static_cast<int32_t>(g_.inputs.size()) - 1;
        env_.define(in.name, v);
        return;
      }
      case InputKind::user_scalar: scalar_input(in); return;
      case InputKind::parameter:
      case InputKind::buffer:
      case InputKind::constant_tensor: data_input(in); return;
    }
  }

  /// A number that export made part of the graph is no input; a symbolic one must be the size of some tensor.
  void scalar_input(const import::ProgramInput& in) {
    const auto* e = std::get_if<Expr>(&in.constant);
    if (!e || e->is_const()) return;
    for (SymId s : e->symbols()) {
      const bool bound = std::any_of(p_.inputs.begin(), p_.inputs.end(), [&](const import::ProgramInput& other) {
        const auto it = p_.tensors.find(other.name);
        return other.kind == InputKind::user && it != p_.tensors.end() &&
               std::any_of(it->second.sizes.begin(), it->second.sizes.end(), [&](const Expr& d) { return d.depends_on(s); });
      });
      if (!bound) {
        unsupported_.push_back(
            {in.name, "input", "", "", "an input that is an expression of a symbolic integer", "export with this number fixed"});
        return;
      }
    }
  }

  void data_input(const import::ProgramInput& in) {
    const auto it = p_.data.find(in.target);
    if (it == p_.data.end()) throw Diagnostic(Loc{.file = p_.file}, fmt::format("no data for '{}'", in.target));
    ConstData data = it->second;
    data.type = pair_type(data.type);
    data.exchangeable = decompose::exchangeable(in, data.type);
    const bool mutated = in.kind == InputKind::buffer && mutated_.count(in.target);
    if (mutated || in.is_state) {
      // A buffer that starts at zeros (a KV cache) is not stored.
      const auto* bytes = data.data;
      if (in.kind == InputKind::buffer && std::all_of(bytes, bytes + data.bytes, [](std::byte b) { return b == std::byte{0}; }))
        data.exchangeable = false;
      // Names for one piece of memory are one state where the caller changes it, as are they one tensor of the model's.
      const auto key = std::pair(static_cast<const void*>(data.data), dims_text(data.type));
      const auto found = in.is_state && data.bytes > 0 ? state_of_data_.find(key) : state_of_data_.end();
      const ValueId v = found != state_of_data_.end() ? found->second : g_.add_state(in.target, data.type, g_.constants.push(data));
      if (in.is_state) state_of_data_.emplace(key, v);
      state_of_[in.target] = g_.values[v].state;
      env_.define(in.name, v);
      return;
    }
    env_.declare(in.name, [this, data] {
      // Names for one piece of memory (tied weights) become one constant.
      const auto key = std::tuple(static_cast<const void*>(data.data), static_cast<uint32_t>(data.type.dtype), dims_text(data.type));
      const auto found = constant_of_.find(key);
      if (found != constant_of_.end() && data.bytes > 0) return found->second;
      return constant_of_[key] = g_.add_constant(data);
    });
  }

  std::string dims_text(const TensorType& t) const {
    std::string s;
    for (const Expr& d : t.dims) s += d.str(g_.syms) + ",";
    return s;
  }

  void check(ValueId condition, std::string message) {
    b_.at("check", "");
    g_.outputs.push_back({std::move(message), b_.make1(Op::check, {condition}), "", -1, "", {}, OutputRole::check});
  }

  /// The branches in which its symbols are first told.
  void note_symbols(const PNode& n) {
    const auto note = [&](const Expr& e) {
      for (const SymId s : e.symbols()) told_in_.emplace(s, &n.branches);
    };
    for (const import::Arg& a : n.results) {
      if (const auto* e = std::get_if<Expr>(&a)) note(*e);
      each_tensor(a, [&](const std::string& name) {
        if (const auto it = p_.tensors.find(name); it != p_.tensors.end())
          for (const Expr& e : it->second.sizes) note(e);
      });
    }
  }

  /// Checks what must hold for numbers found in data: where the branches are taken that state it, or in which there are such numbers.
  void check(const ShapeGuard& q, ValueId holds) {
    const std::string text = q.why.empty() ? guard_text(q, g_.syms) : q.why;
    const auto same = [&](const ShapeGuard& o) { return o.kind == q.kind && o.a == q.a && o.b == q.b; };
    if (std::any_of(p_.guards.begin(), p_.guards.end(), same)) return check(holds, text);
    bool stated = false;
    for (const import::BranchGuard& b : p_.branch_guards)
      if (same(b.guard)) check(env_.where_taken(b.branches, holds), text), stated = true;
    if (stated) return;
    static const std::vector<import::Branch> kNowhere;
    const std::vector<import::Branch>* innermost = &kNowhere;
    std::set<SymId> used = q.a.symbols();
    used.merge(q.b.symbols());
    for (const SymId s : used)
      if (const auto it = told_in_.find(s); it != told_in_.end() && it->second->size() > innermost->size()) innermost = it->second;
    check(env_.where_taken(*innermost, holds), text);
  }

  /// Conditions on sizes that are found in data are checked when these are known; the others when a run starts. Gives the equalities.
  EqualSizes guards_on(const FoundSizes& sizes) {
    EqualSizes equal;
    std::vector<ShapeGuard> open;
    std::erase_if(g_.guards, [&](const ShapeGuard& q) {
      std::set<SymId> used = q.a.symbols();
      used.merge(q.b.symbols());
      const bool read = env_.reads_number(q.a) || env_.reads_number(q.b);
      if (!read && std::none_of(used.begin(), used.end(), [&](SymId s) { return sizes.count(s) != 0; })) return false;
      if (q.kind == ShapeGuard::Kind::eq) equal.emplace_back(q.a, q.b);
      const auto *a = found_as(sizes, q.a), *b = found_as(sizes, q.b);
      const bool same = q.kind == ShapeGuard::Kind::eq && a && b && a->value == b->value;
      if (!same && (import::may_be_negative(p_, q) || decided(q, g_.syms) != true)) open.push_back(q);
      return true;
    });
    for (const ShapeGuard& q : open) {
      const auto number = [&](const Expr& e) {
        for (const SymId s : e.symbols())
          if (!sizes.count(s) && env_.reads_number(Expr::symbol(s))) return T(b_, *env_.integer(e));
        return T(b_, b_.sym(e));
      };
      const T a = number(q.a), b = number(q.b);
      const auto holds = [&]() -> T {
        switch (q.kind) {
          case ShapeGuard::Kind::eq: return a == b;
          case ShapeGuard::Kind::le: return a <= b;
          default: return binary(Op::remainder, a, b) == 0.0;
        }
      };
      check(q, holds());
    }
    return equal;
  }
  static const FoundSize* found_as(const FoundSizes& sizes, const Expr& e) {
    const auto s = e.as_symbol();
    const auto it = s ? sizes.find(*s) : sizes.end();
    return it == sizes.end() ? nullptr : &it->second;
  }

  /// Sizes and their checks say nothing that the graph does not know already.
  static bool without_tensors(const PNode& n) {
    return std::all_of(n.results.begin(), n.results.end(), [](const import::Arg& a) {
      return !std::holds_alternative<import::TensorRef>(a) && !std::holds_alternative<import::TensorList>(a);
    });
  }

  void node(const PNode& n) {
    b_.at(n.name, n.source);
    try {
      if (maps_.takes(n)) return maps_.run(n);
      if (without_tensors(n)) {
        const bool checks = n.target.starts_with("aten._assert_") || n.target == "aten._linalg_check_errors.default";
        if (checks && find_rule(n.target)) return env_.run(n);
        if (ReadNumbers::reads(n)) env_.read_number(n);
        if (writes_without_result(n)) throw Refused{"an operator that only writes its arguments", "export with run_decompositions()"};
        return;
      }
      env_.run(n);
    } catch (const Refused& why) {
      if (needed_.needs(n)) unsupported_.push_back({n.name, n.target, n.source, n.place, why.why, why.hint});
      stand_in(n);
    } catch (const TypeError& e) { throw misfit(n, e.what()); } catch (const SymError& e) {
      throw misfit(n, e.what());
    } catch (const std::out_of_range& e) {
      throw misfit(n, fmt::format("an argument out of range ({})", e.what()));
    } catch (const InternalError& e) { throw misfit(n, e.what()); }  // what rules and the builder take for granted of operands
  }

  /// What the archive says of a node's operands, arguments and results is not what its operator takes.
  Diagnostic misfit(const PNode& n, const std::string& why) const {
    return Diagnostic(Loc{p_.file, n.path, n.name, n.source}, fmt::format("{} does not fit its operands: {}", n.target, why))
        .note("the archive is damaged, or, if the exported program runs, this is a bug in aotc");
  }

  static bool writes_without_result(const PNode& n) {
    if (!n.results.empty() || n.target.rfind("aten._foreach", 0) == 0) return n.results.empty();
    // A custom operator that is given tensors and gives nothing.
    static constexpr std::string_view kTorchs[] = {"aten.",  "prims.",        "prim.",   "operator.", "math.",
                                                   "torch.", "higher_order.", "export.", "profiler."};
    return std::none_of(std::begin(kTorchs), std::end(kTorchs), [&](std::string_view p) { return n.target.rfind(p, 0) == 0; }) &&
           std::any_of(n.args.begin(), n.args.end(),
                       [](const import::NamedArg& a) { return any_tensor(a.value, [](const std::string&) { return true; }); });
  }

  /// Results of the archive's types, so that the walk goes on and finds all that is missing.
  void stand_in(const PNode& n) {
    for (const std::string& name : result_names(n)) {
      const auto it = p_.tensors.find(name);
      if (it == p_.tensors.end() || env_.known(name)) continue;
      const TensorType t = pair_type({it->second.dtype, it->second.sizes});
      env_.define(name, full(b_, t.dtype, t.dims, 0.0));
    }
  }

  std::string output_name(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }

  void output(const import::ProgramOutput& o) {
    try {
      emit_output(o);
    } catch (const SymError& e) {
      throw Diagnostic(Loc{.file = p_.file}, fmt::format("an output: {}", e.what()));
    } catch (const Refused& why) {
      const auto* t = std::get_if<import::TensorRef>(&o.value);
      unsupported_.push_back({t ? t->name : o.target, "output", "", "", why.why, why.hint});
    }
  }

  /// The new content of a buffer or input, which must be of its type.
  ValueId same_type(const import::ProgramOutput& o, const TensorType& type, ValueId v) {
    const TensorType& t = g_.type(v);
    bool fits = t.dtype == type.dtype && t.rank() == type.rank();
    for (size_t i = 0; fits && i < t.dims.size(); ++i) fits = !g_.syms.proves_ne(t.dims[i], type.dims[i]);
    if (!fits) throw Diagnostic(Loc{.file = p_.file}, fmt::format("the new content of '{}' is of another type", o.target));
    for (size_t i = 0; i < type.dims.size(); ++i)
      b_.require(ShapeGuard::Kind::eq, g_.type(v).dims[i], type.dims[i], "the new content of " + o.target);
    return v;
  }

  void emit_output(const import::ProgramOutput& o) {
    const auto* t = std::get_if<import::TensorRef>(&o.value);
    b_.at(t ? t->name : "output", "");
    const auto meta = t ? p_.tensors.find(t->name) : p_.tensors.end();
    const bool complex = meta != p_.tensors.end() && is_complex(meta->second.dtype);
    if (o.kind == OutputKind::buffer_mutation) {
      if (!t || !state_of_.count(o.target))
        throw Diagnostic(Loc{.file = p_.file}, fmt::format("a mutation of '{}', which is no buffer", o.target));
      StateInfo& state = g_.states[state_of_.at(o.target)];
      state.updated = same_type(o, state.type, env_.get(t->name));
      return;
    }
    if (o.kind == OutputKind::user_input_mutation) {
      if (!t || !input_of_.count(o.target))
        throw Diagnostic(Loc{.file = p_.file}, fmt::format("a mutation of '{}', which is no input", o.target));
      const int32_t input = input_of_.at(o.target);
      const ValueId now = same_type(o, g_.type(g_.inputs[static_cast<size_t>(input)].value), env_.get(t->name));
      g_.outputs.push_back({output_name(o.target + "_updated"), now, o.tree_path, input});
      g_.outputs.back().complex = g_.inputs[static_cast<size_t>(input)].complex;
      return;
    }
    if (t) {
      const bool gradient = o.kind == OutputKind::parameter_gradient || o.kind == OutputKind::input_gradient;
      const std::string by_place = import::result_name(o.tree_path), value = by_place.empty() ? t->name : by_place;
      const std::string name = gradient ? "grad_" + o.target : o.kind == OutputKind::loss ? "loss" : value;
      g_.outputs.push_back({output_name(name), env_.get(t->name), o.tree_path, -1, gradient ? o.target : ""});
      g_.outputs.back().complex = complex;
      return;
    }
    const std::string by_place = import::result_name(o.tree_path);
    ValueId v = kNone<ValueId>;
    if (const auto* e = std::get_if<Expr>(&o.value)) {
      const std::optional<ValueId> read = env_.integer(*e);
      v = read ? *read : b_.sym(*e);
    }
    if (const auto* d = std::get_if<double>(&o.value)) v = full(b_, DType::f64, {}, *d);
    if (const auto* s = std::get_if<import::SymbolicArg>(&o.value)) v = env_.number(*s);
    if (const auto* c = std::get_if<bool>(&o.value)) v = full(b_, DType::boolean, {}, *c ? 1.0 : 0.0);
    if (v != kNone<ValueId>) {
      g_.outputs.push_back({output_name(by_place.empty() ? "output" : by_place), v, o.tree_path, -1});
      return;
    }
    // None and text carry no data; anything else would be lost without a word
    if (!std::holds_alternative<import::NoneArg>(o.value) && !std::holds_alternative<std::string>(o.value))
      throw Refused{"an output that is neither a tensor nor a number known from the shapes", "return it as a tensor"};
  }

  const Program& p_;
  NeededTensors needed_;
  Graph g_;
  Builder b_;
  Env env_;
  MapWalk maps_;
  std::vector<Unsupported> unsupported_;
  std::vector<Need> needs_;
  std::set<std::string> mutated_, names_;
  std::map<SymId, const std::vector<import::Branch>*> told_in_;
  std::map<std::string, StateId> state_of_;
  std::map<std::pair<const void*, std::string>, ValueId> state_of_data_;
  std::map<std::string, int32_t> input_of_;
  std::map<std::tuple<const void*, uint32_t, std::string>, ValueId> constant_of_;
};

}  // namespace

namespace {
[[noreturn]] void report(const Program& program, const std::vector<Unsupported>& missing) {
  Diagnostic report(ExitCode::unsupported, Loc{.file = program.file},
                    fmt::format("{} use{} of operators cannot be compiled", missing.size(), missing.size() == 1 ? "" : "s"));
  for (const Unsupported& u : missing) {
    std::string line = fmt::format("{} ({}): {}", u.overload, u.node, u.why);
    if (!u.hint.empty()) line += "; " + u.hint;
    if (!u.source.empty()) line += "; from " + u.source;
    report.note(line);
  }
  throw UnsupportedOperators(std::move(report), missing);
}

/// Calls f with every expression of a node's attributes and results.
template <class F>
void for_each_expr(const Graph& g, const Node& n, const F& f) {
  for (const ValueId v : n.outputs)
    for (const Expr& d : g.type(v).dims) f(d);
  for (const auto& [name, value] : n.attrs) {
    if (const auto* e = std::get_if<Expr>(&value)) f(*e);
    if (const auto* es = std::get_if<Exprs>(&value))
      for (const Expr& e : *es) f(e);
  }
}

/// Every size that an output depends on must be known when a run starts: made of symbols of the inputs' dims.
void check_symbols(const Program& program, Graph& g) {
  std::set<SymId> known;
  for (const InputInfo& in : g.inputs)
    for (const Expr& d : g.type(in.value).dims) known.merge(d.symbols());
  const auto is_known = [&](const Expr& e) {
    const std::set<SymId> used = e.symbols();
    return std::includes(known.begin(), known.end(), used.begin(), used.end());
  };
  std::vector<bool> live(g.values.size(), false);
  for (const OutputInfo& o : g.outputs) live[idx(o.value)] = true;
  for (const StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) live[idx(s.updated)] = true;
  std::vector<NodeId> unneeded;
  bool unknown = false;
  for (size_t i = g.order.size(); i-- > 0;) {
    const Node& n = g.nodes[g.order[i]];
    if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return live[idx(v)]; })) {
      unneeded.push_back(g.order[i]);
      for_each_expr(g, n, [&](const Expr& e) { unknown = unknown || !is_known(e); });
      continue;
    }
    for (const ValueId v : n.inputs) live[idx(v)] = true;
    for_each_expr(g, n, [&](const Expr& e) {
      if (!is_known(e))
        throw Diagnostic(ExitCode::unsupported, Loc{program.file, "", n.name, n.source},
                         fmt::format("the size {} is not made of sizes of the inputs", e.str(g.syms)))
            .note(
                "it is given as a number or read out of a tensor, and nothing says how large it can be: state it in the model, as in "
                "torch._check(n <= x.shape[0]) or torch._check(n <= 64), or pass it as the size of an input");
    });
  }
  // Sizes that nothing knows belong to nodes that nothing needs, and so do the conditions on them.
  if (unknown) {
    for (const NodeId id : unneeded) g.nodes[id].dead = true;
    g.compact();
  }
  std::erase_if(g.guards, [&](const ShapeGuard& q) { return !is_known(q.a) || !is_known(q.b); });
}

/// What a node's type needs is proved or a condition, also where the conditions that proved it were met by the ranges and are gone.
void state_needs(const Program& program, Graph& g) {
  for (const NodeId id : g.order) {
    const Node& n = g.nodes[id];
    std::vector<ShapeGuard> needed;
    try {
      infer_types(g, n, &g.type(n.outputs[0]), needed);
    } catch (const TypeError& e) { throw Diagnostic(Loc{program.file, "", n.name, n.source}, e.what()); }
    for (ShapeGuard& q : needed)
      if (!holds(g, q.kind, q.a, q.b)) g.guards.push_back(std::move(q));
  }
}

/// Conditions that the rules found: those on one symbol become its range, those that cannot be met are the archive's fault.
Graph verified(const Program& program, Graph g, std::vector<Need> needs, std::vector<std::string>* narrowed) {
  check_symbols(program, g);
  std::erase_if(needs, [&](const Need& n) {
    return std::none_of(g.guards.begin(), g.guards.end(),
                        [&](const ShapeGuard& q) { return q.kind == n.guard.kind && q.a == n.guard.a && q.b == n.guard.b; });
  });
  const std::vector<std::string> lines = narrowings(program, g.syms, needs);
  if (narrowed) *narrowed = lines;
  Diagnostic fault(Loc{.file = program.file}, "the sizes contradict what an operator needs");
  const bool fits = narrow_ranges(g.syms, g.guards);
  bool met = true;
  std::erase_if(g.guards, [&](const ShapeGuard& q) {
    const std::optional<bool> holds = decided(q, g.syms);
    if (!fits || holds == false) fault.note(q.why);
    met = met && holds != false;
    return holds == true;
  });
  if (!fits || !met) throw fault;
  if (const ShapeGuard* none = met_by_none(g.syms, g.guards))
    throw Diagnostic(Loc{.file = program.file}, fmt::format("no size within the ranges meets {}", guard_text(*none, g.syms)))
        .note(none->why);
  state_needs(program, g);
  verify(g, "decompose");
  return g;
}
}  // namespace

namespace {
Program with_views(Program p) {
  import::views_as_nodes(p);
  return p;
}
}  // namespace

std::vector<Unsupported> find_unsupported(const Program& archive) {
  const Program program = with_views(archive);
  Driver d(program);
  d.run();
  return d.unsupported();
}

namespace {
/// The graph of a program that has been walked without finding anything unsupported.
Graph finished(const Program& program, Driver& d, std::vector<std::string>* narrowed, const own::Kernels* own) {
  if (const std::optional<Program> other = with_true_slices(program, d.needs())) try {
      Driver longer(*other, own);
      longer.run();
      if (longer.unsupported().empty() && demands_less(longer.needs(), d.needs()))
        return verified(*other, longer.finish(), longer.needs(), narrowed);
    } catch (const Diagnostic&) {}  // as it is stated, then
  return verified(program, d.finish(), d.needs(), narrowed);
}
}  // namespace

Graph decompose(const Program& archive) {
  const Program program = with_views(archive);
  Driver d(program);
  d.run();
  if (!d.unsupported().empty()) report(program, d.unsupported());
  return finished(program, d, nullptr, nullptr);
}

Graph decompose(Program& program, const Expand& expand, std::vector<std::string>* narrowed, const own::Kernels* own) {
  import::views_as_nodes(program);
  keep_masked_whole(program);
  std::map<std::string, std::string> kept;  // nodes that stay as they are, and why
  for (;;) {
    std::vector<Unsupported> missing;
    {
      Driver d(program, own);
      d.run();
      if (d.unsupported().empty()) return finished(program, d, narrowed, own);
      missing = d.unsupported();
    }
    bool progress = false;
    for (Unsupported& u : missing) {
      if (u.overload == "input" || u.overload == "output") continue;
      if (!kept.count(u.node)) {
        if (const Fit f = expand(program, u.node))
          progress = true;
        else
          kept[u.node] = f.why;
      }
      if (const auto it = kept.find(u.node); it != kept.end() && u.why == kNoRule) u.why = it->second;
    }
    if (!progress) report(program, missing);
  }
}

bool exchangeable(const import::ProgramInput& in, const TensorType& type) {
  if (!is_float(type.dtype)) return false;
  return in.kind == InputKind::parameter || (in.kind == InputKind::buffer && in.persistent && type.rank() > 0);
}

}  // namespace aotc::decompose

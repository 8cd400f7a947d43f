#include "decompose/env.h"

#include "decompose/alias.h"
#include "decompose/decompose.h"
#include "decompose/size_arithmetic.h"

namespace aotc::decompose {

using import::PNode;

std::vector<std::string> result_names(const PNode& node) {
  std::vector<std::string> names;
  for (const import::Arg& a : node.results) {
    if (const auto* t = std::get_if<import::TensorRef>(&a)) names.push_back(t->name);
    if (const auto* l = std::get_if<import::TensorList>(&a))
      for (const import::TensorRef& t : *l) names.push_back(t.name);
  }
  return names;
}

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

std::string functional_name(const std::string& target) {
  const size_t dot = target.find('.'), end = target.find('.', dot + 1);
  if (dot == std::string::npos || end == std::string::npos || end < dot + 2) return {};
  std::string name = target.substr(dot + 1, end - dot - 1);
  if (name.size() > 5 && name.compare(0, 3, "__i") == 0 && name.compare(name.size() - 2, 2, "__") == 0)
    name = "__" + name.substr(3);  // __iand__
  else if (name.back() == '_' && name[name.size() - 2] != '_')
    name.pop_back();
  else
    return {};
  return target.substr(0, dot + 1) + name + target.substr(end);
}

bool has_rule(std::string_view target, bool complex) {
  if (complex) return find_complex_rule(target) != nullptr;
  if (find_rule(target)) return true;
  const std::string functional = functional_name(std::string(target));
  return !functional.empty() && find_rule(functional);
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
    if (it == tensors_.end() || it->second.kind == Kind::base) return *at;
    at = &it->second.parent;
  }
}

bool Env::written(const std::string& name) const { return versions_.count(base_of(name)) != 0; }

ValueId Env::get(const std::string& name) {
  Tensor& t = find(name);
  if (t.make) {
    t.value = t.make();
    t.make = nullptr;
  }
  if (t.kind == Kind::base) return t.value;
  const auto version = versions_.find(base_of(name));
  if (version == versions_.end() || version->second == t.version) return t.value;
  if (t.kind == Kind::unclear)
    throw Refused{fmt::format("'{}' is read after a tensor that it may be a view of was written in place", name),
                  "export with run_decompositions()"};
  if (t.kind == Kind::same) {
    t.value = get(t.parent);
  } else {
    std::map<std::string, ValueId> again;
    std::map<std::string, ValueId>* outer = std::exchange(capture_, &again);
    Rule r(b_, program_, *t.node, *this);
    r.pairs = touches_complex(program_, *t.node);
    const RuleFn fn = r.pairs ? find_complex_rule(t.node->target) : find_rule(t.node->target);
    AOTC_CHECK(fn, "a view by {}, which has no rule", t.node->target);
    fn(r);
    capture_ = outer;
    t.value = again.at(name);
  }
  t.version = version->second;
  return t.value;
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

ValueId Env::number(const import::SymbolicArg& arg) { return compute_from_sizes(b_, program_, arg); }

void Env::note_aliases(const PNode& node) {
  const std::string argument = aliased_argument(node);
  if (argument.empty() || !known(argument)) return;
  Rule r(b_, program_, node, *this);
  const Aliasing how = aliasing_of(r);
  if (how == Aliasing::none) return;
  const std::vector<std::string> names = result_names(node);
  const auto version = versions_.find(base_of(argument));
  for (size_t i = 0; i < names.size(); ++i) {
    if (!known(names[i])) continue;
    Tensor& t = find(names[i]);
    t.kind = how == Aliasing::same ? Kind::same : how == Aliasing::view ? Kind::view : Kind::unclear;
    t.parent = argument;
    t.node = &node;
    t.result = i;
    t.version = version == versions_.end() ? 0 : version->second;
  }
}

void Env::write(const std::string& name, ValueId v) {
  Tensor& t = find(name);
  if (t.kind == Kind::base) {
    t.value = v;
    t.make = nullptr;
    t.version = ++versions_[name];
    return;
  }
  if (t.kind == Kind::unclear)
    throw Refused{fmt::format("an in-place write to '{}', which may be a view or a copy", name), "export with run_decompositions()"};
  if (t.kind == Kind::same) {
    write(t.parent, v);
  } else {
    const ValueId parent = get(t.parent);
    Rule r(b_, program_, *t.node, *this);
    if (touches_complex(program_, *t.node)) throw Refused{"an in-place write to a complex tensor", "export with run_decompositions()"};
    write(t.parent, write_back(r, parent, v, t.result));
  }
  t.value = v;
  t.version = versions_[base_of(name)];
}

void Env::run_in_place(const PNode& node, RuleFn fn) {
  const std::string target = aliased_argument(node);
  const std::vector<std::string> names = result_names(node);
  if (target.empty() || names.size() > 1) throw Refused{"this in-place operator is not supported", "export with run_decompositions()"};
  const ValueId before = get(target);
  std::map<std::string, ValueId> made;
  std::map<std::string, ValueId>* outer = std::exchange(capture_, &made);
  Rule r(b_, program_, node, *this);
  r.cast_results = true;
  fn(r);
  capture_ = outer;
  if (made.size() != 1) throw Refused{"this in-place operator is not supported", "export with run_decompositions()"};
  const ValueId after = made.begin()->second;
  if (b_.rank(after) != b_.rank(before)) throw Refused{"an in-place change of shape", "export with run_decompositions()"};
  write(target, after);
  Tensor t;
  t.value = after;
  t.kind = Kind::same;
  t.parent = target;
  t.version = versions_[base_of(target)];
  tensors_[made.begin()->first] = std::move(t);
}

namespace {

/// What can be done about an operator that has no rule, by the start of its name; the first that fits.
struct Advice {
  std::string_view starts, why, hint;
};
constexpr Advice kAdvice[] = {
    {"higher_order.cond", "a branch on data (torch.cond) inside the model is not compiled",
     "compute both branches and take torch.where, or export each branch as a model and choose between them in the program"},
    {"higher_order.while_loop", "a loop on data (while_loop) inside the model is not compiled",
     "write a Python loop of a fixed number of rounds, which export unrolls, or export the body as a model and loop in the program"},
    {"higher_order.scan", "a loop over steps (scan) inside the model is not compiled",
     "write a Python loop, which export unrolls, or export one step as a model and loop in the program"},
    {"higher_order.map", "a loop over rows (map) inside the model is not compiled",
     "write it over the whole batch (torch.vmap does so), or write a Python loop, which export unrolls"},
    {"higher_order.", "this region of the model is not compiled",
     "ep.run_decompositions() before torch.export.save takes some of its kind apart; else write it without the region"},
    {"aten.", kNoRule, "ep.run_decompositions() before torch.export.save takes many operators apart; else rewrite it, or report it"},
    {"prims.", kNoRule, "rewrite it with supported operators, or report it"},
    {"", "a custom operator, whose code is not in the archive",
     "where it is made of others, ep.run_decompositions() before torch.export.save takes it apart; else write what it computes with "
     "torch's operators, or end the model before it and call it between two artifacts"},
};

Refused without_rule(const std::string& target) {
  for (const Advice& a : kAdvice)
    if (target.rfind(a.starts, 0) == 0) return {std::string(a.why), std::string(a.hint)};
  return {std::string(kNoRule), ""};
}

}  // namespace

void Env::run(const PNode& node) {
  capture_ = nullptr;
  const bool pairs = touches_complex(program_, node);
  if (const RuleFn fn = pairs ? find_complex_rule(node.target) : find_rule(node.target)) {
    Rule r(b_, program_, node, *this);
    r.pairs = pairs;
    fn(r);
    note_aliases(node);
    return;
  }
  if (pairs) throw Refused{"complex tensors are not supported by this operator", "use view_as_real and real arithmetic"};
  const std::string functional = functional_name(node.target);
  if (const RuleFn fn = functional.empty() ? nullptr : find_rule(functional)) return run_in_place(node, fn);
  throw without_rule(node.target);
}

}  // namespace aotc::decompose

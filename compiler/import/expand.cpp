#include "import/expand.h"

#include <algorithm>

namespace aotc::import {
namespace {

bool same_type(const TensorMeta& a, const TensorMeta& b, const SymTable& syms) {
  return a.dtype == b.dtype && a.sizes.size() == b.sizes.size() &&
         std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), [&](const Expr& x, const Expr& y) { return syms.proves_eq(x, y); });
}

/// The operator's results as aliases of the trace's, which may be operands, or one value twice.
class Results {
 public:
  Results(const Program& program, const CompositeTrace& trace, const PNode& node) : p_(program), trace_(trace), node_(node) {}

  Fit add(const Arg& wanted, const Arg& made) {
    if (std::holds_alternative<NoneArg>(wanted)) return Fit::yes();
    if (const auto* w = std::get_if<TensorRef>(&wanted)) {
      const auto* m = std::get_if<TensorRef>(&made);
      return m ? alias(*w, *m) : refuse("no rule, and its kernel leaves out a result");
    }
    const auto* w = std::get_if<TensorList>(&wanted);
    const auto* m = std::get_if<TensorList>(&made);
    if (!w) return refuse("no rule, and a result of it is not a tensor");
    if (!m || w->size() != m->size()) return refuse("no rule, and its kernel gives another number of results than the archive says");
    for (size_t i = 0; i < w->size(); ++i)
      if (Fit f = alias((*w)[i], (*m)[i]); !f) return f;
    return Fit::yes();
  }
  std::vector<PNode>& aliases() { return aliases_; }

 private:
  Fit alias(const TensorRef& wanted, const TensorRef& made) {
    const auto own = trace_.tensors.find(made.name);
    const TensorMeta& type = own != trace_.tensors.end() ? own->second : p_.tensors.at(made.name);
    const auto meta = p_.tensors.find(wanted.name);
    if (meta != p_.tensors.end() && !same_type(meta->second, type, p_.syms))
      return refuse("no rule, and its kernel gives another type or other sizes for '{}' than the archive says", wanted.name);
    PNode n;
    n.name = wanted.name;
    n.target = "aten.alias.default";
    n.args = {{"self", made}};
    n.results = {wanted};
    const PNode& from = trace_.nodes.empty() ? node_ : trace_.nodes.back();
    n.source = from.source, n.place = from.place;
    n.module_path = node_.module_path;
    aliases_.push_back(std::move(n));
    return Fit::yes();
  }

  const Program& p_;
  const CompositeTrace& trace_;
  const PNode& node_;
  std::vector<PNode> aliases_;
};

}  // namespace

Expander::Expander(HasRule has_rule) : has_rule_(std::move(has_rule)) {}

Fit Expander::expand(Program& p, const std::string& name) {
  const auto it = std::find_if(p.nodes.begin(), p.nodes.end(), [&](const PNode& n) { return n.name == name; });
  if (it == p.nodes.end()) return refuse("no node of the program");
  if (!tracer_) tracer_ = make_tracer(has_rule_);
  std::string prefix = name;
  const auto taken = [&] {
    const auto at = p.tensors.lower_bound(prefix + ".");
    return at != p.tensors.end() && at->first.compare(0, prefix.size() + 1, prefix + ".") == 0;
  };
  while (taken()) prefix += "_";
  Result<CompositeTrace> trace = tracer_->trace(p, *it, prefix);
  if (!trace) return {false, trace.why()};
  budget_.charge(Budget::Kind::nodes, static_cast<int64_t>(trace->nodes.size()), [&] {
    return Loc{p.file, it->path, it->name, it->source};
  });
  if (trace->results.size() != it->results.size())
    return refuse("no rule, and its kernel gives another number of results than the archive says");
  std::set<std::string> within = within_[it->name];
  within.insert(it->target);
  for (const PNode& n : trace->nodes)
    if (within.count(n.target)) return refuse("no rule for this use of it, and it is not made of other operators");
  Results results(p, *trace, *it);
  for (size_t i = 0; i < it->results.size(); ++i)
    if (Fit f = results.add(it->results[i], trace->results[i]); !f) return f;

  Expansion done{it->name, it->target, it->source, {}};
  for (const PNode& n : trace->nodes) {
    done.into.push_back(n.target);
    within_[n.name] = within;
  }
  done_.push_back(std::move(done));
  for (auto& [constant, data] : trace->constants) {
    p.inputs.push_back({.kind = InputKind::constant_tensor, .name = constant, .target = constant});
    p.data_meta.emplace(constant, trace->tensors.at(constant));
    p.data.emplace(constant, std::move(data));
  }
  p.tensors.merge(trace->tensors);
  std::vector<PNode> parts = std::move(trace->nodes);
  std::move(results.aliases().begin(), results.aliases().end(), std::back_inserter(parts));
  for (PNode& n : parts) n.branches = it->branches;
  const auto at = p.nodes.erase(it);
  p.nodes.insert(at, std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  return Fit::yes();
}

}  // namespace aotc::import

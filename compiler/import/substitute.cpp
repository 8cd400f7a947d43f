#include "import/substitute.h"

namespace aotc::import {
namespace {

void replace(Expr& e, const SymMap& with) { e = e.substitute(with); }
void replace(std::vector<Expr>& v, const SymMap& with) {
  for (Expr& e : v) replace(e, with);
}
void replace(Arg& a, const SymMap& with) {
  if (Expr* e = std::get_if<Expr>(&a)) replace(*e, with);
  if (auto* v = std::get_if<std::vector<Expr>>(&a)) replace(*v, with);
}

}  // namespace

void substitute(Program& p, const SymMap& with) {
  if (with.empty()) return;
  for (auto& [name, t] : p.tensors) {
    replace(t.sizes, with);
    replace(t.strides, with);
    replace(t.storage_offset, with);
  }
  for (auto& [name, e] : p.sym_ints) replace(e, with);
  for (PNode& n : p.nodes) {
    for (NamedArg& a : n.args) replace(a.value, with);
    for (Arg& r : n.results) replace(r, with);
  }
  for (ProgramInput& in : p.inputs) replace(in.constant, with);
  for (ProgramOutput& o : p.outputs) replace(o.value, with);
  for (ShapeGuard& g : p.guards) {
    replace(g.a, with);
    replace(g.b, with);
  }
  for (BranchGuard& b : p.branch_guards) {
    replace(b.guard.a, with);
    replace(b.guard.b, with);
  }
  for (OpenCondition& c : p.open_conditions)
    for (auto& [name, e] : c.sizes) replace(e, with);
  for (Program& s : p.subgraphs) substitute(s, with);
}

}  // namespace aotc::import

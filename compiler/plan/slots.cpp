#include "plan/slots.h"

#include <algorithm>

#include "aotc/detail/plan_format.h"

namespace aotc::plan {

namespace {

int64_t operation(Expr::AtomKind k) {
  switch (k) {
    case Expr::AtomKind::floordiv: return AOTC_X_FLOORDIV;
    case Expr::AtomKind::mod: return AOTC_X_MOD;
    case Expr::AtomKind::min: return AOTC_X_MIN;
    default: return AOTC_X_MAX;
  }
}

/// Depth of the stack that the code needs.
int stack_depth(const std::vector<int64_t>& code) {
  int depth = 0, most = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] <= AOTC_X_SLOT) {
      ++i;
      most = std::max(most, ++depth);
    } else {
      --depth;
    }
  }
  return most;
}

/// A factor, or the factors of a term with its coefficient.
struct Operand {
  std::vector<int64_t> code;
  int64_t coef = 1;
};
void deepest_first(std::vector<Operand>& operands) {
  std::stable_sort(operands.begin(), operands.end(),
                   [](const Operand& a, const Operand& b) { return stack_depth(a.code) > stack_depth(b.code); });
}

void check_depth(const std::vector<int64_t>& code) {
  if (stack_depth(code) > AOTC_X_MAX_DEPTH)
    throw Diagnostic(ExitCode::unsupported, {},
                     fmt::format("a size that the model computes divides by divisions nested deeper than {}", AOTC_X_MAX_DEPTH))
        .note("give the sizes that it is computed from as numbers in shapes.json");
}

}  // namespace

SlotTable::SlotTable(std::vector<SymId> model_symbols) : symbols_(std::move(model_symbols)) {
  for (size_t i = 0; i < symbols_.size(); ++i) number_[symbols_[i]] = static_cast<int64_t>(i);
}

// Operands of sums and products are pushed deepest first: only divisions by what is nested itself need more of the stack then.
template <class Atom>
void SlotTable::append(const Expr& e, const Atom& atom, std::vector<int64_t>& out) const {
  std::vector<Operand> terms;
  for (const Expr::Term& t : e.terms()) {
    std::vector<Operand> factors;
    for (const Expr::Atom& a : t.atoms) {
      Operand& f = factors.emplace_back();
      if (a.kind != Expr::AtomKind::symbol) {
        atom(a, f.code);
        continue;
      }
      const auto it = number_.find(a.sym);
      AOTC_CHECK(it != number_.end(), "symbol {} is not a symbol of the model", idx(a.sym));
      f.code = {AOTC_X_SYM, it->second};
    }
    deepest_first(factors);
    Operand& product = terms.emplace_back();
    product.coef = t.coef;
    for (const Operand& f : factors) {
      product.code.insert(product.code.end(), f.code.begin(), f.code.end());
      if (&f != &factors.front()) product.code.push_back(AOTC_X_MUL);
    }
  }
  if (terms.empty()) terms.push_back({{}, 0});
  deepest_first(terms);
  for (const Operand& t : terms) {
    // A negative coefficient after the first term is a subtraction.
    const bool first = &t == &terms.front(), subtract = !first && t.coef < 0 && t.coef != INT64_MIN;
    const int64_t coef = subtract ? -t.coef : t.coef;
    out.insert(out.end(), t.code.begin(), t.code.end());
    if (t.code.empty() || coef != 1) {
      out.insert(out.end(), {AOTC_X_CONST, coef});
      if (!t.code.empty()) out.push_back(AOTC_X_MUL);
    }
    if (!first) out.push_back(subtract ? AOTC_X_SUB : AOTC_X_ADD);
  }
}

int32_t SlotTable::slot(const Expr& e) {
  if (auto it = known_.find(e); it != known_.end()) return it->second;
  std::vector<int64_t> code;
  append(
      e,
      [this](const Expr::Atom& a, std::vector<int64_t>& out) {
        const int64_t x = slot(a.a), y = slot(a.b);
        out.insert(out.end(), {AOTC_X_SLOT, x, AOTC_X_SLOT, y, operation(a.kind)});
      },
      code);
  check_depth(code);
  const auto begin = static_cast<uint32_t>(code_.size());
  code_.insert(code_.end(), code.begin(), code.end());
  slots_.push_back({begin, static_cast<uint32_t>(code_.size())});
  return known_[e] = static_cast<int32_t>(slots_.size() - 1);
}

std::vector<int64_t> SlotTable::encode(const Expr& e) const {
  std::vector<int64_t> code;
  auto atom = [this](auto& self, const Expr::Atom& a, std::vector<int64_t>& out) -> void {
    auto again = [&](const Expr::Atom& b, std::vector<int64_t>& o) { self(self, b, o); };
    append(a.a, again, out);
    append(a.b, again, out);
    out.push_back(operation(a.kind));
  };
  append(
      e, [&](const Expr::Atom& a, std::vector<int64_t>& out) { atom(atom, a, out); }, code);
  check_depth(code);
  return code;
}

}  // namespace aotc::plan

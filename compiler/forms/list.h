#pragma once
// The ordered tables of forms, one an architecture, and the questions that are asked of all of them.
#include <span>

#include "forms/form.h"

namespace aotc::forms {

std::span<const Form* const> forms_of(Arch arch);
/// By name, over all tables; null where there is none.
const Form* find_form(std::string_view name);

/// All choices of all forms that take the kernel's kind: those that fit in rising cost (equal ones in the table's order), then the refused
/// ones, each with its reason. The first is what `default` mode takes.
std::vector<Candidate> candidates(const Site& s);

/// What was decided for a kernel, and against what: for reports and explain.
struct Decision {
  Choice choice;
  std::string by = "cost model";      ///< or "tuning database", "measured" (alone), "measured in the whole" (artifact)
  std::string contract;               ///< key of the tuning database; empty: nothing to search
  std::vector<Candidate> candidates;  ///< as candidates(); measured ones say so
};
/// The cost model's decision. Throws Diagnostic (unsupported) with every form's reason where no form fits.
Decision decide(const Site& s);
/// Key of the kernel in the tuning database: the first fitting form's contract. Empty: nothing to search.
std::string contract(const Site& s);

}  // namespace aotc::forms

#pragma once
// Program (aten operators) → Graph (core operators): one rule an overload, grouped by family, one family a file.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "import/program.h"

namespace aotc::own {
struct Kernels;
}

namespace aotc::decompose {

/// An operator of the program that has no rule, or whose rule refused this use of it.
struct Unsupported {
  std::string node, overload, source, place;
  std::string why;   ///< "no rule", or what is missing ("mode='area' is not supported")
  std::string hint;  ///< what could be done
};

/// What is thrown of a program that has some: a Diagnostic (ExitCode::unsupported) that lists all of them, and they themselves.
class UnsupportedOperators : public Diagnostic {
 public:
  UnsupportedOperators(Diagnostic text, std::vector<Unsupported> all) : Diagnostic(std::move(text)), all_(std::move(all)) {}
  const std::vector<Unsupported>& all() const { return all_; }

 private:
  std::vector<Unsupported> all_;
};

/// All unsupported operators of the program, found before any other work; empty when it can be compiled.
std::vector<Unsupported> find_unsupported(const import::Program& program);
/// Throws UnsupportedOperators when there are any.
Graph decompose(const import::Program& program);

/// Whether the input's constant is exchangeable (ConstData): floating-point numbers that a state dict of the model has. A buffer without
/// dims is a number of the program (a scale, what masks are filled with), as are buffers that are not saved with the model.
bool exchangeable(const import::ProgramInput& in, const TensorType& type);

/// Whether a use of the operator finds a rule (of its functional form, too); `complex`: one of its tensors is.
bool has_rule(std::string_view target, bool complex);
/// Replaces a node of the program by others that say the same, or says why not (import/expand.h).
using Expand = std::function<Fit(import::Program&, const std::string& node)>;
/// As decompose, with the nodes replaced that are not supported as they are, as long as that helps. `narrowed` gets a line for each
/// operator that takes sizes from the archive's ranges.
/// own: the user's kernels for custom operators, or null.
Graph decompose(import::Program& program, const Expand& expand, std::vector<std::string>* narrowed = nullptr,
                const own::Kernels* own = nullptr);

}  // namespace aotc::decompose

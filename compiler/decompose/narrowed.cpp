#include "decompose/narrowed.h"

#include <algorithm>

#include "import/shapes.h"
#include "sym/sym_error.h"

namespace aotc::decompose {
namespace {

std::string range_text(const SymInfo& s) {
  std::string text =
      s.min == s.max ? fmt::format("only {}", s.min) : fmt::format("{} to {}", s.min, s.max == kInf ? "any size" : std::to_string(s.max));
  if (s.multiple_of > 1) text += fmt::format(" in multiples of {}", s.multiple_of);
  return text;
}

int64_t ceil_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

bool same_range(const SymInfo& a, const SymInfo& b) { return a.min == b.min && a.max == b.max && a.multiple_of == b.multiple_of; }

/// Whether the guard is known not to hold at the sizes of the example.
bool refuses_example(const ShapeGuard& g, const SymTable& syms) {
  if (!syms.exported(g.a) || !syms.exported(g.b)) return false;
  return !guard_holds(g, [&](SymId s) { return syms[s].exported; });
}

/// The sizes of the example of all symbols of the guard lie within their ranges.
bool example_within(const ShapeGuard& g, const SymTable& syms) {
  std::set<SymId> used = g.a.symbols();
  used.merge(g.b.symbols());
  return std::all_of(used.begin(), used.end(), [&](SymId s) {
    const SymInfo& i = syms[s];
    return i.exported && *i.exported >= i.min && *i.exported <= i.max && *i.exported % i.multiple_of == 0;
  });
}

std::string example_text(const ShapeGuard& g, const SymTable& syms) {
  std::set<SymId> used = g.a.symbols();
  used.merge(g.b.symbols());
  std::string text;
  for (const SymId s : used) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", syms[s].name, syms[s].exported.value_or(0));
  return text;
}

/// The ends of the range of the only symbol of g, one of `inputs`, where it does not hold though the archive's own conditions do.
std::vector<int64_t> ends_refused(const ShapeGuard& g, const SymTable& ranges, const std::set<SymId>& inputs,
                                  const std::vector<ShapeGuard>& own) {
  std::set<SymId> used = g.a.symbols();
  used.merge(g.b.symbols());
  if (used.size() != 1 || !inputs.count(*used.begin())) return {};
  const SymInfo& s = ranges[*used.begin()];
  const auto holds = [&](const ShapeGuard& q, int64_t n) {
    std::set<SymId> all = q.a.symbols();
    all.merge(q.b.symbols());
    return all != used || guard_holds(q, [&](SymId) { return n; });
  };
  std::vector<int64_t> out;
  for (const int64_t n : {ceil_to(s.min, s.multiple_of), s.max == kInf ? kInf : s.max / s.multiple_of * s.multiple_of})
    if (n != kInf && !holds(g, n) && std::all_of(own.begin(), own.end(), [&](const ShapeGuard& q) { return holds(q, n); }))
      out.push_back(n);
  return out;
}

}  // namespace

std::vector<std::string> narrowings(const import::Program& program, SymTable ranges, const std::vector<Need>& needs) {
  const std::set<SymId> inputs = import::input_symbols(program);
  const bool example =
      std::none_of(program.guards.begin(), program.guards.end(), [&](const ShapeGuard& g) { return refuses_example(g, ranges); });
  const SymTable archive = ranges;
  const auto from = [](const Need& n) { return n.node->source.empty() ? "" : "; from " + n.node->source; };
  std::vector<std::string> lines;
  for (const Need& need : needs) {
    const ShapeGuard& g = need.guard;
    const Loc loc{program.file, need.node->path, need.node->name, need.node->source};
    if (example && example_within(g, archive) && refuses_example(g, archive))
      throw Diagnostic(ExitCode::unsupported, loc,
                       fmt::format("{}: cannot be compiled for the sizes of the archive's own example ({}): it needs {}", need.node->target,
                                   example_text(g, ranges), guard_text(g, ranges)))
          .note("if the exported program runs at these sizes, this is a bug in aotc");
    const SymTable before = ranges;
    narrow_ranges(ranges, {g});
    for (const SymId s : inputs) {
      if (same_range(before[s], ranges[s])) continue;
      lines.push_back(fmt::format("the artifact takes {} of {}, the archive takes {}: {} ({}) needs {}{}", ranges[s].name,
                                  range_text(ranges[s]), range_text(archive[s]), need.node->name, need.node->target, guard_text(g, before),
                                  from(need)));
    }
  }
  for (const Need& need : needs)  // those that no range says
    for (const int64_t n : ends_refused(need.guard, ranges, inputs, program.guards)) {
      const SymId s = *(need.guard.a.symbols().empty() ? need.guard.b : need.guard.a).symbols().begin();
      lines.push_back(fmt::format("the artifact does not take {} of {}, the archive takes {}: {} ({}) needs {}{}", archive[s].name, n,
                                  range_text(archive[s]), need.node->name, need.node->target, guard_text(need.guard, archive), from(need)));
    }
  return lines;
}

}  // namespace aotc::decompose

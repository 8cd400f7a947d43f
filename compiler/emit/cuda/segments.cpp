#include "emit/cuda/segments.h"

#include <algorithm>

#include "emit/cuda/code.h"

namespace aotc::emit::cuda {

Segments::Segments(const loop::MatmulKernel& k, const std::string& symbol) : k_(k), symbol_(symbol) {
  for (size_t s = 0; s < k.segments.size(); ++s) {
    const auto same =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return k.segments[g[0]].mates == k.segments[s].mates; });
    if (same == groups_.end())
      groups_.push_back({s});
    else
      same->push_back(s);
  }
}

std::string Segments::held(const Group& group) const {
  return group.size() == 1 ? epilogue(group[0]) + "::Held" : fmt::format("{}_held{}", symbol_, group[0]);
}

std::string Segments::structs() const {
  std::string out;
  for (const Group& group : groups_) {
    if (group.size() == 1) continue;
    std::string members;
    for (size_t s : group) members += fmt::format(" {}::Held of{};", epilogue(s), s);
    out += fmt::format("struct {} {{{} }};\n", held(group), members);
  }
  return out;
}

std::string Segments::step(size_t segment, const std::string& columns, int of_block) {
  return fmt::format(
      "  const i64 n{0} = {1}, blocks{0} = (n{0} + {2}) / {3};\n  if (segment == {0} && block >= blocks{0}) block -= blocks{0}, segment = "
      "{4};\n",
      segment, columns, of_block - 1, of_block, segment + 1);
}

std::string Segments::is_of(const Group& group) {
  std::string out;
  for (size_t s : group) out += fmt::format("{}segment == {}", out.empty() ? "" : " || ", s);
  return out;
}

std::string Segments::lambdas(const Group& group, int sums, const std::string& indent, const std::string& point,
                              const std::string& row) const {
  const bool one = group.size() == 1;
  const std::string type = held(group), acc(c_type(k_.acc));
  const auto member = [&](size_t s) { return one ? std::string("held") : fmt::format("held.of{}", s); };
  std::string takes, finishes;
  for (size_t s : group) {
    const std::string where = s == group.back() ? "" : fmt::format("if (segment == {}) ", s), next = s == group.back() ? "" : " else ";
    takes += fmt::format("{}{} = {}{{a}}.ahead({}{}i, j);{}", where, member(s), epilogue(s), point, row, next);
    finishes +=
        fmt::format("{}{}{{a}}(acc[0], {}{}, {}{}i, j);{}", where, epilogue(s), sums > 1 ? "acc[1], " : "", member(s), point, row, next);
  }
  return fmt::format("{0}auto ahead = [&](i64 i, i64 j) {{\n{0}  {1} held{{}};\n{0}  {2}\n{0}  return held;\n{0}}};\n", indent, type,
                     takes) +
         fmt::format("{0}auto finish = [&](const {1} (&acc)[{2}], const {3}& held, i64 i, i64 j) {{\n{0}  {4}\n{0}}};\n", indent, acc, sums,
                     type, finishes);
}

}  // namespace aotc::emit::cuda

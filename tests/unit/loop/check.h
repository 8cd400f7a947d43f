#pragma once
// Lowers a graph given as text, runs module and graph through their interpreters at given sizes and compares.
#include <catch2/catch.hpp>
#include <string>

#include "graph/interp.h"
#include "graph/text.h"
#include "loop/loop.h"

namespace aotc::loop::test {
struct Checked {
  Graph g;
  Module m;
  size_t kernels() const { return m.kernels.size(); }
  size_t calls() const { return m.calls.size(); }
  std::vector<std::string> names() const;
};
/// `sizes`: a value for each shape symbol, in order; float inputs are pseudo-random in [-1, 1], integer inputs in [0, int_below).
Checked check(const std::string& text, const std::vector<std::vector<int64_t>>& sizes = {{}}, int64_t int_below = 3);
/// The same for a graph made by code.
Checked check_graph(Graph g, const std::vector<std::vector<int64_t>>& sizes = {{}}, int64_t int_below = 3);
}  // namespace aotc::loop::test

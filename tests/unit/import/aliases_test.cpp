// Views: the table of aliases against LibTorch's schemas, and what sizes and strides decide.
#include "import/aliases.h"

#include <catch2/catch.hpp>

#include "decompose/rule.h"
#include "dense_meta.h"
#include "import/operators.h"

namespace aotc::import {
namespace {

Alias::Kind kind_of(const std::string& target, const TensorMeta& in, const TensorMeta& out, std::vector<NamedArg> more = {}) {
  PNode n{.name = "y", .target = target, .args = {{"self", TensorRef{"x"}}}, .results = {TensorRef{"y"}}};
  n.args.insert(n.args.end(), more.begin(), more.end());
  return aliases_of(n, {{"x", in}, {"y", out}}, SymTable()).at(0).kind;
}

TensorMeta strided(std::vector<Expr> sizes, std::vector<Expr> strides) {
  TensorMeta m;
  m.sizes = std::move(sizes);
  m.strides = std::move(strides);
  return m;
}

}  // namespace

TEST_CASE("every operator with a rule whose schema says that a result may be a view is in the table of aliases") {
  OpTable ops;
  int views = 0;
  for (const decompose::RuleTable table : decompose::all_rules())
    for (const decompose::RuleRow& row : table)
      each_word(row.overloads, [&](std::string_view overload) {
        const OpSchema* s = ops.find(std::string(overload));
        if (!s) return;
        const auto aliased = [](const OpResult& r) { return !r.alias.empty(); };
        const auto written = [](const OpParam& p) { return p.written; };
        if (std::none_of(s->results.begin(), s->results.end(), aliased) || std::any_of(s->params.begin(), s->params.end(), written)) return;
        ++views;
        CHECK((may_alias(overload) ? "" : overload) == "");
      });
  CHECK(views > 60);
}

TEST_CASE("strides decide whether a reshape, a cast or contiguous copies") {
  const auto dense = [](std::vector<Expr> dims) { return dense_meta(DType::f32, std::move(dims)); };
  const TensorMeta turned = strided({4, 6}, {1, 4}), column = strided({4}, {6}), image = dense({1, 2, 3, 4});
  CHECK(kind_of("aten.reshape.default", dense({4, 6}), dense({2, 12})) == Alias::view);
  CHECK(kind_of("aten.reshape.default", turned, dense({24})) == Alias::none);
  CHECK(kind_of("aten.reshape.default", turned, dense({2, 2, 6})) == Alias::view);
  CHECK(kind_of("aten.flatten.using_ints", column, dense({4})) == Alias::view);
  CHECK(kind_of("aten.contiguous.default", dense({4, 6}), dense({4, 6})) == Alias::same);
  CHECK(kind_of("aten.contiguous.default", turned, dense({4, 6})) == Alias::none);
  CHECK(kind_of("aten.contiguous.default", image, image, {{"memory_format", MemoryFormatArg{"channels_last"}}}) == Alias::none);
  CHECK(kind_of("aten.to.dtype", dense({4}), dense({4})) == Alias::same);
  CHECK(kind_of("aten.to.dtype", dense({4}), dense({4}), {{"copy", true}}) == Alias::none);
  CHECK(kind_of("aten.to.dtype", dense({4}), dense_meta(DType::f64, {4})) == Alias::none);
  CHECK(kind_of("aten.to.dtype", image, image, {{"memory_format", MemoryFormatArg{"channels_last"}}}) == Alias::none);
  CHECK(kind_of("aten.sum_to_size.default", dense({3, 4}), dense({3, 4})) == Alias::same);
  CHECK(kind_of("aten.sum_to_size.default", dense({3, 4}), dense({1, 4})) == Alias::none);
  CHECK(kind_of("aten.relu.default", dense({4}), dense({4})) == Alias::none);
}

TEST_CASE("a cast to a format of memory copies what PyTorch takes for another one") {
  struct Case {
    std::vector<Expr> sizes, strides;
    bool last;
  };
  // Strides as torch has them of contiguous and channels-last memory, where dims of size 1 leave the order open, and of parts of it.
  const Case cases[] = {{{40, 1, 1, 9}, {9, 9, 9, 1}, false},        {{40, 1, 1, 9}, {9, 1, 9, 1}, true},
                        {{40, 9, 1, 1}, {9, 1, 1, 1}, false},        {{40, 9, 1, 1}, {9, 1, 9, 9}, true},
                        {{40, 1, 1, 1}, {1, 1, 1, 1}, false},        {{2, 3, 4, 5}, {60, 1, 15, 3}, true},
                        {{2, 2, 4, 5}, {60, 1, 15, 3}, true},        {{2, 3, 4, 5}, {1, 2, 6, 24}, false},
                        {{2, 3, 4, 5}, {0, 0, 0, 0}, false},         {{4, 6}, {1, 4}, false},
                        {{2, 3, 4, 5, 6}, {360, 1, 90, 18, 3}, true}};
  for (const Case& c : cases) {
    const TensorMeta x = strided(c.sizes, c.strides);
    const std::string format = c.sizes.size() == 5 ? "channels_last_3d" : "channels_last";
    const auto kind = [&](const std::string& to) {
      return kind_of("aten.to.dtype_layout", x, x, {{"memory_format", MemoryFormatArg{to}}});
    };
    INFO(c.sizes.size() << " dims, " << (&c - cases));
    if (c.sizes.size() != 2) CHECK(kind(format) == (c.last ? Alias::same : Alias::none));
    CHECK(kind("contiguous") == (c.last ? Alias::none : Alias::same));
    CHECK(kind("preserve") == Alias::same);
  }
  SymTable syms;
  const Expr n = Expr::symbol(syms.add({.name = "n", .min = 1, .max = 100})),
             w = Expr::symbol(syms.add({.name = "w", .min = 2, .max = 100}));
  const PNode node{.name = "y",
                   .target = "aten.to.dtype_layout",
                   .args = {{"self", TensorRef{"x"}}, {"memory_format", MemoryFormatArg{"channels_last"}}},
                   .results = {TensorRef{"y"}}};
  const auto kind = [&](const TensorMeta& in) { return aliases_of(node, {{"x", in}, {"y", in}}, syms).at(0).kind; };
  CHECK(kind(strided({n, 3, 8, w}, {w * 24, 1, w * 3, 3})) == Alias::same);
  CHECK(kind(strided({n, 3, 8, w}, {w * 24, w * 8, w, 1})) == Alias::none);
  CHECK(kind(strided({3, n, 8, 1}, {n * 8, 8, 1, 1})) == Alias::none);
  CHECK(kind(strided({3, n, 1, 1}, {n, 1, n, n})) == Alias::unclear);
}

TEST_CASE("whether a reshape copies at any size") {
  SymTable syms;
  const Expr n = Expr::symbol(syms.add({.name = "n", .min = 2, .max = 100}));
  const PNode node{.name = "y", .target = "aten.reshape.default", .args = {{"self", TensorRef{"x"}}}, .results = {TensorRef{"y"}}};
  const auto kind = [&](const TensorMeta& in) {
    return aliases_of(node, {{"x", in}, {"y", dense_meta(DType::f32, {n * 3})}}, syms).at(0).kind;
  };
  CHECK(kind(dense_meta(DType::f32, {n, 3})) == Alias::view);
  CHECK(kind(strided({3, n}, {1, 3})) == Alias::none);
  const Expr some = Expr::symbol(syms.add({.name = "some", .min = 1, .max = 100}));
  const TensorMeta columns = strided({3, some}, {1, 3});
  CHECK(aliases_of(node, {{"x", columns}, {"y", dense_meta(DType::f32, {some * 3})}}, syms).at(0).kind == Alias::unclear);
  // Images [n, h, w, c] that lie as [n, c, h, w].
  const TensorMeta turned = strided({n, 8, 6, 5}, {240, 6, 1, 48});
  const auto reshaped = [&](std::vector<Expr> to) {
    return aliases_of(node, {{"x", turned}, {"y", dense_meta(DType::f32, std::move(to))}}, syms).at(0).kind;
  };
  CHECK(reshaped({n, 48, 5}) == Alias::view);
  CHECK(reshaped({n, 1, 48, 5}) == Alias::view);
  CHECK(reshaped({n, 48, 5, 1}) == Alias::view);
  CHECK(reshaped({n, 4, 12, 5}) == Alias::view);
  CHECK(reshaped({n * 8, 6, 5}) == Alias::none);
  CHECK(reshaped({n, 240}) == Alias::none);
}

}  // namespace aotc::import

// The type rule of Op::custom.
#include "graph/custom_op.h"
#include "graph/infer_detail.h"

namespace aotc::infer {

Types custom(Infer& r) {
  r.n.get<std::string>(Attr::op);
  r.n.get<std::string>(Attr::function);
  const std::vector<DType> types = parse_custom_types(r.n.get<std::string>(Attr::types));
  const Ints& ranks = r.n.get<Ints>(Attr::ranks);
  const Exprs& sizes = r.n.get<Exprs>(Attr::sizes);
  r.require(types.size() == ranks.size(), "{} types for {} results", types.size(), ranks.size());
  Types out;
  size_t at = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    r.require(ranks[i] >= 0 && static_cast<size_t>(ranks[i]) <= sizes.size() - at, "result {} has more dims than there are sizes", i);
    const auto first = sizes.begin() + static_cast<std::ptrdiff_t>(at);
    out.push_back({types[i], Exprs(first, first + ranks[i])});
    for (const Expr& d : out.back().dims) r.at_most(0, d, "a size of a result");
    at += static_cast<size_t>(ranks[i]);
  }
  for (const CustomNumber& n : parse_custom_numbers(r.n.get<std::string>(Attr::numbers)))
    r.require(n.first_size < 0 || static_cast<size_t>(n.first_size) + static_cast<size_t>(n.sizes) <= sizes.size() - at,
              "a number is a size that is not there");
  for (const int64_t p : r.n.get<Ints>(Attr::places)) r.require(p >= -1 && p < static_cast<int64_t>(r.arity()), "there is no input {}", p);
  r.require(r.n.get<Exprs>(Attr::launch).size() == CustomLaunch::count, "launch has {} entries", static_cast<size_t>(CustomLaunch::count));
  return out;
}

}  // namespace aotc::infer

#pragma once
// How operators read what a mask selects where it stays among all elements (decompose/masked.h).
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "import/program.h"

namespace aotc::decompose::masked {

using import::Arg;
using import::NamedArg;
using import::PNode;
using import::Program;

/// A tensor of selected elements: [before.., selected, after..], which stands for [before.., mask.., after..].
struct Packed {
  std::string mask;
  size_t at = 0;  ///< of the selected ones among its dims
};

/// How an operator may read selected elements.
enum class Use : uint8_t { none, elementwise, rows, sum, mean, variance, deviation, median, fold, line, loss, write, alike };
/// What stands in the place of an element that is not selected, by what is computed: it changes nothing.
enum class Neutral : uint8_t { zero, one, least, greatest };

Arg* arg(PNode& n, std::string_view name);
const std::string* tensor_name(const Arg* a);

/// One walk that leaves `kept` masks as they are. A use that needs the number of selected elements is another walk's kept mask.
class Walk {
 public:
  Walk(const Program& p, const std::set<std::string>& kept) : p_(p), kept_(kept) { p_.nodes.clear(); }

  /// False: `failed` is a mask to keep.
  bool run(const std::vector<PNode>& nodes);
  bool any() const { return !packed_.empty(); }
  Program take() { return std::move(p_); }
  std::string failed;

 private:
  bool fail(const std::string& packed);
  const std::vector<Expr>& sizes(const std::string& name) const { return p_.tensors.at(name).sizes; }
  void set_sizes(const std::string& name, std::vector<Expr> sizes);
  /// x[:, mask]: the mask alone among the indices.
  std::optional<Packed> selected(const PNode& n, const std::string& x, const Arg* indices) const;
  bool node(const PNode& n);
  /// masked_select of a mask of x's own sizes is x[mask].
  void index_by_mask(PNode& n) const;
  /// x[mask] becomes a copy of x.
  void select(PNode& n);

  /// What was selected whose number an argument is computed from; null where it is from none.
  const std::string* counted_in(const Arg& a) const;
  /// Whether the program excludes a number of selected elements that there may be: then it is counted.
  bool excluded(SymId count, const std::string& of) const;

  size_t mask_rank(const Packed& p) const { return sizes(p.mask).size(); }
  size_t tail(const std::string& name, const Packed& p) const { return sizes(name).size() - p.at - mask_rank(p); }
  /// Whether a tensor that is not selected from is the same for all selected ones.
  bool lies_after(const std::string& name, const Packed& p, size_t after) const;
  /// Other tensors lie along the dims after the selected ones.
  bool elementwise(PNode& n, const Packed& p, Use use);
  /// y[mask] = selected elements.
  bool write(PNode& n, const Packed& p, bool in_place);
  /// Tensors of the same elements are of one size already.
  bool alike(PNode& n, const Packed& p);
  /// A node made beside `like`; its result has these sizes.
  std::string add(const PNode& like, const std::string& suffix, const std::string& target, std::vector<NamedArg> args, DType t,
                  std::vector<Expr> of);
  /// The mask with dims of one element for those after it.
  std::string mask_before(const PNode& like, const Packed& p, size_t after);
  /// x with something else where nothing is selected.
  std::string selected_or(const PNode& n, const Packed& p, const std::string& x, Arg other, const std::string& suffix = ".selected");

  // masked_reductions.cpp: where the number of what is selected counts
  /// A reduction over dims after the selected one, given for the whole tensor.
  bool of_rows(PNode& n, const Packed& p, bool keep);
  /// The dims that a reduction is over become those of the whole tensor. `others`: elements that go into it for each selected one.
  bool whole_dims(PNode& n, const Packed& p, bool& over_selected, Expr& others);
  /// A reduction that an element of its own leaves as it is, over all elements or over some dims.
  bool fold(PNode& n, const Packed& p, Neutral kind);
  /// Over all elements, or over some dims.
  bool sum(PNode& n, const Packed& p, bool mean);
  /// The loss of each element, then its sum or mean.
  bool loss(PNode& n, const Packed& p);
  /// How many elements go into a reduction over what is selected, and `others` for each of it: int64 of rank 0.
  std::string counted(const PNode& n, const Packed& p, const Expr& others);
  /// The variance, or its root.
  bool spread(PNode& n, const Packed& p, bool root);
  /// Of all elements.
  bool median(PNode& n, const Packed& p);
  /// What is computed along lines and keeps their length.
  bool along_lines(PNode& n, const Packed& p, Neutral kind);

  Program p_;
  const std::set<std::string>& kept_;
  std::map<std::string, Packed> packed_;
  std::map<SymId, std::string> counts_;  ///< the number of what is selected → one tensor of it
};                                       // namespace aotc::decompose::masked

}  // namespace aotc::decompose::masked

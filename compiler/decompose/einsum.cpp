// einsum, and contraction of labelled dims.
#include <algorithm>
#include <cctype>
#include <map>

#include "decompose/complex.h"
#include "decompose/families.h"
#include "decompose/linalg.h"

namespace aotc::decompose {
namespace {

bool contains(const std::vector<int>& v, int x) { return std::find(v.begin(), v.end(), x) != v.end(); }
int64_t place(const std::vector<int>& v, int x) { return std::find(v.begin(), v.end(), x) - v.begin(); }

/// Sums over labels that `keep` lacks.
Labeled drop_labels(const Labeled& a, const std::vector<int>& keep) {
  Ints over;
  std::vector<int> left;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    if (contains(keep, a.labels[i]))
      left.push_back(a.labels[i]);
    else
      over.push_back(static_cast<int64_t>(i));
  }
  if (over.empty()) return a;
  const DType t = a.t.dtype();
  return {a.t.up().sum(over, false).to(t), left};
}

T permute_to(const Labeled& a, const std::vector<int>& order) {
  Ints perm;
  for (int l : order) perm.push_back(place(a.labels, l));
  return a.t.permute(perm);
}

/// A label that stands twice takes the diagonal.
Labeled diagonals(Labeled a) {
  for (size_t i = 0; i < a.labels.size(); ++i)
    for (size_t j = i + 1; j < a.labels.size(); ++j) {
      if (a.labels[i] != a.labels[j]) continue;
      std::vector<Expr> dims, strides, dense(a.labels.size(), Expr(1));
      for (size_t k = dense.size(); k-- > 1;) dense[k - 1] = dense[k] * a.t.dims()[k];
      std::vector<int> labels;
      for (size_t k = 0; k < dense.size(); ++k) {
        if (k == j) continue;
        labels.push_back(a.labels[k]);
        dims.push_back(a.t.dims()[k]);
        strides.push_back(k == i ? dense[i] + dense[j] : dense[k]);
      }
      const T t(a.t.b(), a.t.b().strided(a.t, dims, strides, 0));
      return diagonals({t, labels});
    }
  return a;
}

std::vector<Expr> sizes_of(const Labeled& a, const std::vector<int>& labels) {
  std::vector<Expr> out;
  for (int l : labels) out.push_back(a.t.dims()[static_cast<size_t>(place(a.labels, l))]);
  return out;
}

}  // namespace

Labeled contract(const Labeled& a0, const Labeled& b0, const std::vector<int>& keep) {
  // A label only one side has and nobody needs goes first; a unit dim that meets a longer one drops out of the product.
  std::vector<int> keep_a = keep, keep_b = keep;
  keep_a.insert(keep_a.end(), b0.labels.begin(), b0.labels.end());
  keep_b.insert(keep_b.end(), a0.labels.begin(), a0.labels.end());
  Labeled a = drop_labels(a0, keep_a), b = drop_labels(b0, keep_b);
  const auto widen = [](Labeled& x, const Labeled& y) {
    std::vector<Expr> dims = x.t.dims();
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!dims[i].is(1) || !contains(y.labels, x.labels[i])) continue;
      dims[i] = y.t.dims()[static_cast<size_t>(place(y.labels, x.labels[i]))];
    }
    x.t = x.t.expand(dims);
  };
  widen(a, b);
  widen(b, a);
  std::vector<int> batch, left, right, inner;
  for (int l : a.labels) {
    if (!contains(b.labels, l))
      left.push_back(l);
    else if (contains(keep, l))
      batch.push_back(l);
    else
      inner.push_back(l);
  }
  for (int l : b.labels)
    if (!contains(a.labels, l)) right.push_back(l);
  std::vector<int> oa = batch, ob = batch, out = batch;
  for (int l : left) oa.push_back(l), out.push_back(l);
  for (int l : right) out.push_back(l);
  std::vector<Expr> dims = sizes_of(a, batch);
  for (const Expr& e : sizes_of(a, left)) dims.push_back(e);
  for (const Expr& e : sizes_of(b, right)) dims.push_back(e);
  const std::vector<Expr> nb = sizes_of(a, batch);
  const Expr m = product(sizes_of(a, left)), n = product(sizes_of(b, right)), k = product(sizes_of(a, inner));
  if (inner.empty()) {
    for (int l : right) ob.push_back(l);
    std::vector<Expr> da = nb, db = nb;
    for (const Expr& e : sizes_of(a, left)) da.push_back(e), db.push_back(1);
    for (const Expr& e : sizes_of(b, right)) da.push_back(1), db.push_back(e);
    return {permute_to(a, oa).reshape(da) * permute_to(b, ob).reshape(db), out};
  }
  oa.insert(oa.end(), inner.begin(), inner.end());
  ob.insert(ob.end(), inner.begin(), inner.end());
  ob.insert(ob.end(), right.begin(), right.end());
  std::vector<Expr> da = nb, db = nb;
  da.insert(da.end(), {m, k});
  db.insert(db.end(), {k, n});
  const T y(a.t.b(), a.t.b().matmul(permute_to(a, oa).reshape(da), permute_to(b, ob).reshape(db), a.t.dtype()));
  return {y.reshape(dims), out};
}

T finish_contraction(const Labeled& a, const std::vector<int>& keep) { return permute_to(drop_labels(a, keep), keep); }

namespace {

constexpr int kEllipsis = 1000;  ///< labels of ellipsis dims, counted from the right

struct Equation {
  std::vector<std::vector<int>> in;
  std::vector<int> out;
};

/// Labels of one term; an ellipsis stands for `hidden` dims.
std::vector<int> parse_term(Rule& r, const std::string& term, int hidden) {
  std::vector<int> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      if (term.compare(i, 3, "...") != 0) r.refuse("the equation of einsum has a stray '.'");
      for (int k = hidden; k-- > 0;) labels.push_back(kEllipsis + k);
      i += 2;
    } else {
      labels.push_back(term[i]);
    }
  }
  return labels;
}

Equation parse(Rule& r, std::string text, const std::vector<ValueId>& operands) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); }), text.end());
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation eq;
  std::map<int, int> uses;
  int most_hidden = 0;
  size_t at = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const size_t comma = std::min(left.find(',', at), left.size());
    if (at > left.size()) r.refuse("the equation of einsum has too few terms");
    const std::string term = left.substr(at, comma - at);
    at = comma + 1;
    const bool dots = term.find("...") != std::string::npos;
    const int hidden = r.b.rank(operands[i]) - static_cast<int>(term.size()) + (dots ? 3 : 0);
    if (hidden < 0 || (hidden > 0 && !dots)) r.refuse("the equation of einsum does not fit the operands");
    most_hidden = std::max(most_hidden, hidden);
    eq.in.push_back(parse_term(r, term, hidden));
    for (int l : eq.in.back())
      if (l < kEllipsis) ++uses[l];
  }
  if (arrow != std::string::npos) {
    eq.out = parse_term(r, text.substr(arrow + 2), most_hidden);
  } else {
    for (int k = most_hidden; k-- > 0;) eq.out.push_back(kEllipsis + k);
    for (const auto& [label, count] : uses)
      if (count == 1) eq.out.push_back(label);
  }
  return eq;
}

/// The labels that are wanted after operand i.
std::vector<int> wanted_after(const Equation& eq, size_t i) {
  std::vector<int> keep = eq.out;
  for (size_t j = i + 1; j < eq.in.size(); ++j) keep.insert(keep.end(), eq.in[j].begin(), eq.in[j].end());
  return keep;
}

void einsum(Rule& r) {
  const std::vector<ValueId> xs = r.tensors("tensors");
  const Equation eq = parse(r, r.text("equation"), xs);
  TensorType t = r.meta_result();
  if (r.places) t.dtype = DType::i64;
  if (is_bool(t.dtype) || is_complex(t.dtype)) r.refuse(fmt::format("einsum of {} is not supported", dtype_name(t.dtype)));
  Labeled acc = diagonals({T(r.b, xs.at(0)).to(t.dtype), eq.in.at(0)});
  for (size_t i = 1; i < xs.size(); ++i) acc = contract(acc, diagonals({T(r.b, xs[i]).to(t.dtype), eq.in[i]}), wanted_after(eq, i));
  // Labels of the result that only broadcast dims lack cannot occur: every result label stands in some operand.
  r.set(finish_contraction(acc, eq.out));
}

/// An operand or a product of some: real where `im` is missing.
struct LabeledParts {
  Labeled re;
  std::optional<Labeled> im;
};

LabeledParts contract(const LabeledParts& a, const LabeledParts& b, const std::vector<int>& keep) {
  Labeled re = contract(a.re, b.re, keep);
  if (a.im && b.im) re.t = re.t - contract(*a.im, *b.im, keep).t;
  std::optional<Labeled> im;
  if (b.im) im = contract(a.re, *b.im, keep);
  if (a.im) {
    const Labeled other = contract(*a.im, b.re, keep);
    im = im ? Labeled{im->t + other.t, im->labels} : other;
  }
  return {re, im};
}

constexpr RuleRow kRows[] = {
    {"aten.einsum.default", einsum},
};
}  // namespace

void complex_einsum(Rule& r) {
  std::vector<std::optional<ValueId>> im;
  std::vector<ValueId> re;
  const auto* operands = std::get_if<import::TensorList>(&r.arg("tensors"));
  if (!operands) r.refuse("the operands of einsum are no list");
  const DType t = r.places ? DType::i64 : part_type(r);
  const std::vector<ValueId> xs = r.tensors("tensors");
  for (size_t i = 0; i < xs.size(); ++i) {
    const T x = T(r.b, xs[i]).to(t);
    const auto meta = r.program.tensors.find((*operands)[i].name);
    const bool pair = meta != r.program.tensors.end() && is_complex(meta->second.dtype);
    re.push_back(pair ? x.select(-1, 0) : x);
    im.push_back(pair ? std::optional<ValueId>(x.select(-1, 1)) : std::nullopt);
  }
  const Equation eq = parse(r, r.text("equation"), re);
  const auto labeled = [&](size_t i) {
    LabeledParts p{diagonals({T(r.b, re[i]), eq.in.at(i)}), std::nullopt};
    if (im[i]) p.im = diagonals({T(r.b, *im[i]), eq.in[i]});
    return p;
  };
  LabeledParts acc = labeled(0);
  for (size_t i = 1; i < re.size(); ++i) acc = contract(acc, labeled(i), wanted_after(eq, i));
  const auto finish = [&](const Labeled& l) { return T(r.b, finish_contraction(l, eq.out)); };
  r.set(join({finish(acc.re), finish(*acc.im)}));
}

RuleTable einsum_rules() { return kRows; }

}  // namespace aotc::decompose

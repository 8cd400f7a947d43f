#include "import/shared_storage.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "base/diagnostic.h"
#include "import/operands.h"

namespace aotc::import {
namespace {

/// How many elements of a storage's tensors are compared one by one; beyond that tensors overlap where their ends do.
constexpr int64_t kComparedElems = int64_t{1} << 27;

/// Elements of a storage.
struct View {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;

  int64_t count() const { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }
  /// Past the last of them.
  int64_t end() const {
    int64_t last = offset;
    for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
    return count() ? last + 1 : offset;
  }
  bool dense() const {
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > 0; step *= sizes[i])
      if (sizes[i] != 1 && strides[i] != step) return false;
    return true;
  }
  /// Calls f(place) for each element, until it gives true.
  template <class F>
  bool any_element(const F& f, size_t dim = 0, int64_t at = 0) const {
    if (dim == sizes.size()) return f(offset + at);
    for (int64_t i = 0; i < sizes[dim]; ++i)
      if (any_element(f, dim + 1, at + i * strides[dim])) return true;
    return false;
  }
};

int64_t number(const Expr& e) { return e.as_const().value(); }

View view_of(const TensorMeta& m) {
  View v;
  for (const Expr& e : m.sizes) v.sizes.push_back(number(e));
  for (const Expr& e : m.strides) v.strides.push_back(number(e));
  v.offset = number(m.storage_offset);
  return v;
}

std::vector<Expr> exprs(const std::vector<int64_t>& v) { return {v.begin(), v.end()}; }

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> s(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) s[i - 1] = s[i] * sizes[i];
  return s;
}

/// Whether they have an element in common. budget: of elements to look at.
bool overlap(const View& a, const View& b, int64_t& budget) {
  const int64_t begin = std::max(a.offset, b.offset), end = std::min(a.end(), b.end());
  if (begin >= end || a.count() == 0 || b.count() == 0) return false;
  if (a.dense() && b.dense()) return true;
  budget -= end - begin + a.count() + b.count();
  if (budget < 0) return true;
  std::vector<bool> marked(static_cast<size_t>(end - begin));
  const auto place = [&](int64_t at) { return static_cast<size_t>(at - begin); };
  a.any_element([&](int64_t at) {
    if (at >= begin && at < end) marked[place(at)] = true;
    return false;
  });
  return b.any_element([&](int64_t at) { return at >= begin && at < end && marked[place(at)]; });
}

/// One storage's inputs.
class Sharer {
 public:
  Sharer(Program& p, SharedStorage& s, const std::map<std::string, std::vector<size_t>>& inputs, const std::set<std::string>& read)
      : p_(p), s_(s) {
    s.states.clear();
    std::set<std::string> written;
    for (const ProgramOutput& o : p.outputs)
      if (o.kind == OutputKind::buffer_mutation) written.insert(o.target);
    for (const std::string& target : s.targets)
      if (const auto at = inputs.find(target); at != inputs.end())
        for (const size_t i : at->second) {
          const bool changed = p.inputs[i].is_state || written.count(target) != 0;
          const TensorMeta& meta = p.data_meta.at(target);
          if (changed || read.count(p.inputs[i].name)) members_.push_back({i, meta.dtype, view_of(meta), changed});
        }
    std::sort(members_.begin(), members_.end(), [](const Member& a, const Member& b) { return a.input < b.input; });
  }

  void run() {
    std::vector<bool> done(members_.size());
    for (size_t i = 0; i < members_.size(); ++i) {
      if (done[i] || !members_[i].changed) continue;
      std::vector<size_t> group = {i};
      done[i] = true;
      for (size_t k = 0; k < group.size(); ++k)
        for (size_t j = 0; j < members_.size(); ++j)
          if (!done[j] && meet(members_[group[k]], members_[j])) group.push_back(j), done[j] = true;
      std::sort(group.begin(), group.end());
      if (group.size() > 1) join(group);
    }
  }

 private:
  struct Member {
    size_t input;
    DType dtype;
    View view;
    bool changed;
  };
  ProgramInput& input(const Member& m) { return p_.inputs[m.input]; }

  /// Whether what is written to one of them is seen in the other. (All of a state may be written, by the caller.)
  bool meet(const Member& a, const Member& b) {
    if (a.dtype == b.dtype) return overlap(a.view, b.view, budget_);
    const auto bytes = [](const Member& m) { return std::pair(m.view.offset * dtype_bytes(m.dtype), m.view.end() * dtype_bytes(m.dtype)); };
    const auto [a_begin, a_end] = bytes(a);
    const auto [b_begin, b_end] = bytes(b);
    if (a.view.count() == 0 || b.view.count() == 0 || std::max(a_begin, b_begin) >= std::min(a_end, b_end)) return false;
    throw Diagnostic(ExitCode::unsupported, Loc{.file = p_.file},
                     fmt::format("'{}' ({}) and '{}' ({}) lie in the same memory, which the model writes", input(a).target,
                                 dtype_name(a.dtype), input(b).target, dtype_name(b.dtype)))
        .note("register one of them, and take .view(dtype) of it in forward");
  }

  void join(const std::vector<size_t>& group) {
    int64_t begin = INT64_MAX, end = 0;
    for (const size_t m : group) {
      begin = std::min(begin, members_[m].view.offset);
      end = std::max(end, members_[m].view.end());
    }
    const auto all = std::find_if(group.begin(), group.end(), [&](size_t m) {
      const View& v = members_[m].view;
      return v.dense() && v.offset == begin && v.end() == end;
    });
    const size_t state = all != group.end() ? members_[*all].input : add_storage(members_[group[0]], begin, end);
    std::set<std::string> targets;
    bool written = false;
    for (const size_t m : group) {
      const ProgramInput& in = input(members_[m]);
      targets.insert(in.target);
      p_.inputs[state].is_state |= in.is_state;
      if (members_[m].input != state) s_.states[in.target] = p_.inputs[state].name;
    }
    std::erase_if(p_.outputs, [&](const ProgramOutput& o) {
      if (o.kind != OutputKind::buffer_mutation || !targets.count(o.target)) return false;
      written = true;
      put_back(o);
      return true;
    });
    if (!written) return;
    p_.inputs[state].kind = InputKind::buffer;
    p_.outputs.push_back(
        {.kind = OutputKind::buffer_mutation, .value = TensorRef{p_.inputs[state].name}, .target = p_.inputs[state].target});
  }

  /// What the program computed as the new content of a tensor is written into it, as it is when the loaded archive's module has run.
  void put_back(const ProgramOutput& o) {
    const auto in = std::find_if(p_.inputs.begin(), p_.inputs.end(), [&](const ProgramInput& i) { return i.target == o.target; });
    const TensorRef* made = std::get_if<TensorRef>(&o.value);
    if (!made || made->name == in->name) return;
    PNode n;
    n.name = in->name + ".written";
    n.target = "aten.copy_.default";
    n.args = {{"self", TensorRef{in->name}}, {"src", *made}, {"non_blocking", false, true}};
    n.results = {TensorRef{n.name}};
    p_.tensors.emplace(n.name, p_.tensors.at(in->name));
    p_.nodes.push_back(std::move(n));
  }

  /// An input that is elements begin to end of the storage.
  size_t add_storage(const Member& first, int64_t begin, int64_t end) {
    std::string target = input(first).target + ".storage", name = input(first).name + ".storage";
    while (p_.data.count(target)) target += "_";
    while (p_.tensors.count(name)) name += "_";
    TensorMeta meta{.dtype = first.dtype, .sizes = {Expr(end - begin)}, .strides = {Expr(1)}, .storage_offset = begin};
    ConstData data = s_.data;
    data.name = target;
    data.type.dims = meta.sizes;
    data.data += begin * dtype_bytes(first.dtype);
    data.bytes = static_cast<size_t>((end - begin) * dtype_bytes(first.dtype));
    p_.inputs.push_back({.kind = InputKind::buffer, .name = name, .target = target});
    p_.data.emplace(target, std::move(data));
    p_.data_meta.emplace(target, meta);
    p_.tensors.emplace(name, std::move(meta));
    s_.targets.push_back(target);
    return p_.inputs.size() - 1;
  }

  Program& p_;
  SharedStorage& s_;
  std::vector<Member> members_;  ///< in the order of the inputs
  int64_t budget_ = kComparedElems;
};

/// Dims of a view that lie one after another in memory are one run.
struct Run {
  int64_t size, stride;
};

/// Where a view's runs lie in a tensor: of each of its dims the elements start, start + step ...
struct Box {
  std::vector<int64_t> dims, start, size, step;
};

std::optional<Box> box_of(const std::vector<int64_t>& dims, const std::vector<Run>& runs, int64_t offset) {
  const std::vector<int64_t> strides = dense_strides(dims);
  Box b{dims, {}, std::vector<int64_t>(dims.size(), 1), std::vector<int64_t>(dims.size(), 1)};
  for (size_t d = 0; d < dims.size(); ++d) b.start.push_back(offset / strides[d] % dims[d]);
  size_t d = 0;
  for (const Run& r : runs) {
    while (d < dims.size() && (dims[d] == 1 || r.stride < strides[d])) ++d;
    if (d == dims.size() || r.stride % strides[d] != 0) return std::nullopt;
    b.size[d] = r.size;
    b.step[d] = r.stride / strides[d];
    if (b.start[d] + (r.size - 1) * b.step[d] >= dims[d]) return std::nullopt;
    ++d;  // a dim holds one run
  }
  return b;
}

/// The way from a state to a view of it, as nodes.
class Path {
 public:
  Path(Program& p, const ProgramInput& state, const ProgramInput& in)
      : p_(p), in_(in), at_(state.name), state_(view_of(p.data_meta.at(state.target))), to_(view_of(p.data_meta.at(in.target))) {}

  std::vector<PNode> nodes() {
    // Runs in the order of memory, and the order in which the view has them.
    std::vector<size_t> order;
    for (size_t d = 0; d < to_.sizes.size(); ++d)
      if (to_.sizes[d] != 1 && to_.strides[d] != 0) order.push_back(d);
    std::vector<size_t> by_memory = order;
    std::stable_sort(by_memory.begin(), by_memory.end(), [&](size_t a, size_t b) { return to_.strides[a] > to_.strides[b]; });
    std::vector<Run> runs, merged;
    std::vector<int64_t> run_sizes;
    for (const size_t d : by_memory) {
      runs.push_back({to_.sizes[d], to_.strides[d]});
      run_sizes.push_back(to_.sizes[d]);
      if (!merged.empty() && merged.back().stride == to_.sizes[d] * to_.strides[d])
        merged.back() = {merged.back().size * to_.sizes[d], to_.strides[d]};
      else
        merged.push_back(runs.back());
    }
    const int64_t offset = to_.offset - state_.offset;
    std::optional<Box> box = box_of(state_.sizes, runs, offset);
    if (!box) box = box_of(state_.sizes, merged, offset);
    if (!box) box = box_in_grid(merged, offset);
    if (!box) {
      add("aten.as_strided.default", to_.sizes,
          {{"size", exprs(to_.sizes)}, {"stride", exprs(to_.strides)}, {"storage_offset", Expr(to_.offset)}});
      return finish();
    }
    view(state_.sizes, box->dims);
    for (size_t d = 0; d < box->dims.size(); ++d) slice(*box, d);
    view(box->size, run_sizes);
    std::vector<int64_t> permutation, sizes;
    for (const size_t d : order) {
      permutation.push_back(std::find(by_memory.begin(), by_memory.end(), d) - by_memory.begin());
      sizes.push_back(to_.sizes[d]);
    }
    if (!std::is_sorted(permutation.begin(), permutation.end())) add("aten.permute.default", sizes, {{"dims", exprs(permutation)}});
    std::vector<int64_t> before = to_.sizes;
    for (size_t d = 0; d < before.size(); ++d)
      if (to_.strides[d] == 0) before[d] = 1;
    view(sizes, before);
    if (before != to_.sizes) add("aten.expand.default", to_.sizes, {{"size", exprs(to_.sizes)}, {"implicit", false, true}});
    if (nodes_.empty()) add("aten.alias.default", to_.sizes, {});
    return finish();
  }

 private:
  /// The state laid out anew so that each run has a dim.
  std::optional<Box> box_in_grid(const std::vector<Run>& runs, int64_t offset) const {
    std::vector<int64_t> dims;
    int64_t outer = state_.count();
    for (const Run& r : runs) {
      if (r.stride == 0 || outer % r.stride != 0) return std::nullopt;
      dims.push_back(outer / r.stride);
      outer = r.stride;
    }
    if (outer > 1 || dims.empty()) dims.push_back(outer);
    return box_of(dims, runs, offset);
  }

  void view(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
    if (from != to) add("aten.view.default", to, {{"size", exprs(to)}});
  }
  void slice(const Box& b, size_t d) {
    if (b.size[d] == b.dims[d]) return;
    std::vector<int64_t> sizes = b.dims;
    std::copy_n(b.size.begin(), d + 1, sizes.begin());
    const int64_t end = b.start[d] + (b.size[d] - 1) * b.step[d] + 1;
    add("aten.slice.Tensor", sizes,
        {{"dim", Expr(static_cast<int64_t>(d))}, {"start", Expr(b.start[d])}, {"end", Expr(end)}, {"step", Expr(b.step[d])}});
  }
  void add(std::string_view target, const std::vector<int64_t>& sizes, std::vector<NamedArg> args) {
    PNode n;
    n.target = target;
    n.args = std::move(args);
    n.args.insert(n.args.begin(), {"self", TensorRef{at_}});
    n.name = at_ = fmt::format("{}.part{}", in_.name, nodes_.size());
    n.results = {TensorRef{at_}};
    p_.tensors.insert_or_assign(at_, TensorMeta{p_.tensors.at(in_.name).dtype, exprs(sizes), exprs(dense_strides(sizes)), 0});
    nodes_.push_back(std::move(n));
  }
  /// The last node makes what the input was.
  std::vector<PNode> finish() {
    p_.tensors.erase(at_);
    nodes_.back().name = in_.name;
    nodes_.back().results = {TensorRef{in_.name}};
    return std::move(nodes_);
  }

  Program& p_;
  const ProgramInput& in_;
  std::string at_;
  View state_, to_;
  std::vector<PNode> nodes_;
};

}  // namespace

void share_states(Program& p) {
  if (p.storages.empty()) return;
  std::set<std::string> read;
  const auto note = [&](const std::string& name) { read.insert(name); };
  for (const PNode& n : p.nodes)
    for (const NamedArg& a : n.args) each_tensor(a.value, note);
  for (const ProgramOutput& o : p.outputs) each_tensor(o.value, note);
  std::map<std::string, std::vector<size_t>> inputs;
  for (size_t i = 0; i < p.inputs.size(); ++i)
    if (!p.inputs[i].target.empty()) inputs[p.inputs[i].target].push_back(i);
  for (SharedStorage& s : p.storages) Sharer(p, s, inputs, read).run();
  if (std::all_of(p.storages.begin(), p.storages.end(), [](const SharedStorage& s) { return s.states.empty(); })) return;
  // New contents of buffers in the order of the inputs.
  const auto place = [&](const ProgramOutput& o) {
    if (o.kind != OutputKind::buffer_mutation) return std::ptrdiff_t{-1};
    return std::find_if(p.inputs.begin(), p.inputs.end(), [&](const ProgramInput& in) { return in.target == o.target; }) - p.inputs.begin();
  };
  std::stable_sort(p.outputs.begin(), p.outputs.end(), [&](const ProgramOutput& a, const ProgramOutput& b) { return place(a) < place(b); });
}

const std::string* state_of(const Program& p, const ProgramInput& in) {
  for (const SharedStorage& s : p.storages)
    if (const auto state = s.states.find(in.target); state != s.states.end()) return &state->second;
  return nullptr;
}

void views_as_nodes(Program& p) {
  std::vector<PNode> nodes;
  for (const ProgramInput& in : p.inputs) {
    const std::string* name = state_of(p, in);
    if (!name) continue;
    const auto state = std::find_if(p.inputs.begin(), p.inputs.end(), [&](const ProgramInput& i) { return i.name == *name; });
    std::vector<PNode> path = Path(p, *state, in).nodes();
    std::move(path.begin(), path.end(), std::back_inserter(nodes));
  }
  std::erase_if(p.inputs, [&](const ProgramInput& in) { return state_of(p, in) != nullptr; });
  for (SharedStorage& s : p.storages) s.states.clear();
  p.nodes.insert(p.nodes.begin(), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
}

}  // namespace aotc::import

#include "grammar.h"

#include <algorithm>
#include <set>

namespace llm {

Grammar::Id Grammar::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Id>(nodes_.size() - 1);
}

Grammar::Id Grammar::bytes(const Bytes& any_of) {
  Node n{Kind::bytes};
  n.set = any_of;
  return add(std::move(n));
}

Grammar::Id Grammar::text(std::string exactly) {
  Node n{Kind::text};
  n.text = std::move(exactly);
  return add(std::move(n));
}

Grammar::Id Grammar::sequence(std::vector<Id> parts) {
  Node n{Kind::sequence};
  n.parts = std::move(parts);
  return add(std::move(n));
}

Grammar::Id Grammar::choice(std::vector<Id> parts) {
  Node n{Kind::choice};
  n.parts = std::move(parts);
  return add(std::move(n));
}

Grammar::Id Grammar::repeat(Id part, int64_t least, int64_t most) {
  Node n{Kind::repeat};
  n.parts = {part};
  n.least = least, n.most = most;
  return add(std::move(n));
}

bool Grammar::prune(Id root) {
  std::vector<bool> ends(nodes_.size(), false);
  const auto has_end = [&](const Node& n) {
    const auto part_ends = [&](Id p) { return static_cast<bool>(ends[p]); };
    switch (n.kind) {
      case Kind::bytes: return n.set.any();
      case Kind::text: return true;
      case Kind::sequence: return std::all_of(n.parts.begin(), n.parts.end(), part_ends);
      case Kind::choice:
      case Kind::rule: return std::any_of(n.parts.begin(), n.parts.end(), part_ends);
      case Kind::repeat: return n.least == 0 || part_ends(n.parts[0]);
    }
    return false;
  };
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!ends[i] && has_end(nodes_[i])) ends[i] = more = true;
  }
  for (Node& n : nodes_) {
    if (n.kind == Kind::choice)
      n.parts.erase(std::remove_if(n.parts.begin(), n.parts.end(), [&](Id p) { return !ends[p]; }), n.parts.end());
    if (n.kind == Kind::repeat && !ends[n.parts[0]]) n.most = 0;
  }
  return ends[root];
}

Matcher::Matcher(Grammar grammar, Grammar::Id root) : g_(std::move(grammar)), frames_(1), states_(1) {
  closure({{true, root, 0}}, {});
  if (states_.size() == 1) states_.emplace_back();
}

Matcher::FrameId Matcher::frame(Grammar::Id node, uint32_t index, FrameId below) {
  const Frame f{node, index, below};
  const auto [it, made] = frame_ids_.try_emplace(f, static_cast<FrameId>(frames_.size()));
  if (made) frames_.push_back(f);
  return it->second;
}

Matcher::State Matcher::closure(std::vector<Work> work, std::vector<FrameId> at) {
  using Kind = Grammar::Kind;
  bool accepts = false;
  std::set<std::pair<uint32_t, uint32_t>> entered;  // (node, below)
  std::set<FrameId> left;
  while (!work.empty()) {
    const Work w = work.back();
    work.pop_back();
    if (w.enter) {
      if (!entered.emplace(w.node, w.frame).second) continue;
      const Grammar::Node& n = g_.nodes_[w.node];
      switch (n.kind) {
        case Kind::bytes: at.push_back(frame(w.node, 0, w.frame)); break;
        case Kind::text:
          if (n.text.empty())
            work.push_back({false, 0, w.frame});
          else
            at.push_back(frame(w.node, 0, w.frame));
          break;
        case Kind::sequence:
          if (n.parts.empty())
            work.push_back({false, 0, w.frame});
          else  // the last part returns to whom the sequence does
            work.push_back({true, n.parts[0], n.parts.size() == 1 ? w.frame : frame(w.node, 0, w.frame)});
          break;
        case Kind::choice:
        case Kind::rule:
          for (const Grammar::Id p : n.parts) work.push_back({true, p, w.frame});
          break;
        case Kind::repeat:
          if (n.least == 0) work.push_back({false, 0, w.frame});
          if (n.most != 0) work.push_back({true, n.parts[0], n.most == 1 ? w.frame : frame(w.node, 0, w.frame)});
          break;
      }
      continue;
    }
    // A part has ended: what waits below it goes on.
    if (w.frame == 0) {
      accepts = true;
      continue;
    }
    if (!left.insert(w.frame).second) continue;
    const Frame f = frames_[w.frame];
    const Grammar::Node& n = g_.nodes_[f.node];
    if (n.kind == Kind::sequence) {
      const uint32_t next = f.index + 1;
      work.push_back({true, n.parts[next], next + 1 == n.parts.size() ? f.below : frame(f.node, next, f.below)});
      continue;
    }
    const int64_t count = int64_t{f.index} + 1;  // of a repetition
    if (count >= n.least) work.push_back({false, 0, f.below});
    if (n.most >= 0 && count >= n.most) continue;
    const int64_t kept = n.most < 0 ? std::min(count, n.least) : count;
    work.push_back({true, n.parts[0], frame(f.node, static_cast<uint32_t>(kept), f.below)});
  }
  if (at.empty() && !accepts) return kDead;
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  const auto [it, made] = state_ids_.try_emplace({at, accepts}, static_cast<State>(states_.size()));
  if (made) {
    states_.emplace_back();
    states_.back().at = std::move(at);
    states_.back().accepts = accepts;
  }
  return it->second;
}

Matcher::State Matcher::step(State from, uint8_t byte) {
  using Kind = Grammar::Kind;
  if (from == kDead) return kDead;
  if (!states_[from].next) {
    states_[from].next.reset(new State[256]);
    std::fill_n(states_[from].next.get(), 256, kUnknown);
  }
  if (const State known = states_[from].next[byte]; known != kUnknown) return known;
  std::vector<Work> work;
  std::vector<FrameId> further;
  for (const FrameId id : states_[from].at) {
    const Frame f = frames_[id];
    const Grammar::Node& n = g_.nodes_[f.node];
    if (n.kind == Kind::bytes) {
      if (n.set[byte]) work.push_back({false, 0, f.below});
    } else if (static_cast<uint8_t>(n.text[f.index]) == byte) {
      if (f.index + 1 == n.text.size())
        work.push_back({false, 0, f.below});
      else
        further.push_back(frame(f.node, f.index + 1, f.below));
    }
  }
  const State next = closure(std::move(work), std::move(further));
  states_[from].next[byte] = next;
  return next;
}

Matcher::State Matcher::step(State from, std::string_view text) {
  for (const char c : text) from = step(from, static_cast<uint8_t>(c));
  return from;
}

Vocabulary::Vocabulary(std::vector<std::string> bytes_of_token) : size_(bytes_of_token.size()) {
  for (size_t id = 0; id < bytes_of_token.size(); ++id)
    if (!bytes_of_token[id].empty()) tokens_.push_back({std::move(bytes_of_token[id]), static_cast<uint32_t>(id), 0});
  std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) { return a.bytes < b.bytes; });
  for (size_t i = 1; i < tokens_.size(); ++i) {
    const std::string &a = tokens_[i - 1].bytes, &b = tokens_[i].bytes;
    tokens_[i].shared = static_cast<uint32_t>(
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin()).second - b.begin());
  }
}

Matcher::State Constraint::at(Place& p) {
  constexpr size_t kMostStates = 1 << 15;
  if (matcher_->states() > kMostStates) {
    matcher_.reset(new Matcher(grammar_, root_));
    allowed_.clear();
    ++round_;
  }
  if (p.round != round_) p.state = matcher_->step(matcher_->start(), p.text), p.round = round_;
  return p.state;
}

void Constraint::feed(Place& p, std::string_view bytes) {
  p.state = matcher_->step(at(p), bytes);
  p.text += bytes;
}

const std::vector<uint64_t>& Constraint::allowed(Place& p) {
  constexpr size_t kMostMasks = 512;
  const Matcher::State from = at(p);
  if (const auto it = allowed_.find(from); it != allowed_.end()) return it->second;
  if (allowed_.size() >= kMostMasks) allowed_.clear();
  std::vector<uint64_t> mask((vocabulary_->size() + 63) / 64);
  std::vector<Matcher::State> path{from};  // after each byte of the token before, up to the first that may not come
  for (const Vocabulary::Token& t : vocabulary_->tokens_) {
    path.resize(std::min<size_t>(path.size(), t.shared + size_t{1}));
    if (path.back() == Matcher::kDead) continue;  // it begins as one that may not come
    for (size_t i = path.size() - 1; i < t.bytes.size() && path.back() != Matcher::kDead; ++i)
      path.push_back(matcher_->step(path.back(), static_cast<uint8_t>(t.bytes[i])));
    if (path.back() != Matcher::kDead) mask[t.id / 64] |= uint64_t{1} << t.id % 64;
  }
  return allowed_.emplace(from, std::move(mask)).first->second;
}

}  // namespace llm

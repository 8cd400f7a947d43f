#pragma once
// Which bytes, and so which tokens, may come next in a text of a grammar.
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace llm {

/// Expressions over bytes that refer to each other, as in a context-free grammar.
class Grammar {
 public:
  using Id = uint32_t;
  using Bytes = std::bitset<256>;

  Id bytes(const Bytes& any_of);
  Id text(std::string exactly);
  Id sequence(std::vector<Id> parts);
  /// Of no parts: nothing is a text of it.
  Id choice(std::vector<Id> parts);
  /// most -1: any number.
  Id repeat(Id part, int64_t least, int64_t most);
  Id optional(Id part) { return repeat(part, 0, 1); }
  /// An expression that is defined later.
  Id rule() { return add({Kind::rule}); }
  void define(Id rule, Id as) { nodes_[rule].parts = {as}; }
  size_t size() const { return nodes_.size(); }

  /// Takes out what no text has: alternatives that never end. False: `root` has no text at all.
  bool prune(Id root);

 private:
  friend class Matcher;
  enum class Kind : uint8_t { bytes, text, sequence, choice, repeat, rule };
  struct Node {
    Kind kind;
    Bytes set = {};
    std::string text = {};
    std::vector<Id> parts = {};
    int64_t least = 0, most = 0;
  };
  Id add(Node node);
  std::vector<Node> nodes_;
};

/// A pushdown automaton over a grammar, made deterministic as far as it is walked. Use it from one thread at a time.
class Matcher {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;

  Matcher(Grammar grammar, Grammar::Id root);
  State start() const { return 1; }
  State step(State from, uint8_t byte);
  State step(State from, std::string_view text);
  /// What was read is a whole text.
  bool accepts(State s) const { return states_[s].accepts; }
  /// What was read can go on.
  bool goes_on(State s) const { return !states_[s].at.empty(); }
  size_t states() const { return states_.size(); }

 private:
  using FrameId = uint32_t;  // 0: the bottom
  /// Within `node` at `index` (of a text: bytes read; of a sequence: its part; of a repetition: how often, as far as that matters), below
  /// which its caller waits.
  struct Frame {
    Grammar::Id node;
    uint32_t index;
    FrameId below;
    bool operator==(const Frame& o) const { return node == o.node && index == o.index && below == o.below; }
  };
  struct FrameHash {
    size_t operator()(const Frame& f) const {
      return ((uint64_t{f.node} * 0x9fb21c651e98df25u + f.index) * 0x9e3779b97f4a7c15u + f.below) * 0xff51afd7ed558ccdu >> 7;
    }
  };
  struct Set {
    std::vector<FrameId> at;  ///< frames of bytes and texts, in order
    bool accepts = false;
    std::unique_ptr<State[]> next;  ///< by byte; kUnknown: not walked yet
  };
  struct Work {
    bool enter;
    Grammar::Id node;
    FrameId frame;
  };
  static constexpr State kUnknown = UINT32_MAX;

  FrameId frame(Grammar::Id node, uint32_t index, FrameId below);
  /// The state of the frames that `work` comes to, and of `at`.
  State closure(std::vector<Work> work, std::vector<FrameId> at);

  Grammar g_;
  std::vector<Frame> frames_;
  std::unordered_map<Frame, FrameId, FrameHash> frame_ids_;
  std::vector<Set> states_;
  std::map<std::pair<std::vector<FrameId>, bool>, State> state_ids_;
};

/// The tokens of a vocabulary by their bytes.
class Vocabulary {
 public:
  /// Tokens without bytes (marks) belong to no text.
  explicit Vocabulary(std::vector<std::string> bytes_of_token);
  size_t size() const { return size_; }

 private:
  friend class Constraint;
  struct Token {
    std::string bytes;
    uint32_t id, shared;  ///< shared: bytes that it begins with as the one before it does
  };
  std::vector<Token> tokens_;  ///< sorted by bytes
  size_t size_;
};

/// The form that an answer has to have: which tokens it may go on with. Shared by sequences, all of one thread.
class Constraint {
 public:
  Constraint(Grammar grammar, Grammar::Id root, std::shared_ptr<const Vocabulary> vocabulary)
      : grammar_(std::move(grammar)), root_(root), vocabulary_(std::move(vocabulary)), matcher_(new Matcher(grammar_, root_)) {}

  /// One sequence's place in the text.
  struct Place {
    std::string text;
    uint64_t round = 0;  ///< of the automaton that `state` is of
    Matcher::State state = 0;
  };
  /// By token, a bit each. Valid until the next call.
  const std::vector<uint64_t>& allowed(Place& p);
  void feed(Place& p, std::string_view bytes);
  bool accepts(Place& p) { return matcher_->accepts(at(p)); }
  bool goes_on(Place& p) { return matcher_->goes_on(at(p)); }

 private:
  Matcher::State at(Place& p);

  Grammar grammar_;
  Grammar::Id root_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<Matcher> matcher_;
  uint64_t round_ = 1;
  std::unordered_map<Matcher::State, std::vector<uint64_t>> allowed_;
};

}  // namespace llm

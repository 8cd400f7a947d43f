#include "pre_tokenizers.h"

#include "unicode.h"

namespace tok {

namespace {

using Emit = PreTokenizer::Emit;
using Step = std::function<void(std::string_view, bool, const Emit&)>;

/// A range of a piece: a place of the pattern, or what is between two of them.
struct Cut {
  size_t begin, end;
  bool match;
};

/// What becomes of the places: the ranges that are left, in order. Each may change the list that it is given.
using Behavior = void (*)(std::vector<Cut>&);

void isolated(std::vector<Cut>&) {}

void removed(std::vector<Cut>& cuts) {
  for (Cut& c : cuts)
    if (c.match) c.end = c.begin;
}

/// Neighbours of one kind are one.
void contiguous(std::vector<Cut>& cuts) {
  size_t kept = 0;
  bool before = false;
  for (const Cut& c : cuts) {
    if (c.match == before && kept > 0)
      cuts[kept - 1].end = c.end;
    else
      cuts[kept++] = c;
    before = c.match;
  }
  cuts.resize(kept);
}

void merged_with_previous(std::vector<Cut>& cuts) {
  size_t kept = 0;
  bool before = false;
  for (const Cut& c : cuts) {
    const bool match = c.match;
    if (match && !before && kept > 0)
      cuts[kept - 1].end = c.end;
    else
      cuts[kept++] = c;
    before = match;
  }
  cuts.resize(kept);
}

void merged_with_next(std::vector<Cut>& cuts) {
  size_t kept = cuts.size();  // what is kept gathers at the end
  bool after = false;
  for (size_t i = cuts.size(); i-- > 0;) {
    const Cut c = cuts[i];
    if (c.match && !after && kept < cuts.size())
      cuts[kept].begin = c.begin;
    else
      cuts[--kept] = c;
    after = c.match;
  }
  cuts.erase(cuts.begin(), cuts.begin() + static_cast<std::ptrdiff_t>(kept));
}

constexpr struct {
  std::string_view type;
  Behavior behavior;
} kBehaviors[] = {
    {"Isolated", isolated},
    {"Removed", removed},
    {"Contiguous", contiguous},
    {"MergedWithPrevious", merged_with_previous},
    {"MergedWithNext", merged_with_next},
};

void cut(std::string_view piece, bool first, const Pattern& pattern, bool invert, Behavior behavior, const Emit& emit) {
  std::vector<Cut> cuts;
  size_t done = 0;
  pattern(piece, [&](size_t begin, size_t end) {
    if (begin != done) cuts.push_back({done, begin, invert});
    cuts.push_back({begin, end, !invert});
    done = end;
  });
  if (done != piece.size()) cuts.push_back({done, piece.size(), invert});
  behavior(cuts);
  for (const Cut& c : cuts) emit(piece.substr(c.begin, c.end - c.begin), first && c.begin == 0);
}

Step split_by(Pattern pattern, bool invert, Behavior behavior) {
  return [=](std::string_view piece, bool first, const Emit& emit) { cut(piece, first, pattern, invert, behavior, emit); };
}

Behavior read_behavior(const Field& f) {
  for (const auto& known : kBehaviors)
    if (f.json().text == known.type) return known.behavior;
  f.wrong("expected Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext");
}

Step read_split(const Field& f, const Libraries& libraries) {
  return split_by(read_pattern(f["pattern"], libraries), f["invert"].flag(false), read_behavior(f["behavior"]));
}

Step read_digits(const Field& f, const Libraries&) {
  return split_by(characters(is_number), false, f["individual_digits"].flag(false) ? isolated : contiguous);
}

Step read_white_space_split(const Field&, const Libraries&) { return split_by(characters(is_space), false, removed); }

Step read_white_space(const Field& f, const Libraries& libraries) {
  return split_by(expression("[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+", f, libraries), true, removed);
}

Step read_punctuation(const Field& f, const Libraries& libraries) {
  const Field behavior = f["behavior"];
  return split_by(expression("[\\p{P}!-/:-@\\[-`{-~]", f, libraries), false, behavior.is_null() ? isolated : read_behavior(behavior));
}

Step read_metaspace(const Field& f, const Libraries&) {
  std::string space;
  append_utf8(space, f["replacement"].character());
  // Older files say add_prefix_space where newer ones have a scheme.
  const Field scheme = f["prepend_scheme"];
  const std::string when = !scheme.is_null() ? scheme.text() : f["add_prefix_space"].flag(true) ? "always" : "never";
  if (when != "always" && when != "first" && when != "never") scheme.wrong("expected always, first or never");
  const bool split = f["split"].flag(true);
  return [=, pattern = literal(space)](std::string_view piece, bool first, const Emit& emit) {
    std::string text;
    text.reserve(piece.size() + space.size());
    for (const char c : piece) {
      if (c == ' ')
        text += space;
      else
        text += c;
    }
    if ((when == "always" || (when == "first" && first)) && text.compare(0, space.size(), space) != 0) text.insert(0, space);
    if (split)
      cut(text, first, pattern, false, merged_with_next, emit);
    else
      emit(text, first);
  };
}

/// The words that 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ finds, one after the other.
void byte_level_words(std::string_view text, const Found& found) {
  enum Class { letter, number, space, other };
  const auto class_at = [&](size_t at, size_t* n) {
    const uint32_t c = code_at(text, at, n);
    return is_letter(c) ? letter : is_number(c) ? number : is_space(c) ? space : other;
  };
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = begin;
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (end == begin && text.substr(begin, ending.size()) == ending) end += ending.size();
    size_t n, last = begin;
    if (end == begin) {
      size_t at = begin + (text[begin] == ' ' ? 1 : 0);
      if (at == text.size() || class_at(at, &n) == space) at = begin;
      const Class kind = class_at(at, &n);
      for (end = at; end < text.size() && class_at(end, &n) == kind; end += n) last = end;
      // Of spaces before anything else the last one stays for that.
      if (kind == space && end < text.size() && last > begin) end = last;
    }
    found(begin, end);
  }
}

Step read_byte_level(const Field& f, const Libraries&) {
  return [prefix = f["add_prefix_space"].flag(true), words = f["use_regex"].flag(true), alphabet = std::make_shared<const ByteAlphabet>()](
             std::string_view piece, bool first, const Emit& emit) {
    std::string prefixed;
    if (prefix && piece[0] != ' ') piece = prefixed = " " + std::string(piece);
    std::string shown;
    const Found word = [&](size_t begin, size_t end) {
      shown.clear();
      for (size_t i = begin; i < end; ++i) shown += alphabet->shown(static_cast<unsigned char>(piece[i]));
      emit(shown, first && begin == 0);
    };
    if (words)
      byte_level_words(piece, word);
    else
      word(0, piece.size());
  };
}

constexpr struct {
  std::string_view type;
  Step (*read)(const Field&, const Libraries&);
} kTypes[] = {
    {"Sequence", nullptr},
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"Digits", read_digits},
    {"Metaspace", read_metaspace},
    {"Punctuation", read_punctuation},
    {"Whitespace", read_white_space},
    {"WhitespaceSplit", read_white_space_split},
};

}  // namespace

ByteAlphabet::ByteAlphabet() {
  for (int16_t& b : bytes_) b = -1;
  uint32_t next = 256;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool prints = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    const uint32_t code = prints ? b : next++;
    append_utf8(shown_[b], code);
    bytes_[code] = static_cast<int16_t>(b);
  }
}

PreTokenizer::PreTokenizer(const Field& field, const Libraries& libraries) {
  field.each_step(kTypes, "pretokenizers", [&](const Field& f, const auto& known) {
    if (steps_.size() == 64) f.wrong("expected at most 64 pre-tokenizers");
    if (known.type == "ByteLevel") byte_level_ = true;
    steps_.push_back(known.read(f, libraries));
  });
}

void PreTokenizer::run(size_t step, std::string_view piece, bool first, const Emit& word) const {
  if (piece.empty()) return;
  if (step == steps_.size()) return word(piece, first);
  steps_[step](piece, first, [&, step](std::string_view each, bool begins) { run(step + 1, each, begins, word); });
}

}  // namespace tok

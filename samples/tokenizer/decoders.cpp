#include "decoders.h"

#include "pre_tokenizers.h"

namespace tok {

namespace {

using Step = std::function<void(std::string&, bool)>;

/// A token of characters that all stand for bytes; others are what they say.
Step byte_level() {
  return [alphabet = std::make_shared<const ByteAlphabet>()](std::string& token, bool) {
    std::string bytes;
    for (size_t i = 0, n; i < token.size(); i += n) {
      const int b = alphabet->byte_of(code_at(token, i, &n));
      if (b < 0) return;
      bytes += static_cast<char>(b);
    }
    token = std::move(bytes);
  };
}

/// <0x0A> is the byte 10.
void byte_fallback(std::string& token, bool) {
  const auto digit = [&](size_t i) {
    const char c = token[i];
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>' || digit(3) < 0 || digit(4) < 0) return;
  token = std::string(1, static_cast<char>(digit(3) * 16 + digit(4)));
}

Step replace(const Field& f, const Libraries& libraries) {
  return [pattern = read_pattern(f["pattern"], libraries), by = f["content"].text()](std::string& token, bool) {
    std::string out;
    size_t done = 0;
    pattern(token, [&](size_t begin, size_t end) {
      out.append(token, done, begin - done) += by;
      done = end;
    });
    out.append(token, done, std::string::npos);
    token = std::move(out);
  };
}

Step metaspace(const Field& f) {
  std::string space;
  append_utf8(space, f["replacement"].character());
  const Field scheme = f["prepend_scheme"];
  const bool prepended = scheme.is_null() ? f["add_prefix_space"].flag(true) : scheme.text() != "never";
  return [=](std::string& token, bool first) {
    std::string out;
    size_t done = 0;
    for (size_t at; (at = token.find(space, done)) != std::string::npos; done = at + space.size()) {
      out.append(token, done, at - done);
      if (!first || !prepended) out += ' ';
    }
    out.append(token, done, std::string::npos);
    token = std::move(out);
  };
}

/// The characters at both ends of one token, at most so many of each.
Step strip(const Field& f) {
  std::string what;
  append_utf8(what, f["content"].character());
  const auto start = static_cast<size_t>(f["start"].count(1 << 20)), stop = static_cast<size_t>(f["stop"].count(1 << 20));
  return [=](std::string& token, bool) {
    for (size_t i = 0; i < start && token.compare(0, what.size(), what) == 0; ++i) token.erase(0, what.size());
    for (size_t i = 0; i < stop && token.size() >= what.size() && token.compare(token.size() - what.size(), what.size(), what) == 0; ++i)
      token.resize(token.size() - what.size());
  };
}

constexpr struct {
  std::string_view type;
} kTypes[] = {{"Sequence"}, {"ByteLevel"}, {"Replace"}, {"ByteFallback"}, {"Fuse"}, {"Strip"}, {"Metaspace"}};

}  // namespace

Decoder::Decoder(const Field& field, const Libraries& libraries, bool byte_level_words) {
  if (!field.is_null())
    read(field, libraries, 0);
  else if (byte_level_words)
    steps_.push_back(byte_level());
  else
    field.wrong("there is none, expected one");
}

void Decoder::read(const Field& field, const Libraries& libraries, int depth) {
  const std::string& type = field["type"].json().text;
  if (steps_.size() == 64 || depth == 16) field.wrong("expected at most 64 decoders, 16 deep");
  const auto each_token = [&] {
    if (joined_) field.wrong(type + " after Fuse, ByteFallback or ByteLevel is not supported: tokens are decoded one by one");
  };
  if (type == "Sequence") {
    for (const Field& each : field["decoders"].list()) read(each, libraries, depth + 1);
  } else if (type == "ByteLevel") {
    each_token();
    steps_.push_back(byte_level());
    joined_ = true;
  } else if (type == "ByteFallback") {
    each_token();
    steps_.push_back(byte_fallback);
    joined_ = true;
  } else if (type == "Fuse") {
    joined_ = true;
  } else if (type == "Replace") {
    each_token();
    steps_.push_back(replace(field, libraries));
  } else if (type == "Metaspace") {
    each_token();
    steps_.push_back(metaspace(field));
  } else if (type == "Strip") {
    read_strip(field);
  } else {
    field.unknown_type(kTypes);
  }
}

void Decoder::read_strip(const Field& f) {
  if (!joined_) {
    steps_.push_back(strip(f));
    return;
  }
  if (f["stop"].count(1 << 20) != 0) f["stop"].wrong("expected 0 after Fuse: an answer's end is not known while it is sent");
  const uint32_t c = f["content"].character();
  if (c >= 0x80 || strip_ != 0) f.wrong("expected one Strip after Fuse, of a character of ASCII");
  stripped_ = static_cast<char>(c);
  strip_ = static_cast<size_t>(f["start"].count(1 << 20));
}

std::string Decoder::run(std::string token, bool first) const {
  for (const Step& step : steps_) step(token, first);
  return token;
}

std::string Decoder::bytes(std::string token, Begin& begin) const {
  std::string out = run(std::move(token), begin.first);
  begin.first = false;
  size_t n = 0;
  while (begin.stripping && n < out.size() && begin.stripped < strip_ && out[n] == stripped_) ++n, ++begin.stripped;
  out.erase(0, n);
  if (!out.empty()) begin.stripping = false;
  return out;
}

}  // namespace tok

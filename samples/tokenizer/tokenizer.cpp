#include "tokenizer.h"

#include <fstream>
#include <iterator>

#include "unicode.h"

namespace tok {

namespace {

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr struct { std::string_view type; } kPostProcessors[] = {{"Sequence"}, {"ByteLevel"}, {"TemplateProcessing"}};

}  // namespace

Tokenizer::Tokenizer(const std::string& path, const Libraries& libraries) try : Tokenizer(JsonReader(content_of(path)).read(), libraries) {
} catch (const std::runtime_error& e) { throw std::runtime_error(path + ": " + e.what()); }

Tokenizer::Tokenizer(const Json& file, const Libraries& libraries)
    : normalizer_(Field(file, "")["normalizer"], libraries),
      added_(Field(file, "")["added_tokens"], normalizer_),
      pre_tokenizer_(Field(file, "")["pre_tokenizer"], libraries),
      model_(Field(file, "")["model"]),
      decoder_(Field(file, "")["decoder"], libraries, pre_tokenizer_.byte_level()),
      tokens_(model_.take_tokens()) {
  for (const AddedToken& t : added_.all()) {
    const auto id = static_cast<size_t>(t.id);
    if (id >= tokens_.size()) tokens_.resize(id + 1);
    tokens_[id] = t.special ? "" : t.searched;
    if (t.mark) model_.never_a_word(t.content);
  }
  bytes_.resize(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i)
    if (!tokens_[i].empty()) bytes_[i] = decoder_.bytes(tokens_[i]);
  read_post_processor(Field(file, "")["post_processor"], 0);
}

void Tokenizer::read_post_processor(const Field& field, int depth) {
  if (field.is_null()) return;
  const std::string& type = field["type"].json().text;
  if (type == "Sequence") {
    if (depth == 16) field.wrong("too deep");
    for (const Field& each : field["processors"].list()) read_post_processor(each, depth + 1);
  } else if (type == "TemplateProcessing") {
    std::vector<int64_t> before;
    for (const Field& piece : field["single"].list()) {
      const Field special = piece["SpecialToken"];
      if (special.is_null()) break;  // the text
      const Field ids = field["special_tokens"][special["id"].text()]["ids"];
      for (const Field& id : ids.list()) before.push_back(id.count(kMostId));
    }
    prefix_.insert(prefix_.begin(), before.begin(), before.end());
  } else if (type != "ByteLevel") {  // that one moves offsets alone
    field.unknown_type(kPostProcessors);
  }
}

void Tokenizer::encode(const std::vector<Part>& parts, std::vector<int64_t>& ids) const {
  Text all;
  for (const Part& part : parts) all.add(repaired(part.text), part.marks);
  added_.split(all, false, [&](const AddedToken* mark, size_t begin, size_t end) {
    if (mark) return ids.push_back(mark->id);
    Text text;
    text.add(all, begin, end);
    normalizer_.apply(text);
    added_.split(text, true, [&](const AddedToken* token, size_t from, size_t to) {
      if (token) return ids.push_back(token->id);
      pre_tokenizer_.split(std::string_view(text.bytes).substr(from, to - from), begin == 0 && from == 0,
                           [&](std::string_view word, bool) { model_.encode(word, ids); });
    });
  });
}

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  encode({{std::string(text), true}}, ids);
  return ids;
}

std::string Tokenizer::bytes(int64_t id, Decoder::Begin& begin) const {
  if (!known(id) || tokens_[static_cast<size_t>(id)].empty()) return {};
  return decoder_.bytes(tokens_[static_cast<size_t>(id)], begin);
}

void Tokenizer::set_mark(int64_t id) {
  added_.set_mark(id);
  for (const AddedToken& t : added_.all())
    if (t.id == id) model_.never_a_word(t.content);
}

int64_t Tokenizer::added(std::string_view content) const {
  for (const AddedToken& t : added_.all())
    if (t.content == content) return t.id;
  return -1;
}

std::vector<int64_t> Tokenizer::marks_in(std::string_view text) const {
  constexpr uint32_t kMetaspace = 0x2581;
  const auto shows = [](std::string_view s) {
    bool any = false;
    for (size_t at = 0, n; at < s.size(); at += n) {
      const uint32_t c = code_at(s, at, &n);
      any = any || (!is_space(c) && c != kMetaspace);
    }
    return any;
  };
  std::vector<int64_t> ids;
  for (const AddedToken& t : added_.all())
    if (shows(t.content) && text.find(t.content) != text.npos) ids.push_back(t.id);
  return ids;
}

}  // namespace tok

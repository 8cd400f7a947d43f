#include "normalizers.h"

namespace tok {

namespace {

using Step = std::function<void(Text&)>;

Step read_prepend(const Field& f, const Libraries&) {
  return [before = f["prepend"].text()](Text& t) {
    if (t.bytes.empty()) return;
    Text out;
    out.add(before, t.marks[0] != 0);
    out.add(t, 0, t.bytes.size());
    t = std::move(out);
  };
}

Step read_replace(const Field& f, const Libraries& libraries) {
  return [pattern = read_pattern(f["pattern"], libraries), by = f["content"].text()](Text& t) {
    Text out;
    size_t done = 0;
    pattern(t.bytes, [&](size_t begin, size_t end) {
      out.add(t, done, begin);
      out.add(by, t.all_marks(begin, end));
      done = end;
    });
    if (done == 0 && out.bytes.empty()) return;
    out.add(t, done, t.bytes.size());
    t = std::move(out);
  };
}

/// ASCII stays as it is and joins nothing before it, so a text is taken in pieces: the characters beyond ASCII with the one before them.
void normalize(Text& t, const Libraries& libraries, Form form) {
  const auto ascii = [&](size_t i) { return static_cast<unsigned char>(t.bytes[i]) < 0x80; };
  Text out;
  size_t done = 0;
  for (size_t i = 0; i < t.bytes.size();) {
    if (ascii(i)) {
      ++i;
      continue;
    }
    const size_t begin = i > 0 ? i - 1 : i;
    while (i < t.bytes.size() && !ascii(i)) ++i;
    const std::string_view piece = std::string_view(t.bytes).substr(begin, i - begin);
    const std::string changed = libraries.normalized(piece, form);
    if (changed == piece) continue;
    out.add(t, done, begin);
    out.add(changed, t.all_marks(begin, i));
    done = i;
  }
  if (done == 0) return;
  out.add(t, done, t.bytes.size());
  t = std::move(out);
}

template <Form form>
Step read_form(const Field& f, const Libraries& libraries) {
  if (!libraries.normalized)
    f.wrong("it needs normalisation forms, and this program is compiled without utf8proc (-DTOKENIZER_LIBRARIES -lpcre2-8 -lutf8proc)");
  return [libraries](Text& t) { normalize(t, libraries, form); };
}

constexpr struct {
  std::string_view type;
  Step (*read)(const Field&, const Libraries&);
} kTypes[] = {
    {"Sequence", nullptr},         {"Prepend", read_prepend},       {"Replace", read_replace},       {"NFC", read_form<Form::nfc>},
    {"NFD", read_form<Form::nfd>}, {"NFKC", read_form<Form::nfkc>}, {"NFKD", read_form<Form::nfkd>},
};

}  // namespace

Normalizer::Normalizer(const Field& field, const Libraries& libraries) {
  field.each_step(kTypes, "normalizers", [&](const Field& f, const auto& known) {
    if (steps_.size() == 64) f.wrong("expected at most 64 normalizers");
    steps_.push_back(known.read(f, libraries));
  });
}

}  // namespace tok

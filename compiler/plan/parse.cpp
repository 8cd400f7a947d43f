// Parser of the text that text.cpp prints: lines of fields and rows, by the tables of plan/fields.h.
#include "plan/spelling.h"
#include "plan/text.h"
#include "plan/verify.h"

namespace aotc::plan {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : in_(text, file) {}

  PlanSet run() {
    in_.need_line();
    in_.want_word("plans");
    in_.end_line();
    SeenFields<PlanSet> seen(in_);
    while (in_.next_line()) {
      entry(set_, seen);
      in_.end_line();
    }
    seen.check_complete();
    return std::move(set_);
  }

 private:
  /// One line of a block: a field, or an element of one of its lists.
  template <HasFields S>
  void entry(S& s, SeenFields<S>& seen) {
    const std::string_view name = in_.word();
    if (read_named(in_, set_, name, s, seen)) return;
    bool known = false;
    for_each_field<S>([&]<class F>(const F& f) {
      if constexpr (kIsRows<F>) {
        if (known || f.name != name) return;
        known = true;
        add(s.*f.member);
      }
    });
    if (!known) fail_unknown<S>(in_);
  }

  void add(SymTable& syms) { syms.add(in_.symbol(syms)); }
  template <class T>
  void add(std::vector<T>& all) {
    const TextReader::Place at = in_.next_place();
    if (in_.integer() != static_cast<int64_t>(all.size())) in_.fail(at, fmt::format("out of order: this is number {}", all.size()));
    all.push_back(row<T>());
  }
  template <class Id, class T>
  void add(IdVec<Id, T>& all) {
    const TextReader::Place at = in_.next_place();
    const Id next = static_cast<Id>(all.size());
    if (Spelling<Id>::read(in_, set_) != next) in_.fail(at, fmt::format("out of order: this is {}", spell(next, set_)));
    all.push(row<T>());
  }

  template <class T>
  T row() {
    if constexpr (!HasFields<T>) {
      return Spelling<T>::read(in_, set_);
    } else if constexpr (!kHasRows<T>) {
      return read_fields<T>(in_, set_);
    } else {
      T s{};
      SeenFields<T> seen(in_);
      read_positional(in_, set_, s, seen);
      in_.want('{');
      for (;;) {
        in_.end_line();
        in_.need_line();
        if (in_.accept('}')) break;
        entry(s, seen);
      }
      seen.check_complete();
      return s;
    }
  }

  TextReader in_;
  PlanSet set_;  ///< what has been read so far is what names refer to
};

}  // namespace

PlanSet parse_plans(std::string_view text, std::string_view file_name) {
  return TextReader::verified(Parser(text, file_name).run(), file_name, [](const PlanSet& s) { verify(s, "parsing"); });
}

forms::WeightForm parse_weight_form(std::string_view text, std::string_view what) {
  TextReader in(text, what);
  in.need_line();
  forms::WeightForm form = Spelling<forms::WeightForm>::read(in, Scope{});
  in.end_line();
  return form;
}

}  // namespace aotc::plan

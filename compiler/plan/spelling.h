#pragma once
// How the values of Plan text are spelled: Spelling<T>::text and ::read, each the inverse of the other. Structs with a field table are
// spelled as their fields: "name value name value" on a line, "{...}" within another value, a block of lines where they have rows.
#include <optional>
#include <string>
#include <type_traits>

#include "base/fields.h"
#include "plan/fields.h"
#include "sym/text_reader.h"

namespace aotc::plan {

/// What names in the text refer to.
using Scope = PlanSet;

template <class T>
struct Spelling;
template <class T>
std::string spell(const T& v, const Scope& scope) {
  return Spelling<T>::text(v, scope);
}

template <class T>
requires std::is_integral_v<T>
struct Spelling<T> {
  static std::string text(T v, const Scope&) {
    if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
    if constexpr (std::is_same_v<T, int64_t>)
      if (v == kInf) return "inf";
    return fmt::format("{}", v);
  }
  static T read(TextReader& in, const Scope&) {
    if constexpr (std::is_same_v<T, bool>) return in.boolean();
    if constexpr (std::is_same_v<T, int64_t>) return in.bound();
    constexpr int64_t kMost = sizeof(T) < 8 ? static_cast<int64_t>(std::numeric_limits<T>::max()) : INT64_MAX;
    return static_cast<T>(in.integer(std::is_unsigned_v<T> ? 0 : static_cast<int64_t>(std::numeric_limits<T>::min()), kMost));
  }
};
template <>
struct Spelling<std::string> {
  static std::string text(const std::string& s, const Scope&) { return quoted_text(s); }
  static std::string read(TextReader& in, const Scope&) { return in.string(); }
};
template <>
struct Spelling<Expr> {
  static std::string text(const Expr& e, const Scope& s) { return "[" + e.str(s.syms) + "]"; }
  static Expr read(TextReader& in, const Scope& s) {
    in.want('[');
    Expr e = in.expr(s.syms);
    in.want(']');
    return e;
  }
};
template <>
struct Spelling<DType> {
  static std::string text(DType t, const Scope&) { return std::string(dtype_name(t)); }
  static DType read(TextReader& in, const Scope&) {
    const auto t = parse_dtype(in.word());
    if (!t) in.fail("expected an element type");
    return *t;
  }
};
template <class E, const auto& kWords>
struct EnumSpelling {
  static std::string text(E e, const Scope&) { return std::string(kWords.name(e)); }
  static E read(TextReader& in, const Scope&) {
    const auto e = kWords.parse(in.word());
    if (!e) in.fail(fmt::format("expected {}", fmt::join(kWords.words, ", ")));
    return *e;
  }
};
template <>
struct Spelling<Place> : EnumSpelling<Place, kPlaces> {};
template <>
struct Spelling<ShapeGuard::Kind> : EnumSpelling<ShapeGuard::Kind, kGuardKinds> {};
template <>
struct Spelling<StepKind> : EnumSpelling<StepKind, kStepKinds> {};

/// "b12"
template <class Id, char kPrefix>
struct IdSpelling {
  static std::string text(Id id, const Scope&) { return fmt::format("{}{}", kPrefix, idx(id)); }
  static Id read(TextReader& in, const Scope&) {
    if (!in.accept(kPrefix)) in.fail(fmt::format("expected '{}' and a number", kPrefix));
    return static_cast<Id>(in.integer(0, INT32_MAX));
  }
};
template <>
struct Spelling<PlanBufferId> : IdSpelling<PlanBufferId, 'p'> {};
template <>
struct Spelling<loop::BufferId> : IdSpelling<loop::BufferId, 'b'> {};
template <>
struct Spelling<ConstId> : IdSpelling<ConstId, 'c'> {};
template <>
struct Spelling<SymId> {
  static std::string text(SymId id, const Scope& s) { return s.syms[id].name; }
  static SymId read(TextReader& in, const Scope& s) {
    const auto id = s.syms.find(in.word());
    if (!id) in.fail("no such symbol");
    return *id;
  }
};
template <>
struct Spelling<loop::KernelId> {
  static std::string text(loop::KernelId id, const Scope& s) { return quoted_text(s.kernels.at(idx(id))); }
  static loop::KernelId read(TextReader& in, const Scope& s) {
    const std::string name = in.string();
    for (size_t i = 0; i < s.kernels.size(); ++i)
      if (s.kernels[i] == name) return static_cast<loop::KernelId>(i);
    in.fail("no such kernel");
  }
};
template <>
struct Spelling<LiveRange> {
  static std::string text(const LiveRange& l, const Scope&) { return fmt::format("[{}, {})", l.begin, l.end); }
  static LiveRange read(TextReader& in, const Scope&) {
    LiveRange l;
    in.want('[');
    l.begin = static_cast<int>(in.integer(0, INT32_MAX));
    in.want(',');
    l.end = static_cast<int>(in.integer(0, INT32_MAX));
    in.want(')');
    return l;
  }
};

/// An element of a list; the list's brackets serve for an expression.
template <class T>
struct ItemSpelling : Spelling<T> {};
template <>
struct ItemSpelling<Expr> {
  static std::string text(const Expr& e, const Scope& s) { return e.str(s.syms); }
  static Expr read(TextReader& in, const Scope& s) { return in.expr(s.syms); }
};
template <class T>
struct Spelling<std::vector<T>> {
  static std::string text(const auto& list, const Scope& s) {
    std::string out = "[";
    for (const T& v : list) out += (out.size() > 1 ? ", " : "") + ItemSpelling<T>::text(v, s);
    return out + "]";
  }
  static std::vector<T> read(TextReader& in, const Scope& s) {
    return in.list([&] { return ItemSpelling<T>::read(in, s); });
  }
};
template <class T, size_t N>
struct Spelling<std::array<T, N>> : Spelling<std::vector<T>> {
  static std::array<T, N> read(TextReader& in, const Scope& s) {
    const TextReader::Place at = in.next_place();
    const std::vector<T> list = Spelling<std::vector<T>>::read(in, s);
    if (list.size() != N) in.fail(at, fmt::format("expected {} values", N));
    std::array<T, N> a{};
    std::copy(list.begin(), list.end(), a.begin());
    return a;
  }
};
/// No value is no text: a field that may be missing.
template <class T>
struct Spelling<std::optional<T>> {
  static std::string text(const std::optional<T>& v, const Scope& s) { return spell(*v, s); }
  static std::optional<T> read(TextReader& in, const Scope& s) { return Spelling<T>::read(in, s); }
};

// ---------------------------------------------------------------------------------------------------------------------------- structs
template <class F>
inline constexpr bool kIsRows = false;
template <class S, class T>
inline constexpr bool kIsRows<Rows<S, T>> = true;
template <HasFields S>
inline constexpr bool kHasRows = std::apply([]<class... F>(const F&...) { return (kIsRows<F> || ...); }, FieldTable<S>::fields);

template <class S, class T>
bool is_default(const S& s, const Field<S, T>& f) {
  if constexpr (requires { s.*f.member == s.*f.member; })
    return f.presence == Presence::unless_default && s.*f.member == S{}.*f.member;
  else
    return false;
}

/// "value value name value name value": positional fields first. Rows are left out.
template <HasFields S>
std::string fields_text(const S& s, const Scope& scope, bool positional_only = false) {
  std::string out;
  for_each_field<S>([&]<class F>(const F& f) {
    if constexpr (!kIsRows<F>) {
      if (is_default(s, f) || (positional_only && f.presence != Presence::positional)) return;
      if (!out.empty()) out += ' ';
      if (f.presence != Presence::positional) out += std::string(f.name) + ' ';
      out += spell(s.*f.member, scope);
    }
  });
  return out;
}

/// Which fields were read; complains about what comes twice or not at all.
template <HasFields S>
class SeenFields {
 public:
  explicit SeenFields(TextReader& in) : in_(in) {}
  void add(const auto& f) {
    for (std::string_view name : names_)
      if (name == f.name) in_.fail(fmt::format("'{}' stands twice", f.name));
    names_.push_back(f.name);
  }
  void check_complete() const {
    for_each_field<S>([&]<class F>(const F& f) {
      if constexpr (!kIsRows<F>) {
        if (f.presence == Presence::unless_default) return;
        for (std::string_view name : names_)
          if (name == f.name) return;
        in_.fail(fmt::format("'{}' is missing", f.name));
      }
    });
  }

 private:
  TextReader& in_;
  std::vector<std::string_view> names_;
};

template <class S, class T>
void read_field(TextReader& in, const Scope& scope, S& s, const Field<S, T>& f) {
  const TextReader::Place at = in.next_place();
  s.*f.member = Spelling<T>::read(in, scope);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    if (std::cmp_less(s.*f.member, f.min)) in.fail(at, fmt::format("expected at least {}", f.min));
}
template <HasFields S>
void read_positional(TextReader& in, const Scope& scope, S& s, SeenFields<S>& seen) {
  for_each_field<S>([&]<class F>(const F& f) {
    if constexpr (!kIsRows<F>) {
      if (f.presence != Presence::positional) return;
      read_field(in, scope, s, f);
      seen.add(f);
    }
  });
}
/// The field of that name, if it has one.
template <HasFields S>
bool read_named(TextReader& in, const Scope& scope, std::string_view name, S& s, SeenFields<S>& seen) {
  bool known = false;
  for_each_field<S>([&]<class F>(const F& f) {
    if constexpr (!kIsRows<F>) {
      if (known || f.presence == Presence::positional || f.name != name) return;
      known = true;
      seen.add(f);
      read_field(in, scope, s, f);
    }
  });
  return known;
}
template <HasFields S>
[[noreturn]] void fail_unknown(const TextReader& in) {
  std::string known;
  for_each_field<S>([&]<class F>(const F& f) {
    if constexpr (!kIsRows<F>) {
      if (f.presence == Presence::positional) return;
    }
    known += (known.empty() ? "" : ", ") + std::string(f.name);
  });
  in.fail("expected one of " + known);
}
/// To the end of the line or to a '}'.
template <HasFields S>
S read_fields(TextReader& in, const Scope& scope) {
  S s{};
  SeenFields<S> seen(in);
  read_positional(in, scope, s, seen);
  while (!in.at_end() && in.peek() != '}')
    if (!read_named(in, scope, in.word(), s, seen)) fail_unknown<S>(in);
  seen.check_complete();
  return s;
}
template <HasFields S>
struct Spelling<S> {
  static std::string text(const S& s, const Scope& scope) { return "{" + fields_text(s, scope) + "}"; }
  static S read(TextReader& in, const Scope& scope) {
    in.want('{');
    S s = read_fields<S>(in, scope);
    in.want('}');
    return s;
  }
};
/// "gemm mr=14 nv=2", in quotes
template <>
struct Spelling<forms::Choice> {
  static std::string text(const forms::Choice& c, const Scope&) { return quoted_text(forms::str(c)); }
  static forms::Choice read(TextReader& in, const Scope&) {
    const TextReader::Place at = in.next_place();
    const Result<forms::Choice> c = forms::parse_choice(in.string());
    if (!c) in.fail(at, c.why());
    return *c;
  }
};

}  // namespace aotc::plan

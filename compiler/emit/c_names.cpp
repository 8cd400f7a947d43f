#include "emit/c_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/words.h"
#include "sym/c_text.h"

namespace aotc::emit {
namespace {

/// Keywords of C (to C23) and C++ (to C++23), and macros in lower case of the headers that C programs include.
constexpr std::string_view kReserved =
    "alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await co_return "
    "co_yield compl complex concept const const_cast consteval constexpr constinit continue contract_assert decltype default delete do "
    "double dynamic_cast else enum errno explicit export extern false float for friend goto i386 if imaginary inline int linux long "
    "mutable namespace new noexcept noreturn not not_eq nullptr offsetof operator or or_eq private protected public register "
    "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast stderr stdin stdout struct switch "
    "template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unix unsigned using virtual void "
    "volatile wchar_t while xor xor_eq I";

}  // namespace

bool is_reserved(const std::string& s) {
  const auto capital = [](unsigned char c) { return std::isupper(c) || std::isdigit(c) || c == '_'; };
  return has_word(kReserved, s) || (s.size() > 2 && std::all_of(s.begin(), s.end(), capital)) || s.ends_with("_t") ||
         s.rfind("aotc_", 0) == 0;
}

std::string c_identifier(std::string_view text) {
  std::string out;
  for (const uint32_t c : characters(text)) {
    if (c < 128 && std::isalnum(static_cast<int>(c)))
      out += static_cast<char>(c);
    else if (c < 128)
      out += '_';
    else
      out += fmt::format("{}u{:04x}", out.empty() || out.back() == '_' ? "" : "_", c);
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "m_");
  return out;
}

std::string CNames::add(std::string_view text) {
  std::string name = c_identifier(text);
  // underscores at the front, and two in a row, are the compiler's
  if (name[0] == '_') name.insert(0, "v");
  for (size_t at; (at = name.find("__")) != std::string::npos;) name.erase(at, 1);
  if (is_reserved(name)) name += name.ends_with("_") ? "v" : "_";
  std::string candidate = name;
  for (int n = 2; !taken_.insert(candidate).second; ++n) candidate = fmt::format("{}{}{}", name, name.ends_with("_") ? "" : "_", n);
  return candidate;
}

}  // namespace aotc::emit

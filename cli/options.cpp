#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

namespace aotc::cli {
namespace {

/// A number, at least or above 0.
CLI::Validator bounded(bool zero, const char* title) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double v = 0;
        if (read_number(text, v) && (zero ? v >= 0 : v > 0)) return {};
        return fmt::format("'{}' is not a number {} 0", text, zero ? "of at least" : "above");
      },
      title);
}

}  // namespace

Option Option::required() const { return Option(*option_->required()); }
Option Option::one_value() const { return Option(*option_->expected(1)); }
Option Option::repeated() const { return Option(*option_->allow_extra_args(false)); }
Option Option::separated_by(char c) const { return Option(*option_->delimiter(c)); }
Option Option::needs(Option other) const { return Option(*option_->needs(other.option_)); }
Option Option::one_of(const std::vector<std::string>& choices) const { return Option(*option_->check(CLI::IsMember(choices))); }
Option Option::range(int least, int most) const { return Option(*option_->check(CLI::Range(least, most))); }
Option Option::not_negative() const { return Option(*option_->check(bounded(true, "NONNEGATIVE"))); }
Option Option::positive() const { return Option(*option_->check(bounded(false, "POSITIVE"))); }
Option Option::transform(Check check, const char* title) const {
  return Option(*option_->transform(CLI::Validator(std::move(check), title)));
}

template <class T>
Option add_option(CLI::App& app, const std::string& names, T& value, const std::string& help) {
  return Option(*app.add_option(names, value, help));
}
template Option add_option(CLI::App&, const std::string&, std::string&, const std::string&);
template Option add_option(CLI::App&, const std::string&, int&, const std::string&);
template Option add_option(CLI::App&, const std::string&, uint64_t&, const std::string&);
template Option add_option(CLI::App&, const std::string&, double&, const std::string&);
template Option add_option(CLI::App&, const std::string&, std::optional<int>&, const std::string&);
template Option add_option(CLI::App&, const std::string&, std::optional<uint64_t>&, const std::string&);
template Option add_option(CLI::App&, const std::string&, std::optional<double>&, const std::string&);
template Option add_option(CLI::App&, const std::string&, std::vector<std::string>&, const std::string&);

Option add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& help) {
  return Option(*app.add_flag(names, value, help));
}

std::string as_bytes(std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  char* rest = nullptr;
  const unsigned long long n = text.empty() || text[0] < '0' || text[0] > '9' ? 0 : std::strtoull(text.c_str(), &rest, 10);
  const std::string_view unit = rest ? std::string_view(rest) : std::string_view("?");
  const size_t power = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  const unsigned shift = unit.empty() ? 0 : power == std::string_view::npos ? 99 : static_cast<unsigned>(10 * (power + 1));
  if (n == 0 || shift == 99 || n > (UINT64_MAX >> shift))
    return fmt::format("'{}' is no size: expected 500M, 2G or a number of bytes", text);
  text = std::to_string(n << shift);
  return {};
}

bool read_number(const std::string& text, double& number) { return CLI::detail::lexical_cast(text, number); }
std::vector<std::string> split_words(const std::string& line) { return CLI::detail::split_up(line); }

}  // namespace aotc::cli

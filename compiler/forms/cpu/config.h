#pragma once
// C text of the config structs of library_abi.h.
#include <string>

#include "base/initialiser.h"
#include "base/target.h"
#include "loop/loop.h"

namespace aotc::forms::cpu {

/// "static const TYPE NAME = {.a = 1, .b = 2};", members in the struct's order.
class ConfigText {
 public:
  ConfigText(std::string_view type, std::string_view name) : type_(type), name_(name) {}
  ConfigText& add(std::string_view member, int64_t value) { return text(member, std::to_string(value)); }
  ConfigText& text(std::string_view member, const std::string& value) {
    members_.add(member, value);
    return *this;
  }
  /// Spatial attributes as d h w: right-aligned, `fill` for the missing leading ones.
  ConfigText& spatial(std::string_view member, const Ints& v, int64_t fill);
  /// An epilogue's or prologue's function; declares it.
  ConfigText& epilogue(std::string_view member, const std::string& function);
  ConfigText& prologue(std::string_view member, const std::string& function);
  /// Of a struct that is a member of another: the declarations go with it.
  ConfigText& nested(std::string_view member, const ConfigText& inner) {
    declarations_ += inner.declarations_;
    return text(member, inner.members_.str());
  }
  std::string str() const { return declarations_ + "static const " + type_ + " " + name_ + " = " + members_.str() + ";\n"; }
  std::string declarations_;  ///< what must stand before

 private:
  std::string type_, name_;
  Initialiser members_;
};
std::string declare_epilogue(const std::string& function);

}  // namespace aotc::forms::cpu

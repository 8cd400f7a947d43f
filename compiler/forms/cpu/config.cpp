#include "forms/cpu/config.h"

namespace aotc::forms::cpu {

std::string declare_epilogue(const std::string& function) {
  return fmt::format("extern \"C\" void {}(const aotc_kargs*, const void*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);\n",
                     function);
}

ConfigText& ConfigText::spatial(std::string_view member, const Ints& v, int64_t fill) {
  std::string s = "{";
  for (size_t i = 0; i < 3; ++i) s += fmt::format("{}{}", i ? ", " : "", i + v.size() < 3 ? fill : v[i + v.size() - 3]);
  return text(member, s + "}");
}

ConfigText& ConfigText::epilogue(std::string_view member, const std::string& function) {
  declarations_ += declare_epilogue(function);
  return text(member, function);
}

ConfigText& ConfigText::prologue(std::string_view member, const std::string& function) {
  if (function.empty()) return *this;
  declarations_ +=
      fmt::format("extern \"C\" void {}(const aotc_kargs*, int64_t, int64_t, int64_t, int64_t, int64_t, void*, int64_t);\n", function);
  return text(member, function);
}

}  // namespace aotc::forms::cpu

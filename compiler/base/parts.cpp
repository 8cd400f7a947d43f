#include "base/parts.h"

#include <algorithm>

#include "base/diagnostic.h"

namespace aotc {

std::vector<Target> parts_of(const Target& target) {
  std::vector<Target> parts;
  for (const std::string& sm : target.sms) {
    Target part = target;
    part.isas.clear();
    part.native = false;
    part.sms = {sm};
    parts.push_back(std::move(part));
  }
  if (!target.isas.empty()) {
    parts.push_back(target);
    parts.back().sms.clear();
  }
  return parts;
}

void add_ptx(Target& target) {
  int newest = 0;
  for (const std::string& sm : target.sms) newest = std::max(newest, std::stoi(sm.substr(3)));
  target.sms.push_back(fmt::format("compute_{}", newest));
}

bool is_ptx(std::string_view sm) { return sm.rfind("compute_", 0) == 0; }

}  // namespace aotc

#include "base/parts.h"

#include <algorithm>

#include "base/diagnostic.h"
#include "base/uarch.h"

namespace aotc {

std::vector<Target> parts_of(const Target& target) {
  std::vector<Target> parts;
  for (const std::string& sm : target.sms) {
    Target part = target;
    part.isas.clear();
    part.native = false;
    part.sms = {sm};
    if (part.uarch && (!part.uarch->is_gpu || is_ptx(sm))) part.uarch = nullptr;
    parts.push_back(std::move(part));
  }
  if (!target.isas.empty()) {
    parts.push_back(target);
    parts.back().sms.clear();
    if (target.uarch && target.uarch->is_gpu) parts.back().uarch = nullptr;
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

#include "passes/stored_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "base/diagnostic.h"

namespace aotc::passes {
void StoredWeights::check_error() const {
  const RoundedConstant* worst = nullptr;
  for (const RoundedConstant& r : rounded)
    if (!worst || r.error > worst->error) worst = &r;
  if (!worst || worst->error <= storage.most_error()) return;
  Diagnostic d(ExitCode::failed, {},
               fmt::format("weight '{}' loses {:.3g} as {} (relative L2 error); at most {:.3g} may be lost", worst->name, worst->error,
                           storage.str(), storage.most_error()));
  if (storage.bits != 16 && storage.group == 0) d.note("groups of 32 values with a scale each lose less (--weight-group 32)");
  if (storage.bits == 4 || storage.float8) d.note("integers of 8 bits lose less (--weights int8)");
  const double enough = worst->error * 21 / 20;  // two digits are rounded by a twentieth at most
  throw d.note(fmt::format("or allow it: --max-weight-error {:.2g}", enough));
}

int64_t StoredWeights::bytes_before() const {
  int64_t n = 0;
  for (const StoredWeight& w : weights) n += w.bytes_before;
  return n;
}
int64_t StoredWeights::bytes() const {
  int64_t n = 0;
  for (const StoredWeight& w : weights) n += w.bytes;
  return n;
}
double StoredWeights::error() const {
  double sum = 0, elems = 0;
  for (const StoredWeight& w : weights) {
    sum += w.error * w.error * static_cast<double>(w.elems);
    elems += static_cast<double>(w.elems);
  }
  return elems > 0 ? std::sqrt(sum / elems) : 0;
}

}  // namespace aotc::passes

#include "import/payload.h"

#include <algorithm>
#include <cstring>

#include "base/diagnostic.h"

namespace aotc::import {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 40;
/// A copy (of an expanded tensor) may be larger than its storage, but not without bound.
constexpr int64_t kFreeCopyBytes = 256 << 20, kMaxCopyRatio = 64;

bool is_dense(const StoredTensor& t) {
  int64_t want = 1;
  for (size_t i = t.sizes.size(); i-- > 0;) {
    if (t.sizes[i] != 1 && t.strides[i] != want) return false;
    want *= t.sizes[i];
  }
  return true;
}

/// Copies dimension d and those after it.
void copy_strided(const StoredTensor& t, size_t d, const std::byte*& src, std::byte*& dst, int64_t elem) {
  if (d == t.sizes.size()) {
    std::memcpy(dst, src, static_cast<size_t>(elem));
    dst += elem;
    return;
  }
  const std::byte* at = src;
  for (int64_t i = 0; i < t.sizes[d]; ++i, at += t.strides[d] * elem) {
    const std::byte* from = at;
    copy_strided(t, d + 1, from, dst, elem);
  }
}

}  // namespace

TensorMeta meta_of(const StoredTensor& t) {
  TensorMeta m;
  m.dtype = t.dtype;
  m.sizes.assign(t.sizes.begin(), t.sizes.end());
  m.strides.assign(t.strides.begin(), t.strides.end());
  m.storage_offset = t.offset;
  return m;
}

ConstData Payloads::dense(const std::string& name, const StoredTensor& t, const Loc& loc) {
  auto fail = [&](std::string why) { return Diagnostic(loc, fmt::format("tensor '{}': {}", name, why)); };
  const int64_t elem = dtype_bytes(t.dtype);
  if (t.sizes.size() != t.strides.size()) throw fail("another number of strides than of sizes");
  if (t.sizes.size() > 64) throw fail("more than 64 dimensions");
  if (t.offset < 0) throw fail("a negative storage offset");
  int64_t count = 1, last = t.offset;
  bool over = false, empty = false;
  for (size_t i = 0; i < t.sizes.size(); ++i) {
    if (t.sizes[i] < 0) throw fail(fmt::format("a negative size {}", t.sizes[i]));
    if (t.strides[i] < 0) throw fail(fmt::format("a negative stride {}", t.strides[i]));
    if (t.sizes[i] == 0) empty = true;
  }
  for (size_t i = 0; i < t.sizes.size() && !empty; ++i) {
    int64_t reach = 0;
    over |= __builtin_mul_overflow(count, t.sizes[i], &count);
    over |= __builtin_mul_overflow(t.sizes[i] - 1, t.strides[i], &reach);
    over |= __builtin_add_overflow(last, reach, &last);
  }
  if (over || count > kMaxBytes / elem) throw fail("sizes that overflow");
  if (empty) count = 0;
  const auto storage_elems = static_cast<int64_t>(t.storage.size()) / elem;
  if (!empty && last >= storage_elems)
    throw fail(fmt::format("element {} of a storage that has {} ({} bytes)", last, storage_elems, t.storage.size()));

  ConstData c;
  c.name = name;
  c.type.dtype = t.dtype;
  c.type.dims.assign(t.sizes.begin(), t.sizes.end());
  c.bytes = static_cast<size_t>(count * elem);
  if (count == 0) {
    c.keepalive = keepalive_;
    c.data = t.storage.data();
    return c;
  }
  const std::byte* src = t.storage.data() + t.offset * elem;
  if (is_dense(t) && reinterpret_cast<uintptr_t>(src) % static_cast<uintptr_t>(elem) == 0) {
    c.keepalive = keepalive_;
    c.data = src;
    return c;
  }
  const auto stored = static_cast<int64_t>(t.storage.size());
  if (count * elem > kFreeCopyBytes && count * elem / kMaxCopyRatio > stored)
    throw fail(fmt::format("{} bytes once laid out densely, from a storage of {}", count * elem, stored));
  const Key key{t.storage.data(), static_cast<uint32_t>(t.dtype), t.offset, t.sizes, t.strides};
  auto it = copies_.find(key);
  if (it == copies_.end()) {
    budget_.charge(Budget::Kind::bytes, std::max<int64_t>(0, count * elem - stored), [&] {
      Loc at = loc;
      at.path = fmt::format("tensor '{}'", name);
      return at;
    });
    const std::shared_ptr<std::byte[]> copy(new (std::align_val_t{64}) std::byte[c.bytes],
                                            [](std::byte* p) { operator delete[](p, std::align_val_t{64}); });
    std::byte* dst = copy.get();
    copy_strided(t, 0, src, dst, elem);
    c.keepalive = copy;
    c.data = copy.get();
    it = copies_.emplace(key, c).first;
  }
  ConstData shared = it->second;
  shared.name = name;
  return shared;
}

}  // namespace aotc::import

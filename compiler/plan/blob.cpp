#include "plan/blob.h"

#include <cstring>

#include "base/diagnostic.h"

namespace aotc::plan {
namespace {

constexpr uint64_t kLineBytes = 64, kPageBytes = 4096;

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

}  // namespace

uint64_t place_weight(uint64_t end, uint64_t bytes) { return round_up(end, bytes >= 16 * kPageBytes ? kPageBytes : kLineBytes); }

std::optional<uint64_t> SharedBlob::find(const Weight& w, const ConstData& c) const {
  for (const Member& m : members_)
    for (const Weight& other : m.own) {
      if (other.bytes != w.bytes || other.panels != w.panels) continue;
      const ConstData& d = (*m.constants)[other.source];
      if (d.bytes == c.bytes && (d.data == c.data || std::memcmp(d.data, c.data, c.bytes) == 0)) return m.begin + other.offset;
    }
  return std::nullopt;
}

void SharedBlob::add(std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants) {
  Member member{{}, round_up(end_, kPageBytes), 0, &constants};
  for (Weight& w : weights) {
    if (const auto at = find(w, constants[w.source])) {
      w.offset = *at;
      continue;
    }
    Weight own = w;
    own.offset = place_weight(member.bytes, w.bytes);
    member.bytes = own.offset + own.bytes;
    w.offset = member.begin + own.offset;
    member.own.push_back(std::move(own));
  }
  if (member.own.empty()) return;
  end_ = member.begin + member.bytes;
  members_.push_back(std::move(member));
}

void SharedBlob::write(std::span<std::byte> out, int threads) const {
  AOTC_CHECK(out.size() == end_, "a blob of {} bytes in {}", end_, out.size());
  uint64_t end = 0;
  for (const Member& m : members_) {
    std::memset(out.data() + end, 0, m.begin - end);
    write_weights(m.own, *m.constants, out.subspan(m.begin, m.bytes), threads);
    end = m.begin + m.bytes;
  }
}

}  // namespace aotc::plan

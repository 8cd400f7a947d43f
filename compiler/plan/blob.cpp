#include "plan/blob.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "aotc/detail/blob_hash.h"
#include "base/diagnostic.h"

namespace aotc::plan {
namespace {

constexpr uint64_t kLineBytes = 64, kPageBytes = 4096;

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

}  // namespace

uint64_t place_weight(uint64_t end, uint64_t bytes) { return round_up(end, bytes >= 16 * kPageBytes ? kPageBytes : kLineBytes); }

uint64_t fingerprint(const ConstData& c) {
  constexpr size_t kPieces = 64, kPieceBytes = 64;
  if (c.bytes <= kPieces * kPieceBytes) return aotc_blob_hash(c.data, c.bytes);
  uint64_t hash = 0;
  for (size_t i = 0; i < kPieces; ++i) {
    const size_t at = (c.bytes - kPieceBytes) / (kPieces - 1) * i;
    hash = hash * 0x9e3779b97f4a7c15u + aotc_blob_hash(c.data + at, kPieceBytes);
  }
  return hash;
}

bool same_content(const ConstData& a, const ConstData& b) {
  return a.bytes == b.bytes && (a.data == b.data || (a.bytes > 0 && std::memcmp(a.data, b.data, a.bytes) == 0));
}

auto SharedBlob::add(std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants, size_t group) -> Added {
  Member member{{}, round_up(end_, kPageBytes), 0, &constants};
  Added added;
  const size_t set = sets_++;
  std::set<uint64_t> taken;  // places of other sets that exchangeable constants of this one have
  for (Weight& w : weights) {
    const ConstData& c = constants[w.source];
    const std::vector<const Place*> places = places_.of(c);
    const auto same = std::find_if(places.begin(), places.end(), [&](const Place* p) {
      if (p->bytes != w.bytes || p->panels != w.panels) return false;
      return !c.exchangeable || (p->set != set && !taken.count(p->offset));
    });
    if (same != places.end()) {
      w.offset = (*same)->offset;
      if (c.exchangeable) taken.insert(w.offset);
      continue;
    }
    Weight own = w;
    own.offset = place_weight(member.bytes, w.bytes);
    member.bytes = own.offset + own.bytes;
    w.offset = member.begin + own.offset;
    added.bytes += w.bytes;
    const auto another = [&](const Place* p) { return p->set != set && p->group == group; };
    if (c.bytes > 0 && std::any_of(places.begin(), places.end(), another)) added.second.push_back({w.name, w.bytes});
    places_.add(c, {w.panels, w.offset, w.bytes, set, group});
    member.own.push_back(std::move(own));
  }
  if (member.own.empty()) return added;
  end_ = member.begin + member.bytes;
  members_.push_back(std::move(member));
  return added;
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

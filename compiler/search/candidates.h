#pragma once
// The table of candidates of a contraction: choices as data, each either with the reason why it does not fit or with an estimate of its
// time, best first.
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "plan/choice.h"
#include "search/contract.h"

namespace aotc::search {

struct Candidate {
  plan::Choice choice;
  Fit fit;
  double cost = 0;  ///< estimated nanoseconds on target.threads_hint threads; comparable only within one contract
};

/// Those that fit come first, in rising cost (the first is what `default` mode takes); then the refused ones.
std::vector<Candidate> candidates(const GemmContract& c, const Target& target);
std::vector<Candidate> candidates(const ConvContract& c, const Target& target);
std::vector<Candidate> candidates(const AttnContract& c, const Target& target);

/// "mc 128 nc 64 kc 256 kp 768 pack_a": for reports and explain.
std::string str(const plan::Choice& c);

}  // namespace aotc::search

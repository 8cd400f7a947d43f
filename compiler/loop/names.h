#pragma once
// Words of the text form for the enums of loop.h; used by the printer and the parser.
#include <array>
#include <optional>
#include <string_view>

#include "loop/loop.h"

namespace aotc::loop {

template <class E, size_t N>
struct Words {
  std::array<std::string_view, N> words;
  constexpr std::string_view name(E e) const { return words[static_cast<size_t>(e)]; }
  constexpr std::optional<E> parse(std::string_view s) const {
    for (size_t i = 0; i < N; ++i)
      if (words[i] == s) return static_cast<E>(i);
    return std::nullopt;
  }
};
inline constexpr Words<ParamRole, 6> kRoles{{"input", "output", "inout", "local", "acc", "operand"}};
inline constexpr Words<InstKind, 8> kInsts{{"op", "const", "index", "load", "store", "reduce", "scan", "check"}};
inline constexpr Words<LaneAxis, 3> kLanes{{"inner", "outer", "none"}};
inline constexpr Words<BufferKind, 6> kBufferKinds{{"input", "output", "constant", "state", "state_out", "temp"}};

}  // namespace aotc::loop

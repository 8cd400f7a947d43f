# aotc_precompiled(TARGET [SET]): compiles TARGET with a precompiled header. Sources include what they use all the same: a build with
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON holds them to it.
#   std (the default)  the standard library and fmt
#   json               these and nlohmann/json
#   torch              std and LibTorch
# All targets of a set that are compiled alike share one header: that of the first.
function(aotc_precompiled target)
  set(std <algorithm> <array> <bit> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <limits> <map> <memory> <numeric> <optional>
    <set> <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)
  set(json ${std} <nlohmann/json.hpp>)
  set(torch ${std} <ATen/ATen.h> <torch/library.h>)
  set(kind std)
  if(ARGC GREATER 1)
    set(kind ${ARGV1})
  endif()
  if(NOT DEFINED ${kind})
    message(FATAL_ERROR "aotc_precompiled: there is no set ${kind}")
  endif()
  get_property(first GLOBAL PROPERTY AOTC_PRECOMPILED_FIRST_${kind})
  get_target_property(type ${target} TYPE)
  if(first AND type STREQUAL "STATIC_LIBRARY")
    target_precompile_headers(${target} REUSE_FROM ${first})
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${${kind}})
  if(type STREQUAL "STATIC_LIBRARY")
    set_property(GLOBAL PROPERTY AOTC_PRECOMPILED_FIRST_${kind} ${target})
  endif()
endfunction()

set(unity OFF)
if(CMAKE_BUILD_TYPE STREQUAL Release)
  set(unity ON)
endif()
option(AOTC_UNITY "Compile the sources of targets that are marked so in groups: a first build takes less time, but a change compiles its whole group" ${unity})

# aotc_grouped(TARGET [ALONE SOURCE ...]): sources of TARGET are compiled in groups, since most of a source's time goes into templates that its
# neighbours instantiate as well. Sources with an unnamed namespace that declares what another of TARGET declares are named as ALONE; so is, for
# the compiler's message "redefinition", one that comes to do so.
function(aotc_grouped target)
  cmake_parse_arguments(arg "" "" ALONE ${ARGN})
  if(NOT AOTC_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

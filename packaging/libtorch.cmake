# aotc_find_libtorch(): the target aotc_libtorch (headers, libtorch_cpu, libc10), AOTC_LIBTORCH_DIR and AOTC_LIBTORCH_VERSION; where several are
# named, aotc_libtorch-2.15 and so on for those after the first, and AOTC_LIBTORCHS and AOTC_LIBTORCH_DIRS, the targets and folders of all.
# LibTorch's own CMake package is not asked: that of a CUDA build demands a CUDA toolkit, of which nothing is needed here.
#
# Looked for in: AOTC_LIBTORCH (a CMake variable, or else one of the environment; several with semicolons) alone when it is set; CMAKE_PREFIX_PATH; what AOTC_PYTHON, the
# python of VIRTUAL_ENV and python3 import. Each may be an environment that has the torch package, the package itself, or an unpacked LibTorch.

# Those that aotc is tried with. Later ones are taken with a warning.
set(AOTC_LIBTORCH_OLDEST 2.11)
set(AOTC_LIBTORCH_NEWEST 2.15)

# The folder with lib/libtorch_cpu.so and include/ATen that `place` names, or an empty string.
function(aotc_libtorch_in place out)
  file(GLOB packages "${place}/lib/python3*/site-packages/torch" "${place}/lib/python3*/dist-packages/torch")
  # share/cmake below the package is what torch.utils.cmake_prefix_path names
  foreach(folder "${place}" "${place}/../.." ${packages})
    if(EXISTS "${folder}/lib/libtorch_cpu.so" AND EXISTS "${folder}/lib/libc10.so" AND EXISTS "${folder}/include/ATen/Functions.h")
      get_filename_component(folder "${folder}" REALPATH)
      set(${out} ${folder} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
endfunction()

# The torch package that a Python imports, or an empty string.
function(aotc_libtorch_of_python python out)
  execute_process(COMMAND ${python} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0], end='')"
                  OUTPUT_VARIABLE package ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(package "")
  endif()
  set(${out} "${package}" PARENT_SCOPE)
endfunction()

# "2.13.0+cpu", as the Python package or the unpacked LibTorch says.
function(aotc_libtorch_version folder out)
  set(${out} "" PARENT_SCOPE)
  if(EXISTS ${folder}/version.py)
    file(STRINGS ${folder}/version.py line REGEX "^__version__ = '")
    string(REGEX REPLACE "^__version__ = '([^']+)'.*" "\\1" version "${line}")
    set(${out} "${version}" PARENT_SCOPE)
  elseif(EXISTS ${folder}/build-version)
    file(STRINGS ${folder}/build-version version LIMIT_COUNT 1)
    set(${out} "${version}" PARENT_SCOPE)
  endif()
endfunction()

function(aotc_find_libtorch)
  set(AOTC_LIBTORCH "$ENV{AOTC_LIBTORCH}" CACHE STRING
      "LibTorch: a Python environment with torch, its torch package or an unpacked LibTorch; several with semicolons")
  set(places ${AOTC_LIBTORCH})
  if(NOT places)
    set(places ${CMAKE_PREFIX_PATH} $ENV{CMAKE_PREFIX_PATH})
    string(REPLACE ":" ";" places "${places}")
    foreach(python ${AOTC_PYTHON} $ENV{VIRTUAL_ENV}/bin/python python3)
      aotc_libtorch_of_python(${python} package)
      list(APPEND places ${package})
    endforeach()
  endif()
  set(found "")
  foreach(place ${places})
    aotc_libtorch_in("${place}" folder)
    if(folder)
      list(APPEND found ${folder})
      if(NOT AOTC_LIBTORCH)
        break()
      endif()
    elseif(AOTC_LIBTORCH)
      message(FATAL_ERROR "AOTC_LIBTORCH: ${place} has no LibTorch")
    endif()
  endforeach()
  if(NOT found)
    list(JOIN places ", " places)
    message(FATAL_ERROR "LibTorch was not found (looked in: ${places}). packaging/setup.sh installs it; or name a Python environment that has "
                        "torch with -DAOTC_LIBTORCH=FOLDER.")
  endif()
  set(targets "")
  foreach(folder IN LISTS found)
    aotc_libtorch_version(${folder} version)
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" interface "${version}")
    if(version AND interface VERSION_LESS AOTC_LIBTORCH_OLDEST)
      message(FATAL_ERROR "${folder} is LibTorch ${version}; aotc needs ${AOTC_LIBTORCH_OLDEST} or newer")
    elseif(version AND interface VERSION_GREATER AOTC_LIBTORCH_NEWEST)
      message(WARNING "${folder} is LibTorch ${version}; ${AOTC_LIBTORCH_NEWEST} is the newest that aotc was tried with")
    endif()
    message(STATUS "LibTorch ${version}: ${folder}")
    set(target aotc_libtorch)
    if(targets)
      set(target aotc_libtorch-${interface})
    else()
      set(AOTC_LIBTORCH_DIR "${folder}" CACHE INTERNAL "the folder with LibTorch's include and lib")
      set(AOTC_LIBTORCH_VERSION "${version}" CACHE INTERNAL "")
    endif()
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${folder}/include
                          INTERFACE_LINK_LIBRARIES "${folder}/lib/libtorch_cpu.so;${folder}/lib/libc10.so")
    list(APPEND targets ${target})
  endforeach()
  set(AOTC_LIBTORCHS ${targets} PARENT_SCOPE)
  set(AOTC_LIBTORCH_DIRS ${found} PARENT_SCOPE)
endfunction()

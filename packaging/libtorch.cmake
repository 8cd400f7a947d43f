# aotc_find_libtorch(): the target aotc_libtorch (headers, libtorch_cpu, libc10), AOTC_LIBTORCH_DIR and AOTC_LIBTORCH_VERSION. LibTorch's own
# CMake package is not asked: that of a CUDA build demands a CUDA toolkit, of which nothing is needed here.
#
# Looked for in: AOTC_LIBTORCH (a CMake variable, or else one of the environment) alone when it is set; CMAKE_PREFIX_PATH; what AOTC_PYTHON, the
# python of VIRTUAL_ENV and python3 import. Each may be an environment that has the torch package, the package itself, or an unpacked LibTorch.

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
  set(AOTC_LIBTORCH "$ENV{AOTC_LIBTORCH}" CACHE PATH "LibTorch: a Python environment with torch, its torch package or an unpacked LibTorch")
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
    aotc_libtorch_in("${place}" found)
    if(found)
      break()
    endif()
  endforeach()
  if(NOT found)
    list(JOIN places ", " places)
    message(FATAL_ERROR "LibTorch was not found (looked in: ${places}). packaging/setup.sh installs it; or name a Python environment that has "
                        "torch with -DAOTC_LIBTORCH=FOLDER.")
  endif()
  aotc_libtorch_version(${found} version)
  if(version AND version VERSION_LESS 2.11)
    message(FATAL_ERROR "${found} is LibTorch ${version}; aotc needs 2.11 or newer")
  endif()
  message(STATUS "LibTorch ${version}: ${found}")
  add_library(aotc_libtorch INTERFACE IMPORTED GLOBAL)
  set_target_properties(aotc_libtorch PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${found}/include
                        INTERFACE_LINK_LIBRARIES "${found}/lib/libtorch_cpu.so;${found}/lib/libc10.so")
  set(AOTC_LIBTORCH_DIR "${found}" CACHE INTERNAL "the folder with LibTorch's include and lib")
  set(AOTC_LIBTORCH_VERSION "${version}" CACHE INTERNAL "")
endfunction()

# aotc_older_libstdcxx(NAME): a library to link with in place of libstdc++: what a shared libstdc++ of GCC 8 has comes of the machine's shared one,
# and what is newer of the compiler's static one, into the program and not visible outside. So the program runs with any libstdc++ from GCC 8,
# and shares it with LibTorch. Made as Red Hat's toolsets for old systems are: a stand-in of the shared library with the older versions' symbols,
# then the archive. The target has the property AOTC_STAND_IN.
function(aotc_older_libstdcxx name)
  set(newest_GLIBCXX 3.4.24)  # GCC 7 and 8.0; what manylinux_2_28 and PEP 600's later policies all allow
  set(newest_CXXABI 1.3.11)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so OUTPUT_VARIABLE shared OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_program(AOTC_READELF readelf REQUIRED)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C ${AOTC_READELF} -W --dyn-syms ${shared} OUTPUT_VARIABLE table RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "readelf cannot read ${shared}")
  endif()
  # Value Size Type Bind Vis Ndx Name@@VERSION
  string(REGEX MATCHALL "[^\n]+ [0-9]+ (FUNC|IFUNC|OBJECT|TLS|NOTYPE) +[A-Z]+ +DEFAULT +[0-9]+ [A-Za-z0-9_.$]+@@[A-Z0-9_.]+" rows "${table}")
  set(code "    .text\n")
  set(versions "")
  foreach(row IN LISTS rows)
    string(REGEX MATCH " ([0-9]+) ([A-Z]+) +[A-Z]+ +DEFAULT +[0-9]+ (.+)@@([A-Z]+)_?([0-9.]*)([A-Z0-9_]*)$" all "${row}")
    set(size ${CMAKE_MATCH_1})
    set(type ${CMAKE_MATCH_2})
    set(symbol ${CMAKE_MATCH_3})
    set(kind ${CMAKE_MATCH_4})
    set(number ${CMAKE_MATCH_5})
    if(NOT number OR NOT newest_${kind} OR CMAKE_MATCH_6 OR number VERSION_GREATER newest_${kind})
      continue()
    endif()
    set(version ${kind}_${number})
    list(APPEND versions ${version})
    string(APPEND symbols_${version} "    ${symbol};\n")
    if(type STREQUAL TLS)
      string(APPEND code "    .section .tdata,\"awT\",@progbits\n    .globl ${symbol}\n    .type ${symbol}, @tls_object\n"
                         "    .size ${symbol}, ${size}\n${symbol}:\n    .zero ${size}\n    .text\n")
    elseif(type STREQUAL OBJECT)
      string(APPEND code "    .data\n    .balign 32\n    .globl ${symbol}\n    .type ${symbol}, @object\n    .size ${symbol}, ${size}\n"
                         "${symbol}:\n    .zero ${size}\n    .text\n")
    else()
      string(APPEND code "    .globl ${symbol}\n    .type ${symbol}, @function\n${symbol}:\n")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES versions)
  set(map "")
  foreach(version IN LISTS versions)
    string(APPEND map "${version} {\n  global:\n${symbols_${version}}};\n")
  endforeach()
  set(folder ${CMAKE_BINARY_DIR}/runtime/glibc/${name})
  file(CONFIGURE OUTPUT ${folder}/stand_in.S CONTENT "${code}    .byte 0\n    .section .note.GNU-stack,\"\",%progbits\n" @ONLY)
  file(CONFIGURE OUTPUT ${folder}/stand_in.map CONTENT "${map}" @ONLY)
  add_library(${name}_stand_in SHARED ${folder}/stand_in.S)
  set_target_properties(${name}_stand_in PROPERTIES PREFIX "" OUTPUT_NAME libstdc++.so.6 SUFFIX "" NO_SONAME ON LINKER_LANGUAGE C
                        LINK_DEPENDS ${folder}/stand_in.map LIBRARY_OUTPUT_DIRECTORY ${folder})
  target_link_options(${name}_stand_in PRIVATE -nostdlib -Wl,-soname,libstdc++.so.6 -Wl,--version-script=${folder}/stand_in.map -Wl,--build-id=none
                      -Wl,--hash-style=gnu -Wl,-s)
  add_library(${name} INTERFACE)
  set_target_properties(${name} PROPERTIES AOTC_STAND_IN ${folder}/libstdc++.so.6)
  # Each once and in this order; by path, so that nothing searches for them.
  target_link_libraries(${name} INTERFACE -Wl,--push-state,--no-as-needed,${folder}/libstdc++.so.6,--pop-state -Wl,--exclude-libs,libstdc++.a
                        -l:libstdc++.a -lgcc_s)
  add_dependencies(${name} ${name}_stand_in)
endfunction()

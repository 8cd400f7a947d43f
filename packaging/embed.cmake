# aotc_embed(TARGET name=path ...): makes the files part of TARGET; emit/embedded.h finds them by name. TARGET is rebuilt when a
# file changes.
function(aotc_embed target)
  set(assembly "    .section .rodata\n")
  set(table "")
  set(count 0)
  foreach(pair ${ARGN})
    string(REGEX MATCH "^([^=]+)=(.+)$" matched "${pair}")
    set(name ${CMAKE_MATCH_1})
    set(path ${CMAKE_MATCH_2})
    string(APPEND assembly
      "    .balign 16\n    .globl aotc_embed_${count}_begin\n    .hidden aotc_embed_${count}_begin\naotc_embed_${count}_begin:\n"
      "    .incbin \"${path}\"\n    .globl aotc_embed_${count}_end\n    .hidden aotc_embed_${count}_end\naotc_embed_${count}_end:\n    .byte 0\n")
    string(APPEND table "AOTC_EMBEDDED(${count}, \"${name}\")\n")
    list(APPEND paths ${path})
    math(EXPR count "${count} + 1")
  endforeach()
  string(APPEND assembly "    .section .note.GNU-stack,\"\",%progbits\n")
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded.S CONTENT "${assembly}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/embedded_list.inc CONTENT "${table}" @ONLY)
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded.S PROPERTIES GENERATED ON OBJECT_DEPENDS "${paths}" LANGUAGE ASM)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded.S)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()

#include <catch2/catch.hpp>

#include "emit/find_compiler.h"

using aotc::emit::unfit_compiler;

TEST_CASE("compilers that are too old are known by what they say of themselves", "[emit]") {
  for (const char* version :
       {"g++ (Debian 12.2.0-14) 12.2.0", "g++-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0", "c++ (GCC) 13.2.1 20231205 (Red Hat 13.2.1-6)",
        "x86_64-conda-linux-gnu-g++ (conda-forge gcc 14.1.0-0) 14.1.0", "g++ (GCC) 16.0.0", "g++ (Gentoo 12.3.1_p20230526 p2) 12.3.1"})
    CHECK(unfit_compiler(version) == "");
  for (const char* version : {"g++ (Debian 10.2.1-6) 10.2.1 20210110", "g++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0",
                              "g++ (GCC) 8.5.0 20210514 (Red Hat 8.5.0-4)", "c++ (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)"})
    CHECK(unfit_compiler(version) == "is too old");
  for (const char* version :
       {"clang version 16.0.6 (15~deb12u1)", "Debian clang version 14.0.6", "Apple clang version 15.0.0 (clang-1500.3.9.4)"})
    CHECK(unfit_compiler(version) == "is clang");
  for (const char* version : {"", "a compiler", "a compiler (its name) ", "g++ (GCC) next"}) CHECK(unfit_compiler(version) == "");
}

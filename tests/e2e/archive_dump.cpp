// archive_dump model.pt2: the imported program as text, or the diagnostic and its exit code.
#include <cstdio>

#include "import/read_archive.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    std::fputs(aotc::import::dump(aotc::import::read_archive(argv[1])).c_str(), stdout);
    return 0;
  } catch (const aotc::Diagnostic& d) {
    std::fprintf(stderr, "%s\n", d.what());
    return static_cast<int>(d.code());
  } catch (const aotc::InternalError& e) {
    std::fprintf(stderr, "internal error: %s\n", e.what());
    return static_cast<int>(aotc::ExitCode::internal);
  }
}

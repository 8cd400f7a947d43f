// seal_toy FILE [SECTION]: seals a hand-written artifact in place, as aotc seals what it links. SECTION: of its weights, where it has them.
#include "emit/seal.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  aotc::emit::seal_artifact(argv[1], {argc > 2 ? argv[2] : "", 0, std::nullopt});
  return 0;
}

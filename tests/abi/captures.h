#pragma once
// What AOTC_CAPTURE leaves in a folder, as the tests read it.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

/// A folder, and the variables that make models capture into it.
class Captures {
 public:
  explicit Captures(const char* runs = nullptr, const char* limit = nullptr)
      : folder(std::filesystem::temp_directory_path() / ("aotc-captures-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder);
    setenv("AOTC_CAPTURE", folder.c_str(), 1);
    if (runs) setenv("AOTC_CAPTURE_RUNS", runs, 1);
    if (limit) setenv("AOTC_CAPTURE_LIMIT", limit, 1);
  }
  ~Captures() {
    for (const char* name : {"AOTC_CAPTURE", "AOTC_CAPTURE_RUNS", "AOTC_CAPTURE_LIMIT"}) unsetenv(name);
    std::filesystem::remove_all(folder);
  }
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  /// Names of all that is in the folder, hidden or not.
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) all.insert(entry.path().filename().string());
    return all;
  }
  /// Of that run of this process.
  std::filesystem::path run(int number, const char* model = "toy") const {
    return folder / (std::string(model) + "-" + std::to_string(getpid()) + "-" + std::to_string(number));
  }
  std::filesystem::path folder;
};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// The elements of a .npy, where its header has these words.
template <class T>
std::vector<T> elements_of(const std::filesystem::path& path, const std::string& words) {
  const std::string file = text_of(path);
  if (file.size() < 64 || file.compare(0, 6, "\x93NUMPY") != 0) return {};
  const size_t begin = 10 + static_cast<unsigned char>(file[8]) + 256 * static_cast<unsigned char>(file[9]);
  if (begin % 64 != 0 || file[begin - 1] != '\n' || !has(file.substr(0, begin), words)) return {};
  std::vector<T> out((file.size() - begin) / sizeof(T));
  std::memcpy(out.data(), file.data() + begin, out.size() * sizeof(T));
  return out;
}

#pragma once
// Libraries of the machine that aotc uses where they are there, and is not linked with.
#include <dlfcn.h>

#include <cstring>
#include <initializer_list>

namespace aotc {

/// Stays open as long as the process runs: functions that were taken from it are never gone.
class SystemLibrary {
 public:
  /// The first of the names that the loader finds.
  explicit SystemLibrary(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (!handle_) handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle_) missing_ = *names.begin();
  }
  template <class Function>
  void take(const char* name, Function*& to) {
    if (missing_) return;
    if (void* p = dlsym(handle_, name); p)
      std::memcpy(static_cast<void*>(&to), &p, sizeof p);
    else
      missing_ = name;
  }
  /// The library or the function that the machine lacks; nullptr: nothing.
  const char* missing() const { return missing_; }

 private:
  void* handle_ = nullptr;
  const char* missing_ = nullptr;
};

}  // namespace aotc

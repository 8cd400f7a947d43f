#pragma once
// The few atomic operations of the runtime, over compiler builtins (the C++ headers bring symbols of the host's libstdc++).
#include <stdint.h>

namespace aotc::rt {

template <class T>
T load_acquire(const T* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <class T>
T load_relaxed(const T* p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <class T>
void store_release(T* p, T v) {
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
template <class T>
void store_relaxed(T* p, T v) {
  __atomic_store_n(p, v, __ATOMIC_RELAXED);
}
template <class T>
T exchange(T* p, T v) {
  return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
/// False, with what is there in *seen, where that is not what was expected.
template <class T>
bool compare_exchange(T* p, T* seen, T v) {
  return __atomic_compare_exchange_n(p, seen, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
/// What is left.
template <class T>
T subtract(T* p, T v) {
  return __atomic_sub_fetch(p, v, __ATOMIC_SEQ_CST);
}
inline void full_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void spin_pause() { __builtin_ia32_pause(); }

}  // namespace aotc::rt

#pragma once
// The measuring worker: loads artifacts through their C ABI and times runs. Needs libc and, for GPU artifacts, the driver.

namespace aotc::search {

/// A JSON job a line on stdin, an answer a line on stdout, until stdin ends. Returns the exit code.
///   {"artifact": path, "shapes": [[dims of input 0], ...], "candidate": n, "candidates": m, "threads": t, "seconds": s, "cold_bytes": b}
/// and, where needed, "values": {"2": [8, 512]}: the elements of input 2, of int64, from 8 to 512 in equal steps; other integers are 0.
/// Input number `candidate` has one dimension: run number i of m gives it the size i and so picks the artifact's variant i. Between two
/// timed runs b bytes of other memory are read: what the rest of a model does to the caches.
///   {"timings": [{"ns": lower quartile, "spread": (upper - lower quartile) / median} or {"error": why}, ...]} or {"error": why}
int run_measure_worker();

}  // namespace aotc::search

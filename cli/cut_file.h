#pragma once
// Files that lose their end while they are mapped: what reads them there gets SIGBUS.

namespace aotc::cli {

/// From now on that ends the process with ExitCode::io and a message that names the file. SIGBUS for any other reason ends it as before.
void watch_for_cut_files();
/// What ends the process then, called in a signal handler: null is _exit(ExitCode::io).
void leave_cut_file_by(void (*leave)());

}  // namespace aotc::cli

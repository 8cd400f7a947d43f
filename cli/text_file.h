#pragma once
#include <string>

namespace aotc::cli {

/// Written beside its place, then renamed: a reader finds the file that was there or this one, whole. Throws Diagnostic (io).
void write_text_file(const std::string& path, const std::string& text);

/// Of a text whose bytes may be anything: UTF-8, what is none as U+FFFD; &, <, >, quotes escaped, without characters that XML forbids.
std::string xml_escaped(const std::string& text);

}  // namespace aotc::cli

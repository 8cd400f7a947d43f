#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "about.h"
#include "package/package.h"
#include "package/verbs.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string package, key, extract;
};

/// Who signed it, as far as that was asked.
std::string signature_text(const CheckedPackage& p) {
  if (!p.has_signature) return "not signed";
  return fmt::format("{} the key {}", p.signature_checked ? "signed with" : "signature not checked (--key): it names", p.key);
}

}  // namespace

Run add_verify_package(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "package", o->package, "model.aotcpkg.tar, or the folder that it was unpacked to").required();
  add_option(app, "--key", o->key, "public key in PEM of the signer");
  add_option(app, "--extract", o->extract, "then write the files into this folder, which must not exist");
  return [o](const Common& common) {
    const Package package(o->package);
    const CheckedPackage checked = check_package(package, o->key);
    if (!o->extract.empty()) unpack(package, o->extract);
    if (common.json) {
      nlohmann::json j = {{"package", o->package}, {"artifact", checked.artifact}, {"files", nlohmann::json::array()}};
      for (const FileDigest& f : checked.files) j["files"].push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", hex(f.sha256)}});
      j["signature"] = checked.signature_checked ? "verified" : checked.has_signature ? "unchecked" : "none";
      if (checked.has_signature) j["key"] = checked.key;
      print_result(std::move(j), about(common));
    } else if (!common.quiet) {
      fmt::print("{} is whole: {}\n", o->package, checked.artifact);
      for (const FileDigest& f : checked.files) fmt::print("  {}  {} ({} bytes)\n", hex(f.sha256), f.name, f.bytes);
      fmt::print("  {}\n", signature_text(checked));
    }
    return 0;
  };
}

}  // namespace aotc::cli

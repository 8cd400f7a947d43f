#include "package/signature.h"

#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "package/libcrypto.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

constexpr const char* kMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr const char* kPayloadType = "application/vnd.in-toto+json";
constexpr const char* kStatement = "https://in-toto.io/Statement/v1";
constexpr const char* kPredicate = "https://model_signing/signature/v1.0";

/// The bytes that are signed for a payload (DSSE's pre-authentication encoding).
std::string encoded(std::string_view payload) {
  return fmt::format("DSSEv1 {} {} {} {}", std::string_view(kPayloadType).size(), kPayloadType, payload.size(), payload);
}

json resources(const std::vector<FileDigest>& files, std::string& root) {
  json rows = json::array();
  Sha256 all;
  for (const FileDigest& f : files) {
    rows.push_back({{"name", f.name}, {"algorithm", "sha256"}, {"digest", hex(f.sha256)}});
    all.add({reinterpret_cast<const char*>(f.sha256.data()), f.sha256.size()});
  }
  root = hex(all.finish());
  return rows;
}

/// The object has these keys and no others.
bool has_keys(const json& j, std::initializer_list<const char*> needed, std::initializer_list<const char*> allowed = {}) {
  if (!j.is_object()) return false;
  size_t known = 0;
  for (const char* key : needed) {
    if (!j.contains(key)) return false;
    ++known;
  }
  for (const char* key : allowed) known += j.contains(key);
  return known == j.size();
}

}  // namespace

std::string sign_files(const std::vector<FileDigest>& files, const std::string& model, const std::string& key_file) {
  const SigningKey key = SigningKey::read_private(key_file);
  std::string root;
  const json rows = resources(files, root);
  const json statement = {
      {"_type", kStatement},
      {"subject", {{{"name", model}, {"digest", {{"sha256", root}}}}}},
      {"predicateType", kPredicate},
      {"predicate",
       {{"serialization", {{"method", "files"}, {"hash_type", "sha256"}, {"allow_symlinks", false}, {"ignore_paths", {kSignature}}}},
        {"resources", rows}}}};
  const std::string payload = statement.dump();
  const json bundle = {
      {"mediaType", kMediaType},
      {"verificationMaterial", {{"publicKey", {{"hint", hex(sha256(key.public_pem()))}}}}},
      {"dsseEnvelope",
       {{"payload", base64(payload)}, {"payloadType", kPayloadType}, {"signatures", {{{"sig", base64(key.sign(encoded(payload)))}}}}}}};
  return bundle.dump();
}

Signature read_signature(const std::string& path, std::string_view text, const std::vector<FileDigest>& files) {
  const auto fail = [&](const std::string& what) {
    return Diagnostic(ExitCode::failed, Loc{path, "", "", ""}, "has a signature that " + what);
  };
  const json bundle = parse_document(text);
  Signature out;
  if (!has_keys(bundle, {"mediaType", "verificationMaterial", "dsseEnvelope"}) || bundle["mediaType"] != kMediaType)
    throw fail(fmt::format("is no Sigstore bundle ({})", kMediaType));
  const json &material = bundle["verificationMaterial"], &envelope = bundle["dsseEnvelope"];
  if (!has_keys(material, {"publicKey"}, {"tlogEntries"}) || !has_keys(material["publicKey"], {"hint"}) ||
      !material["publicKey"]["hint"].is_string() || (material.contains("tlogEntries") && material["tlogEntries"] != json::array()))
    throw fail("is of another kind than one by a key");
  out.key = material["publicKey"]["hint"].get<std::string>();
  if (!has_keys(envelope, {"payload", "payloadType", "signatures"}) || envelope["payloadType"] != kPayloadType ||
      !envelope["payload"].is_string() || !envelope["signatures"].is_array() || envelope["signatures"].size() != 1)
    throw fail("has no envelope as DSSE has it, with one signature");
  const json& one = envelope["signatures"][0];
  if (!has_keys(one, {"sig"}, {"keyid"}) || !one["sig"].is_string() || (one.contains("keyid") && one["keyid"] != "") ||
      !from_base64(one["sig"].get_ref<const std::string&>(), out.value) ||
      !from_base64(envelope["payload"].get_ref<const std::string&>(), out.payload))
    throw fail("has an envelope that is malformed");
  const json statement = parse_document(out.payload);
  std::string root;
  const json rows = resources(files, root);
  if (!has_keys(statement, {"_type", "subject", "predicateType", "predicate"}) || statement["_type"] != kStatement ||
      statement["predicateType"] != kPredicate || !has_keys(statement["predicate"], {"serialization", "resources"}))
    throw fail("is no statement of model signing 1.0");
  const json& subject = statement["subject"];
  if (statement["predicate"]["resources"] != rows || !subject.is_array() || subject.size() != 1 ||
      !has_keys(subject[0], {"name", "digest"}) || subject[0]["digest"] != json({{"sha256", root}}))
    throw fail("is about other files");
  return out;
}

void check_signature(const std::string& path, const Signature& signature, const std::string& key_file) {
  const SigningKey key = SigningKey::read_public(key_file);
  const auto fail = [&](const std::string& what) { return Diagnostic(ExitCode::failed, Loc{path, "", "", ""}, what); };
  if (const std::string own = hex(sha256(key.public_pem())); own != signature.key)
    throw fail("was signed with another key").note(fmt::format("its signature names the key {}, {} is {}", signature.key, key_file, own));
  if (!key.verifies(encoded(signature.payload), signature.value)) throw fail("has a signature that this key did not make");
}

}  // namespace aotc::cli

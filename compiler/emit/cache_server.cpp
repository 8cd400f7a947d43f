#include "emit/cache_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/diagnostic.h"

namespace aotc::emit {
namespace {

/// Before the object's bytes. Numbers are little-endian, as those of all machines that aotc runs on.
struct Envelope {
  char magic[8];
  Digest key, content;  ///< content: SHA-256 of the bytes
  uint64_t bytes;
};
static_assert(sizeof(Envelope) == 80, "part of the protocol");
constexpr char kNetMagic[8] = {'A', 'O', 'T', 'C', 'N', 'E', 'T', '1'};
constexpr uint64_t kMostWaiting = 128 << 20;  // bytes

Digest sha256(std::string_view bytes) {
  Sha256 h;
  h.add(bytes);
  return h.finish();
}

std::string sealed(const Digest& key, std::string_view bytes) {
  Envelope e{{}, key, sha256(bytes), bytes.size()};
  std::memcpy(e.magic, kNetMagic, sizeof kNetMagic);
  std::string all(reinterpret_cast<const char*>(&e), sizeof e);
  return all += bytes;
}

/// What is wrong with an answer; "" when its object may be used.
std::string fault(const Digest& key, std::string_view answer) {
  Envelope e;
  if (answer.size() < sizeof e) return "the answer is no object of aotc's";
  std::memcpy(&e, answer.data(), sizeof e);
  answer.remove_prefix(sizeof e);
  if (std::memcmp(e.magic, kNetMagic, sizeof kNetMagic) != 0) return "the answer is no object of aotc's";
  if (e.key != key) return "the answer is another object";
  if (e.bytes != answer.size()) return fmt::format("the object has {} bytes, not {}", answer.size(), e.bytes);
  return e.content == sha256(answer) ? std::string() : "the object is not what its SHA-256 says";
}

/// The URL without slashes at its end. Throws Diagnostic (usage).
CacheServerOptions checked(CacheServerOptions o) {
  std::string& url = o.url;
  const auto refuse = [](const char* why) {
    throw Diagnostic(ExitCode::usage, {}, fmt::format("--cache: {}", why)).note("expected http://HOST:PORT/PATH or https://HOST/PATH");
  };
  if (url.rfind("http://", 0) != 0 && url.rfind("https://", 0) != 0) refuse("a URL of neither http nor https");
  const std::string_view rest = std::string_view(url).substr(url.find("://") + 3), server = rest.substr(0, rest.find('/'));
  if (server.find('@') != std::string_view::npos) refuse("a URL with a name or a password in it: put a token into AOTC_CACHE_TOKEN");
  if (server.empty() || server[0] == ':') refuse("a URL without a server");
  if (std::any_of(url.begin(), url.end(), [](unsigned char c) { return c <= ' ' || c >= 127 || c == '?' || c == '#'; }))
    refuse("a URL with '?', '#', a blank or a character beyond ASCII");
  url.erase(url.find_last_not_of('/') + 1);
  return o;
}

}  // namespace

CacheServer::CacheServer(CacheServerOptions options)
    : options_(checked(std::move(options))), http_({options_.timeout_s, kLargest + sizeof(Envelope), options_.token}) {}

CacheServer::~CacheServer() {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    waiting_.clear();
  }
  settle();
}

std::string CacheServer::at(const Digest& key) const { return options_.url + "/" + hex(key); }

void CacheServer::fail(Side side, const Digest& key, const std::string& why, bool answered) {
  const std::lock_guard<std::mutex> guard(lock_);
  Count& c = counts_[side];
  if (c.failures++ == 0) c.first = fmt::format("{} {}: {}", side == reading ? "GET" : "PUT", hex(key), why);
  ++told_.failed;
  if (c.failures < kFailures) return;
  c.over = true;
  if (!answered)
    for (Count& either : counts_) either.over = true;
}

std::optional<std::string> CacheServer::take(const Digest& key) {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    if (counts_[reading].over) return std::nullopt;
    ++counts_[reading].requests;
  }
  HttpAnswer answer = http_.get(at(key));
  if (answer.status == 404) {
    const std::lock_guard<std::mutex> guard(lock_);
    ++told_.misses;
    return std::nullopt;
  }
  std::string why = answer.status == 200 ? fault(key, answer.body) : answer.status ? fmt::format("HTTP {}", answer.status) : answer.why;
  if (!why.empty()) {
    fail(reading, key, why, answer.status != 0);
    return std::nullopt;
  }
  {
    const std::lock_guard<std::mutex> guard(lock_);
    ++told_.hits;
  }
  answer.body.erase(0, sizeof(Envelope));
  return std::move(answer.body);
}

void CacheServer::put(const Digest& key, std::string bytes) {
  if (options_.read_only || bytes.size() > kLargest) return;
  bool begins, too_much;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    if (counts_[writing].over) return;
    waiting_bytes_ += bytes.size();
    waiting_.emplace_back(key, std::move(bytes));
    begins = !storing_, too_much = waiting_bytes_ > kMostWaiting;
    storing_ = true;
  }
  if (begins) {
    const std::lock_guard<std::mutex> guard(writer_lock_);
    if (writer_.joinable()) writer_.join();
    writer_ = std::thread([this] { store_all(); });
  }
  if (too_much) settle();
}

void CacheServer::store_all() {
  for (;;) {
    std::pair<Digest, std::string> next;
    {
      const std::lock_guard<std::mutex> guard(lock_);
      if (counts_[writing].over) waiting_.clear();
      storing_ = !waiting_.empty();
      if (!storing_) {
        waiting_bytes_ = 0;
        return;
      }
      next = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= next.second.size();
      ++counts_[writing].requests;
    }
    const HttpAnswer answer = http_.put(at(next.first), sealed(next.first, next.second));
    const bool done = answer.status >= 200 && answer.status < 300;
    if (!done) fail(writing, next.first, answer.status ? fmt::format("HTTP {}", answer.status) : answer.why, answer.status != 0);
    const std::lock_guard<std::mutex> guard(lock_);
    told_.stored += done;
  }
}

/// Until the writer has ended.
void CacheServer::settle() {
  const std::lock_guard<std::mutex> guard(writer_lock_);
  if (writer_.joinable()) writer_.join();
}

CacheServer::Told CacheServer::finish() {
  settle();
  const std::lock_guard<std::mutex> guard(lock_);
  Told told = told_;
  if (told.failed == 0) return told;
  told.warning =
      fmt::format("the cache {}: {} of {} requests failed", options_.url, told.failed, counts_[0].requests + counts_[1].requests);
  const char* before = " (";
  for (const Count& c : counts_)
    if (!c.first.empty()) {
      told.warning += before + c.first;
      before = "; ";
    }
  told.warning += "); what it did not give was compiled here";
  if (counts_[reading].over || counts_[writing].over)
    told.warning += fmt::format(", and it is not {} any more in this build", !counts_[writing].over  ? "read"
                                                                             : counts_[reading].over ? "asked anything"
                                                                                                     : "written to");
  return told;
}

}  // namespace aotc::emit

#pragma once
// Unary calls of gRPC, one after another over one connection: HTTP/2 without TLS (RFC 9113), headers without a table (RFC 7541).
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

class GrpcCalls {
 public:
  /// On a connected socket. `method`: "/package.Service/Method". False: the connection is lost.
  bool begin(int fd, const std::string& method) {
    fd_ = fd;
    // What is said again in each call. The numbers are places of the static table: POST, http, :path, :authority, content-type.
    headers_ = std::string("\x83\x86\x04") + text(method) + '\x01' + text("localhost") + '\0' + text("te") + text("trailers") + "\x0f\x10" +
               text("application/grpc");
    const auto setting = [](uint32_t name, uint32_t value) { return number(name, 2) + number(value, 4); };
    // No table of headers, no push, and a window that no answer fills.
    return put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, setting(1, 0) + setting(2, 0) + setting(4, kMostWindow)) +
               frame(kWindowUpdate, 0, 0, number(kMostWindow - kFirstWindow, 4)));
  }

  /// What a call sends for a message.
  static std::string wrapped(const std::string& message) {
    return std::string(1, '\0') + number(static_cast<uint32_t>(message.size()), 4) + message;
  }

  /// One call. False: its status is not OK, or the connection is lost. The answer is wrapped, too.
  bool call(const std::string& message, std::string* answer) {
    if (going_) return false;
    stream_ += stream_ ? 2 : 1;
    window_ = first_window_;
    answer_ = answer;
    answer->clear(), status_.clear();
    ended_ = false;
    std::string out = frame(kHeaders, kEndHeaders, stream_, headers_);
    for (size_t at = 0; at < message.size();) {
      const int64_t room = std::min({window_, all_window_, most_frame_, static_cast<int64_t>(message.size() - at)});
      if (room <= 0) {
        if (!put(out) || !take()) return false;
        out.clear();
        continue;
      }
      const auto n = static_cast<size_t>(room);
      out += frame(kData, at + n == message.size() ? kEndStream : 0, stream_, message.substr(at, n));
      at += n, window_ -= room, all_window_ -= room;
    }
    if (!put(out)) return false;
    while (!ended_)
      if (!take()) return false;
    return status_ == "0" && answer->size() >= 5 && answer->substr(1, 4) == number(static_cast<uint32_t>(answer->size() - 5), 4);
  }

 private:
  enum Kind : uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6, kGoAway = 7, kWindowUpdate = 8, kContinuation = 9 };
  enum Flag : uint8_t { kAck = 1, kEndStream = 1, kEndHeaders = 4, kPadded = 8, kPriority = 32 };
  static constexpr uint32_t kFirstWindow = 65535, kMostWindow = 0x7fffffff;

  static std::string number(uint32_t value, int bytes) {
    std::string out;
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
    return out;
  }
  static uint32_t number(const std::string& from, size_t at, size_t bytes) {
    uint32_t value = 0;
    for (size_t i = at; i < at + bytes; ++i) value = value << 8 | static_cast<uint8_t>(from[i]);
    return value;
  }
  static std::string frame(Kind kind, int flags, uint32_t stream, const std::string& payload) {
    return number(static_cast<uint32_t>(payload.size()), 3) + static_cast<char>(kind) + static_cast<char>(flags) + number(stream, 4) +
           payload;
  }
  static std::string text(const std::string& t) { return static_cast<char>(t.size()) + t; }  // below 127 bytes

  bool put(const std::string& bytes) const {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  bool need(size_t bytes) {
    while (got_.size() < bytes) {
      char buffer[65536];
      const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) return false;
      got_.append(buffer, static_cast<size_t>(n));
    }
    return true;
  }

  /// The next frame. False: it is none of a connection that goes on.
  bool take() {
    if (!need(9)) return false;
    const size_t length = number(got_, 0, 3);
    if (!need(9 + length)) return false;
    const auto kind = static_cast<uint8_t>(got_[3]);
    const int flags = static_cast<uint8_t>(got_[4]);
    const uint32_t stream = number(got_, 5, 4) & kMostWindow;
    std::string payload = got_.substr(9, length);
    got_.erase(0, 9 + length);
    if ((kind == kData || kind == kHeaders) && (flags & kPadded)) {
      const size_t pad = payload.empty() ? 0 : static_cast<uint8_t>(payload[0]);
      if (payload.size() < 1 + pad) return false;
      payload = payload.substr(1, payload.size() - 1 - pad);
    }
    if (kind == kHeaders && (flags & kPriority)) payload.erase(0, 5);
    const bool ours = stream == stream_;
    switch (kind) {
      case kData:
        if (ours) *answer_ += payload;
        if (ours && (flags & kEndStream)) ended_ = true;
        consumed_ += static_cast<uint32_t>(length);
        if (consumed_ < kMostWindow / 2) return true;
        return put(frame(kWindowUpdate, 0, 0, number(std::exchange(consumed_, 0), 4)));
      case kHeaders: ends_ = flags & kEndStream, block_.clear(); [[fallthrough]];
      case kContinuation:
        block_ += payload;
        if (!(flags & kEndHeaders) || !ours) return true;
        ended_ = ends_;
        return read(block_);
      case kReset: return !ours;
      case kSettings:
        if (flags & kAck) return true;
        for (size_t at = 0; at + 6 <= payload.size(); at += 6) {
          const int64_t value = number(payload, at + 2, 4);
          if (number(payload, at, 2) == 4) window_ += value - std::exchange(first_window_, value);
          if (number(payload, at, 2) == 5) most_frame_ = value;
        }
        return put(frame(kSettings, kAck, 0, ""));
      case kPing: return (flags & kAck) || put(frame(kPing, kAck, 0, payload));
      case kGoAway: return going_ = true;
      case kWindowUpdate:
        if (payload.size() != 4) return false;
        if (stream == 0) all_window_ += number(payload, 0, 4);
        if (ours) window_ += number(payload, 0, 4);
        return true;
      default: return true;
    }
  }

  /// Headers or trailers, of which the status is wanted. False: they are none.
  bool read(const std::string& block) {
    size_t at = 0;
    const auto integer = [&](int bits) {
      const uint32_t most = (1u << bits) - 1;
      uint32_t value = at < block.size() ? static_cast<uint8_t>(block[at++]) & most : 0;
      if (value < most) return value;
      for (int shift = 0; at < block.size() && shift < 28; shift += 7) {
        const auto byte = static_cast<uint8_t>(block[at++]);
        value += static_cast<uint32_t>(byte & 127) << shift;
        if (byte < 128) break;
      }
      return value;
    };
    const auto string = [&](std::string* out) {
      const bool packed = at < block.size() && (block[at] & 128);
      const size_t size = integer(7);
      if (at + size > block.size()) return false;
      *out = packed ? "" : block.substr(at, size);  // gRPC does not pack what is looked for
      at += size;
      return true;
    };
    while (at < block.size()) {
      const auto first = static_cast<uint8_t>(block[at]);
      if (first & 128) {
        if (integer(7) > 61) return false;  // of the table that there is not
        continue;
      }
      if ((first & 0xe0) == 0x20) {
        integer(5);
        continue;
      }
      std::string name, value;
      if (integer(first & 64 ? 6 : 4) == 0 && !string(&name)) return false;
      if (!string(&value)) return false;
      if (name == "grpc-status") status_ = value;
    }
    return true;
  }

  int fd_ = -1;
  uint32_t stream_ = 0, consumed_ = 0;
  int64_t first_window_ = kFirstWindow, window_ = 0, all_window_ = kFirstWindow, most_frame_ = 16384;
  bool ended_ = false, ends_ = false, going_ = false;
  std::string headers_, got_, block_, status_;
  std::string* answer_ = nullptr;
};

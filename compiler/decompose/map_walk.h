#pragma once
#include "decompose/env.h"
#include "decompose/mapped.h"

namespace aotc::decompose {

/// The nodes of a program that begin and end maps over rows (vmap), and those within.
class MapWalk {
 public:
  MapWalk(Builder& b, const import::Program& p, Env& env) : b_(b), program_(p), env_(env), maps_(b) {}

  /// Whether the node is one of a map, or some operand of it is another one in each row.
  bool takes(const import::PNode& node) const;
  /// Throws Refused.
  void run(const import::PNode& node);

 private:
  Mapped operand(const std::string& name);
  void define(const std::string& name, const Mapped& v);
  void begin_rows(const import::PNode& node);
  void end_rows(const import::PNode& node);
  /// An operator on rows: its rule for one of them, then all.
  void run_rows(const import::PNode& node);

  Builder& b_;
  const import::Program& program_;
  Env& env_;
  Maps maps_;
  std::map<std::string, Mapped> mapped_;
};

}  // namespace aotc::decompose

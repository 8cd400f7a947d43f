#pragma once
#include <map>
#include <set>
#include <string>

#include "decompose/env.h"
#include "decompose/mapped.h"

namespace aotc::decompose {

/// The nodes of a program that begin and end maps over rows (vmap), and those within. Those are walked as a program of one row, in-place
/// writes and views included; what its graph computes for all rows follows node by node.
class MapWalk {
 public:
  MapWalk(Builder& b, const import::Program& p, Env& env) : b_(b), program_(p), env_(env), maps_(b), rows_(p) {}

  /// Whether the node is one of a map, or some operand of it is another one in each row.
  bool takes(const import::PNode& node) const;
  /// Throws Refused.
  void run(const import::PNode& node);

 private:
  /// The program of a row: its graph, and what each of the graph's values is for all rows.
  struct Rows {
    explicit Rows(const import::Program& p) : b(graph), env(b, p) {}
    Graph graph;
    Builder b;
    Env env;
    std::map<ValueId, Mapped> made;
    std::map<std::string, ValueId> given;      ///< the graph's inputs by the names of what they stand for
    std::set<std::string> own;                 ///< names that nodes of a row gave
    std::set<std::string> handed_on;           ///< of these, the memory of what maps within others have given
    size_t nodes = 0, guards = 0, checks = 0;  ///< those that are carried out for all rows
  };

  /// What a name is for all rows.
  Mapped operand(const std::string& name);
  void define(const std::string& name, const Mapped& v);
  void begin_rows(const import::PNode& node);
  void end_rows(const import::PNode& node);
  /// An operator on rows: its rule for one of them, then all.
  void run_rows(const import::PNode& node);
  /// Makes the row's program know a name of what lies outside of it, as it is now.
  void give(const std::string& name);
  /// Carries out for all rows what was added to the row's graph.
  void follow();

  Builder& b_;
  const import::Program& program_;
  Env& env_;
  Maps maps_;
  Rows rows_;
  std::map<std::string, Mapped> mapped_;  ///< rows that begun maps have, and results of maps within others
};

}  // namespace aotc::decompose

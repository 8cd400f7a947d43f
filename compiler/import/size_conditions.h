#pragma once
// What an archive demands of the sizes of its inputs: the guards that export wrote down (guards_code, assertions of the graph).
#include "import/json.h"
#include "import/program.h"
#include "import/sym_text.h"

namespace aotc::import {

/// Adds a condition to the program's guards, or to its open conditions where no guard can say it. `text`: what a refused run is told.
void add_condition(Program& program, const SymNode& tree, const SymTable& syms, const SymbolOf& symbol, std::string text, const Loc& loc);

/// Reads guards_code: Python over the sizes of the inputs ("L['x'].size()[2] % 3 == 0"), which ep.module() evaluates at every call. Throws
/// Diagnostic, with the text of the guard, where it is not of that form or names what is no size of an input.
void read_guards_code(const JsonRef& model, const JsonRef& graph_module, const SymTable& syms, Program& program);

/// For a person: that the archive does not say the guards of the sizes that are open. Empty where it does, or where all sizes are fixed.
std::string unstated_conditions(const Program& program);

/// Whether a symbol that may be negative occurs: a condition is not decided by ranges then, which say of sizes that they are not.
bool may_be_negative(const Program& program, const ShapeGuard& q);

/// Decides the open conditions: each is true at all sizes left (and goes), or narrows the range of its one symbol to sizes at which it
/// holds. Throws Diagnostic for a condition that is false, or that stays open.
void decide_conditions(Program& program);

}  // namespace aotc::import

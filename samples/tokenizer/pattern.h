#pragma once
// What Split, Replace and their like look for.
#include "field.h"
#include "libraries.h"

namespace tok {

/// All places of a text, which is UTF-8, in order.
using Pattern = std::function<void(std::string_view text, const Found& found)>;

Pattern literal(std::string text);
/// Each character of a kind is a place of its own.
Pattern characters(bool (*kind)(uint32_t));
/// Throws std::runtime_error with the field's path: without a library, or where the expression is none.
Pattern expression(const std::string& regex, const Field& at, const Libraries& libraries);
/// {"String": ..} or {"Regex": ..}
Pattern read_pattern(const Field& field, const Libraries& libraries);

}  // namespace tok

// Exact match on GSM8K-style answers, as lm_eval's gsm8k (version 3) computes it.
#pragma once
#include <string>
#include <string_view>

namespace hocket::cli {

/// First match of `#### (\-?[0-9\.\,]+)`; "[invalid]" if there is none.
std::string strict_answer(const std::string& completion);
/// Last match of `(-?[$0-9.,]{2,})|(-?[0-9]+)`; "[invalid]" if there is none.
std::string flexible_answer(const std::string& completion);
/// Equal after deleting `,`, `$`, everything up to `#### ` and a final `.`; case is ignored.
bool exact_match(std::string_view answer, std::string_view reference);

}  // namespace hocket::cli

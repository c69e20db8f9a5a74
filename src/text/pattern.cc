#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <new>

#include "base/error.h"
#include "text/pattern_syntax.h"
#include "text/utf8.h"

namespace hocket::text {

namespace {

// Patterns of known tokenizers need a few steps a character and no stack. The limits bound what an
// ill-chosen pattern can cost: well under a second a match, 64 MiB.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kDepthLimit = 1'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kStackStart = 64 * 1024;
constexpr size_t kStackLimit = 16 * 1024 * 1024;
constexpr size_t kPatternLimit = 64 * 1024;

std::string describe(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <class T>
T* allocated(T* p) {
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

MatchState::MatchState()
    : data_(allocated(pcre2_match_data_create(1, nullptr))),
      context_(pcre2_match_context_create(nullptr)) {
  if (context_ == nullptr) {
    pcre2_match_data_free(data_);
    throw std::bad_alloc();
  }
  pcre2_set_match_limit(context_, kMatchLimit);
  pcre2_set_depth_limit(context_, kDepthLimit);
  pcre2_set_heap_limit(context_, kHeapLimitKib);
}

MatchState::~MatchState() {
  pcre2_jit_stack_free(stack_);
  pcre2_match_context_free(context_);
  pcre2_match_data_free(data_);
}

// JIT code runs on 32 KiB of the machine stack until a match needs more; few ever do.
void MatchState::grow_stack() {
  stack_ = allocated(pcre2_jit_stack_create(kStackStart, kStackLimit, nullptr));
  pcre2_jit_stack_assign(context_, nullptr, stack_);
}

void Pattern::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(std::string_view oniguruma) { return pcre2(to_pcre2(oniguruma)); }

Pattern Pattern::pcre2(const std::string& source) {
  if (source.size() > kPatternLimit) {
    throw Error(Code::bad_input, fmt::format("the pattern has {} bytes, more than {}",
                                             source.size(), kPatternLimit));
  }
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      allocated(pcre2_compile_context_create(nullptr)), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t offset = 0;
  // To Oniguruma, ^ and $ mean the ends of lines: MULTILINE.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  Pattern pattern;
  pattern.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                                    kOptions, &error, &offset, context.get()));
  if (pattern.code_ == nullptr) {
    throw Error(Code::bad_input, fmt::format("the pattern does not compile: {}", describe(error)));
  }
  pattern.jit_ = pcre2_jit_compile(pattern.code_.get(), PCRE2_JIT_COMPLETE) == 0;
  return pattern;
}

bool Pattern::find(std::string_view text, size_t from, MatchState& state, Range& found) const {
  if (code_ == nullptr) {
    found.begin = text.find(literal_, from);
    found.end = found.begin + literal_.size();
    return found.begin != std::string_view::npos;
  }
  const auto match = jit_ ? pcre2_jit_match : pcre2_match;
  const auto once = [&] {
    return match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                 PCRE2_NO_UTF_CHECK, state.data_, state.context_);
  };
  int result = once();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && state.stack_ == nullptr) {
    state.grow_stack();
    result = once();
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    throw Error(Code::bad_input, fmt::format("a pattern gave up on the text after byte {}: {}",
                                             from, describe(result)));
  }
  const size_t* ends = pcre2_get_ovector_pointer(state.data_);
  found = {ends[0], ends[1]};
  return true;
}

void Pattern::split(std::string_view text, MatchState& state, std::vector<Part>& parts) const {
  parts.clear();
  size_t from = 0;
  size_t done = 0;
  size_t last_end = std::string_view::npos;
  Range found{};
  while (from <= text.size() && !text.empty() && find(text, from, state, found)) {
    if (found.begin == found.end && found.end == last_end) {  // no empty match right behind a match
      from += from < text.size() ? utf8_part(text.substr(from)).length : 1;
      continue;
    }
    if (done < found.begin) parts.push_back({done, found.begin, false});
    parts.push_back({found.begin, found.end, true});
    from = done = last_end = found.end;
  }
  if (done < text.size() || text.empty()) parts.push_back({done, text.size(), false});
}

std::string Pattern::replace_all(std::string_view text, std::string_view content,
                                 MatchState& state) const {
  std::vector<Part> parts;
  split(text, state, parts);
  std::string out;
  out.reserve(text.size());
  for (const Part& part : parts)
    out += part.is_match ? content : text.substr(part.begin, part.end - part.begin);
  return out;
}

bool Pattern::matches_prefix(std::string_view text, MatchState& state) const {
  Range found{};
  return find(text, 0, state, found) && found.begin == 0;
}

}  // namespace hocket::text

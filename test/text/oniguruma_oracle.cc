#include "oniguruma_oracle.h"

#include <oniguruma.h>

#include "base/error.h"

namespace hocket::text {

struct OnigurumaOracle::Impl {
  regex_t* regex = nullptr;
  OnigRegion* region = onig_region_new();
};

OnigurumaOracle::OnigurumaOracle(const std::string& pattern) : impl_(std::make_unique<Impl>()) {
  OnigEncoding encoding = ONIG_ENCODING_UTF8;
  onig_initialize(&encoding, 1);
  const auto* begin = reinterpret_cast<const OnigUChar*>(pattern.data());
  OnigErrorInfo error{};
  const int status = onig_new(&impl_->regex, begin, begin + pattern.size(), ONIG_OPTION_NONE,
                              ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &error);
  if (status != ONIG_NORMAL) throw Error(Code::bad_input, "Oniguruma refuses " + pattern);
}

OnigurumaOracle::~OnigurumaOracle() {
  onig_region_free(impl_->region, 1);
  onig_free(impl_->regex);
}

OnigurumaOracle::Spans OnigurumaOracle::matches(const std::string& text) {
  Spans out;
  const auto* begin = reinterpret_cast<const OnigUChar*>(text.data());
  const auto* end = begin + text.size();
  for (size_t from = 0; from < text.size(); from = out.back().second) {
    const auto at =
        onig_search(impl_->regex, begin, end, begin + from, end, impl_->region, ONIG_OPTION_NONE);
    if (at < 0) break;
    out.emplace_back(at, impl_->region->end[0]);
  }
  return out;
}

}  // namespace hocket::text

#include "cli/digest.h"

#include <openssl/evp.h>

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hocket::cli {

std::string ids_digest(const std::vector<Completion>& completions) {
  std::string text;
  for (const Completion& completion : completions) text += fmt::format("{}\n", fmt::join(completion.ids, " "));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1) {
    throw Error(Code::internal, "SHA-256 is not available");
  }
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace hocket::cli

// Which words errors use. Expected failures travel as Expected<T>; bugs and failed steps are thrown as Error.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace hocket {

/// What kind of failure it is, across ranks and on the wire. `ok` must stay 0.
enum class Code : uint8_t { ok, capacity, bad_id, timeout, peer_lost, epoch, aborted, config, bad_input, missing, internal };
std::string_view name(Code code);

/// A failure that the caller handles: bad request, missing file, bad flag. `message` is one line: what is wrong, with
/// the values seen, and what to do.
struct Failure {
  Code code = Code::internal;
  std::string message;
};
template <class T>
using Expected = tl::expected<T, Failure>;
inline tl::unexpected<Failure> fail(Code code, std::string message) {
  return tl::unexpected<Failure>(Failure{code, std::move(message)});
}

/// A bug, a broken device or a failed step. Caught once, in the rank loop or in main.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};
/// An argument has the wrong shape, dtype or alignment.
class ShapeError : public Error {
 public:
  explicit ShapeError(const std::string& message) : Error(Code::internal, message) {}
};
/// Calls came in an order that the contract excludes.
class InvariantError : public Error {
 public:
  explicit InvariantError(const std::string& message) : Error(Code::internal, message) {}
};

}  // namespace hocket

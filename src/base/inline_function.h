// A move-only callable that never allocates: std::move_only_function (C++23) with a fixed buffer.
#pragma once
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace hocket {

template <class Signature, size_t Bytes = 232>
class InlineFunction;

/// Holds any callable of at most `Bytes` bytes, nothrow move constructible. Empty after a move. Not thread safe.
template <class Result, class... Args, size_t Bytes>
class InlineFunction<Result(Args...), Bytes> {
 public:
  InlineFunction() = default;
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, InlineFunction>)
  InlineFunction(F&& f) {  // NOLINT(google-explicit-constructor): a lambda is passed as it is
    using Held = std::remove_cvref_t<F>;
    static_assert(sizeof(Held) <= Bytes, "the captures are too large: capture views, not data");
    static_assert(alignof(Held) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Held>);
    new (buffer_) Held(std::forward<F>(f));
    call_ = [](void* p, Args... args) -> Result { return (*static_cast<Held*>(p))(std::forward<Args>(args)...); };
    manage_ = [](void* from, void* to) noexcept {
      if (to != nullptr) new (to) Held(std::move(*static_cast<Held*>(from)));
      static_cast<Held*>(from)->~Held();
    };
  }
  InlineFunction(InlineFunction&& other) noexcept { take(other); }
  InlineFunction& operator=(InlineFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~InlineFunction() { reset(); }
  explicit operator bool() const { return call_ != nullptr; }
  /// REQUIRES: not empty.
  Result operator()(Args... args) { return call_(buffer_, std::forward<Args>(args)...); }

 private:
  void take(InlineFunction& other) noexcept {
    if (other.call_ == nullptr) return;
    other.manage_(other.buffer_, buffer_);
    call_ = std::exchange(other.call_, nullptr);
    manage_ = std::exchange(other.manage_, nullptr);
  }
  void reset() noexcept {
    if (call_ != nullptr) manage_(buffer_, nullptr);
    call_ = nullptr;
  }
  alignas(std::max_align_t) std::byte buffer_[Bytes];
  Result (*call_)(void*, Args...) = nullptr;
  void (*manage_)(void*, void*) noexcept = nullptr;
};

}  // namespace hocket

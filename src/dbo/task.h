// The coroutine type of a forward pass. Only forward functions of models and layers return it.
#pragma once
#include <coroutine>
#include <exception>
#include <utility>

namespace hocket::dbo {

/// Lazy, move-only. Awaiting a Task runs it by symmetric transfer; its exception is rethrown in the awaiting frame.
/// Destroying an unfinished Task destroys its frame and, through it, the frames it awaits. Not thread safe.
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::coroutine_handle<> parent;
    std::exception_ptr error;
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct ToParent {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) const noexcept {
        const auto awaiting = h.promise().parent;
        return awaiting ? awaiting : std::noop_coroutine();
      }
      void await_resume() const noexcept {}
    };
    ToParent final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }
  };
  using Handle = std::coroutine_handle<promise_type>;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) noexcept {
    handle_.promise().parent = parent;
    return handle_;
  }
  void await_resume() { rethrow_if_failed(); }
  std::coroutine_handle<> handle() const { return handle_; }
  bool done() const { return handle_.done(); }
  void rethrow_if_failed() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

}  // namespace hocket::dbo

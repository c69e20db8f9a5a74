#include "cli/progress.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

namespace hocket::cli {
namespace {

constexpr int kWidth = 20;
constexpr auto kRedraw = std::chrono::milliseconds(50);

bool is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

}  // namespace

LoadProgress::LoadProgress(std::string name, int ranks)
    : name_(std::move(name)),
      done_(static_cast<size_t>(ranks)),
      total_(static_cast<size_t>(ranks)),
      began_(std::chrono::steady_clock::now()),
      terminal_(is_terminal()) {}

void LoadProgress::update(int rank, int64_t done, int64_t total) {
  const std::lock_guard lock(mutex_);
  done_[static_cast<size_t>(rank)] = done;
  total_[static_cast<size_t>(rank)] = total;
  for (int64_t each : total_) {
    if (each == 0) return;  // a rank does not know its share yet
  }
  const int64_t all_done = std::accumulate(done_.begin(), done_.end(), int64_t{0});
  const int64_t all = std::accumulate(total_.begin(), total_.end(), int64_t{0});
  draw(static_cast<double>(all_done) / static_cast<double>(all), all_done, all);
}

void LoadProgress::draw(double share, int64_t done, int64_t total) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - began_).count();
  const double mega = 1e6;
  const auto megabytes = [&](int64_t bytes) { return static_cast<double>(bytes) / mega; };
  if (terminal_) {
    if (share < 1 && now - drawn_ < kRedraw) return;
    drawn_ = now;
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < static_cast<int>(share * kWidth) ? "█" : "░";
    const double rate = megabytes(done) / seconds;
    const double left = rate > 0 ? megabytes(total - done) / rate : 0;
    fmt::print(stderr, "\rLoading {}   {}   {:3.0f} %   {:.1f}/{:.1f} MB   {:.1f} GB/s   ETA {}:{:02}{}", name_, bar,
               share * 100, megabytes(done), megabytes(total), rate / 1e3, static_cast<int>(left) / 60,
               static_cast<int>(left) % 60, share >= 1 ? "\n" : "");
    return;
  }
  const int decile = static_cast<int>(share * 10);
  if (decile <= decile_) return;
  decile_ = decile;
  fmt::print(stderr, "Loading {}: {:.0f} % of {:.1f} MB\n", name_, share * 100, megabytes(total));
}

}  // namespace hocket::cli

// Shows how far loading is: a bar on a terminal, a line every ten per cent otherwise.
#pragma once
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace hocket::cli {

/// Thread safe: ranks report their own bytes, one bar shows the sum. Writes to standard error.
class LoadProgress {
 public:
  LoadProgress(std::string name, int ranks);
  void update(int rank, int64_t done, int64_t total);

 private:
  void draw(double share, int64_t done, int64_t total);
  std::string name_;
  std::mutex mutex_;
  std::vector<int64_t> done_, total_;
  std::chrono::steady_clock::time_point began_, drawn_{};
  bool terminal_ = false;
  int decile_ = 0;  // last one printed
};

}  // namespace hocket::cli

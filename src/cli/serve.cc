#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/commands.h"

namespace hocket::cli {
namespace {

/// Waits for SIGINT and SIGTERM on a thread of its own: the first drains, the second ends what still runs.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    for (int signal : {SIGINT, SIGTERM, kDone}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);  // before any thread starts, so that all inherit it
  }
  void watch(server::Server& server) {
    thread_ = std::thread([this, &server] {
      for (;;) {
        int signal = 0;
        sigwait(&set_, &signal);
        if (signal == kDone) return;
        log::info("server", "stopping: accepted requests are finished; a second signal ends them at once");
        server.stop();
      }
    });
  }
  ~StopSignals() { unwatch(); }
  void unwatch() {
    if (!thread_.joinable()) return;
    pthread_kill(thread_.native_handle(), kDone);
    thread_.join();
  }

 private:
  static constexpr int kDone = SIGUSR1;
  sigset_t set_{};
  std::thread thread_;
};

}  // namespace

int serve(const Options& options) {
  StopSignals signals;
  auto config = resolve(options.engine);
  if (!config) return report(config.error());
  auto session = open_session(std::move(*config), Report::table, options.engine.trace);
  if (!session) return report(session.error());
  auto server = server::Server::listen(options.server, *(*session)->engine, *(*session)->tokenizer, (*session)->metrics);
  if (!server) return report(server.error());
  fmt::print(stderr, "Listening on http://{}:{} (pid {}). API key: none.\n", options.server.host, (*server)->port(), getpid());
  signals.watch(**server);
  (*server)->run();
  const bool failed = (*session)->engine->health() == engine::Health::failed;
  signals.unwatch();  // from here on a signal waits: the trace is written whole
  server->reset();    // it answers from the engine
  return finish(**session, failed ? 5 : 0);
}

}  // namespace hocket::cli

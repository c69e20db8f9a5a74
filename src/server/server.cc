#include "server/server.h"

#include <sys/resource.h>

#include <random>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <fmt/format.h>

#include "base/log.h"
#include "server/session.h"

namespace hocket::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptPause{100};    // when descriptors run out
constexpr std::chrono::milliseconds kGoodbyeTimeout{5'000};  // for last answers after the drain

class HttpServer final : public Server {
 public:
  HttpServer(Options options, engine::Engine& engine, const text::Tokenizer& tokenizer, telemetry::Metrics& metrics);
  Expected<void> bind();
  uint16_t port() const override { return port_; }
  void run() override;
  void stop() override;

 private:
  // All on the control strand.
  void accept();
  void on_accept(const ErrorCode& error, tcp::socket socket);
  void begin_drain();
  void end_drain();
  void finish_if_drained();
  void on_session_closed();

  Context context_;
  asio::io_context io_;
  asio::strand<asio::io_context::executor_type> control_{asio::make_strand(io_)};
  tcp::acceptor acceptor_{control_};
  asio::steady_timer accept_timer_{control_}, drain_timer_{control_};
  uint16_t port_ = 0;
  bool accepting_ = false, drain_began_ = false, drain_ended_ = false;
  int64_t open_ = 0;
  std::vector<std::weak_ptr<Session>> sessions_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  asio::thread_pool worker_{1};  // its tasks hold sessions, which need the rest
  std::shared_ptr<void> alive_ = std::make_shared<int>();  // first to go: sessions that are destroyed later tell nobody
};

HttpServer::HttpServer(Options options, engine::Engine& engine, const text::Tokenizer& tokenizer,
                       telemetry::Metrics& metrics)
    : context_{.options = std::move(options),
               .engine = engine,
               .tokenizer = tokenizer,
               .metrics = ServerMetrics(metrics, engine.summary().model.name),
               .started = unix_now()},
      work_(io_.get_executor()) {
  if (context_.options.served_names.empty()) context_.options.served_names.push_back(engine.summary().model.name);
  std::random_device device;
  context_.random_key = {device(), device()};
  context_.run_on_worker = [this](std::function<void()> task) { asio::post(worker_, std::move(task)); };
  context_.on_job_ended = [this] { asio::post(control_, [this] { finish_if_drained(); }); };
}

/// Each connection is a descriptor. Lowers `max_connections` where the system does not give so many.
void raise_descriptor_limit(int64_t& max_connections) {
  constexpr int64_t kOthers = 64;  // files, the listener, the engine
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(max_connections + kOthers);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return;
  max_connections = std::max<int64_t>(1, static_cast<int64_t>(limit.rlim_cur) - kOthers);
  log::warning("server", "--max-connections lowered to {}: the system allows {} open files", max_connections, limit.rlim_cur);
}

Expected<void> HttpServer::bind() {
  Options& options = context_.options;
  const auto refuse = [&options](std::string_view why) {
    return fail(Code::config, fmt::format("cannot listen on {}:{}: {}", options.host, options.port, why));
  };
  ErrorCode error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) return refuse("the host is unknown. Give an address of this machine with --host.");
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);  // connections in TIME_WAIT do not count
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use) {
    return refuse("the port is in use. Choose another with --port, or --port 0 for any that is free.");
  }
  if (error == asio::error::access_denied) return refuse("permission denied. Choose a --port of 1024 or more.");
  if (error) return refuse(error.message() + ". Check --host and --port.");
  port_ = acceptor_.local_endpoint().port();
  raise_descriptor_limit(options.max_connections);
  return {};
}

void HttpServer::run() {
  asio::post(control_, [this] { accept(); });
  std::vector<std::jthread> threads;
  for (int i = 1; i < context_.options.io_threads; ++i) threads.emplace_back([this] { io_.run(); });
  io_.run();
}

void HttpServer::stop() {
  asio::post(control_, [this] { drain_began_ ? end_drain() : begin_drain(); });
}

void HttpServer::accept() {
  if (accepting_ || drain_ended_ || open_ >= context_.options.max_connections) return;
  accepting_ = true;
  acceptor_.async_accept(asio::make_strand(io_), [this](const ErrorCode& error, tcp::socket socket) {
    accepting_ = false;
    on_accept(error, std::move(socket));
  });
}

void HttpServer::on_accept(const ErrorCode& error, tcp::socket socket) {
  if (drain_ended_) return;
  if (error) {  // too many open files, or a connection that is gone already: the listener itself is fine
    accept_timer_.expires_after(kAcceptPause);
    accept_timer_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) accept();
    });
    return;
  }
  context_.metrics.set_connections(++open_);
  auto session = std::make_shared<Session>(std::move(socket), context_, [this, alive = std::weak_ptr<void>(alive_)] {
    if (!alive.expired()) asio::post(control_, [this] { on_session_closed(); });
  });
  session->start();
  sessions_.push_back(session);
  accept();
}

void HttpServer::on_session_closed() {
  context_.metrics.set_connections(--open_);
  std::erase_if(sessions_, [](const std::weak_ptr<Session>& session) { return session.expired(); });
  if (drain_ended_ && open_ == 0) drain_timer_.cancel();
  accept();
}

void HttpServer::begin_drain() {
  drain_began_ = true;
  context_.draining = true;
  log::info("server", "draining: {} completions run on for at most {} ms", context_.jobs.load(),
            context_.options.shutdown_timeout.count());
  drain_timer_.expires_after(context_.options.shutdown_timeout);
  drain_timer_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) end_drain();
  });
  finish_if_drained();
}

void HttpServer::finish_if_drained() {
  if (drain_began_ && context_.jobs == 0) end_drain();
}

void HttpServer::end_drain() {
  if (drain_ended_) return;
  drain_ended_ = true;
  ErrorCode ignored;
  acceptor_.close(ignored);
  accept_timer_.cancel();
  for (const auto& weak : sessions_) {
    if (const auto session = weak.lock()) session->shut();
  }
  work_.reset();  // run() returns when the last session is gone
  drain_timer_.cancel();
  if (open_ == 0) return;
  drain_timer_.expires_after(kGoodbyeTimeout);
  drain_timer_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) io_.stop();
  });
}

}  // namespace

Expected<std::unique_ptr<Server>> Server::listen(Options options, engine::Engine& engine, const text::Tokenizer& tokenizer,
                                                 telemetry::Metrics& metrics) {
  auto server = std::make_unique<HttpServer>(std::move(options), engine, tokenizer, metrics);
  if (auto bound = server->bind(); !bound) return tl::unexpected(bound.error());
  return server;
}

}  // namespace hocket::server

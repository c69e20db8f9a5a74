// One connection: requests are read one after the other, each is answered before the next is read.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include "server/completion_job.h"
#include "server/completion_reply.h"
#include "server/context.h"
#include "server/http_head.h"
#include "server/routes.h"

namespace hocket::server {

/// Lives as long as one of its operations is pending. Everything runs on the socket's strand, but for wakes and shut(),
/// which post themselves there.
class Session : public std::enable_shared_from_this<Session> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Error = boost::system::error_code;

  /// `on_closed` is called from the destructor.
  Session(Socket socket, Context& context, std::function<void()> on_closed);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start();
  /// Ends what is not finished, with an error where a client waits for an answer. Any thread.
  void shut();

 private:
  enum class State : uint8_t { waiting, reading, working, replying, lingering, closed };
  struct Request;   // the parser; in session.cc
  struct Prepared;  // what the worker hands back; in session_completion.cc
  struct Progress {
    std::optional<Clock::time_point> last_token;
    bool finished = false;
  };

  // Reading (session.cc). The deadline cancels what is pending on the socket.
  void arm(std::chrono::milliseconds limit);
  void disarm();
  void wait_for_request(std::chrono::milliseconds limit);
  void read_header();
  void on_header(const Error& error);
  void read_body();
  void on_body(const Error& error);
  void refuse_reading(const Error& error);
  void take_request_id(std::string_view given);
  void dispatch();

  // Answering (session.cc).
  Persistence persistence() const;
  void close_after_answer();
  void send(const Reply& reply);
  void answered(int status);
  void linger();
  void close();

  // Completions (session_completion.cc).
  void start_completion(std::string body);
  tl::expected<std::shared_ptr<Prepared>, ApiError> prepare(CompletionJob& job, const std::string& body,
                                                            const std::string& id);
  void on_prepared(tl::expected<std::shared_ptr<Prepared>, ApiError> prepared);
  void pump();
  void account(const CompletionJob::Event& event);
  void stream(std::string events);
  std::string stream_head() const;
  void end_stream();
  void write_stream();
  void on_written(const Error& error);
  void watch();
  void on_readable(const Error& error);
  void disconnected();
  void shut_completion();
  void end_job();

  Socket socket_;
  Context& context_;
  std::function<void()> on_closed_;
  boost::asio::steady_timer timer_;
  uint64_t timer_generation_ = 0;
  bool timed_out_ = false;
  State state_ = State::waiting;

  boost::beast::flat_buffer buffer_;  // read, not yet parsed
  std::unique_ptr<Request> request_;
  std::string request_id_;
  std::string_view handler_ = "other", method_ = "other";
  Clock::time_point received_;
  std::string reply_text_;

  std::shared_ptr<CompletionJob> job_;  // owners: this session and the job's sinks
  std::optional<CompletionReply> reply_;
  std::vector<Progress> progress_;
  bool streaming_ = false, chunked_ = false, head_sent_ = false, stream_ended_ = false, writing_ = false;
  bool watching_ = false;
  std::string unsent_, sending_;
};

int64_t unix_now();

}  // namespace hocket::server

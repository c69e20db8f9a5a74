#include "server/session.h"

#include <ctime>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "base/log.h"

namespace hocket::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

constexpr uint32_t kMaxHeaderBytes = 64 << 10;
constexpr std::chrono::milliseconds kLingerTimeout{1'000};
constexpr size_t kReadBytes = 16 << 10;

bool printable(std::string_view text) {
  for (char c : text) {
    if (c < 0x21 || c > 0x7e) return false;
  }
  return true;
}

/// A label must not be what a client makes up.
std::string_view method_label(http::verb verb) {
  switch (verb) {
    case http::verb::get: return "GET";
    case http::verb::head: return "HEAD";
    case http::verb::post: return "POST";
    case http::verb::put: return "PUT";
    case http::verb::delete_: return "DELETE";
    case http::verb::options: return "OPTIONS";
    default: return "other";
  }
}

}  // namespace

struct Session::Request {
  http::request_parser<http::string_body> parser;
  bool keep_alive = false, http10 = false, head_only = false;
};

int64_t unix_now() { return static_cast<int64_t>(std::time(nullptr)); }

Session::Session(Socket socket, Context& context, std::function<void()> on_closed)
    : socket_(std::move(socket)), context_(context), on_closed_(std::move(on_closed)), timer_(socket_.get_executor()) {}

Session::~Session() {
  if (job_) job_->cancel();
  on_closed_();
}

void Session::start() {
  Error ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->wait_for_request(self->context_.options.header_timeout); });
}

void Session::arm(std::chrono::milliseconds limit) {
  timed_out_ = false;
  timer_.expires_after(limit);
  // an expiry that is already queued cannot be called back: it is told by its generation
  timer_.async_wait([self = shared_from_this(), generation = ++timer_generation_](const Error& error) {
    if (error || generation != self->timer_generation_) return;
    self->timed_out_ = true;
    Error ignored;
    self->socket_.cancel(ignored);
  });
}

void Session::disarm() {
  ++timer_generation_;
  timer_.cancel();
}

void Session::wait_for_request(std::chrono::milliseconds limit) {
  request_.reset();
  state_ = State::waiting;
  if (buffer_.size() > 0) return read_header();  // pipelined
  arm(limit);
  socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](const Error& error, size_t bytes) {
    if (self->state_ == State::closed) return;
    if (error) return self->close();
    self->buffer_.commit(bytes);
    self->read_header();
  });
}

void Session::read_header() {
  state_ = State::reading;
  handler_ = method_ = "other";
  request_id_ = context_.random_id();
  request_ = std::make_unique<Request>();
  request_->parser.header_limit(kMaxHeaderBytes);
  request_->parser.body_limit(static_cast<uint64_t>(context_.options.max_request_body_bytes));
  arm(context_.options.header_timeout);
  http::async_read_header(socket_, buffer_, request_->parser,
                          [self = shared_from_this()](const Error& error, size_t) { self->on_header(error); });
}

void Session::take_request_id(std::string_view given) {
  constexpr size_t kMaxIdBytes = 256;
  if (!given.empty() && given.size() <= kMaxIdBytes && printable(given)) request_id_ = given;
}

void Session::on_header(const Error& error) {
  if (state_ == State::closed) return;
  received_ = Clock::now();
  if (error) return refuse_reading(error);
  const auto& message = request_->parser.get();
  request_->keep_alive = request_->parser.keep_alive();
  request_->http10 = message.version() < 11;
  request_->head_only = message.method() == http::verb::head;
  method_ = method_label(message.method());
  take_request_id(std::string_view(message["X-Request-Id"].data(), message["X-Request-Id"].size()));
  if (request_->parser.is_done() || !boost::beast::iequals(message[http::field::expect], "100-continue")) return read_body();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue), [self = shared_from_this()](const Error& failed, size_t) {
    if (self->state_ == State::closed) return;
    failed ? self->close() : self->read_body();
  });
}

void Session::read_body() {
  arm(context_.options.body_timeout);
  http::async_read(socket_, buffer_, request_->parser,
                   [self = shared_from_this()](const Error& error, size_t) { self->on_body(error); });
}

void Session::on_body(const Error& error) {
  if (state_ == State::closed) return;
  if (error) return refuse_reading(error);
  disarm();
  dispatch();
}

/// The rest of the input cannot be told apart from a next request: the connection ends after the answer.
void Session::refuse_reading(const Error& error) {
  request_->keep_alive = false;
  if (error == http::error::body_limit) {
    return send(error_reply({.status = 413,
                             .message = fmt::format("The request body is larger than {} bytes (--max-request-body-bytes).",
                                                    context_.options.max_request_body_bytes)}));
  }
  if (error == http::error::header_limit) {
    return send(error_reply({.status = 431, .message = fmt::format("The request header is larger than {} bytes.", kMaxHeaderBytes)}));
  }
  if (error == asio::error::operation_aborted && timed_out_) {
    return send(error_reply({.status = 408, .message = "The request did not arrive in time."}));
  }
  const bool malformed = error.category() == http::make_error_code(http::error::bad_method).category() &&
                         error != http::error::end_of_stream && error != http::error::partial_message;
  if (!malformed) return close();
  send(error_reply({.status = 400, .message = fmt::format("The request is not valid HTTP: {}.", error.message())}));
}

void Session::dispatch() {
  auto& message = request_->parser.get();
  const std::string_view method(message.method_string().data(), message.method_string().size());
  const std::string_view target(message.target().data(), message.target().size());
  Routed routed = route(context_, method, target);
  handler_ = routed.handler;
  if (routed.reply) return send(*routed.reply);
  const std::string_view type(message[http::field::content_type].data(), message[http::field::content_type].size());
  if (type.starts_with("multipart/")) {
    return send(error_reply({.status = 415, .message = "multipart bodies are not supported. Send the JSON as the body."}));
  }
  chunked_ = !request_->http10;
  start_completion(std::move(message.body()));
}

Persistence Session::persistence() const {
  if (!request_->keep_alive || context_.draining) return Persistence::close;
  return request_->http10 ? Persistence::keep_alive_http10 : Persistence::keep_alive;
}

void Session::close_after_answer() { request_->keep_alive = false; }

void Session::send(const Reply& reply) {
  state_ = State::replying;
  const Persistence persistence = this->persistence();
  request_->keep_alive = persistence != Persistence::close;
  reply_text_ = response_head({.status = reply.status,
                               .content_type = reply.content_type,
                               .content_length = reply.body.size(),
                               .persistence = persistence,
                               .request_id = request_id_},
                              reply.headers, unix_now());
  if (!request_->head_only) reply_text_ += reply.body;
  arm(context_.options.write_timeout);
  asio::async_write(socket_, asio::buffer(reply_text_),
                    [self = shared_from_this(), status = reply.status](const Error& error, size_t) {
                      if (self->state_ == State::closed) return;
                      error ? self->close() : self->answered(status);
                    });
}

void Session::answered(int status) {
  disarm();
  end_job();
  context_.metrics.count_response(handler_, method_, status);
  if (!request_->keep_alive) return linger();
  wait_for_request(context_.options.keep_alive_timeout);
}

/// Closing with unread input would reset the connection, and the client might never see the answer.
void Session::linger() {
  if (state_ != State::lingering) {
    state_ = State::lingering;
    Error ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    arm(kLingerTimeout);
  }
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](const Error& error, size_t) {
    if (self->state_ == State::closed) return;
    error ? self->close() : self->linger();
  });
}

void Session::close() {
  state_ = State::closed;
  disarm();
  end_job();
  Error ignored;
  socket_.close(ignored);
}

void Session::shut() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    switch (self->state_) {
      case State::waiting:
      case State::reading: return self->close();
      case State::working: return self->shut_completion();
      case State::replying: return self->close_after_answer();
      case State::lingering:
      case State::closed: return;
    }
  });
}

}  // namespace hocket::server

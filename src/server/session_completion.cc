#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include "server/session.h"

namespace hocket::server {

namespace asio = boost::asio;

namespace {

constexpr size_t kMaxPipelinedBytes = 64 << 10;

int64_t sequences_of(const CompletionRequest& request) {
  return static_cast<int64_t>(request.prompts.size()) * request.choices;
}

}  // namespace

/// A request that the engine has taken.
struct Session::Prepared {
  bool stream = false;
  ReplyOptions reply;
  std::vector<ChoiceStart> choices;
};

void Session::start_completion(std::string body) {
  state_ = State::working;
  ++context_.jobs;
  streaming_ = head_sent_ = stream_ended_ = false;
  // the executor by value: a wake may come when this session is gone
  job_ = std::make_shared<CompletionJob>([weak = weak_from_this(), executor = socket_.get_executor()] {
    asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->pump();
    });
  });
  watch();
  auto shared_body = std::make_shared<std::string>(std::move(body));  // std::function wants to be copied
  context_.run_on_worker([self = shared_from_this(), job = job_, shared_body, id = request_id_] {
    tl::expected<std::shared_ptr<Prepared>, ApiError> prepared;
    try {
      prepared = self->prepare(*job, *shared_body, id);
    } catch (const std::exception& error) {  // out of memory; the other requests go on
      prepared = tl::unexpected(ApiError{.status = 500, .message = error.what()});
    }
    asio::post(self->socket_.get_executor(), [self, job, prepared = std::move(prepared)]() mutable {
      if (self->job_ == job) self->on_prepared(std::move(prepared));
    });
  });
}

/// On the worker: parses, tokenises, submits. Touches nothing of this session but the context.
tl::expected<std::shared_ptr<Session::Prepared>, ApiError> Session::prepare(CompletionJob& job, const std::string& body,
                                                                            const std::string& id) {
  const engine::Summary& summary = context_.engine.summary();
  auto request = parse_completion(body, {.vocab = summary.model.vocab, .max_logprobs = context_.options.max_logprobs});
  if (!request) return tl::unexpected(request.error());
  if (!request->model.empty() && !context_.serves(request->model)) {
    return tl::unexpected(ApiError{
        .status = 404, .message = fmt::format("The model `{}` does not exist.", request->model), .param = "model"});
  }
  if (auto refused = refuse_now(context_, sequences_of(*request))) return tl::unexpected(*refused);
  auto prepared = std::make_shared<Prepared>();
  prepared->stream = request->stream;
  prepared->reply = {.id = "cmpl-" + id,
                     .model = request->model.empty() ? context_.model_name() : request->model,
                     .fingerprint = "hocket-" + context_.options.version,
                     .created = unix_now(),
                     .include_usage = request->include_usage,
                     .continuous_usage = request->continuous_usage,
                     .logprobs = request->sampling.logprobs >= 0};
  auto started = job.start(std::move(*request), context_.random_seed(), context_.engine, context_.tokenizer);
  if (!started) return tl::unexpected(started.error());
  prepared->choices = std::move(*started);
  return prepared;
}

void Session::on_prepared(tl::expected<std::shared_ptr<Prepared>, ApiError> prepared) {
  if (state_ != State::working) return;
  if (!prepared) return send(error_reply(prepared.error()));
  Prepared& p = **prepared;
  streaming_ = p.stream;
  progress_.assign(p.choices.size(), {});
  for (const ChoiceStart& choice : p.choices) {
    if (choice.counts_prompt) context_.metrics.admitted(choice.prompt_tokens);
  }
  reply_.emplace(std::move(p.reply), std::move(p.choices), context_.tokenizer);
  pump();
}

/// Everything that the engine has given since the last time becomes one write.
void Session::pump() {
  if (state_ != State::working || !reply_ || stream_ended_) return;
  std::string events;
  for (const CompletionJob::Event& event : job_->take()) {
    account(event);
    if (streaming_) {
      reply_->append_event(events, event.choice, event.output);
    } else {
      reply_->keep(event.choice, event.output);
    }
  }
  const bool failed = reply_->error().status != 0;
  if (failed) job_->cancel();
  if (failed && !head_sent_) return send(error_reply(reply_->error()));  // nothing was sent: a proper status is possible
  if (streaming_) return stream(std::move(events));
  if (reply_->finished()) send({.status = 200, .content_type = "application/json", .body = reply_->body()});
}

void Session::account(const CompletionJob::Event& event) {
  Progress& progress = progress_[event.choice];
  if (progress.finished) return;
  if (event.output.token) {
    context_.metrics.generated(1);
    if (progress.last_token) {
      context_.metrics.next_token(event.when - *progress.last_token);
    } else {
      context_.metrics.first_token(event.when - received_);
    }
    progress.last_token = event.when;
  }
  if (event.output.finish == engine::FinishReason::none) return;
  progress.finished = true;
  context_.metrics.finished(event.output.finish, event.when - received_);
}

void Session::stream(std::string events) {
  const bool finished = reply_->finished();
  if (finished) reply_->append_end(events);
  if (events.empty()) return;
  if (!head_sent_) {
    head_sent_ = true;
    // without chunks only the end of the connection ends the stream
    if (!chunked_ || persistence() == Persistence::close) close_after_answer();
    unsent_ = stream_head();
  }
  chunked_ ? append_chunk(unsent_, events) : static_cast<void>(unsent_ += events);
  if (finished) return end_stream();
  const size_t behind = unsent_.size() + sending_.size();
  if (behind > static_cast<size_t>(context_.options.max_unsent_bytes)) return disconnected();
  write_stream();
}

std::string Session::stream_head() const {
  static const std::vector<std::pair<std::string, std::string>> more = {{"Cache-Control", "no-cache"},
                                                                        {"X-Accel-Buffering", "no"}};
  return response_head({.status = 200,
                        .content_type = "text/event-stream; charset=utf-8",
                        .content_length = {},
                        .chunked = chunked_,
                        .persistence = persistence(),
                        .request_id = request_id_},
                       more, unix_now());
}

void Session::end_stream() {
  stream_ended_ = true;
  if (chunked_) unsent_ += "0\r\n\r\n";
  write_stream();
}

void Session::write_stream() {
  if (writing_ || unsent_.empty()) return;
  writing_ = true;
  sending_.swap(unsent_);
  arm(context_.options.write_timeout);
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](const Error& error, size_t) { self->on_written(error); });
}

void Session::on_written(const Error& error) {
  writing_ = false;
  sending_.clear();
  if (state_ == State::closed) return;
  disarm();
  if (error) return disconnected();
  if (!unsent_.empty()) return write_stream();
  if (stream_ended_) answered(200);
}

/// A closed connection is noticed while nobody reads from it. Pipelined requests are kept for later, up to a limit.
void Session::watch() {
  if (watching_ || buffer_.size() > kMaxPipelinedBytes) return;
  watching_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const Error& error) {
    self->watching_ = false;
    if (self->state_ == State::working && self->job_) self->on_readable(error);
  });
}

void Session::on_readable(const Error& cancelled) {
  if (cancelled) return watch();  // by a deadline; the write that it was for sees it too
  Error error;
  const size_t bytes = socket_.read_some(buffer_.prepare(4096), error);
  if (error && error != asio::error::would_block) return disconnected();
  buffer_.commit(bytes);
  watch();
}

void Session::disconnected() {
  constexpr int kClientClosedRequest = 499;  // nobody sees it but the metrics
  context_.metrics.count_response(handler_, method_, kClientClosedRequest);
  close();
}

void Session::shut_completion() {
  close_after_answer();
  const ApiError error{.status = 503, .message = "The server is shutting down."};
  if (stream_ended_) return;
  job_->cancel();
  if (!head_sent_) return send(error_reply(error));
  std::string events;
  CompletionReply::append_error(events, error);
  events += "data: [DONE]\n\n";
  chunked_ ? append_chunk(unsent_, events) : static_cast<void>(unsent_ += events);
  end_stream();
}

/// The request is over, however it ended: what still runs for it in the engine is aborted.
void Session::end_job() {
  if (!job_) return;
  job_->cancel();
  job_.reset();
  reply_.reset();
  for (const Progress& progress : progress_) {
    if (!progress.finished) context_.metrics.finished(engine::FinishReason::abort, Clock::now() - received_);
  }
  progress_.clear();
  unsent_.clear();
  --context_.jobs;
  context_.on_job_ended();
}

}  // namespace hocket::server

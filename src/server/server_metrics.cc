#include "server/server_metrics.h"

namespace hocket::server {
namespace {

std::vector<double> first_token_bounds() {
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
}
std::vector<double> token_bounds() {
  return {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}
std::vector<double> request_bounds() {
  return {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}

}  // namespace

ServerMetrics::ServerMetrics(telemetry::Metrics& metrics, const std::string& model_name)
    : metrics_(metrics),
      labels_{{"model_name", model_name}},
      time_to_first_token_(metrics.histogram("vllm:time_to_first_token_seconds", "From the request to its first token.",
                                             first_token_bounds(), labels_)),
      inter_token_latency_(metrics.histogram("vllm:inter_token_latency_seconds", "Between tokens of a sequence.",
                                             token_bounds(), labels_)),
      end_to_end_(metrics.histogram("vllm:e2e_request_latency_seconds", "From the request to the end of a sequence.",
                                    request_bounds(), labels_)),
      prompt_tokens_(metrics.counter("vllm:prompt_tokens_total", "Prompt tokens of accepted requests.", labels_)),
      generation_tokens_(metrics.counter("vllm:generation_tokens_total", "Generated tokens.", labels_)),
      connections_(metrics.gauge("hocket_server_connections", "Open connections.")) {
  for (const auto reason : {engine::FinishReason::stop, engine::FinishReason::length, engine::FinishReason::abort}) {
    telemetry::Labels labels = labels_;  // present from the start: a rate over a series that appears late is wrong
    labels["finished_reason"] = std::string(engine::name(reason));
    metrics_.counter("vllm:request_success_total", "Sequences that ended, by reason.", labels);
  }
}

void ServerMetrics::count_response(std::string_view handler, std::string_view method, int status) {
  metrics_
      .counter("hocket_server_requests_total", "HTTP responses.",
               {{"handler", std::string(handler)}, {"method", std::string(method)}, {"status", std::to_string(status)}})
      .add(1);
}

void ServerMetrics::finished(engine::FinishReason reason, Seconds since_request) {
  telemetry::Labels labels = labels_;
  labels["finished_reason"] = std::string(engine::name(reason));
  metrics_.counter("vllm:request_success_total", "Sequences that ended, by reason.", labels).add(1);
  end_to_end_.observe(since_request.count());
}

}  // namespace hocket::server

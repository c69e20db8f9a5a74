#include "server/routes.h"

#include <fmt/format.h>

#include "server/json_text.h"

namespace hocket::server {
namespace {

constexpr std::string_view kJson = "application/json";

Reply json(std::string body) { return {.status = 200, .content_type = std::string(kJson), .body = std::move(body)}; }

std::string model_card(const Context& context, std::string_view name) {
  return fmt::format(
      "{{\"id\":{},\"object\":\"model\",\"created\":{},\"owned_by\":\"hocket\",\"root\":{},\"parent\":null,"
      "\"max_model_len\":{},\"permission\":[{{\"id\":\"modelperm-{}\",\"object\":\"model_permission\",\"created\":{},"
      "\"allow_create_engine\":false,\"allow_sampling\":true,\"allow_logprobs\":true,\"allow_search_indices\":false,"
      "\"allow_view\":true,\"allow_fine_tuning\":false,\"organization\":\"*\",\"group\":null,\"is_blocking\":false}}]}}",
      json_string(name), context.started, json_string(context.engine.summary().model.name),
      context.engine.summary().max_model_len, context.started, context.started);
}

Reply models(Context& context, std::string_view) {
  std::string cards;
  for (const std::string& name : context.options.served_names) {
    cards += (cards.empty() ? "" : ",") + model_card(context, name);
  }
  return json("{\"object\":\"list\",\"data\":[" + cards + "]}");
}

Reply model(Context& context, std::string_view name) {
  if (context.serves(name)) return json(model_card(context, name));
  return error_reply({.status = 404, .message = fmt::format("The model `{}` does not exist.", name), .param = "model"});
}

Reply health(Context& context, std::string_view) {
  if (const auto error = refuse_now(context, 0)) return error_reply(*error);
  return {};
}

Reply version(Context& context, std::string_view) {
  return json(fmt::format("{{\"version\":{}}}", json_string(context.options.version)));
}

Reply load(Context& context, std::string_view) {
  return json(fmt::format("{{\"server_load\":{}}}", context.jobs.load()));
}

Reply metrics(Context& context, std::string_view) {
  return {.status = 200, .content_type = "text/plain; version=0.0.4; charset=utf-8", .body = context.metrics.text()};
}

struct Route {
  std::string_view path;  ///< one that ends with '/' takes the rest as an argument
  std::string_view handler, allow;
  Reply (*answer)(Context&, std::string_view argument);  ///< null: the engine answers
};
constexpr Route kRoutes[] = {
    {"/v1/completions", "/v1/completions", "POST", nullptr},
    {"/v1/models", "/v1/models", "GET, HEAD", models},
    {"/v1/models/", "/v1/models/{id}", "GET, HEAD", model},
    {"/health", "/health", "GET, HEAD", health},
    {"/ping", "/ping", "GET, HEAD, POST", health},
    {"/version", "/version", "GET, HEAD", version},
    {"/load", "/load", "GET, HEAD", load},
    {"/metrics", "/metrics", "GET, HEAD", metrics},
};

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
    out += escape ? static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return out;
}

bool allows(std::string_view allow, std::string_view method) {
  while (!allow.empty()) {
    const size_t comma = allow.find(", ");
    if (allow.substr(0, comma) == method) return true;
    allow = comma == std::string_view::npos ? std::string_view() : allow.substr(comma + 2);
  }
  return false;
}

}  // namespace

Reply error_reply(const ApiError& error) {
  Reply reply{.status = error.status, .content_type = std::string(kJson), .body = error_body(error)};
  if (error.status == 429 || error.status == 503) reply.headers.emplace_back("Retry-After", "5");
  return reply;
}

Routed route(Context& context, std::string_view method, std::string_view target) {
  const std::string path = percent_decoded(target.substr(0, target.find_first_of("?#")));
  for (const Route& route : kRoutes) {
    const bool takes_rest = route.path.back() == '/';
    const bool fits = takes_rest ? path.size() > route.path.size() && path.starts_with(route.path) : path == route.path;
    if (!fits) continue;
    if (!allows(route.allow, method)) {
      Reply reply = error_reply({.status = 405, .message = fmt::format("{} takes {}, not {}.", route.handler, route.allow, method)});
      reply.headers.emplace_back("Allow", route.allow);
      return {route.handler, std::move(reply)};
    }
    if (route.answer == nullptr) return {route.handler};
    return {route.handler, route.answer(context, takes_rest ? std::string_view(path).substr(route.path.size()) : "")};
  }
  return {"other", error_reply({.status = 404, .message = fmt::format("There is no {}.", path.substr(0, 200))})};
}

std::optional<ApiError> refuse_now(const Context& context, int64_t sequences) {
  const engine::Health health = context.engine.health();
  if (health == engine::Health::failed) {
    return ApiError{.status = 503, .message = "The engine has failed: " + context.engine.failure()};
  }
  if (context.draining || health == engine::Health::draining) {
    return ApiError{.status = 503, .message = "The server is shutting down."};
  }
  const engine::Summary& summary = context.engine.summary();
  const int64_t limit = context.options.max_waiting_requests + summary.max_seqs * summary.ranks;
  if (sequences > 0 && context.engine.running() + sequences > limit) {
    return ApiError{.status = 429,
                    .message = fmt::format("The queue is full: {} sequences are waiting. Try again later.",
                                           context.options.max_waiting_requests)};
  }
  return std::nullopt;
}

}  // namespace hocket::server

#include "server/completion_request.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "server/completion_fields.h"

namespace hocket::server {
namespace {

constexpr int kMaxDepth = 128;

/// A JSON value that is no list and no object.
using Scalar = std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string>;

std::string shown(const Scalar& value) {
  struct Show {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(uint64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string&) const { return "a string"; }
  };
  return std::visit(Show{}, value);
}

std::string_view expected_type(Kind kind) {
  switch (kind) {
    case Kind::real: return "a number";
    case Kind::integer: return "an integer";
    case Kind::seed: return "a 64-bit integer";
    case Kind::boolean:
    case Kind::only_true: return "a boolean";
    case Kind::model: return "a string";
    case Kind::prompt: return "a string, a list of strings, a list of token ids or a list of lists of token ids";
    case Kind::stops: return "a string or a list of strings";
    case Kind::stop_ids: return "a list of token ids";
    case Kind::stream_options: return "an object with the booleans include_usage and continuous_usage_stats";
    case Kind::response_format: return "an object";
    case Kind::ignored:
    case Kind::unsupported: break;
  }
  return "absent";
}

/// Takes the events of nlohmann's SAX parser. A handler returns false at the first error, which ends the parse.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(const CompletionLimits& limits) : limits_(limits) {}
  tl::expected<CompletionRequest, ApiError> finish(bool parsed);

  bool null() override { return scalar(nullptr); }
  bool boolean(bool v) override { return scalar(v); }
  bool number_integer(number_integer_t v) override { return scalar(v); }
  bool number_unsigned(number_unsigned_t v) override { return scalar(v); }
  bool number_float(number_float_t v, const string_t& text) override {
    // nlohmann turns an integer that does not fit into a double
    if (text.find_first_of(".eE") == std::string::npos) return refuse(fmt::format("The number {} does not fit in 64 bits.", text));
    return scalar(v);
  }
  bool string(string_t& v) override { return scalar(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override;
  bool end_object() override { return close(); }
  bool start_array(size_t) override;
  bool end_array() override { return close(); }
  bool key(string_t& name) override;
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) override;

 private:
  enum class PromptForm : uint8_t { unknown, texts, ids, lists };

  bool refuse(std::string message) {
    error_ = {.message = std::move(message), .param = field_ != nullptr ? std::string(field_->name) : ""};
    return false;
  }
  bool refuse_type() { return refuse(fmt::format("{} must be {}.", field_->name, expected_type(field_->kind))); }
  bool refuse_type(const Scalar& got) {
    return refuse(fmt::format("{} must be {}, got {}.", field_->name, expected_type(field_->kind), shown(got)));
  }
  bool refuse_unsupported(std::string_view what) { return refuse(fmt::format("{} is not supported by this server.", what)); }
  bool open();
  bool close() {
    --depth_;
    return true;
  }
  bool scalar(Scalar value);
  bool set_field(Scalar& value);
  bool set_real(const Scalar& value);
  bool set_integer(const Scalar& value);
  bool set_boolean(const Scalar& value);
  bool set_seed(const Scalar& value);
  bool add_element(Scalar& value);
  bool open_prompt(std::variant<std::string, std::vector<int32_t>> prompt);
  bool add_prompt(Scalar& value);
  bool add_stop(Scalar& value);
  bool set_option(const Scalar& value);
  std::optional<int32_t> token_id(const Scalar& value);
  bool check_together();

  const CompletionLimits& limits_;
  CompletionRequest request_;
  ApiError error_;
  int depth_ = 0;                 // open lists and objects; 1: in the top object
  const Field* field_ = nullptr;  // of the top object; null: unknown, its value is skipped
  std::string option_;            // key within field_'s object
  std::set<std::string> seen_;
  PromptForm prompt_form_ = PromptForm::unknown;
  bool stream_options_given_ = false;
};

bool Reader::open() {
  if (++depth_ <= kMaxDepth) return true;
  field_ = nullptr;
  return refuse(fmt::format("The request body is nested deeper than {} levels.", kMaxDepth));
}

bool Reader::start_object(size_t) {
  if (!open()) return false;
  if (depth_ == 1 || field_ == nullptr || field_->kind == Kind::ignored) return true;
  const bool takes_object = field_->kind == Kind::stream_options || field_->kind == Kind::response_format ||
                            field_->kind == Kind::unsupported;
  if (depth_ > 2 || !takes_object) return field_->kind == Kind::unsupported ? refuse_unsupported(field_->name) : refuse_type();
  stream_options_given_ |= field_->kind == Kind::stream_options;
  return true;
}

bool Reader::start_array(size_t) {
  if (!open()) return false;
  if (depth_ == 1) return refuse("The request body must be a JSON object.");
  if (field_ == nullptr || field_->kind == Kind::ignored) return true;
  const Kind kind = field_->kind;
  if (depth_ == 2 && (kind == Kind::prompt || kind == Kind::stops || kind == Kind::stop_ids || kind == Kind::unsupported)) return true;
  if (kind == Kind::unsupported) return refuse_unsupported(field_->name);
  const bool may_nest = prompt_form_ == PromptForm::unknown || prompt_form_ == PromptForm::lists;
  if (depth_ != 3 || kind != Kind::prompt || !may_nest) return refuse_type();
  prompt_form_ = PromptForm::lists;
  return open_prompt(std::vector<int32_t>());
}

bool Reader::key(string_t& name) {
  if (depth_ == 1) {
    field_ = find_field(name);
    if (!seen_.insert(name).second) return refuse(fmt::format("The field \"{}\" is there twice.", name));
    return true;
  }
  if (field_ == nullptr || field_->kind == Kind::ignored) return true;
  option_ = name;
  return field_->kind != Kind::unsupported || refuse_unsupported(field_->name);
}

bool Reader::parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
  field_ = nullptr;
  const std::string_view what = error.what();
  const size_t dash = what.find(" - ");  // behind nlohmann's own line and column
  std::string reason(dash == std::string_view::npos ? "a number is out of range" : what.substr(dash + 3));
  for (char& c : reason) c = static_cast<unsigned char>(c) < 0x80 ? c : '?';
  if (reason.size() > 200) reason = reason.substr(0, 200) + "...";
  return refuse(fmt::format("The request body is not valid JSON (byte {}): {}.", position, reason));
}

bool Reader::scalar(Scalar value) {
  if (depth_ == 0) return refuse("The request body must be a JSON object.");
  if (field_ == nullptr || field_->kind == Kind::ignored) return true;
  if (depth_ == 1) return std::holds_alternative<std::nullptr_t>(value) || set_field(value);
  if (field_->kind == Kind::stream_options || field_->kind == Kind::response_format) return set_option(value);
  return add_element(value);
}

bool Reader::set_field(Scalar& value) {
  const auto* text = std::get_if<std::string>(&value);
  switch (field_->kind) {
    case Kind::real: return set_real(value);
    case Kind::integer: return set_integer(value);
    case Kind::boolean:
    case Kind::only_true: return set_boolean(value);
    case Kind::seed: return set_seed(value);
    case Kind::model:
      if (text == nullptr) return refuse_type(value);
      request_.model = *text;
      return true;
    case Kind::prompt:
    case Kind::stops: return text != nullptr ? add_element(value) : refuse_type(value);
    case Kind::stop_ids:
    case Kind::stream_options:
    case Kind::response_format: return refuse_type(value);
    case Kind::unsupported: {
      const bool neutral = value == Scalar(false) || value == Scalar(int64_t{0}) || value == Scalar(uint64_t{0}) ||
                           value == Scalar(0.0) || value == Scalar(std::string());
      return neutral || refuse_unsupported(field_->name);
    }
    case Kind::ignored: break;
  }
  return true;
}

bool Reader::set_real(const Scalar& value) {
  double number = 0;
  if (const auto* i = std::get_if<int64_t>(&value)) {
    number = static_cast<double>(*i);
  } else if (const auto* u = std::get_if<uint64_t>(&value)) {
    number = static_cast<double>(*u);
  } else if (const auto* d = std::get_if<double>(&value)) {
    number = *d;
  } else {
    return refuse_type(value);
  }
  const bool high_enough = field_->above_low ? number > field_->low : number >= field_->low;
  if (!high_enough || number > field_->high) {
    if (!field_->above_low) {
      return refuse(fmt::format("{} must be from {} to {}, got {}.", field_->name, field_->low, field_->high, number));
    }
    const std::string at_most = field_->high > 1 ? "" : fmt::format(" and at most {}", field_->high);
    return refuse(fmt::format("{} must be above {}{}, got {}.", field_->name, field_->low, at_most, number));
  }
  field_->set_real(request_, static_cast<float>(number));
  return true;
}

bool Reader::set_integer(const Scalar& value) {
  const auto* i = std::get_if<int64_t>(&value);
  const auto* u = std::get_if<uint64_t>(&value);
  if (i == nullptr && u == nullptr) return refuse_type(value);
  const auto low = static_cast<int64_t>(field_->low), high = static_cast<int64_t>(field_->high);
  // high is far below 2^63: an unsigned value that does not fit is above it anyway
  const int64_t number = i != nullptr ? *i : static_cast<int64_t>(std::min<uint64_t>(*u, std::numeric_limits<int64_t>::max()));
  if (number < low || number > high) {
    const bool limited = field_->high < std::numeric_limits<int>::max();
    return refuse(limited ? fmt::format("{} must be from {} to {}, got {}.", field_->name, low, high, shown(value))
                          : fmt::format("{} must be at least {} and not huge, got {}.", field_->name, low, shown(value)));
  }
  field_->set_integer(request_, number);
  return true;
}

bool Reader::set_boolean(const Scalar& value) {
  const auto* boolean = std::get_if<bool>(&value);
  if (boolean == nullptr) return refuse_type(value);
  if (field_->kind == Kind::only_true) {
    return *boolean || refuse_unsupported(fmt::format("{}=false", field_->name));
  }
  field_->set_boolean(request_, *boolean);
  return true;
}

bool Reader::set_seed(const Scalar& value) {
  if (const auto* u = std::get_if<uint64_t>(&value)) {
    request_.seed = *u;
  } else if (const auto* i = std::get_if<int64_t>(&value)) {
    if (*i != -1) request_.seed = static_cast<uint64_t>(*i);
  } else {
    return refuse_type(value);
  }
  return true;
}

std::optional<int32_t> Reader::token_id(const Scalar& value) {
  const auto* u = std::get_if<uint64_t>(&value);
  const auto* i = std::get_if<int64_t>(&value);
  if (u == nullptr && i == nullptr) {
    refuse_type();
    return std::nullopt;
  }
  if (u == nullptr || *u >= static_cast<uint64_t>(limits_.vocab)) {
    refuse(fmt::format("Token id {} is out of vocabulary.", shown(value)));
    return std::nullopt;
  }
  return static_cast<int32_t>(*u);
}

bool Reader::add_element(Scalar& value) {
  switch (field_->kind) {
    case Kind::prompt: return add_prompt(value);
    case Kind::stops: return add_stop(value);
    case Kind::stop_ids: {
      const auto id = token_id(value);
      if (id) request_.sampling.stop_token_ids.push_back(*id);
      return id.has_value();
    }
    default: return refuse_unsupported(field_->name);
  }
}

bool Reader::open_prompt(std::variant<std::string, std::vector<int32_t>> prompt) {
  if (static_cast<int64_t>(request_.prompts.size()) >= limits_.max_prompts) {
    return refuse(fmt::format("prompt: at most {} prompts are allowed.", limits_.max_prompts));
  }
  request_.prompts.push_back(std::move(prompt));
  return true;
}

bool Reader::add_prompt(Scalar& value) {
  if (depth_ <= 2) {  // else: within a list of lists
    const PromptForm form = std::holds_alternative<std::string>(value) ? PromptForm::texts : PromptForm::ids;
    if (prompt_form_ == PromptForm::unknown) {
      prompt_form_ = form;
      if (form == PromptForm::ids) request_.prompts.emplace_back(std::vector<int32_t>());
    }
    if (form != prompt_form_) return refuse_type();
    if (form == PromptForm::texts) return open_prompt(std::move(std::get<std::string>(value)));
  }
  const auto id = token_id(value);
  if (id) std::get<std::vector<int32_t>>(request_.prompts.back()).push_back(*id);
  return id.has_value();
}

bool Reader::add_stop(Scalar& value) {
  auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return refuse_type();
  if (text->empty()) return refuse("stop: a stop string is empty.");
  auto& stops = request_.sampling.stop;
  if (static_cast<int64_t>(stops.size()) >= limits_.max_stops) {
    return refuse(fmt::format("stop: at most {} strings are allowed.", limits_.max_stops));
  }
  stops.push_back(std::move(*text));
  return true;
}

bool Reader::set_option(const Scalar& value) {
  if (field_->kind == Kind::response_format) {
    const bool other = option_ == "type" && value != Scalar(std::string("text"));
    return !other || refuse_unsupported("response_format other than text");
  }
  const bool usage = option_ == "include_usage", continuous = option_ == "continuous_usage_stats";
  if ((!usage && !continuous) || std::holds_alternative<std::nullptr_t>(value)) return true;
  const auto* boolean = std::get_if<bool>(&value);
  if (boolean == nullptr) return refuse_type();
  (usage ? request_.include_usage : request_.continuous_usage) = *boolean;
  return true;
}

bool Reader::check_together() {
  const auto refuse_field = [this](std::string_view name, std::string message) {
    field_ = find_field(name);
    return refuse(std::move(message));
  };
  const sched::SamplingParams& s = request_.sampling;
  const bool any_empty = std::any_of(request_.prompts.begin(), request_.prompts.end(), [](const auto& prompt) {
    return std::visit([](const auto& p) { return p.empty(); }, prompt);
  });
  if (seen_.count("prompt") == 0) return refuse_field("prompt", "prompt is missing.");
  if (request_.prompts.empty() || any_empty) return refuse_field("prompt", "prompt must not be empty.");
  if (s.logprobs > limits_.max_logprobs) {
    return refuse_field("logprobs", fmt::format("logprobs must be from 0 to {}, got {}.", limits_.max_logprobs, s.logprobs));
  }
  if (request_.choices > 1 && s.temperature == 0) {
    return refuse_field("n", fmt::format("n must be 1 when using greedy sampling, got {}.", request_.choices));
  }
  if (s.max_tokens == 0 && !request_.echo) {
    return refuse_field("max_tokens", "max_tokens must be at least 1 without echo, got 0.");
  }
  if (s.min_tokens > s.max_tokens) {
    return refuse_field("min_tokens", fmt::format("min_tokens must be from 0 to max_tokens ({}), got {}.", s.max_tokens, s.min_tokens));
  }
  if (stream_options_given_ && !request_.stream) {
    return refuse_field("stream_options", "stream_options can be used only with stream.");
  }
  if (request_.echo && s.logprobs >= 0) return refuse_field("echo", "echo with logprobs is not supported by this server.");
  return true;
}

tl::expected<CompletionRequest, ApiError> Reader::finish(bool parsed) {
  if (!parsed || !check_together()) return tl::unexpected<ApiError>(std::move(error_));
  return std::move(request_);
}

}  // namespace

tl::expected<CompletionRequest, ApiError> parse_completion(std::string_view body, const CompletionLimits& limits) {
  Reader reader(limits);
  const bool parsed = nlohmann::json::sax_parse(body.begin(), body.end(), &reader);
  return reader.finish(parsed);
}

}  // namespace hocket::server

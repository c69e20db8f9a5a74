// JSON text written by hand: a stream event is a prefix, an escaped string and a suffix.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace hocket::server {

/// Appends `utf8` as a JSON string with its quotes. Ill-formed bytes become U+FFFD, so that no input can break the JSON.
/// Source: RFC 8259, section 7.
void append_json_string(std::string& out, std::string_view utf8);
std::string json_string(std::string_view utf8);
/// Shortest text that reads back as the same float; -9999.0 for NaN, infinities and below, which JSON cannot hold or
/// clients cannot add up.
void append_json_logprob(std::string& out, float value);
/// Bytes of the well-formed UTF-8 character at the start of `text`, or 0. Source: Unicode 15.0, table 3-7.
size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);
int64_t count_characters(std::string_view utf8);  ///< code points

}  // namespace hocket::server

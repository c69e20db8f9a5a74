#include "sim/cost_file.h"

#include <array>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hocket::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;
struct Field {
  const char* key;
  dbo::Curve dbo::PhaseCosts::*curve;
};
constexpr std::array<Field, 7> kFields{{{"before", &dbo::PhaseCosts::before},
                                        {"attention", &dbo::PhaseCosts::attention},
                                        {"dispatch", &dbo::PhaseCosts::dispatch},
                                        {"experts", &dbo::PhaseCosts::experts},
                                        {"combine", &dbo::PhaseCosts::combine},
                                        {"after", &dbo::PhaseCosts::after},
                                        {"outside", &dbo::PhaseCosts::outside}}};

/// A curve a line, so that two files can be compared by eye.
std::string phase_json(const dbo::PhaseCosts& costs) {
  std::string out;
  for (const Field& field : kFields) {
    std::string points;
    for (const dbo::Curve::Point& point : (costs.*field.curve).points()) {
      points += fmt::format("{}[{:.1f}, {:.3f}]", points.empty() ? "" : ", ", point.count, point.us);
    }
    out += fmt::format("{}\n  \"{}\": [{}]", out.empty() ? "" : ",", field.key, points);
  }
  return "{" + out + "\n }";
}

dbo::PhaseCosts phase_of(const ordered_json& json) {
  dbo::PhaseCosts out;
  for (const Field& field : kFields) {
    std::vector<dbo::Curve::Point> points;
    for (const ordered_json& point : json.at(field.key)) points.push_back({point.at(0), point.at(1)});
    out.*field.curve = dbo::Curve(std::move(points));
  }
  return out;
}

}  // namespace

std::string cost_json(const CostFile& file) {
  const ordered_json head = {{"format", kFormat},
                             {"device", file.origin.device},
                             {"model", file.origin.model},
                             {"ranks", file.origin.ranks},
                             {"measured", file.measured},
                             {"unit", "microseconds of a layer by tokens of a rank; attention by (query, key) pairs; outside of a step"},
                             {"layers", file.table.layers}};
  std::string text = head.dump(1);
  text.erase(text.size() - 2);  // its last line break and brace
  return fmt::format("{},\n \"prefill\": {},\n \"decode\": {}\n}}\n", text, phase_json(file.table.prefill),
                     phase_json(file.table.decode));
}

Expected<CostFile> read_cost_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) return fail(Code::missing, fmt::format("{}: cannot be read.", path.string()));
  try {
    const ordered_json json = ordered_json::parse(stream);
    if (const int format = json.at("format"); format != kFormat) {
      return fail(Code::bad_input, fmt::format("{}: format {}, this version reads {}. Run hocket bench calibrate again.",
                                               path.string(), format, kFormat));
    }
    CostFile file{.origin = {json.at("device"), json.at("model"), json.at("ranks")},
                  .measured = json.at("measured"),
                  .table = {json.at("layers"), phase_of(json.at("prefill")), phase_of(json.at("decode"))}};
    if (file.table.layers < 1) return fail(Code::bad_input, fmt::format("{}: {} layers.", path.string(), file.table.layers));
    return file;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::bad_input, fmt::format("{}: not a cost table: {}", path.string(), error.what()));
  } catch (const Error& error) {
    return fail(Code::bad_input, fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace hocket::sim

// Records: the results of a run as JSON, in a state and in a history. The JSON that is read is not trusted.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/report/report.hpp"

namespace tutti::engine {

/// The largest number of steps or samples; all up to it are exact as doubles.
inline constexpr std::uint64_t most_counted = std::uint64_t{1} << 53;

/// The number `all[name]`. Throws Error{invalid} unless it is a whole number from 0 to `most`.
std::uint64_t whole(const nlohmann::json& all, const char* name, std::uint64_t most = most_counted);

/// The number in `value`; null is read as NaN, because JSON has no infinity and no NaN, and nlohmann::json writes both
/// as null. This function and those below throw nlohmann::json's exceptions for values of another type.
double number(const nlohmann::json& value);
std::vector<double> numbers(const nlohmann::json& values);

nlohmann::ordered_json record_of(const Validation& found);
nlohmann::ordered_json record_of(const EpochResult& result);
Validation validation_of(const nlohmann::json& json);
EpochResult epoch_of(const nlohmann::json& json);

}  // namespace tutti::engine

#include "engine/data/sample.hpp"

#include "tutti/status.hpp"

namespace tutti::engine {

const Array* Fields::find(std::string_view name) const noexcept {
  for (const Field& each : fields_)
    if (each.first == name) return &each.second;
  return nullptr;
}

const Array& Fields::operator[](std::string_view name) const {
  if (const Array* found = find(name)) return *found;
  std::string names;
  for (const Field& each : fields_) names += (names.empty() ? "'" : ", '") + each.first + "'";
  throw Error(Code::invalid, "no array '" + std::string(name) + "'; there is " + (names.empty() ? "nothing" : names));
}

Array& Fields::operator[](std::string_view name) {
  for (Field& each : fields_)
    if (each.first == name) return each.second;
  return fields_.emplace_back(std::string(name), Array()).second;
}

}  // namespace tutti::engine

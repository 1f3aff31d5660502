#include "transports/core/told_error.hpp"

#include <charconv>

namespace tutti {
namespace {

constexpr std::string_view mark = "error ";

int take_number(std::string_view& text, int otherwise) {
  int number = otherwise;
  const char* const end = text.data() + text.size();
  const char* const after = std::from_chars(text.data(), end, number).ptr;
  text.remove_prefix(static_cast<std::size_t>(after - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return number;
}

}  // namespace

std::string told_error(const Error& error) {
  return std::string(mark) + std::to_string(static_cast<int>(error.code())) + " " + std::to_string(error.culprit()) +
         " " + error.what();
}

std::optional<Error> error_told_in(std::string_view value) {
  if (!value.starts_with(mark)) return std::nullopt;
  value.remove_prefix(mark.size());
  const int code = take_number(value, 0), culprit = take_number(value, -1);
  const bool known = code > static_cast<int>(Code::ok) && code <= static_cast<int>(Code::internal);
  return Error(known ? static_cast<Code>(code) : Code::protocol, std::string(value), culprit);
}

}  // namespace tutti

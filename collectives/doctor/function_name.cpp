#include "collectives/doctor/function_name.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "transports/core/printable.hpp"

namespace tutti::doctor {
namespace {

constexpr std::size_t longest_symbol = 1000, longest_shown = 120;
constexpr std::size_t longest_arguments = 24;  // of a template, before they are left out

/// A mangled name refers back to parts of itself, so that each reference may double its length.
bool may_explode(std::string_view symbol) noexcept {
  constexpr std::ptrdiff_t most_references = 30;
  std::ptrdiff_t references = 0;
  for (std::size_t i = 0; i + 1 < symbol.size(); ++i)
    if ((symbol[i] == 'S' || symbol[i] == 'T') &&
        (symbol[i + 1] == '_' || (symbol[i + 1] >= '0' && symbol[i + 1] <= '9')))
      ++references;
  return symbol.size() > longest_symbol || references > most_references;
}

/// The index after the bracket that closes the one at `begin`.
std::size_t behind_bracket(std::string_view text, std::size_t begin) noexcept {
  const char open = text[begin], close = open == '<' ? '>' : ')';
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '>' && i > 0 && text[i - 1] == '-') continue;  // "->"
    depth += text[i] == open ? 1 : text[i] == close ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return text.size();
}

/// Returns true for what may follow the arguments.
bool is_qualifier(std::string_view text) noexcept {
  for (const std::string_view word : {"const", "volatile", "&", "[", "noexcept"})
    if (text.starts_with(word)) return true;
  return false;
}

/// Leaves out the result, the arguments, and the arguments of templates that are long.
std::string shortened(std::string_view full) {
  constexpr std::string_view kept[] = {
      "(anonymous namespace)", "operator()", "operator<<", "operator<=", "operator->", "operator<", "operator>"};
  std::string text;
  bool is_operator = false;  // the name has been seen
  for (std::size_t i = 0; i < full.size();) {
    const auto* const word = std::ranges::find_if(kept, [&](auto one) { return full.substr(i).starts_with(one); });
    if (word != std::end(kept)) {
      text += *word;
      is_operator = word->starts_with("operator");
      i += word->size();
    } else if (full[i] == '<' || full[i] == '(') {
      const std::size_t behind = behind_bracket(full, i);
      const bool is_short = full[i] == '<' && behind - i <= longest_arguments;
      text += is_short ? full.substr(i, behind - i) : full[i] == '<' ? "<...>" : "()";
      i = behind;
    } else if (full[i] == ' ' && text.ends_with(')') && is_qualifier(full.substr(i + 1))) {
      break;
    } else if (full[i] == ' ' && !text.ends_with("operator")) {
      if (!is_operator) text.clear();  // all so far was the result
      ++i;
    } else {
      text += full[i++];
    }
  }
  return text.empty() ? std::string(full) : text;
}

}  // namespace

std::string readable_function(const std::string& symbol) {
  const std::string name = symbol.substr(0, symbol.find_first_of(".@"));  // without ".cold", ".part.0", "@@GLIBC_2.34"
  if (!name.starts_with("_Z") || may_explode(name)) return printable(name.empty() ? symbol : name, longest_shown);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> full(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return printable(full && status == 0 ? shortened(full.get()) : name, longest_shown);
}

bool is_library_function(std::string_view symbol) noexcept {
  constexpr std::string_view waiting[] = {"sleep",   "usleep", "nanosleep", "clock_nanosleep", "read",
                                          "write",   "poll",   "select",    "epoll_wait",      "pthread_join",
                                          "syscall", "pause",  "_start"};
  for (const std::string_view prefix : {"tutti_", "MPI_", "PMPI_", "__"})
    if (symbol.starts_with(prefix)) return true;
  if (std::ranges::find(waiting, symbol) != std::end(waiting)) return true;
  if (!symbol.starts_with("_Z")) return false;
  symbol.remove_prefix(2);
  symbol.remove_prefix(std::min(symbol.find_first_not_of("ZNKVr"), symbol.size()));
  for (const std::string_view space : {"5tutti", "3fmt", "St", "Sa", "Ss", "9__gnu_cxx"})
    if (symbol.starts_with(space)) return true;
  return false;
}

}  // namespace tutti::doctor

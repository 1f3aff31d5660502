// A sequence of texts, each preceded by its size, since a word or a variable may contain any byte.
#include "tools/run/job_text.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

void put(std::string& out, const std::string& text) { out += std::to_string(text.size()) + ":" + text; }

void put(std::string& out, const std::vector<std::string>& texts) {
  put(out, std::to_string(texts.size()));
  for (const std::string& text : texts) put(out, text);
}

[[noreturn]] void malformed() { throw Error(Code::protocol, "the launcher's description of the job is malformed"); }

template <class T>
T number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) malformed();
  return value;
}

std::string take(std::string_view& rest) {
  const std::size_t colon = rest.find(':');
  if (colon == rest.npos) malformed();
  const auto size = number_of<std::size_t>(rest.substr(0, colon));
  rest.remove_prefix(colon + 1);
  if (rest.size() < size) malformed();
  std::string text(rest.substr(0, size));
  rest.remove_prefix(size);
  return text;
}

std::vector<std::string> take_all(std::string_view& rest) {
  std::vector<std::string> texts;
  for (auto left = number_of<std::size_t>(take(rest)); left > 0; --left) texts.push_back(take(rest));
  return texts;
}

}  // namespace

std::string job_text(const Job& job, const std::string& folder) {
  std::string text;
  std::vector<std::string> variables;
  for (const auto& [name, value] : job.variables) variables.push_back(name + "=" + value);
  std::vector<std::string> here;
  for (const int rank : job.here) here.push_back(std::to_string(rank));
  put(text, std::to_string(job.ranks));
  put(text, here);
  put(text, std::to_string(job.silence));
  put(text, std::to_string(job.start_patience));
  put(text, std::to_string(job.bind ? 1 : 0));
  put(text, job.mark);
  put(text, folder);
  put(text, job.words);
  put(text, job.stores);
  put(text, variables);
  return text;
}

Job parse_job(const std::string& text, std::string& folder) {
  std::string_view rest = text;
  Job job;
  job.ranks = number_of<int>(take(rest));
  for (const std::string& rank : take_all(rest)) job.here.push_back(number_of<int>(rank));
  job.silence = number_of<double>(take(rest));
  job.start_patience = number_of<double>(take(rest));
  job.bind = number_of<int>(take(rest)) != 0;
  job.mark = take(rest);
  folder = take(rest);
  job.words = take_all(rest);
  job.stores = take_all(rest);
  for (const std::string& variable : take_all(rest)) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) malformed();
    job.variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < job.ranks; };
  const bool can_be = std::ranges::all_of(job.here, is_rank) && job.silence > 0 && job.start_patience > 0;
  if (!rest.empty() || job.words.empty() || job.here.empty() || !can_be) malformed();
  return job;
}

}  // namespace tutti::tools

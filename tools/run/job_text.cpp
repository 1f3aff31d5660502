// The format is a sequence of texts, each after its size, because a word or a variable may contain any byte.
#include "tools/run/job_text.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr int most_ranks_of_all = 1 << 20;

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

/// Returns ranks in ascending order as "0-7" or "0,2,4"; consecutive ranks become a range.
std::string ranges_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    const std::size_t begin = i++;
    while (i < ranks.size() && ranks[i] == ranks[i - 1] + 1) ++i;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[begin]);
    if (i - begin > 1) text += "-" + std::to_string(ranks[i - 1]);
  }
  return text;
}

/// Parses the result of ranges_of(), which has at least one rank, for a job with `all` ranks.
std::vector<int> ranks_in(std::string_view text, int all) {
  std::vector<int> ranks;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view range = text.substr(begin, end - begin);
    const std::size_t dash = std::min(range.find('-'), range.size());
    const int first = number_of<int>(range.substr(0, dash));
    const int last = dash == range.size() ? first : number_of<int>(range.substr(dash + 1));
    if (first < 0 || last < first || last >= all || (!ranks.empty() && first <= ranks.back())) malformed();
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
    begin = end + 1;
  }
  return ranks;
}

}  // namespace

std::string job_text(const Job& job, const std::string& folder) {
  std::string text;
  std::vector<std::string> variables;
  for (const auto& [name, value] : job.variables) variables.push_back(name + "=" + value);
  put(text, std::to_string(job.ranks));
  put(text, std::to_string(job.hosts.size()));
  for (const Host& host : job.hosts) {
    put(text, host.rack.empty() ? host.name : host.name + '\t' + host.rack);  // no name has a tab
    put(text, ranges_of(host.ranks));
  }
  put(text, std::to_string(job.place));
  put(text, std::to_string(job.fan_out));
  put(text, job.remote_start);
  put(text, job.remote_tutti);
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
  if (job.ranks < 0 || job.ranks > most_ranks_of_all) malformed();
  int ranks = 0;
  for (auto left = number_of<std::size_t>(take(rest)); left > 0; --left) {
    Host& host = job.hosts.emplace_back();
    host.name = take(rest);
    if (const std::size_t tab = host.name.find('\t'); tab != host.name.npos) {
      host.rack = host.name.substr(tab + 1);
      host.name.resize(tab);
    }
    host.ranks = ranks_in(take(rest), job.ranks);
    ranks += static_cast<int>(host.ranks.size());
    if (ranks > job.ranks) malformed();
  }
  if (job.hosts.empty()) malformed();
  job.here = job.hosts.front().ranks;
  job.place = number_of<std::size_t>(take(rest));
  job.fan_out = number_of<int>(take(rest));
  job.remote_start = take(rest);
  job.remote_tutti = take(rest);
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
  const bool can_be = job.silence > 0 && job.start_patience > 0 && job.fan_out > 0 && job.place < most_ranks_of_all;
  if (!rest.empty() || job.words.empty() || !can_be) malformed();
  return job;
}

}  // namespace tutti::tools

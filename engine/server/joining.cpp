#include "engine/server/joining.hpp"

#include <charconv>
#include <filesystem>

#include "engine/checkpoint/atomic_file.hpp"
#include "transports/core/printable.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

std::filesystem::path join_file(const std::string& run) { return std::filesystem::path(run) / "join"; }

}  // namespace

std::map<std::string, std::string> Family::settings(const std::string& strategy) const {
  return {{"strategy", strategy},
          {"workers", std::to_string(workers)},
          {"processes", std::to_string(processes)},
          {"ranks", std::to_string(ranks)}};
}

Family Family::read(const std::map<std::string, std::string>& settings) {
  constexpr int most = 1 << 24;
  const auto number = [&](const char* name) {
    const auto found = settings.find(name);
    const std::string text = found == settings.end() ? "nothing" : found->second;
    int value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || rest != text.data() + text.size() || value < 0 || value > most)
      throw Error(Code::protocol, "what is to be joined says '" + printable(text, 40) + "' for its number of " + name +
                                      ": is it of another version of tutti?");
    return value;
  };
  return {static_cast<std::size_t>(number("workers")), static_cast<std::size_t>(number("processes")), number("ranks")};
}

constexpr std::size_t longest_join_file = 1 << 20;

void write_join_file(const std::string& run, const std::vector<std::string>& addresses) {
  AtomicFile file(join_file(run), 0600);
  for (const std::string& one : addresses) file.write(one + "\n");
  file.commit();
}

std::vector<std::string> read_join_file(const std::string& run) {
  std::vector<std::string> addresses = read_lines_if_any(join_file(run), longest_join_file);
  if (addresses.empty())
    throw Error(Code::invalid,
                "there is nothing to join in " + run +
                    ": training there has not begun, has ended, or was not started with strategy.joins=N");
  return addresses;
}

void remove_join_file(const std::string& run) { std::filesystem::remove(join_file(run)); }

}  // namespace tutti::engine

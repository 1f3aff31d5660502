// Compiles a named MPI's program, once for each compiler and source.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "benchmarks/versus/peer_list.hpp"
#include "transports/core/sha256.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

namespace fs = std::filesystem;

constexpr double patience_with_a_compiler = 300, patience_with_a_version = 30;  // seconds

/// The sources that were installed with tutti, in a fixed order.
std::vector<fs::path> source_files(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(root, ignored))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw Error(Code::unsupported, "the sources of its program are not in " + root.string() + ": install tutti again");
  return files;
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A hash of everything that a program depends on: compiler, its command line, environment and sources.
std::string key_of(const Peer& peer, const std::vector<fs::path>& files) {
  std::string all = fs::canonical(peer.compiler).string();
  struct stat info {};
  if (stat(peer.compiler.c_str(), &info) == 0) all += fmt::format("\n{} {}", info.st_size, info.st_mtim.tv_sec);
  for (const char* question : {"--version", "-show"})
    all += "\n" + run_to_end({{peer.compiler, question}, peer.environment}, patience_with_a_version).out;
  for (const auto& [variable, value] : peer.environment) all += "\n" + variable + "=" + value;
  for (const fs::path& file : files) all += "\n" + file.filename().string() + "\n" + text_of(file);
  const Digest digest = sha256(ConstBytes(reinterpret_cast<const std::byte*>(all.data()), all.size()));
  std::string key;
  for (std::size_t i = 0; i < 12; ++i) key += fmt::format("{:02x}", std::to_integer<int>(digest[i]));
  return key;
}

fs::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache && *cache == '/') return fs::path(cache) / "tutti/peers";
  if (home && *home == '/') return fs::path(home) / ".cache/tutti/peers";
  throw Error(Code::unsupported, "there is no place for its program: set HOME or XDG_CACHE_HOME");
}

/// The first line of stderr that mentions an error.
std::string first_error(const Outcome& outcome) {
  std::istringstream lines(outcome.err);
  for (std::string line; std::getline(lines, line);)
    if (line.find("error") != std::string::npos) return "\"" + line + "\"";
  return outcome.why();
}

}  // namespace

std::string compile_peer(const Peer& peer, bool verbose) {
  const fs::path root = fs::path(share_folder()) / "source";
  const std::vector<fs::path> files = source_files(root);
  const fs::path folder = cache_folder() / key_of(peer, files);
  const fs::path program = folder / "peer", made = folder / fmt::format("peer.{}", getpid());
  if (fs::exists(program)) return program;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error(Code::resource, fmt::format("cannot make {}: {}", folder.string(), failed.message()));
  fmt::print(stderr, "tutti bench: compiling {} with {}, once\n", peer.name, peer.compiler);
  Command command{{peer.compiler, "-std=c++20", "-O2", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-I", root.string(),
                   "-I", (root / "include").string()},
                  peer.environment};
  for (const fs::path& file : files)
    if (file.extension() == ".cpp") command.words.push_back(file);
  for (const std::string& word : {std::string("-o"), made.string()}) command.words.push_back(word);
  const Outcome outcome = run_to_end(command, patience_with_a_compiler, verbose);
  if (outcome.ok()) fs::rename(made, program, failed);
  if (!outcome.ok() || failed) {
    fs::remove(made, failed);
    fs::remove(folder, failed);  // fails if another process has put something there
    throw Error(Code::unsupported, fmt::format("{} does not compile its program: {}; --verbose shows all that it says",
                                               peer.compiler, first_error(outcome)));
  }
  return program;
}

}  // namespace tutti::bench

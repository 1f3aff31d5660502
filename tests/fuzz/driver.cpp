// The driver of a harness without libFuzzer: makes inputs out of a corpus and hands them to the door (the tested code).
//
//   fuzz_yaml CORPUS [--inputs N] [--seconds S] [--seed N]
//   fuzz_yaml FILE...
//
// CORPUS is a folder; each of its files is an input itself. An input that ends the process, takes 20 s, or raises the
// memory of the process above 1 GiB is kept in ./crash-DOOR; given as FILE, it is handed to the door again.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>

#include "tests/fuzz/door.hpp"
#include "tests/fuzz/mutator.hpp"

namespace tutti::fuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t longest = std::size_t{64} << 10;
constexpr unsigned limit_seconds = 20;
constexpr long limit_kib = 1 << 20;

struct Wanted {
  std::vector<fs::path> from;
  std::uint64_t inputs = 0, seed = 1;  ///< 0 inputs: as many as `seconds` allow
  double seconds = 2;
};

Wanted parse(std::span<char*> arguments) {
  Wanted wanted;
  bool timed = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string word = arguments[i];
    if (!word.starts_with("--")) {
      wanted.from.emplace_back(word);
      continue;
    }
    if (++i == arguments.size()) fail(word + " needs a number");
    if (word == "--inputs")
      wanted.inputs = std::strtoull(arguments[i], nullptr, 10);
    else if (word == "--seed")
      wanted.seed = std::strtoull(arguments[i], nullptr, 10);
    else if (word == "--seconds")
      wanted.seconds = std::strtod(arguments[i], nullptr), timed = true;
    else
      fail("there is no " + word + ": say CORPUS [--inputs N] [--seconds S] [--seed N], or FILE...");
  }
  if (wanted.from.empty()) fail("name a folder with inputs, or files");
  if (wanted.inputs > 0 && !timed) wanted.seconds = 1e9;
  return wanted;
}

Bytes read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(file.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Bytes> read_all(const std::vector<fs::path>& from) {
  std::vector<Bytes> inputs;
  for (const fs::path& each : from) {
    std::vector<fs::path> files{each};
    if (fs::is_directory(each)) files.assign(fs::directory_iterator(each), {});
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) inputs.push_back(read(file));
  }
  if (inputs.empty()) fail("there is no input in " + from.front().string());
  return inputs;
}

/// Writes the current input to a file, which stays if the process ends before leave() is called.
class AtDoor {
 public:
  explicit AtDoor(const std::string& file)
      : file_(file), fd_(open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    if (fd_ < 0) fail(file + " cannot be made");
  }
  void note(const Bytes& input) {
    const auto size = static_cast<ssize_t>(input.size());
    if (pwrite(fd_, input.data(), input.size(), 0) != size || ftruncate(fd_, size) != 0)
      fail(file_ + " cannot be written");
  }
  void leave() { unlink(file_.c_str()); }

 private:
  const std::string file_;
  const int fd_;
};

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void on_alarm(int) {
  constexpr std::string_view line = "fuzz: an input takes more than 20 s\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
  std::abort();
}

int run(const Wanted& wanted, const std::string& door) {
  const std::vector<Bytes> corpus = read_all(wanted.from);
  std::signal(SIGALRM, on_alarm);
  const bool mutates = fs::is_directory(wanted.from.front());
  AtDoor at_door("crash-" + door);
  std::uint64_t inputs = 0, taken = 0;
  const long before = peak_kib();
  const auto hand = [&](const Bytes& input) {
    at_door.note(input);
    alarm(limit_seconds);
    taken += take(input) ? 1 : 0;
    alarm(0);
    ++inputs;
    if (peak_kib() - before > limit_kib) fail("an input took more than 1 GiB of memory");
  };
  const auto began = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  for (const Bytes& each : corpus) hand(each);
  Mutator mutator(corpus, wanted.seed, longest);
  while (mutates && (wanted.inputs == 0 || inputs < wanted.inputs) && seconds() < wanted.seconds) hand(mutator.next());
  const double spent = seconds(), all = static_cast<double>(inputs);
  std::printf(
      "%s: %llu inputs in %.1f s, %.0f a second; %.1f %% taken, the others refused; at most %ld MiB more than at "
      "the start\n",
      door.c_str(), static_cast<unsigned long long>(inputs), spent, all / std::max(spent, 1e-9),
      100 * static_cast<double>(taken) / all, (peak_kib() - before) >> 10);
  at_door.leave();
  return 0;
}

}  // namespace
}  // namespace tutti::fuzz

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  using namespace tutti::fuzz;
  std::string door = fs::path(argv[0]).filename();
  if (door.starts_with("fuzz_")) door = door.substr(5);
  const Wanted wanted = parse({argv + 1, static_cast<std::size_t>(argc - 1)});
  return run(wanted, door);
}

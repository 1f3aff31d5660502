// Plays a scenario with ranks that are processes: this program, run again for each rank.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/chaos/leftovers.hpp"
#include "tests/chaos/player.hpp"
#include "tests/chaos/stage.hpp"
#include "tests/chaos/survival.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::seconds hang_limit{120};
constexpr const char* secret = "test";

/// A folder for one scenario, with the gate of its ranks.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "tutti-chaos-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder can be made");
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Maps the gate; it is never unmapped by a rank, and by the parent with the last of its scenarios.
class SharedGate {
 public:
  explicit SharedGate(const std::string& folder) {
    const int fd = ::open((folder + "/gate").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, sizeof(Gate)) != 0) throw std::runtime_error("no gate can be made");
    void* const memory = ::mmap(nullptr, sizeof(Gate), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) throw std::runtime_error("the gate cannot be mapped");
    gate_ = static_cast<Gate*>(memory);
  }
  SharedGate(const SharedGate&) = delete;
  SharedGate& operator=(const SharedGate&) = delete;
  ~SharedGate() { ::munmap(gate_, sizeof(Gate)); }
  Gate& operator*() const { return *gate_; }

 private:
  Gate* gate_ = nullptr;
};

struct Member {
  pid_t pid = -1;
  int output = -1;
  std::string said;
  bool has_ended = false, is_stopped = false;
};

/// The processes of one scenario. The destructor kills and reaps those that are left.
class Troupe {
 public:
  Troupe(const Scenario& scenario, const std::string& folder, Gate& gate)
      : gate_(gate), members_(static_cast<std::size_t>(scenario.processes_in_all())), fates_(members_.size()) {
    if (scenario.newcomers > 0) store_.emplace("127.0.0.1", 0, secret, scenario.processes_in_all());
    for (std::size_t rank = 0; rank < members_.size(); ++rank) launch(rank, scenario.seed, folder);
  }
  Troupe(const Troupe&) = delete;
  Troupe& operator=(const Troupe&) = delete;
  ~Troupe() {
    for (Member& member : members_) {
      if (!member.has_ended && member.pid > 0) {
        ::kill(member.pid, SIGKILL);
        ::waitpid(member.pid, nullptr, 0);
      }
      if (member.output >= 0) ::close(member.output);
    }
  }

  /// Waits until all processes have ended. Returns those that hang, as text.
  std::string await() {
    const auto until = SteadyClock::now() + hang_limit;
    while (true) {
      hear(20);
      for (std::size_t rank = 0; rank < members_.size(); ++rank) look_after(rank);
      if (std::ranges::all_of(members_, [](const Member& one) { return one.has_ended || one.is_stopped; })) break;
      if (SteadyClock::now() > until) return hanging();
    }
    return "";
  }

  std::vector<Report> reports() {
    hear(0);
    std::vector<Report> all;
    for (const Member& member : members_) all.push_back(report_from(member.said));
    return all;
  }
  const std::vector<Fate>& fates() const { return fates_; }

 private:
  void launch(std::size_t rank, std::uint64_t seed, const std::string& folder) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be made");
    const std::string number = std::to_string(rank), from = std::to_string(seed), out = std::to_string(ends[1]),
                      port = std::to_string(store_ ? store_->port() : 0);
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("no process can be made");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::fcntl(ends[1], F_SETFD, 0);
      ::execl("/proc/self/exe", "tutti_chaos", "--rank", number.c_str(), from.c_str(), folder.c_str(), out.c_str(),
              port.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    members_[rank].pid = child;
    members_[rank].output = ends[0];
  }

  // Reads what the processes say, for at most `milliseconds` if they say nothing.
  void hear(int milliseconds) {
    std::vector<pollfd> ready;
    for (const Member& member : members_) ready.push_back({member.output, POLLIN, 0});
    if (::poll(ready.data(), ready.size(), milliseconds) <= 0) return;
    for (std::size_t i = 0; i < ready.size(); ++i) {
      Member& member = members_[i];
      if (ready[i].revents == 0 || member.output < 0) continue;
      char piece[4096];
      const ssize_t got = ::read(member.output, piece, sizeof piece);
      if (got > 0) {
        member.said.append(piece, static_cast<std::size_t>(got));
      } else {
        ::close(member.output);
        member.output = -1;
      }
    }
  }

  void look_after(std::size_t rank) {
    Member& member = members_[rank];
    if (member.has_ended || member.is_stopped) return;
    int status = 0;
    if (::waitpid(member.pid, &status, WNOHANG | WUNTRACED) != member.pid) return;
    Fate& fate = fates_[rank];
    gate_.leave(static_cast<int>(rank));
    if (WIFSTOPPED(status)) {
      member.is_stopped = fate.was_stopped = true;
      return;
    }
    member.has_ended = true;
    while (member.output >= 0) hear(100);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
      fate.was_killed = true;
    else if (WIFSIGNALED(status))
      fate.other = "ended by signal " + std::to_string(WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
      fate.other = "ended with exit code " + std::to_string(WEXITSTATUS(status));
  }

  std::string hanging() {
    std::string text = "hangs: the processes of these ranks have not ended:";
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (!members_[rank].has_ended && !members_[rank].is_stopped)
        text += " " + std::to_string(rank) + " (" + std::to_string(members_[rank].pid) + ")";
    if (std::getenv("TUTTI_TEST_HANG") != nullptr) {  // for a debugger
      std::printf("%s\n", text.c_str());
      std::fflush(stdout);
      ::pause();
    }
    return text;
  }

  Gate& gate_;
  std::optional<TcpStoreServer> store_;  // where newcomers wait
  std::vector<Member> members_;
  std::vector<Fate> fates_;
};

}  // namespace

std::vector<std::string> play_in_processes(const Scenario& scenario) {
  const Holdings before = holdings();
  std::vector<std::string> wrong;
  {
    const Folder folder;
    const SharedGate gate(folder.path());
    Troupe troupe(scenario, folder.path(), *gate);
    if (std::string hangs = troupe.await(); !hangs.empty())
      wrong.push_back(std::move(hangs));
    else
      wrong = judge(scenario, troupe.reports(), troupe.fates());
  }
  if (std::string left = left_beyond(before); !left.empty()) wrong.push_back(std::move(left));
  return wrong;
}

int play_one_rank(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) return 2;
  const int process = std::atoi(arguments[0].c_str()), output = std::atoi(arguments[3].c_str());
  Scenario scenario = draw_scenario(std::strtoull(arguments[1].c_str(), nullptr, 10), true);
  const std::string& folder = arguments[2];
  const SharedGate gate(folder);
  scenario.settings.job = folder;
  scenario.settings.secret = secret;
  Bootstrap bootstrap;
  bootstrap.rank = bootstrap.local_rank = process;
  bootstrap.size = bootstrap.local_size = scenario.ranks;
  if (scenario.newcomers > 0) {
    scenario.settings.store = "tcp://127.0.0.1:" + arguments[4];
    ::setenv("TUTTI_JOIN", "1", 1);  // for a newcomer, which takes all else from the settings
  }
  std::thread([] {}).join();  // with the first thread the thread sanitizer begins one of its own
  const Holdings before = holdings();
  bootstrap.settings = scenario.settings_of(process);
  bootstrap.store = make_file_store(folder + "/store");
  if (scenario.newcomers > 0 && process < scenario.ranks) bootstrap.commons = commons_of(scenario.settings);
  Report report = play(scenario, process, bootstrap, *gate);
  bootstrap = {};
  if (std::string left = left_beyond(before); !left.empty()) report.wrong.push_back(std::move(left));
  const std::string lines = to_lines(report);
  return ::write(output, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()) ? 0 : 3;
}

}  // namespace tutti::testing

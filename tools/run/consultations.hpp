// Consultations: `tutti doctor` asks the launcher of a job on several hosts, the launcher asks the agents, and what
// they find goes to the doctor. The doctor connects to a socket of the launcher that only the same user can use:
//   launcher: a line with its version and the job's name
//   doctor:   Say::ask
//   launcher: Say::patient for each rank, as the answers come; Say::host for each host; Say::examined
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/doctor/job.hpp"
#include "tools/run/channel.hpp"
#include "tools/run/job.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// The start of the name of a launcher's socket, which is in the abstract namespace. The launcher's pid follows.
inline constexpr std::string_view launcher_socket = "tutti-launcher-";
/// The start of the launcher's first line to a doctor. Its version, a blank and the job's name follow.
inline constexpr std::string_view launcher_greeting = "\x02tutti launcher ";

/// The address of an abstract socket.
struct AbstractAddress {
  explicit AbstractAddress(std::string_view name);
  sockaddr_un bytes = {};
  socklen_t size = 0;
};
/// True if the process at the other end of a socket is of this user.
bool is_own_user(int socket) noexcept;

/// One question to the agents at a time: doctors that ask meanwhile wait for the next one.
class Consultations {
 public:
  struct Ways {
    std::function<void(const Frame&)> say;            ///< sends a frame to all agents
    std::function<Deadline(std::size_t)> heard_host;  ///< when a host was last heard of; `never`: unknown
  };

  /// Listens for doctors. `job.hosts` are in the tree's order, and the first `here` of them are this host. Where that
  /// is impossible, doctors see the ranks of their own host.
  void open(const Job& job, std::size_t here);
  void watch(std::vector<pollfd>& entries) const;
  /// Handles the entries that watch() appended, and what is due.
  void serve(std::span<const pollfd> entries, const Ways& ways);
  Deadline next_look() const;
  /// Takes an answer of an agent: Say::clock, patient or examined. Claims has accepted the frame.
  void take(const Frame& frame);
  /// Notes that a host is lost, and why.
  void lose(std::size_t host, const std::string& why);

 private:
  struct Doctor {
    enum class State : std::uint8_t { greeted, waits, listens, told };
    std::unique_ptr<Channel> channel;
    Deadline until;  ///< when it is sent away
    State state = State::greeted;
  };
  struct Answers {
    bool examined = false;
    std::string lost;
    doctor::Time ahead = 0, error = -1;  ///< error -1: its clock is unknown
  };

  void accept();
  void listen(Doctor& doctor, const pollfd& entry);
  void begin(const Ways& ways);
  void ask_time(const Ways& ways);
  bool all_answered() const;
  void finish(const Ways& ways);
  void tell(const Frame& frame);

  Descriptor socket_;
  std::string greeting_;
  std::vector<Host> hosts_;
  std::size_t here_ = 0;
  int most_calls_ = 0;
  std::deque<Doctor> doctors_;
  std::vector<Answers> answers_;
  std::int64_t question_ = 0;
  std::size_t rounds_ = 0;                                       ///< how often the hosts were asked for their time
  Deadline begun_ = never, until_ = never, next_round_ = never;  ///< of the question that is being answered
};

}  // namespace tutti::tools

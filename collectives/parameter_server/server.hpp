// Server: what a server rank of a parameter server does.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/parameter_server/frames.hpp"
#include "collectives/parameter_server/letters.hpp"
#include "collectives/parameter_server/shard.hpp"

namespace tutti {

/// Takes the requests of its workers, each by a communicator of the two, and has its shards do them. Every call but
/// abort() belongs to one thread.
class Server {
 public:
  struct Member {
    int worker = -1;                   ///< a rank of the parameter server's communicator
    std::optional<Communicator> pair;  ///< none: it has died already
    int peer = 1;                      ///< the worker in `pair`
  };
  /// `number` among the servers.
  Server(int number, std::vector<Member> members, const ServerRules& rules,
         const std::map<std::string, std::string>& settings);
  ~Server();

  /// Returns when all workers have left for good or have died.
  void run();
  /// Makes run() return soon, and ends what the workers wait for. Any thread.
  void abort(const std::string& why) noexcept;

 private:
  struct Arrival {
    frames::Request request;
    Block payload;
    Work work;  // its arrival
  };
  struct Seat {
    Member member;
    bool has_joined = false, is_over = false;
    frames::Request header;  // of the next request
    Work next;               // its arrival; only while `listens`
    bool listens = false;
    std::deque<Arrival> arrivals;
    std::size_t queued = 0;                                   // bytes of their payloads
    std::unordered_map<std::uint64_t, std::size_t> expected;  // by sequence: bytes of values that the reply is to have
  };
  struct Instance {
    Opening opening;
    Shard shard;
  };
  struct NamedRule {
    std::string name;
    ServerRule rule;
  };

  void listen(Seat& seat);
  void take_header(Seat& seat);
  void look_at(Seat& seat);
  bool work_on_arrivals(Seat& seat);
  void wait();
  void end(Seat& seat);
  void leave(Seat& seat);
  void handle(Seat& seat, Arrival& arrival);
  void perform(Seat& seat, Arrival& arrival);
  void open(Seat& seat, const Arrival& arrival);
  void free(Seat& seat, const frames::Request& request);
  void exchange(Seat& seat, Arrival& arrival);
  void after(Shard& shard);
  void send_answers();
  void reply(Seat& seat, const Answer& answer, ConstBytes text = {});
  void refuse(Seat& seat, const frames::Request& request, const std::string& why);

  const int number_;
  const std::map<std::string, std::string> settings_;
  std::uint64_t epoch_ = 1;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::map<int, Seat*> by_worker_;
  std::unordered_map<std::uint64_t, NamedRule> rules_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Instance>> instances_;
  std::set<Shard*> timed_;  // that have something to do later
  Answers answers_;
};

}  // namespace tutti

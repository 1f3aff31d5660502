// Server: what a server rank of a parameter server does.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "collectives/parameter_server/frames.hpp"
#include "collectives/parameter_server/letters.hpp"
#include "collectives/parameter_server/shard.hpp"

namespace tutti {

/// Takes the requests of its workers, each by a communicator of the two, and has its shards do them. Every call but
/// abort() and admit() belongs to one thread.
class Server {
 public:
  struct Member {
    int worker = -1;                   ///< a rank of the parameter server's communicator
    std::optional<Communicator> pair;  ///< none: it has died already
    int peer = 1;                      ///< the worker in `pair`
  };
  struct Seating {
    int number = 0;  ///< among the servers
    std::size_t servers = 1;
    std::vector<Member> members;
    bool admits = false;  ///< admit() may be called
  };
  /// `silence` in seconds, as in ParameterServer::Options.
  Server(Seating seating, const ServerRules& rules, const std::map<std::string, std::string>& settings,
         double silence = 0);
  ~Server();

  /// Returns when all workers have left for good or have died.
  void run();
  /// Makes run() return soon, and ends what the workers wait for. Any thread.
  void abort(const std::string& why) noexcept;
  /// Adds a worker to those that run() serves, soon. Any thread.
  void admit(Member member);
  /// Ends the connections of those that were admitted after run() had returned.
  void turn_away() noexcept;

 private:
  struct Arrival {
    frames::Request request;
    std::vector<std::uint64_t> counts;  // of its worker's requests to each server, this one included
    Block payload;
    Work work;  // its arrival
  };
  struct Seat {
    Member member;
    bool has_joined = false, is_over = false;
    Clock::time_point heard;           // when its last request came
    Block header;                      // of the next request
    std::vector<std::uint64_t> taken;  // the counts of the last request that was taken
    Work next;                         // its arrival; only while `listens`
    bool listens = false;
    std::deque<Arrival> arrivals;
    std::size_t queued = 0;                                   // bytes of their payloads
    std::unordered_map<std::uint64_t, std::size_t> expected;  // by sequence: bytes of values that the reply is to have
  };
  struct Instance {
    Opening opening;
    Shard shard;
  };
  /// A dump that a worker makes: of each worker, how many requests are taken before it is over.
  struct Cut {
    int owner = -1;
    std::map<int, std::uint64_t> until;
    std::uint64_t sequence = 0;  // of the request that waits for it; 0: the others' counts are not known yet
  };
  struct NamedRule {
    std::string name;
    ServerRule rule;
  };

  Seat& add(Member member);
  bool take_in();
  bool is_over();
  void listen(Seat& seat);
  Block room_for(std::size_t bytes);
  void take_header(Seat& seat);
  void look_at(Seat& seat);
  bool work_on_arrivals(Seat& seat);
  bool may_be_taken(const Seat& seat, const Arrival& arrival) const;
  void wait();
  Deadline silent_at(const Seat& seat) const;
  void give_up_silent();
  void end(Seat& seat, Parting how);
  void tell_parted(const Seat& seat, Parting how) const;
  void leave(Seat& seat);
  void handle(Seat& seat, Arrival& arrival);
  void perform(Seat& seat, Arrival& arrival);
  void open(Seat& seat, const Arrival& arrival);
  void free(Seat& seat, const frames::Request& request);
  void exchange(Seat& seat, Arrival& arrival);
  // cuts.cpp
  void begin_cut(Seat& seat, const Arrival& arrival);
  void cut_at(Seat& seat, const Arrival& arrival);
  void end_cut();
  void fetch(Seat& seat, const frames::Request& request);
  void load(Seat& seat, const Arrival& arrival);
  std::vector<std::byte> state() const;
  void after(Shard& shard);
  void send_answers();
  void reply(Seat& seat, const Answer& answer, ConstBytes text = {});
  void refuse(Seat& seat, const frames::Request& request, const std::string& why);

  const int number_;
  const std::size_t servers_;
  const std::map<std::string, std::string> settings_;
  const double silence_;
  std::uint64_t epoch_ = 1;
  const bool admits_;
  std::mutex members_;            // held where seats are added, and by other threads that read them
  std::vector<Member> admitted_;  // that have no seat yet
  std::vector<std::unique_ptr<Seat>> seats_;
  std::map<int, Seat*> by_worker_;
  std::unordered_map<std::uint64_t, NamedRule> rules_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Instance>> instances_;
  std::set<Shard*> timed_;  // that have something to do later
  Answers answers_;
  std::optional<Cut> cut_;
  Block kept_;               // of a cut
  std::deque<Block> large_;  // for payloads, the last one used first; free where nobody else holds them
};

}  // namespace tutti

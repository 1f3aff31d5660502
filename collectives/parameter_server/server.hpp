// Server: the server side of a parameter server.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/parameter_server/protocol.hpp"
#include "collectives/parameter_server/serialization.hpp"
#include "collectives/parameter_server/shard.hpp"
#include "transports/core/work_set.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// Receives the requests of its workers, each over a communicator of two ranks, and applies them to its shards.
/// Threads: any for abort() and admit(), one at a time for the other functions.
class Server {
 public:
  struct Member {
    int worker = -1;                   ///< as PushMeta::worker
    std::optional<Communicator> pair;  ///< nullopt: the worker died before it was connected
    int peer = 1;                      ///< the worker's rank in `pair`
  };
  struct Seating {
    int number = 0;  ///< this server's index among the servers
    std::size_t servers = 1;
    std::vector<Member> members;
    bool admits = false;  ///< true if admit() will be called
  };
  /// `silence` in seconds, as in ParameterServer::Options.
  Server(Seating seating, const ServerRules& rules, const std::map<std::string, std::string>& settings,
         double silence = 0);
  ~Server();

  /// Serves until all workers have sent Verb::bye or died. Blocks.
  void run();
  /// Aborts all connections: the workers' outstanding requests fail, and run() returns soon. Any thread.
  void abort(const std::string& why) noexcept;
  /// Queues a worker that joins later, a newcomer; run() soon begins to serve it. Any thread.
  void admit(Member member);
  /// Aborts the connections of newcomers that were queued after run() had returned.
  void turn_away() noexcept;

 private:
  /// A request whose header has arrived.
  struct Arrival {
    protocol::Request request;
    Block payload;
    Work work;  // the receive of the payload
  };
  /// The connection to one worker.
  struct Seat {
    Member member;
    std::size_t place = 0;  // index in seats_
    bool is_over = false, has_died = false;
    Clock::time_point heard;            // when the last header arrived
    Block header;                       // receive buffer for the next header
    std::uint64_t taken = 0, sent = 0;  // number and clock of the latest request that was processed
    std::uint64_t processed = 0;        // messages of numbered requests that were processed
    Work next;                          // the receive of the next header, if `listens`
    bool listens = false;
    std::deque<Arrival> arrivals;
    std::size_t queued = 0;                                   // bytes of payloads in `arrivals`
    std::unordered_map<std::uint64_t, std::size_t> expected;  // by sequence: bytes of values expected in the reply
    std::deque<std::pair<Work, std::size_t>> unsent;          // sends of large replies, and their bytes
  };
  struct Instance {
    Opening opening;
    Shard shard;
  };
  /// A dump in progress.
  struct Cut {
    int owner = -1;                      // the worker that makes the dump
    std::map<int, std::uint64_t> until;  // by worker: number of its last request that the dump contains
  };
  struct NamedRule {
    std::string name;
    ServerRule rule;
  };

  Seat& add(Member member);
  static bool may_ask(Seat& seat);
  bool take_in();
  bool is_over();
  void listen(Seat& seat);
  void watch(const Seat& seat, const Work& work) { works_.add(work, seat.place); }
  Block room_for(std::size_t bytes);
  void take_header(Seat& seat);
  void look_at(Seat& seat);
  bool work_on_arrivals(Seat& seat);
  bool may_be_taken(const Seat& seat, const Arrival& arrival) const;
  void wait();
  void look_at_ready();
  Deadline silent_at(const Seat& seat) const;
  void give_up_silent();
  void end(Seat& seat, Parting how);
  void tell_parted(const Seat& seat, Parting how) const;
  std::vector<Pushed> waiting(const std::string& rule) const;
  void leave(Seat& seat);
  void handle(Seat& seat, Arrival& arrival);
  void perform(Seat& seat, Arrival& arrival);
  Shard::Place place_of(const Opening& opening) const;
  void open(Seat& seat, const Arrival& arrival);
  void free(Seat& seat, const protocol::Request& request);
  void exchange(Seat& seat, Arrival& arrival);
  // cuts.cpp
  void begin_cut(Seat& seat, const Arrival& arrival);
  void cut_at(Seat& seat, const Arrival& arrival);
  void cut_take(Seat& seat, const protocol::Request& request);
  void end_cut();
  void fetch(Seat& seat, const protocol::Request& request);
  void load(Seat& seat, const Arrival& arrival);
  std::vector<std::byte> state() const;
  void after(Shard& shard);
  void send_answers();
  void reply(Seat& seat, const Answer& answer, ConstBytes text = {});
  void refuse(Seat& seat, const protocol::Request& request, const std::string& why, Code code = Code::invalid);

  const int number_;
  const std::size_t servers_;
  const std::map<std::string, std::string> settings_;
  const double silence_;
  std::uint64_t epoch_ = 1;
  const bool admits_;
  std::mutex members_;            // guards admitted_, changes of seats_, and reads of seats_ by other threads
  std::vector<Member> admitted_;  // newcomers without a seat yet
  std::vector<std::unique_ptr<Seat>> seats_;
  std::map<int, Seat*> by_worker_;
  std::size_t open_seats_ = 0;
  WorkSet works_;                     // the operations that seats wait for, by place of the seat
  std::vector<std::uint64_t> ready_;  // places of seats for which an operation has completed
  bool look_at_all_ = true;           // true: requests of any seat may have become ready
  Deadline next_silence_ = never;     // before this time no worker has been silent for too long
  std::unordered_map<std::uint64_t, NamedRule> rules_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Instance>> instances_;
  std::set<Shard*> timed_;  // shards that have a round with a deadline
  Answers answers_;
  std::optional<Cut> cut_;
  Block kept_;               // the state of the last dump, for the fetch request
  std::deque<Block> large_;  // buffers for large payloads, last used first; a block is free if it is not shared
};

}  // namespace tutti

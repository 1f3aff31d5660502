// The worker's side of a request: its messages to the servers, and their replies.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/parameter_server/block.hpp"
#include "collectives/parameter_server/protocol.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti {

/// A worker's connection to one server.
struct Link {
  Communicator pair;
  int peer = 0;                  ///< the server's rank in `pair`
  int server = 0;                ///< its index among the servers
  int rank = 0;                  ///< its rank in the parameter server's communicator
  double timeout = no_deadline;  ///< of payloads and replies, in seconds
};

/// Numbers the requests of one worker in the order in which they are sent. Any thread.
class Outbox {
 public:
  explicit Outbox(std::vector<Link> links) : links_(std::move(links)) {}
  const std::vector<Link>& links() const noexcept { return links_; }
  std::mutex& order() noexcept { return order_; }
  /// Sets the numbers of a request that is about to be sent to `servers` servers. order() must be locked.
  void number(protocol::Request& request, std::size_t servers) noexcept {
    request.sequence = ++sequence_;
    request.sent = sent_ += servers;
  }

 private:
  std::vector<Link> links_;
  std::mutex order_;
  std::uint64_t sequence_ = 0, sent_ = 0;  // see protocol::Request
};

/// The header message of a request.
Block request_head(const protocol::Request& request);

/// One server's part of a request.
class RequestPart {
 public:
  /// Posts the receives for the reply and sends the request. `payload` and `into` are borrowed until settled() is true.
  RequestPart(const Link& link, const protocol::Request& request, ConstBytes payload, Bytes into);

  /// Makes progress without blocking. Returns true once the request has completed or failed.
  bool settled();
  /// The operation that has to complete next before settled() can go on.
  const Work& pending() const noexcept { return *pending_; }

  // Valid once settled() has returned true:
  const std::exception_ptr& failure() const noexcept { return failure_; }
  const std::string& refusal() const noexcept { return refusal_; }  ///< the server's error message, or empty
  const protocol::Reply& reply() const noexcept { return reply_; }
  ConstBytes text() const noexcept { return text_.bytes(); }
  const Link& link() const noexcept { return *link_; }

 private:
  enum class Stage { header, text, values, sends, over };
  void step();
  void go(Stage stage, const Work& work) noexcept {
    stage_ = stage;
    pending_ = &work;
  }
  void read_header();
  void give_up() noexcept;

  const Link* link_;
  std::uint64_t sequence_;
  Bytes into_;
  bool is_small_;
  Block message_, text_;  // the reply's header with small values; the reply's text
  protocol::Reply reply_;
  Work header_, values_, said_, head_, body_;
  Stage stage_ = Stage::header;
  const Work* pending_ = &header_;
  std::exception_ptr failure_;
  std::string refusal_;
};

/// For one buffer and one worker: the newest version of each server's shard that the worker has read. Any thread.
class SeenVersions {
 public:
  explicit SeenVersions(std::size_t servers) : seen_(servers) {}
  ShardVersion at(std::size_t server) const {
    const std::lock_guard lock(mutex_);
    return seen_[server];
  }
  void note(const ShardVersion& version);

 private:
  mutable std::mutex mutex_;
  std::vector<ShardVersion> seen_;
};

struct Request::State {
  State(std::shared_ptr<Outbox> out, std::string doing) : outbox(std::move(out)), what(std::move(doing)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  bool settled();
  bool wait_for(Seconds limit);
  /// Throws if a server refused its part or cannot be reached.
  void check() const;

  std::shared_ptr<Outbox> outbox;      // keeps the links alive
  std::string what;                    // for errors: "push 'add' to 'w'"
  std::shared_ptr<SeenVersions> seen;  // null if the request is not about a buffer
  bool reads = false;                  // true: the versions in the replies update `seen`
  std::vector<std::unique_ptr<RequestPart>> parts;
  std::vector<ShardVersion> versions;
  std::size_t open = 0;  // index of the first part that is not over
  bool is_over = false;
};

}  // namespace tutti

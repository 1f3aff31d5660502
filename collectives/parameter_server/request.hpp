// The worker's side of a request: what it sends to each server, and what it waits for.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/parameter_server/block.hpp"
#include "collectives/parameter_server/frames.hpp"
#include "collectives/parameter_server/parameter_server.hpp"

namespace tutti {

/// A worker's way to one server.
struct Link {
  Communicator pair;
  int peer = 0;    ///< the server in `pair`
  int server = 0;  ///< its number among the servers
  int rank = 0;    ///< in the parameter server's communicator
  double timeout = no_deadline;
};

/// The requests of one worker, numbered in the order in which they go. Any thread.
class Outbox {
 public:
  explicit Outbox(std::vector<Link> links) : links_(std::move(links)), counts_(links_.size()) {}
  const std::vector<Link>& links() const noexcept { return links_; }
  std::mutex& order() noexcept { return order_; }
  std::uint64_t next() noexcept { return ++sequence_; }  ///< order() held
  /// Of requests to each server so far; order() held.
  std::vector<std::uint64_t>& counts() noexcept { return counts_; }

 private:
  std::vector<Link> links_;
  std::mutex order_;
  std::uint64_t sequence_ = 0;
  std::vector<std::uint64_t> counts_;
};

/// What goes first of a request.
Block request_head(const frames::Request& request, std::span<const std::uint64_t> counts);

/// One server's part of a request.
class RequestPart {
 public:
  /// Posts what the reply needs, and sends; `payload` and `into` are borrowed until it is settled().
  RequestPart(const Link& link, const frames::Request& request, std::span<const std::uint64_t> counts,
              ConstBytes payload, Bytes into);

  /// Moves on what can be moved without waiting; true once it is over.
  bool settled();
  /// What has to be done before settled() makes progress.
  const Work& pending() const noexcept { return *pending_; }

  // Once it is over:
  const std::exception_ptr& failure() const noexcept { return failure_; }
  const std::string& refusal() const noexcept { return refusal_; }  ///< empty: none
  const frames::Reply& reply() const noexcept { return reply_; }
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
  Block message_, text_;  // the reply with small values; its text
  frames::Reply reply_;
  Work header_, values_, said_, head_, body_;
  Stage stage_ = Stage::header;
  const Work* pending_ = &header_;
  std::exception_ptr failure_;
  std::string refusal_;
};

/// Where a buffer's versions are kept that a worker has seen: by server. Any thread.
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
  /// Throws where a part has failed.
  void check() const;

  std::shared_ptr<Outbox> outbox;      // which keeps the links
  std::string what;                    // "push 'add' to 'w'"
  std::shared_ptr<SeenVersions> seen;  // null: not of a buffer
  bool reads = false;                  // its values are what later pushes are computed from
  std::vector<std::unique_ptr<RequestPart>> parts;
  std::vector<ShardVersion> versions;
  std::size_t open = 0;  // parts before this one are over
  bool is_over = false;
};

}  // namespace tutti

// Sending a request and waiting for the replies.
#include "collectives/parameter_server/request.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "transports/core/checked.hpp"

namespace tutti {
namespace {

Buffer bytes_at(Bytes bytes) { return {bytes.data(), bytes.size(), DType::u8}; }
ConstBuffer bytes_at(ConstBytes bytes) { return {bytes.data(), bytes.size(), DType::u8}; }

}  // namespace

Block request_head(const protocol::Request& request) {
  Block head(sizeof request);
  std::memcpy(head.data(), &request, sizeof request);
  return head;
}

RequestPart::RequestPart(const Link& link, const protocol::Request& request, ConstBytes payload, Bytes into)
    : link_(&link),
      sequence_(request.sequence),
      into_(into),
      is_small_(into.size() <= protocol::small_values),
      message_(sizeof(protocol::Reply) + (is_small_ ? into.size() : 0)) {
  Communicator pair = link.pair;
  const Block head = request_head(request);
  const CallOptions patient{.timeout = link.timeout};
  header_ = pair.recv(bytes_at(message_.bytes()), link.peer, protocol::reply_tag(sequence_),
                      {.timeout = link.timeout, .keep = message_.lease()});
  if (!is_small_) values_ = pair.recv(bytes_at(into), link.peer, protocol::values_tag(sequence_), patient);
  head_ = pair.send(bytes_at(ConstBytes(head.bytes())), link.peer, protocol::requests, {.keep = head.lease()});
  if (!payload.empty()) body_ = pair.send(bytes_at(payload), link.peer, protocol::payloads, patient);
}

bool RequestPart::settled() {
  try {
    while (stage_ != Stage::over && pending_->done()) step();
  } catch (...) {
    failure_ = std::current_exception();
    give_up();
  }
  return stage_ == Stage::over;
}

// Throws if the pending operation has failed.
void RequestPart::step() {
  pending_->wait();
  switch (stage_) {
    case Stage::header: return read_header();
    case Stage::text:
      if (reply_.code != 0) refusal_.assign(reinterpret_cast<const char*>(text_.data()), text_.size());
      return go(Stage::sends, body_);
    case Stage::values: return go(Stage::sends, body_);
    case Stage::sends:
    case Stage::over: stage_ = Stage::over;
  }
}

void RequestPart::read_header() {
  std::memcpy(&reply_, message_.data(), sizeof reply_);
  if (reply_.code != 0 && !is_small_) (void)values_.cancel();  // no values follow an error
  if (reply_.text > 0) {
    text_ = Block(reply_.text);
    Communicator pair = link_->pair;
    said_ = pair.recv(bytes_at(text_.bytes()), link_->peer, protocol::text_tag(sequence_), {.timeout = link_->timeout});
    return go(Stage::text, said_);
  }
  if (is_small_ && !into_.empty()) std::memcpy(into_.data(), message_.data() + sizeof reply_, into_.size());
  go(Stage::values, values_);
}

// The failure has poisoned the communicator of worker and server, so that the other operations end, too.
void RequestPart::give_up() noexcept {
  for (Work* work : {&header_, &values_, &said_, &head_, &body_}) {
    try {
      work->wait();
    } catch (...) {  // failure_ has the first failure
    }
  }
  stage_ = Stage::over;
}

void SeenVersions::note(const ShardVersion& version) {
  const std::lock_guard lock(mutex_);
  ShardVersion& seen = seen_[static_cast<std::size_t>(version.server)];
  if (seen.epoch != version.epoch || seen.version < version.version) seen = version;
}

Request::State::~State() {
  if (is_over || std::uncaught_exceptions() > 0) return;  // during unwinding, the Works' destructors abort them
  try {
    (void)wait_for(Seconds(for_ever));
  } catch (...) {  // a destructor cannot report it
  }
}

bool Request::State::settled() {
  if (is_over) return true;
  while (open < parts.size() && parts[open]->settled()) ++open;
  if (open < parts.size()) return false;
  for (const auto& part : parts) {
    const protocol::Reply& reply = part->reply();
    if (part->failure() || reply.code != 0) continue;
    versions.push_back({part->link().server, reply.epoch, reply.version});
    if (seen && reads) seen->note(versions.back());
  }
  return is_over = true;
}

bool Request::State::wait_for(Seconds limit) {
  const Deadline until = deadline_in(limit);
  while (!settled()) {
    const Seconds left = limit < Seconds(for_ever) ? Seconds(until - Clock::now()) : limit;
    if (left <= Seconds(0)) return false;
    (void)tutti::wait_any(std::span(&parts[open]->pending(), 1), left);
  }
  return true;
}

void Request::State::check() const {
  for (const auto& part : parts) {
    const Link& link = part->link();
    const std::string where = "parameter server: " + what + " at rank " + std::to_string(link.rank) + ": ";
    if (part->failure()) {
      try {
        std::rethrow_exception(part->failure());
      } catch (const Error& error) {
        throw Error(error.code(), where + error.what(), error.culprit());
      }
    }
    if (part->reply().code != 0) throw Error(static_cast<Code>(part->reply().code), where + part->refusal());
  }
}

void Request::wait() const {
  if (!state_) return;
  (void)state_->wait_for(Seconds(for_ever));
  state_->check();
}

bool Request::wait_for(Seconds limit) const {
  checked_seconds(limit, "wait_for: the limit");
  if (!state_) return true;
  if (!state_->wait_for(limit)) return false;
  state_->check();
  return true;
}

bool Request::done() const { return !state_ || state_->settled(); }

const std::vector<ShardVersion>& Request::versions() const {
  static const std::vector<ShardVersion> none;
  return state_ ? state_->versions : none;
}

std::uint64_t Request::version() const {
  const std::vector<ShardVersion>& all = versions();
  const auto smallest = std::ranges::min_element(all, {}, &ShardVersion::version);
  return smallest == all.end() ? 0 : smallest->version;
}

std::optional<std::size_t> wait_any(std::span<const Request> requests, Seconds limit) {
  const Deadline until = deadline_in(checked_seconds(limit, "wait_any: the limit"));
  while (!requests.empty()) {
    std::vector<Work> pending;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].done()) return i;
      const Request::State& state = *requests[i].state_;
      pending.push_back(state.parts[state.open]->pending());
    }
    const Seconds left = limit < Seconds(for_ever) ? Seconds(until - Clock::now()) : limit;
    if (!wait_any(pending, std::max(left, Seconds(0))) && Clock::now() >= until) break;
  }
  return std::nullopt;
}

}  // namespace tutti

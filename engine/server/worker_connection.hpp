// WorkerConnection: a worker's connection to the masters, and its synchronization with the other workers.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/server/server_copy.hpp"
#include "engine/server/server_worker.hpp"
#include "tutti/clock.hpp"
#include "tutti/store.hpp"

namespace tutti::engine::exchange {

/// The connection of one rank of a worker. On ranks other than 0 there are no servers, and all calls do nothing.
class WorkerConnection {
 public:
  using Question = std::array<double, question_size>;

  explicit WorkerConnection(WorkerPlace place) : place_(std::move(place)) {}
  const WorkerPlace& place() const noexcept { return place_; }

  void open(std::vector<ServerCopy>& copies) {
    if (!place_.servers) return;
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const auto count = static_cast<std::size_t>(copies[i].centre.numel());
      const DType dtype = nn::dtype_of(copies[i].centre);
      copies[i].kept = place_.servers->open(centre_name(i), count, dtype);
      if (place_.top) copies[i].top = place_.top->open(i, count, dtype);
    }
    open_ledger();
  }

  /// Closes the buffers until open(), so that rounds no longer wait for this worker. It can still ask the ledger.
  void rest() {
    if (!place_.servers) return;
    place_.servers->leave();
    place_.servers->join();
    open_ledger();
  }

  /// The first worker publishes that it has pushed the initial centre; the others wait for that. Throws Error{aborted}
  /// with the first worker's error if the first worker has failed.
  void announce() {
    if (!place_.store) return;
    if (place_.is_first)
      place_.store->set(place_.keys + "centre", "there");
    else if (const std::string said = place_.store->wait(place_.keys + "centre", never); said != "there")
      throw Error(Code::aborted, "the first worker could not begin: " + said);
  }

  /// Waits up to 60 s until all workers have opened their buffers: a round waits only for workers that have done so.
  void meet() {
    if (!place_.store || place_.meets == 0) return;
    if (place_.store->add(place_.keys + "workers", 1) == place_.meets)
      place_.store->set(place_.keys + "all workers", "there");
    try {
      place_.store->wait(place_.keys + "all workers", deadline_in(Seconds(60)));
    } catch (const Error&) {  // timed out: a worker died before it called meet()
    }
  }

  /// Asks the ledger and returns its answer; see LedgerQuestion. Blocks.
  Question ask(LedgerQuestion what, Question question = {}) const {
    question[0] = static_cast<double>(what);
    Question answer{};
    if (ledger_) ledger_->push_pull(deal_rule_name(), question, answer).wait();
    return answer;
  }

  /// See ServerWorker::teller(); the second number of the result is the worker.
  Question teller() {
    if (!place_.top) return ask(LedgerQuestion::place);
    if (!std::exchange(is_over_, true)) {
      rest();  // returns once the servers have processed all pushes of this worker
      ledger_->push(over_rule_name()).wait();
    }
    return {0, static_cast<double>(place_.top->end()), 0};
  }

  /// Returns the masters' whole state as a byte tensor; nullopt on ranks without servers.
  std::optional<at::Tensor> dump() const {
    if (!place_.servers) return std::nullopt;
    const std::vector<std::byte> dump = place_.servers->dump();
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(dump.size())}, at::kByte);
    std::ranges::copy(dump, static_cast<std::byte*>(tensor.data_ptr()));
    return tensor;
  }

  /// Restores the masters' state, and opens the buffers.
  void load(const at::Tensor& dump, std::vector<ServerCopy>& copies) {
    if (!place_.servers) return;
    place_.servers->load({static_cast<const std::byte*>(dump.data_ptr()), dump.nbytes()});
    open(copies);
  }

 private:
  void open_ledger() {
    std::vector<std::size_t> shares(place_.servers->servers().size());
    shares[0] = question_size;
    ledger_ = place_.servers->open("ledger", question_size, DType::f64, {.shares = shares});
  }

  const WorkerPlace place_;
  std::optional<Parameters> ledger_;
  bool is_over_ = false;
};

}  // namespace tutti::engine::exchange

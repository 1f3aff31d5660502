// WorkerSeat: a worker's way to the masters, and to the other workers' store.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/strategies/centre.hpp"
#include "engine/strategies/served.hpp"
#include "transports/core/clock.hpp"
#include "transports/core/store.hpp"

namespace tutti::engine::exchange {

/// Of the rank that talks to the masters; a worker's other ranks have one without servers, which does nothing.
class WorkerSeat {
 public:
  using Question = std::array<double, question_size>;

  explicit WorkerSeat(WorkerPlace place) : place_(std::move(place)) {}
  const WorkerPlace& place() const noexcept { return place_; }

  void open(std::vector<Centre>& centres) {
    if (!place_.servers) return;
    for (std::size_t i = 0; i < centres.size(); ++i) {
      const auto count = static_cast<std::size_t>(centres[i].centre.numel());
      const DType dtype = nn::dtype_of(centres[i].centre);
      centres[i].kept = place_.servers->open(centre_name(i), count, dtype);
      if (place_.top) centres[i].top = place_.top->open(i, count, dtype);
    }
    open_ledger();
  }

  /// Rounds wait for this worker no more; it may ask, and open() has it take part again.
  void rest() {
    if (!place_.servers) return;
    place_.servers->leave();
    place_.servers->join();
    open_ledger();
  }

  /// The first worker says that the centre is there, for which the others wait. Throws Error{aborted} where the first
  /// worker says instead why it could not begin.
  void announce() {
    if (!place_.store) return;
    if (place_.is_first)
      place_.store->set(place_.keys + "centre", "there");
    else if (const std::string said = place_.store->wait(place_.keys + "centre", never); said != "there")
      throw Error(Code::aborted, "the first worker could not begin: " + said);
  }

  /// A round of all is one of those who have come so far: so it is better if they come first.
  void meet() {
    if (!place_.store || place_.meets == 0) return;
    if (place_.store->add(place_.keys + "workers", 1) == place_.meets)
      place_.store->set(place_.keys + "all workers", "there");
    try {
      place_.store->wait(place_.keys + "all workers", deadline_in(Seconds(60)));
    } catch (const Error&) {  // one has died on its way
    }
  }

  /// See deal_rule(). Waits.
  Question ask(LedgerQuestion what, Question question = {}) const {
    question[0] = static_cast<double>(what);
    Question answer{};
    if (ledger_) ledger_->push_pull(deal_rule_name(), question, answer).wait();
    return answer;
  }

  /// See Served::teller(); the answer as ask() has it.
  Question teller() {
    if (!place_.top) return ask(LedgerQuestion::place);
    if (!std::exchange(is_over_, true)) {
      rest();  // behind which no push of this worker is left
      ledger_->push(over_rule_name()).wait();
    }
    return {0, static_cast<double>(place_.top->end()), 0};
  }

  /// All that the masters keep, as a tensor; nothing where there is no server.
  std::optional<at::Tensor> dump() const {
    if (!place_.servers) return std::nullopt;
    const std::vector<std::byte> dump = place_.servers->dump();
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(dump.size())}, at::kByte);
    std::ranges::copy(dump, static_cast<std::byte*>(tensor.data_ptr()));
    return tensor;
  }

  /// Puts it in the place of all that they keep, and opens that.
  void load(const at::Tensor& dump, std::vector<Centre>& centres) {
    if (!place_.servers) return;
    place_.servers->load({static_cast<const std::byte*>(dump.data_ptr()), dump.nbytes()});
    open(centres);
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

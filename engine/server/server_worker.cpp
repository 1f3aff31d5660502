#include "engine/server/server_worker.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "engine/server/server_copy.hpp"
#include "engine/server/worker_connection.hpp"
#include "engine/strategies/counts.hpp"
#include "engine/strategies/flat.hpp"
#include "engine/strategies/merge.hpp"
#include "engine/strategies/tensor_arithmetic.hpp"
#include "nn/tensor.hpp"

namespace tutti::engine {
namespace {

using Kind = WorkerNumbers::Kind;
using exchange::read_only;
using exchange::ServerCopy;

class Worker final : public ServerWorker {
 public:
  Worker(const WorkerNumbers& numbers, Traits traits, Replica replica, const WorkerPlace& place,
         std::unique_ptr<Strategy> inner)
      : ServerWorker(std::move(traits)),
        numbers_(numbers),
        replica_(std::move(replica)),
        connection_(place),
        inner_(std::move(inner)) {
    for (auto& group : exchange::by_type(exchange::trained_of(replica_.parameters)))
      copies_.emplace_back(std::move(group), replica_.world, *replica_.tensor_device);
  }

  void begin() {
    if (connection_.place().is_first && connection_.place().resumes) return;  // load_state() or the first step begins
    begin_anew();
  }

  void begin_step(const StepShare& share) override {
    if (!has_begun_) begin_anew();
    take_part();
    if (aside_) each([](ServerCopy& one) { one.flat.write(one.own); });
    aside_ = false;
    share_ = share;
    inner_->begin_step(share);
  }
  double begin_piece(std::size_t piece, std::size_t count) override { return inner_->begin_piece(piece, count); }
  void end_piece(std::size_t piece) override { inner_->end_piece(piece); }
  void end_backward() override { inner_->end_backward(); }

  void end_step() override {
    const at::NoGradGuard no_grad;
    ++count_;
    ++steps_;
    samples_ += share_.global_count;
    if (numbers_.kind == Kind::gradients) add_gradients();
    if (numbers_.prefetch > 0 && (count_ + numbers_.prefetch) % numbers_.every == 0)
      each([this](ServerCopy& one) { fetch(one); });
    if (waits_ && count_ >= due_ && has_come()) integrate();
    if (count_ % numbers_.every == 0 && !waits_) {
      push();
      if (numbers_.kind != Kind::deltas || numbers_.delay == 0) integrate();
    }
    note_inner();
  }

  void settle() override {
    if (aside_) return;
    const at::NoGradGuard no_grad;
    take_part();
    waited([&] {
      each([this](ServerCopy& one) {
        if (!one.own.defined()) one.own = at::empty_like(one.centre);
        one.flat.read(one.own);
        at::Tensor judged = at::empty_like(one.centre);
        if (const auto& from = one.top ? one.top : one.kept) from->pull(nn::buffer(judged)).wait();
        share_result(judged);
        one.flat.write(judged);
      });
    });
    aside_ = true;
  }

  const ExchangeReport& report() const noexcept override { return report_; }

  Ledger::Deal further(std::size_t epoch, bool is_last) override {
    const auto answer = ask(LedgerQuestion::further,
                            {0, static_cast<double>(count_ - since_), static_cast<double>(epoch), is_last ? 1.0 : 0.0});
    const auto what = static_cast<Ledger::Deal::What>(answer[0]);
    if (what == Ledger::Deal::What::wait && !std::exchange(rests_, true)) connection_.rest();
    return {what, {static_cast<int>(answer[1]), static_cast<std::int64_t>(answer[2])}};
  }

  int teller() override { return static_cast<int>(shared(connection_.teller())[1]); }
  std::int64_t own_steps() override { return static_cast<std::int64_t>(ask(LedgerQuestion::place)[2]); }
  void stop() override { ask(LedgerQuestion::stop); }
  bool claim(std::int64_t number) override {
    if (!has_begun_) begin_anew();
    const auto some = static_cast<double>(std::max<std::int64_t>(numbers_.every, 8));
    if (number >= claimed_)
      claimed_ = static_cast<std::int64_t>(ask(LedgerQuestion::claim, {0, static_cast<double>(number), some})[2]);
    return number < claimed_;
  }

  std::vector<nn::NamedTensor> state() const override {
    std::vector<nn::NamedTensor> found;
    std::vector<std::int64_t> counts{count_, due_, steps_, static_cast<std::int64_t>(samples_), waits_ ? 1 : 0};
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const ServerCopy& one = copies_[i];
      one.pushed.wait();  // the results of both requests are part of the state
      one.fetched.wait();
      counts.push_back(static_cast<std::int64_t>(one.seen));
      std::ranges::copy(one.remembered(i), std::back_inserter(found));
    }
    found.push_back(exchange::counted("counts", counts));
    if (const auto dump = connection_.dump()) found.emplace_back("masters", *dump);
    return found;
  }

  void load_state(const std::vector<nn::NamedTensor>& state) override {
    const at::NoGradGuard no_grad;
    const auto dump = std::ranges::find(state, "masters", &nn::NamedTensor::first);
    if (dump != state.end()) connection_.load(dump->second, copies_);
    connection_.announce();
    connection_.meet();
    const std::vector<std::int64_t> counts = exchange::counted(state, "counts", 5 + copies_.size());
    count_ = counts[0];
    due_ = counts[1];
    steps_ = counts[2];
    samples_ = static_cast<std::uint64_t>(counts[3]);
    waits_ = counts[4] != 0;
    since_ = count_ - steps_;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      copies_[i].seen = static_cast<std::uint64_t>(counts[5 + i]);
      copies_[i].recall(state, i);
    }
    aside_ = has_begun_ = true;
  }
  void set(std::string_view key, double value) override {
    const std::pair<std::string_view, double*> known[] = {{"elastic", &numbers_.elastic},
                                                          {"elastic_here", &numbers_.elastic_here},
                                                          {"alpha", &numbers_.alpha},
                                                          {"outer_lr", &numbers_.outer_lr},
                                                          {"kappa", &numbers_.gem_kappa}};
    const auto found = std::ranges::find(known, key, &std::pair<std::string_view, double*>::first);
    if (found == std::end(known)) return Strategy::set(key, value);
    if (!(value >= 0)) refuse("strategy." + std::string(key) + " is at least 0");
    *found->second = value;
    if (key == "outer_lr") numbers_.gem_lr = value;
  }
  const WorkerNumbers& numbers() const noexcept override { return numbers_; }

 private:
  void begin_anew() {
    const bool is_first = connection_.place().is_first;
    if (!is_first) connection_.announce();
    connection_.open(copies_);
    if (!is_first) connection_.meet();
    for (ServerCopy& one : copies_) {
      one.flat.take();
      if (one.kept && is_first) one.kept->push(first_rule_name(), read_only(one.flat.all())).wait();
    }
    if (is_first) connection_.announce();
    if (is_first) connection_.meet();
    const bool goes_on = !is_first && own_steps() > 0;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      ServerCopy& one = copies_[i];
      fetch(one);
      receive(one, one.fetched, one.centre);
      one.base.copy_(one.centre);
      if (goes_on && numbers_.kind == Kind::elastic) {
        if (one.kept) one.kept->push_pull(own_rule_name(i), read_only(one.sent), nn::buffer(one.flat.all())).wait();
        share_result(one.flat.all());
        one.flat.write(one.flat.all());
      } else {
        one.flat.write(one.base);
      }
    }
    has_begun_ = true;
  }

  /// Opens the buffers again after WorkerConnection::rest().
  void take_part() {
    if (std::exchange(rests_, false)) connection_.open(copies_);
  }

  exchange::WorkerConnection::Question ask(LedgerQuestion what,
                                           const exchange::WorkerConnection::Question& question = {}) {
    return shared(connection_.ask(what, question));
  }

  exchange::WorkerConnection::Question shared(exchange::WorkerConnection::Question answer) {
    if (replica_.world.size() > 1) replica_.world.broadcast(answer, 0).wait();
    return answer;
  }

  template <class Call>
  void each(Call&& call) {
    for (ServerCopy& one : copies_) call(one);
  }

  void waited(const std::function<void()>& call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// Adds the time that the inner strategy has waited to this strategy's statistics.
  void note_inner() {
    stats_.wait_seconds += inner_->stats().wait_seconds - inner_waited_;
    inner_waited_ = inner_->stats().wait_seconds;
  }

  void add_gradients() {
    for (ServerCopy& one : copies_) {
      if (!one.sum.defined()) one.sum = at::zeros_like(one.centre);
      const std::vector<nn::NamedTensor> sums = one.flat.views(one.sum);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const at::Tensor& gradient = one.flat.tensors()[i].second.grad();
        if (gradient.defined()) sums[i].second.add_(gradient);
      }
    }
  }

  PushMeta meta(double factor) const {
    return {.tokens = samples_, .steps = static_cast<std::uint64_t>(steps_), .factor = factor};
  }

  void fetch(ServerCopy& one) {
    if (!one.kept) return;
    one.fetched = one.kept->pull(nn::buffer(one.centre));
    report_.got += one.centre.nbytes();
  }

  void push() {
    each([this](ServerCopy& one) {
      one.flat.read(one.flat.all());
      switch (numbers_.kind) {
        case Kind::gradients: start(one, one.sum, share_.learning_rate); break;
        case Kind::deltas: start(one, one.base - one.flat.all(), numbers_.outer_lr); break;
        case Kind::elastic: start_elastic(one); break;
        case Kind::gem: start_gem(one); break;
      }
    });
    ++stats_.exchanges;
    ++report_.exchanges;
    samples_ = 0;
    steps_ = 0;
    waits_ = true;
    due_ = count_ + numbers_.delay;
  }

  void send(ServerCopy& one, const at::Tensor& values, double factor, bool wants_centre) {
    one.pushed = Request();  // the previous push is complete
    one.sent.copy_(values);
    stats_.bytes += one.sent.nbytes();
    report_.sent += one.sent.nbytes();
    if (!one.kept) return;
    const std::size_t index = static_cast<std::size_t>(&one - copies_.data());
    const std::string rule = step_rule_name(index);
    if (wants_centre) {
      one.pushed = one.kept->push_pull(rule, read_only(one.sent), nn::buffer(one.centre), {.meta = meta(factor)});
      report_.got += one.centre.nbytes();
    } else {
      one.pushed = one.kept->push(rule, read_only(one.sent), {.meta = meta(factor)});
    }
  }

  // With prefetch the centre was fetched earlier, and only the next push waits for this one.
  void start(ServerCopy& one, const at::Tensor& values, double factor) {
    if (one.kept) one.pushed.wait();
    send(one, values, factor, numbers_.prefetch == 0);
  }

  void start_elastic(ServerCopy& one) {
    if (numbers_.prefetch == 0) return start(one, one.flat.all(), numbers_.elastic);
    receive(one, one.fetched, one.centre);
    one.sum = elastic_difference(numbers_.elastic, one.flat.all(), one.centre);
    start(one, one.sum, 1);
  }

  void start_gem(ServerCopy& one) {
    if (one.kept) one.pushed.wait();
    fetch(one);
    receive(one, one.fetched, one.centre);
    if (!one.momentum.defined()) {
      one.momentum = at::zeros_like(one.centre);
      one.previous = at::zeros_like(one.centre);
    }
    one.sum = gem(numbers_, one.flat.all(), one.base, one.centre, one.momentum, one.previous);
    send(one, one.sum, 1, false);
  }

  bool has_come() {
    if (replica_.world.size() > 1) return true;  // all ranks must decide alike, so integrate() waits instead
    return std::ranges::all_of(copies_, [](const ServerCopy& one) { return one.pushed.done(); });
  }

  /// Waits for `request`, and broadcasts the received `values` to the worker's ranks.
  void receive(ServerCopy& one, Request& request, const at::Tensor& values) {
    waited([&] {
      if (one.kept) {
        request.wait();
        note(one, request);
      }
      share_result(values);
    });
  }

  void share_result(const at::Tensor& values) {
    if (replica_.world.size() > 1) replica_.world.broadcast(nn::buffer(values), 0).wait();
  }

  /// Counts the updates by other workers between the last known centre and the received one.
  void note(ServerCopy& one, const Request& request) {
    const std::uint64_t version = request.version(), own = &request == &one.pushed ? 1 : 0;
    if (own == 1 && version > one.seen) ++report_.staleness[version - one.seen - own];
    one.seen = std::max(version, one.seen);
  }

  void integrate() {
    each([this](ServerCopy& one) {
      at::Tensor x = one.flat.all();
      switch (numbers_.kind) {
        case Kind::gradients:
          receive(one, numbers_.prefetch > 0 ? one.fetched : one.pushed, one.centre);
          x.copy_(one.centre);
          one.sum.zero_();
          break;
        case Kind::deltas:
          receive(one, one.pushed, one.centre);
          one.flat.read(x);
          if (numbers_.alpha == 0)
            x.copy_(one.centre);
          else
            x.mul_(numbers_.alpha).add_(one.centre, 1 - numbers_.alpha);
          break;
        case Kind::elastic:
          if (numbers_.prefetch == 0) receive(one, one.pushed, one.centre);  // the answer is the change d
          subtract(x, numbers_.prefetch == 0 ? one.centre : one.sum);
          break;
        case Kind::gem: x.copy_(one.centre).add_(one.sum); break;
      }
      one.base.copy_(numbers_.kind == Kind::gem ? x : one.centre);
      one.flat.write(x);
    });
    waits_ = false;
    ++stats_.finished;
  }

  void subtract(at::Tensor& x, const at::Tensor& moved) const {
    if (numbers_.elastic_here == numbers_.elastic)
      x.sub_(moved);
    else
      x.sub_(moved, numbers_.elastic_here / numbers_.elastic);
  }

  WorkerNumbers numbers_;
  Replica replica_;
  exchange::WorkerConnection connection_;
  std::unique_ptr<Strategy> inner_;
  std::vector<ServerCopy> copies_;
  StepShare share_;
  bool has_begun_ = false, rests_ = false;
  std::int64_t count_ = 0, due_ = 0;  // steps so far; the step after which the last push's reply is applied
  std::int64_t since_ = 0;            // steps before the checkpoint that are pushed; the ledger does not count them
  std::int64_t steps_ = 0;            // since the last push
  std::int64_t claimed_ = 0;          // own steps before this number are claimed
  std::uint64_t samples_ = 0;
  bool waits_ = false, aside_ = false;
  double inner_waited_ = 0;
  ExchangeReport report_;
};

}  // namespace

std::unique_ptr<ServerWorker> ServerWorker::make(const WorkerNumbers& numbers, Traits traits, const Replica& replica,
                                                 const WorkerPlace& place, std::unique_ptr<Strategy> inner) {
  if (!replica.tensor_device->on_cpu()) refuse("strategy.how=server trains on the CPU: say device=cpu");
  auto made = std::make_unique<Worker>(numbers, std::move(traits), replica, place, std::move(inner));
  made->begin();
  return made;
}

}  // namespace tutti::engine

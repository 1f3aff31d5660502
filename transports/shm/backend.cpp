// Chooses an engine for each call and runs it from one wait to the next.
#include "transports/shm/backend.hpp"

#include <algorithm>
#include <array>

#include "transports/causes.hpp"
#include "tutti/log.hpp"

namespace tutti::shm {
namespace {

constexpr std::array<std::string_view, 6> all_engines = {"", "ll", "one_shot", "two_copy", "zero_copy", "cma"};
constexpr int looks_at_word = 64;
constexpr int looks_in_step = 64;
constexpr int most_late = 4;               // consecutive late calls after which the ranks count as out of step
constexpr std::uint64_t tried_every = 16;  // calls between attempts when out of step

// Two ranks exchange blocks of up to this many bytes with the one-shot engine. For larger ones, which exceed the L1
// cache, the two-copy engine is faster.
constexpr std::size_t one_shot_of_two = std::size_t{3} << 10;
constexpr std::size_t tidy_after = 64;  // ended calls that stay in the queue while others wait

}  // namespace

std::string_view ShmBackend::name_of(Engine engine) noexcept {
  return engine == Engine::meeting ? "meeting" : all_engines[static_cast<std::size_t>(engine)];
}

std::span<const std::string_view> engine_names(Kind kind) {
  if (kind == Kind::send) return {};
  return std::span(all_engines).first(kind == Kind::barrier ? 3 : kind == Kind::scatter ? 6 : 5);
}

ShmBackend::ShmBackend(std::shared_ptr<HostState> host_state, const Group& group, std::vector<int> locals,
                       bool all_read_all)
    : memory_(std::move(host_state), group, std::move(locals), all_read_all) {}

Status ShmBackend::supports(const Collective& call, std::string_view algorithm) const {
  const auto no = [](const std::string& why) { return Status::failure(Code::unsupported, why); };
  if (call.in.device.kind != Device::Kind::cpu || call.out.device.kind != Device::Kind::cpu)
    return no("the buffer is on a GPU, which shared memory does not reach");
  if (call.variable) return no("counts per rank are not for shm's own collectives");
  if (call.op.op == Op::premul_sum) return no("a factor per rank is not for shm's own collectives");
  const auto names = engine_names(call.kind);
  if (Status able = check_algorithm_name("shm", algorithm, call.kind, names); !able.ok()) return able;
  const std::size_t given = ShmCall(call, memory_).given_bytes();
  const std::size_t most = algorithm == "ll" ? low_latency_bytes : algorithm == "one_shot" ? shot_bytes : given;
  if (given > most)
    return no("shm/" + std::string(algorithm) + " takes at most " + std::to_string(most) + " bytes of each rank");
  return {};
}

void ShmBackend::start(Call& call) {
  memory_.enter();  // before the call is queued: if it throws, nothing is in flight
  queue_.push_back(&call);
  if (begun_ || failed_) {
    call.tracker = this;
    return be_driven();
  }
  begin_next();
  if (begun_) call.waiting();
  if (engine_ <= Engine::one_shot) {
    // If the ranks are in step, a small call completes while start() polls. Else only every 16th start() polls often.
    const bool in_step = late_calls_ < most_late || calls_ % tried_every == 0;
    for (int looks = 0; begun_ && !failed_ && looks < (in_step ? looks_in_step : 1); ++looks)
      if (awaited_.reached()) step();
    late_calls_ = begun_ ? std::min(late_calls_ + 1, most_late) : 0;
  }
  if (queue_.empty()) return;
  if (begun_) call.tracker = this;  // otherwise the call has ended
  be_driven();
}

ShmBackend::Engine ShmBackend::named(std::string_view algorithm) noexcept {
  return static_cast<Engine>(std::ranges::find(all_engines, algorithm) - all_engines.begin());
}

ShmBackend::Engine ShmBackend::first_engine(const ShmCall& call, Engine wanted) const {
  if (wanted == Engine::one_shot || wanted == Engine::low_latency) return wanted;
  const std::size_t given = call.given_bytes();
  const bool by_cma =
      wanted == Engine::cma ? memory_.all_read_all() : wanted == Engine::by_size && favours_cma(memory_, call);
  if (given > 0 && by_cma) return Engine::cma;
  if (wanted != Engine::by_size) return given > 0 ? Engine::meeting : Engine::low_latency;
  if (given > shot_bytes || (call.size == 2 && call.bytes() > one_shot_of_two)) return Engine::meeting;
  return given <= few_bytes ? Engine::low_latency : Engine::one_shot;
}

void ShmBackend::begin_next() {
  const Call& next = *queue_[next_];
  const Engine wanted = next.algorithm.empty() ? Engine::by_size : named(next.algorithm);
  // Fast path: most calls repeat the previous one, on the same or other buffers.
  if (wanted == wanted_ && next.summary.bits == call_.signature && is_whole(next.summary)) {
    call_.set_buffers(next.what.in.data, next.what.out.data);
  } else {
    call_ = ShmCall(next.what, memory_);
    call_.signature = next.summary.bits;
    wanted_ = wanted;
    const Engine first = first_engine(call_, wanted);
    const Insisted insisted = wanted == Engine::two_copy    ? Insisted::two_copy
                              : wanted == Engine::zero_copy ? Insisted::zero_copy
                                                            : Insisted::nothing;
    call_.way = static_cast<std::uint64_t>(first) * 4 + static_cast<std::uint64_t>(insisted);
  }
  engine_ = static_cast<Engine>(call_.way / 4);
  call_.number = ++calls_;
  call_.round = rounds_;
  call_.stamp = stamp_of(call_.number, call_.signature + (call_.way << 58), call_.bytes());
  awaited_ = {};
  begun_ = true;
  step();
}

// Runs the current call until it has to wait or has ended. False: another rank has not published its slab yet.
bool ShmBackend::step() {
  if (!memory_.open()) {
    awaited_ = memory_.look_around();
    if (!memory_.open()) return false;
  }
  try {
    if (!task_) play();
    task_.resume();
    if (!task_.done()) {
      awaited_ = memory_.awaited();
      return true;
    }
    const Status status = task_.result();
    if (!status.ok()) {
      fail(status);
      return true;
    }
    const bool goes_on = engine_ == Engine::meeting || (engine_ == Engine::cma && !can_play_cma(memory_, call_));
    if (!goes_on) {
      end();
      return true;
    }
    task_.drop();
  } catch (const std::exception& error) {
    const int me = memory_.world_rank(memory_.rank());
    fail(Status::failure(Code::resource, "out of memory on rank " + std::to_string(me) + ": " + error.what(), me));
    return true;
  }
  const bool in_place =
      engine_ == Engine::meeting && !call_.insists_on(Insisted::two_copy) && can_play_zero_copy(memory_, call_);
  engine_ = in_place ? Engine::zero_copy : Engine::two_copy;
  if (engine_ == Engine::two_copy) memory_.rounds_end_at(rounds_ += rounds_of(call_));
  awaited_ = {};
  return step();
}

void ShmBackend::play() {
  switch (engine_) {
    case Engine::by_size: break;  // does not occur: first_engine() has chosen
    case Engine::low_latency: task_ = play_low_latency(memory_, call_); return;
    case Engine::one_shot: task_ = play_one_shot(memory_, call_); return;
    case Engine::meeting: task_ = play_meeting(memory_, call_); return;
    case Engine::two_copy: task_ = play_two_copy(memory_, call_); return;
    case Engine::zero_copy: task_ = play_zero_copy(memory_, call_); return;
    case Engine::cma: task_ = play_cma(memory_, call_); return;
  }
}

// Reports the failure to the other ranks, since not all of them detect it; the call ends with the communicator.
void ShmBackend::fail(const Status& status) {
  failed_ = true;
  task_.drop();
  queue_[next_]->trouble(status);
}

void ShmBackend::end() {
  task_.drop();
  Call& call = *queue_[next_];
  begun_ = false;
  if (++next_ == queue_.size()) {
    queue_.clear();
    next_ = 0;
    if (is_driven_) rest();
  } else if (next_ == tidy_after) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
  }
  call.ended({});
}

bool ShmBackend::gone(int peer) const noexcept { return peer != memory_.rank() && memory_.left(peer); }

bool ShmBackend::progress() {
  if (queue_.empty() || failed_) return false;
  if (!begun_) {
    begin_next();
    return true;
  }
  if (awaited_.reached()) return step();
  if (--patience_ > 0) return false;
  patience_ = looks_at_word;
  // A word posted before the peer left still counts, so it is checked again.
  if (!gone(awaited_.peer) || awaited_.reached()) return false;
  fail(Status(ended(memory_.world_rank(awaited_.peer), memory_.world_rank(memory_.rank()))));
  return true;
}

bool ShmBackend::arm(bool on) {
  patience_ = 0;
  return !on || queue_.empty() || failed_ || (begun_ && !awaited_.reached() && !gone(awaited_.peer));
}

// Other ranks may have passed the meeting and be writing to the buffers of the failed call.
void ShmBackend::withdraw(const Status& why) noexcept {
  if (!begun_ || (engine_ != Engine::zero_copy && engine_ != Engine::cma && engine_ != Engine::meeting)) return;
  if (memory_.leave_alone(why.code() == Code::peer_lost ? why.cause().culprit : -1)) return;
  memory_.quarantine(call_.in, call_.out);
  log(LogLevel::warn,
      "a rank that is stopped may, when it goes on, still write into the buffers of the call that failed: do not use "
      "them again",
      memory_.world_rank(memory_.rank()));
}

void ShmBackend::cancel(const Status& why) noexcept {
  if (queue_.empty()) return;
  withdraw(why);
  task_.drop();
  begun_ = false;
  rest();
  auto ending = std::exchange(queue_, {});
  for (std::size_t i = std::exchange(next_, 0); i < ending.size(); ++i) ending[i]->ended(why);
}

// A call that is behind another one waits for the same rank.
void ShmBackend::partners(const Call&, std::vector<int>& ranks) const {
  if (next_ >= queue_.size()) return;
  if (awaited_.word != nullptr && awaited_.peer >= 0) ranks.push_back(memory_.world_rank(awaited_.peer));
}

std::string ShmBackend::where(const Call& call) const {
  if (next_ >= queue_.size()) return {};
  const Call& now = *queue_[next_];
  if (&call != &now) return "shm, behind call " + std::to_string(now.sequence);
  std::string text = "shm " + (memory_.open() ? std::string(name_of(engine_)) : "finding the others");
  if (awaited_.word != nullptr && awaited_.peer >= 0)
    text += ", waiting for rank " + std::to_string(memory_.world_rank(awaited_.peer));
  return text;
}

}  // namespace tutti::shm

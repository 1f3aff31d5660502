#include "transports/core/work_set.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "transports/core/checked.hpp"
#include "transports/core/job_turns.hpp"

namespace tutti {

/// The state that the set shares with its works, which may outlive the set.
struct WorkSet::Shared {
  struct Job {
    std::shared_ptr<Driver> driver;
    Work sample;  // one of the job's works, on which wait() makes progress
    std::size_t open = 0;
  };

  std::mutex mutex;
  std::vector<std::uint64_t> ready;  // keys of works that have ended
  std::atomic<bool> any{false};
  std::vector<Job> jobs;  // few; used by the waiting thread alone, except for `open`

  void end(Driver* driver, std::uint64_t key) {
    const std::lock_guard lock(mutex);
    ready.push_back(key);
    const auto job = std::ranges::find_if(jobs, [&](const Job& one) { return one.driver.get() == driver; });
    if (job != jobs.end()) --job->open;
    any.store(true, std::memory_order_release);
  }
};

namespace {

/// Completes once a key is ready. Lives on the stack of the waiting thread, which alone completes it.
class FirstReady final : public WorkState {
 public:
  FirstReady(const std::atomic<bool>& any, WorkState* sample) : any_(any), sample_(sample) { prepare(nullptr); }
  bool settled() override {
    if (!done() && any_.load(std::memory_order_acquire)) complete({});
    return done();
  }
  bool look() override {
    const bool moved = sample_ != nullptr && !sample_->done() && sample_->look();
    settled();
    return moved;
  }

 private:
  const std::atomic<bool>& any_;
  WorkState* const sample_;
};

}  // namespace

WorkSet::WorkSet() : shared_(std::make_shared<Shared>()) {}
WorkSet::~WorkSet() {
  std::vector<Shared::Job> jobs;  // end() must not destroy jobs: its caller holds a context's lock
  {
    const std::lock_guard lock(shared_->mutex);
    jobs.swap(shared_->jobs);
  }
}

void WorkSet::add(const Work& work, std::uint64_t key) {
  if (work.state_ == nullptr || work.state_->done()) return shared_->end(nullptr, key);
  const std::shared_ptr<Driver>& driver = work.state_->driver_;
  {
    const std::lock_guard lock(shared_->mutex);
    auto job = std::ranges::find(shared_->jobs, driver, &Shared::Job::driver);
    if (job == shared_->jobs.end()) job = shared_->jobs.insert(job, {driver, {}, 0});
    if (job->sample.done()) job->sample = work;
    ++job->open;
  }
  work.state_->react_at_once([shared = shared_, of = driver.get(), key](const Status&) { shared->end(of, key); });
}

void WorkSet::wait(std::vector<std::uint64_t>& ready, Seconds limit) {
  const Deadline until = deadline_in(checked_seconds(limit, "wait: the limit"));
  Shared& shared = *shared_;
  std::vector<Shared::Job> over;  // may hold the last handles of works, so it is destroyed without the lock
  {
    const std::lock_guard lock(shared.mutex);
    const auto left = std::ranges::partition(shared.jobs, [](const Shared::Job& one) { return one.open > 0; });
    over.assign(std::make_move_iterator(left.begin()), std::make_move_iterator(left.end()));
    shared.jobs.erase(left.begin(), left.end());
  }
  Seconds turn = first_turn;
  bool late = false;
  while (!shared.any.load(std::memory_order_acquire) && !late && !shared.jobs.empty()) {
    for (std::size_t i = 0; i < shared.jobs.size() && !shared.any.load(std::memory_order_acquire); ++i) {
      Shared::Job& job = shared.jobs[i];
      FirstReady first(shared.any, job.sample.state_);
      job.driver->drive(first, shared.jobs.size() == 1 ? until : std::min(until, deadline_in(turn)));
    }
    turn = std::min(2 * turn, longest_turn);
    late = Clock::now() >= until;
  }
  const std::lock_guard lock(shared.mutex);
  ready.insert(ready.end(), shared.ready.begin(), shared.ready.end());
  shared.ready.clear();
  shared.any.store(false, std::memory_order_release);
}

}  // namespace tutti

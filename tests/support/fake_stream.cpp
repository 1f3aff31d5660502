#include "tests/support/fake_stream.hpp"

#include <chrono>

namespace tutti::testing {

// Polls, because the event may be passed by another process, which cannot wake this one.
void FakeEvent::await(std::uint64_t number) const noexcept {
  for (int looks = 0; !has_passed(number); ++looks) {
    if (looks < 50) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

std::shared_ptr<FakeStream> FakeStream::make(int device, std::function<void()> before) {
  std::shared_ptr<FakeStream> made(new FakeStream(device, std::move(before)));
  std::thread([made] { made->work(); }).detach();
  return made;
}

void FakeStream::put(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  ++put_;
  changed_.notify_all();
}

void FakeStream::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, target = put_] { return done_ >= target; });
}

void FakeStream::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void FakeStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    before_();
    task();
    task = nullptr;  // frees what the task holds before it counts as done
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace tutti::testing

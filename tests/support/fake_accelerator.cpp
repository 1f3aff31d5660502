#include "tests/support/fake_accelerator.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "tests/support/fake_stream.hpp"
#include "transports/accelerators.hpp"
#include "tutti/memory.hpp"

namespace tutti::testing {
namespace {

FakeEvent& at(const Event& event) { return *static_cast<FakeEvent*>(event.handle); }

class FakeGate final : public Gate {
 public:
  ~FakeGate() override { FakeGate::open(); }
  void open() noexcept override {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  std::function<void()> task() const {
    return [state = state_] {
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return state->open; });
    };
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

void wait_a_while() {
  thread_local std::minstd_rand random(std::random_device{}());
  if (const auto draw = random() % 8; draw < 3) std::this_thread::sleep_for(std::chrono::microseconds(draw * 150));
}

}  // namespace

FakeAccelerator::FakeAccelerator(int devices) {
  for (int i = 0; i < devices; ++i) {
    DeviceInfo info;
    info.name = "fake device";
    info.uuid = "fake-" + std::to_string(i);
    info.compute = "0.0";
    info.bytes = std::size_t{1} << 30;
    info.processors = 1;
    info.shares_memory = true;
    info.sharing = "host memory";
    devices_.push_back(info);
    default_streams_.emplace_back();  // made at its first use, so that processes can fork before
  }
}

FakeAccelerator::~FakeAccelerator() {
  for (auto& [handle, stream] : streams_) stream->close();
  for (auto& stream : default_streams_)
    if (stream) stream->close();
}

// ---- for tests ----------------------------------------------------------------------------------

void FakeAccelerator::run(const Stream& stream, std::function<void()> kernel) {
  check(stream.device);
  stream_of(stream).put(std::move(kernel));
}

void FakeAccelerator::delay(const Stream& stream, std::chrono::milliseconds time) {
  run(stream, [time] { std::this_thread::sleep_for(time); });
}

std::byte* FakeAccelerator::seen(const void* memory) const {
  const std::lock_guard lock(mutex_);
  auto* const place = static_cast<std::byte*>(const_cast<void*>(memory));
  const Region* const region = find(memory);
  return region == nullptr ? place : region->seen + (place - region->place.base);
}

void FakeAccelerator::break_device(int device, std::string why) {
  const std::lock_guard lock(mutex_);
  broken_[device] = std::move(why);
}

std::size_t FakeAccelerator::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

int FakeAccelerator::open_handles() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(regions_, [](const auto& entry) { return entry.second.fd < 0; }));
}

namespace {
thread_local int current_device = 0;
}

int FakeAccelerator::current() noexcept { return current_device; }

void FakeAccelerator::with_current(int device, const std::function<void()>& what) {
  check(device);
  const int before = std::exchange(current_device, device);
  try {
    what();
  } catch (...) {
    current_device = before;
    throw;
  }
  current_device = before;
}

// ---- streams and events -------------------------------------------------------------------------

std::shared_ptr<FakeStream> FakeAccelerator::new_stream(int device) {
  return FakeStream::make(device, [this] { stumbles_ ? wait_a_while() : void(); });
}

FakeStream& FakeAccelerator::stream_of(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (stream.handle != nullptr) return *streams_.at(stream.handle);
  auto& made = default_streams_.at(static_cast<std::size_t>(stream.device));
  if (!made) made = new_stream(stream.device);
  return *made;
}

void FakeAccelerator::check(int device) {
  const std::lock_guard lock(mutex_);
  if (device < 0 || device >= static_cast<int>(devices_.size()))
    throw Error(Code::invalid, "there is no device " + std::to_string(device));
  if (const auto broken = broken_.find(device); broken != broken_.end()) throw Error(Code::internal, broken->second);
}

Stream FakeAccelerator::make_stream(int device, bool) {
  check(device);
  auto made = new_stream(device);
  const Stream stream{made.get(), device};
  const std::lock_guard lock(mutex_);
  streams_[stream.handle] = std::move(made);
  return stream;
}

void FakeAccelerator::destroy(const Stream& stream) noexcept {
  ++destroyed_;
  const std::lock_guard lock(mutex_);
  streams_.at(stream.handle)->close();
  streams_.erase(stream.handle);
}

void FakeAccelerator::synchronize(const Stream& stream) {
  check(stream.device);
  stream_of(stream).drain();
}

// Every event has a page of its own. A shared event is named by its file.
Event FakeAccelerator::make_event(int device) {
  check(device);
  return {new FakeEvent, device};
}

// The event is kept, because tasks may still use it.
void FakeAccelerator::destroy(const Event& event) noexcept {
  static auto& graveyard = *new std::vector<void*>;
  ++destroyed_;
  const std::lock_guard lock(mutex_);
  graveyard.push_back(event.handle);
}

void FakeAccelerator::record(const Event& event, const Stream& stream) {
  const std::uint64_t number = at(event).recorded.fetch_add(1) + 1;
  run(stream, [event, number] { at(event).pass(number); });
}

void FakeAccelerator::wait(const Stream& stream, const Event& event) {
  run(stream, [event, number = at(event).recorded.load()] { at(event).await(number); });
}

bool FakeAccelerator::query(const Event& event) {
  check(event.device);
  return at(event).has_passed(at(event).recorded.load());
}

void FakeAccelerator::synchronize(const Event& event) {
  check(event.device);
  at(event).await(at(event).recorded.load());
}

// ---- work ---------------------------------------------------------------------------------------

void FakeAccelerator::wait_out_stall() const {
  while (stalls_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void FakeAccelerator::copy(const Stream& stream, void* into, const void* from, std::size_t bytes) {
  ++copies_;
  moved_ += 2 * bytes;
  run(stream, [this, to = seen(into), what = seen(from), bytes] {
    wait_out_stall();
    if (bytes > 0) std::memmove(to, what, bytes);
  });
}

void FakeAccelerator::zero(const Stream& stream, void* memory, std::size_t bytes) {
  run(stream, [to = seen(memory), bytes] {
    if (bytes > 0) std::memset(to, 0, bytes);
  });
}

void FakeAccelerator::fold(const Stream& stream, const Fold& fold, std::span<std::byte* const> into,
                           std::span<const std::byte* const> sources, std::size_t bytes) {
  if (std::max(into.size(), sources.size()) > most_folded) throw Error(Code::unsupported, "too many to fold");
  moved_ += (sources.size() + into.size()) * bytes;
  std::vector<const std::byte*> from;
  for (const std::byte* one : sources) from.push_back(seen(one));
  std::vector<std::byte*> to;
  for (std::byte* one : into) to.push_back(seen(one));
  run(stream, [this, fold, to, from, bytes] {
    wait_out_stall();
    if (bytes == 0) return;
    fold.of(to.front(), from, bytes);
    for (std::byte* const one : std::span(to).subspan(1)) std::memcpy(one, to.front(), bytes);
  });
}

void FakeAccelerator::scale(const Stream& stream, DType dtype, std::span<std::byte> into, const std::byte* from,
                            double factor) {
  run(stream, [dtype, to = seen(into.data()), what = seen(from), bytes = into.size(), factor] {
    tutti::scale(dtype, to, what, bytes, factor);
  });
}

std::unique_ptr<Gate> FakeAccelerator::hold(const Stream& stream) {
  auto gate = std::make_unique<FakeGate>();
  run(stream, gate->task());
  return gate;
}

std::string FakeAccelerator::failure(int device) {
  const std::lock_guard lock(mutex_);
  const auto broken = broken_.find(device);
  return broken == broken_.end() ? std::string() : broken->second;
}

FakeAccelerator& fake_accelerator() {
  static auto& one = *new FakeAccelerator([] {
    const char* const text = std::getenv("FAKE_DEVICES");
    return text == nullptr ? 2 : std::atoi(text);
  }());
  return one;
}

FakeAccelerator& use_fake_accelerator() {
  use_accelerator(fake_accelerator());
  return fake_accelerator();
}

}  // namespace tutti::testing

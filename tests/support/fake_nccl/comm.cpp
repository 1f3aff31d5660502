#include "tests/support/fake_nccl/comm.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

namespace fake_nccl {
namespace {

using namespace std::chrono_literals;
using namespace tutti::nccl;

std::optional<std::string> told(const char* name) {
  const char* const value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

// True if the variable `name`, "RANK:CALL" or "RANK", names this call.
bool meant(const char* name, int rank, int call) {
  const auto text = told(name);
  if (!text) return false;
  const std::size_t colon = text->find(':');
  return std::stoi(*text) == rank && (colon == text->npos || std::stoi(text->substr(colon + 1)) == call);
}

/// Holds the job of the thread's last call until the thread ends.
struct OfThread {
  std::shared_ptr<Job> job;
  ~OfThread() {
    if (job) job->thread_gone = job->unfinished.load();
  }
};
thread_local OfThread of_thread;

}  // namespace

Device& Device::of(int index) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, Device>;
  const std::lock_guard lock(mutex);
  return all[index];
}

std::size_t Device::launched(std::uint64_t comm) {
  const std::lock_guard lock(mutex_);
  unfinished_.insert(launches_.size());
  launches_.push_back(comm);
  return launches_.size() - 1;
}

bool Device::has_turn(std::size_t task) {
  const std::lock_guard lock(mutex_);
  return *unfinished_.begin() == task;
}

void Device::over(std::size_t task) {
  const std::lock_guard lock(mutex_);
  unfinished_.erase(task);
}

std::vector<std::uint64_t> Device::launches() {
  const std::lock_guard lock(mutex_);
  return launches_;
}

Comm::Comm(int rank, int size, std::string name, int device)
    : rank_(rank), size_(size), name_(std::move(name)), device_(device), id_(std::hash<std::string>{}(name_)) {}

Comm::~Comm() {
  if (meeting_.joinable()) meeting_.join();
}

void Comm::begin(bool blocking) {
  if (!blocking) leave_job();
  meeting_ = std::thread([this] { state_ = meet(); });
}

Result Comm::meet() {
  if (const auto why = told("FAKE_NCCL_REFUSE")) return say_error(*why), invalid_usage;
  segment_ = std::make_unique<Segment>(name_, size_);
  if (!*segment_) return say_error("no shared memory"), system_error;
  Segment& all = *segment_;
  if (meant("FAKE_NCCL_STALL", rank_, 0)) {
    wait_for_abort();
    return internal_error;
  }
  all->device[rank_] = device_ + 1;
  if (all->attached.fetch_add(1) + 1 == size_) all.forget();
  while (all->attached.load() < size_) {
    if (aborted_) return internal_error;
    std::this_thread::sleep_for(100us);
  }
  all.keep_name_to_others();
  if (told("NCCL_MULTI_RANK_GPU_ENABLE").value_or("0") == "1") return success;
  for (int a = 0; a < size_; ++a)
    for (int b = 0; b < a; ++b)
      if (all->device[a] == all->device[b])
        return say_error("Duplicate GPU detected : rank " + std::to_string(b) + " and rank " + std::to_string(a)),
               invalid_usage;
  return success;
}

void Comm::leave_job() { of_thread.job = job_ = std::make_shared<Job>(); }

Result Comm::finish() {
  if (state() != success) return state() == in_progress ? invalid_usage : state();
  const auto job = std::exchange(job_, nullptr);
  if (!job) return success;
  if (job->thread_gone) return say_error("the thread ended before its job was finished"), internal_error;
  job->unfinished = false;
  return success;
}

Result Comm::launch(Task task, void* stream) {
  if (const Result before = finish(); before != success) return before;
  if (of_thread.job && of_thread.job->unfinished)
    return say_error("this thread's job of another communicator is not finished"), internal_error;
  const auto shared = std::make_shared<Task>(std::move(task));
  const int number = calls_++;
  auto enqueue = [self = shared_from_this(), shared, number, stream] {
    const std::size_t place = Device::of(self->device_).launched(self->id_);
    runtime()->enqueue(stream, [self, shared, number, place] {
      self->play(*shared, number, place);
      Device::of(self->device_).over(place);
    });
  };
  const auto slow = told("FAKE_NCCL_SLOW_LAUNCH");
  if (!slow) return enqueue(), success;
  state_ = in_progress;
  leave_job();
  // The delay differs between ranks.
  const auto pause =
      std::stoi(*slow) * 1ms * (1 + (id_ + static_cast<unsigned>(number) * 5 + static_cast<unsigned>(rank_) * 3) % 7);
  std::thread([self = shared_from_this(), enqueue, pause] {
    std::this_thread::sleep_for(pause);
    enqueue();
    int expected = in_progress;
    self->state_.compare_exchange_strong(expected, success);
  }).detach();
  return in_progress;
}

void Comm::fail(Result why, const std::string& text) {
  say_error(text);
  state_ = why;
}

bool Comm::wait_for_abort() {
  while (!aborted_) std::this_thread::sleep_for(200us);
  return true;
}

void Comm::play(Task& task, int number, std::size_t place) {
  Device& device = Device::of(device_);
  while (!device.has_turn(place)) {
    if (aborted_) return;
    std::this_thread::sleep_for(20us);
  }
  if (meant("FAKE_NCCL_FAIL", rank_, number)) {
    fail(remote_error, "the fake was told to fail this call");
    wait_for_abort();
  }
  if (meant("FAKE_NCCL_HANG", rank_, number)) wait_for_abort();
  if (!aborted_)
    for (const auto& one : task.begins) one();
  while (!aborted_ && !std::ranges::all_of(task.transfers, &Transfer::over))
    if (!move(task)) std::this_thread::sleep_for(10us);
  if (meant("FAKE_NCCL_LATE", rank_, number)) std::this_thread::sleep_for(5ms);
  if (!aborted_)
    for (const auto& one : task.ends) one();
}

// For each peer and direction, only the first transfer that is not over can move.
bool Comm::move(Task& task) {
  std::set<std::pair<int, bool>> busy;
  bool moved = false;
  for (Transfer& one : task.transfers)
    if (!one.over() && busy.emplace(one.peer, one.sends).second) moved |= step(one);
  return moved;
}

bool Comm::step(Transfer& one) {
  Channel& channel = one.sends ? segment_->channel(rank_, one.peer) : segment_->channel(one.peer, rank_);
  const std::uint64_t put = channel.put.load(), got = channel.got.load();
  if (one.sends) {
    if (put - got == Channel::depth) return false;
    Channel::Piece& piece = channel.pieces[put % Channel::depth];
    piece.what = one.what;
    piece.bytes = std::min(piece_bytes, one.bytes - one.done);
    if (piece.bytes > 0) std::memcpy(piece.data, one.memory + one.done, piece.bytes);
    one.done += piece.bytes;
    channel.put.store(put + 1);
  } else {
    if (put == got) return false;
    const Channel::Piece& piece = channel.pieces[got % Channel::depth];
    if (piece.what != one.what || piece.bytes > one.bytes - one.done) return wait_for_abort();  // of another call
    if (piece.bytes > 0) std::memcpy(one.memory + one.done, piece.data, piece.bytes);
    one.done += piece.bytes;
    channel.got.store(got + 1);
  }
  return one.begun = true;
}

void Comm::abort() {
  if (const auto seconds = told("FAKE_NCCL_SLOW_ABORT"))
    std::this_thread::sleep_for(std::chrono::duration<double>(std::stod(*seconds)));
  aborted_ = true;
  if (const auto job = std::exchange(job_, nullptr)) job->unfinished = false;
}

}  // namespace fake_nccl

// MPI's non-blocking collectives as a Backend; they are tested whenever the context is driven.
#include "transports/mpi/backend.hpp"

#include <sched.h>

#include <algorithm>
#include <vector>

#include "transports/causes.hpp"
#include "transports/mpi/call.hpp"
#include "transports/mpi/meeting.hpp"
#include "tutti/log.hpp"

namespace tutti::mpi {
namespace {

constexpr std::size_t most_spare = 64 << 20;  // most bytes kept for the next call's copy of its input
constexpr Seconds patience{0.05};             // time in which running calls may complete before they are cancelled

class MpiBackend final : public Backend {
 public:
  MpiBackend(Session& session, std::unique_ptr<Comm> comm, int world_rank)
      : session_(session), comm_(std::move(comm)), world_rank_(world_rank) {}
  ~MpiBackend() override { cancel(Status::failure(Code::aborted, "the communicator has gone")); }

  std::string_view name() const noexcept override { return "mpi"; }

  Status supports(const Collective& call, std::string_view algorithm) const override {
    if (Status able = check_algorithm_name("mpi", algorithm, call.kind, algorithms(call.kind)); !able.ok()) return able;
    if (call.in.device.kind != Device::Kind::cpu || call.out.device.kind != Device::Kind::cpu)
      return Status::failure(Code::unsupported, "the backend mpi reaches host memory only");
    return {};
  }

  void start(Call& call) override {
    auto turn = session_.turn();
    calls_.push_back(std::make_unique<MpiCall>(session_, *comm_, call));
    MpiCall& fresh = *calls_.back();
    fresh.memory().swap(spare_);
    try {
      fresh.issue();
    } catch (const std::exception& error) {
      if (fresh.requests().empty()) {
        calls_.pop_back();
        throw;
      }
      // requests started before the error are in progress, so the call ends later
      fresh.failure = Status::failure(Code::resource, error.what(), world_rank_);
    }
    call.tracker = &fresh.tracker();
    fresh.open = fresh.requests().size();
    for (const MPI_Request request : fresh.requests()) {
      requests_.push_back(request);
      owners_.push_back(&fresh);
    }
    if (!fresh.failure.ok()) call.trouble(fresh.failure);
  }

  bool progress() override {
    if (calls_.empty()) return false;
    bool news = false;
    if (!requests_.empty()) {
      const auto turn = session_.turn();
      news = test();
    }
    // A call without requests is complete from the start. The completion callbacks may start further calls.
    std::vector<std::unique_ptr<MpiCall>> finished;
    for (auto& one : calls_)
      if (one->open == 0) finished.push_back(std::move(one));
    std::erase(calls_, nullptr);
    for (const auto& one : finished) {
      if (one->failure.ok()) one->complete();
      auto& memory = one->memory();
      if (memory.capacity() > spare_.capacity() && memory.capacity() <= most_spare) memory.swap(spare_);
      one->call().ended(one->failure);
    }
    return news || !finished.empty();
  }

  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }
  bool polled() const noexcept override { return !calls_.empty(); }

  // MPI cannot cancel a collective. Calls that do not complete in time are left to MPI until the process ends.
  void cancel(const Status& why) noexcept override {
    const Deadline until = deadline_in(patience);
    while (!requests_.empty() && !session_.ended() && Clock::now() < until) {
      const auto turn = session_.turn();
      if (!test()) ::sched_yield();
    }
    std::size_t kept = 0;
    auto ending = std::move(calls_);
    calls_.clear();
    requests_.clear();
    owners_.clear();
    for (auto& one : ending) {
      Call& call = one->call();
      if (one->open > 0) {
        ++kept;
        give_up(std::move(one));
      }
      call.ended(why);
    }
    if (kept == 0) return;
    log(LogLevel::warn,
        "MPI keeps the buffers of " + std::to_string(kept) +
            " calls, which it can neither end nor let go of: leave that memory alone until the process ends (the "
            "backend 'planned' has no such need)",
        world_rank_);
  }

 private:
  /// Tests the requests. Returns true if one has completed.
  bool test() {
    if (session_.ending()) return false;
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int ended = 0;
    const int code = session_.call.testsome(static_cast<int>(requests_.size()), requests_.data(), &ended,
                                            indices_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) fail_all(session_.status(code, "MPI_Testsome"));
    if (ended == MPI_UNDEFINED || ended == 0) return false;
    for (int i = 0; i < ended; ++i) {
      const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
      MpiCall& owner = *owners_[at];
      --owner.open;
      owners_[at] = nullptr;
      if (code != MPI_ERR_IN_STATUS || !owner.failure.ok()) continue;
      owner.failure = session_.status(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, owner.function());
      if (!owner.failure.ok() && owner.open > 0) owner.call().trouble(owner.failure);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (owners_[i] == nullptr) continue;
      requests_[kept] = requests_[i];
      owners_[kept++] = owners_[i];
    }
    requests_.resize(kept);
    owners_.resize(kept);
    return true;
  }

  void fail_all(const Status& why) {
    for (const auto& one : calls_) {
      if (!one->failure.ok()) continue;
      one->failure = why;
      one->call().trouble(why);
    }
  }

  // The call is leaked, because MPI may still use its memory.
  void give_up(std::unique_ptr<MpiCall> call) noexcept {
    comm_->abandon();
    [[maybe_unused]] const MpiCall* const kept = call.release();
  }

  Session& session_;
  std::unique_ptr<Comm> comm_;
  const int world_rank_;
  std::vector<std::unique_ptr<MpiCall>> calls_;  // in progress
  std::vector<MPI_Request> requests_;
  std::vector<MpiCall*> owners_;  // calls of the requests
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::byte> spare_;  // see MpiCall::memory()
};

}  // namespace

std::span<const std::string_view> algorithms(Kind kind) {
  static constexpr std::string_view its_own[] = {""};
  if (kind == Kind::send) return {};
  return its_own;
}

std::unique_ptr<Backend> make_backend(const BackendMeeting& meeting) {
  const Group& group = *meeting.group;
  const int world_rank = group.members[static_cast<std::size_t>(group.rank)];
  auto comm = meet({meeting.native, meeting.world_size, world_rank, group.members, group.id, meeting.store.get(),
                    meeting.settings, meeting.until});
  Session& session = comm->session();
  return std::make_unique<MpiBackend>(session, std::move(comm), world_rank);
}

}  // namespace tutti::mpi

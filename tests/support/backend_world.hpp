// Tests every backend by itself, with a transport beside it and without a Communicator. Ranks are processes: forked by
// the test, or started by a launcher (see process_ranks.hpp).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "collectives/route/host_backend.hpp"
#include "tests/support/backend_ranks.hpp"
#include "tests/support/device_cases.hpp"
#include "tests/support/process_ranks.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/thinned.hpp"
#include "transports/accelerators.hpp"
#include "transports/staged/staged_backend.hpp"

namespace tutti::testing {

/// A kind of backend: our own plans, staging, or that of a provider.
struct BackendSort {
  std::string name;
  const Provider* provider = nullptr;  ///< null: "planned" or "staged"
  std::string reason = {};             ///< why it is not available here

  bool is_for_devices() const { return provider ? provider->collects == Device::Kind::cuda : name == "staged"; }
  /// Returns the algorithms that a call may name; "" means the backend's own choice.
  std::vector<std::string_view> algorithms(Kind kind) const {
    std::vector<std::string_view> names;
    if (provider != nullptr) {
      const auto own = provider->algorithms(kind);
      names.assign(own.begin(), own.end());
    } else if (name == "planned") {
      for (const Algorithm* one : catalog())
        if (one->kind == kind) names.push_back(one->name);
    }
    const bool has_none = provider != nullptr && names.empty();
    if (!has_none && std::ranges::count(names, "") == 0) names.emplace_back();
    return names;
  }
  /// True if the backend may refuse this reduction without counts per rank, because its library or contract lacks it.
  bool may_refuse(Kind kind, Op op, DType dtype) const {
    if (name == "nccl")
      return dtype == DType::i16 || dtype == DType::u16 || op == Op::band || op == Op::bor || op == Op::bxor;
    if (name == "gloo") return kind == Kind::reduce_scatter;
    return name == "shm" ? op == Op::premul_sum : name == "mpi";
  }
  friend std::ostream& operator<<(std::ostream& out, const BackendSort& sort) { return out << sort.name; }
};

/// Returns all backends of this installation, or the one for which a launcher has started this process.
inline std::vector<BackendSort> backend_sorts(const Settings& settings) {
  if (const Provider* const only = process_world().provider) return {{std::string(only->name), only}};
  std::vector<BackendSort> sorts = {{"planned"}, {"staged"}};
  for (const std::string& name : provider_names(settings))
    if (const Found found = find_provider(name, settings); found.provider != nullptr && found.provider->algorithms)
      sorts.push_back({name, found.provider, found.reason});
  return sorts;
}

/// One rank's process.
class BackendWorld {
 public:
  BackendWorld(BackendSort sort, int rank, int size, std::shared_ptr<Store> store, Settings settings)
      : sort_(std::move(sort)), rank_(rank), size_(size), store_(std::move(store)), settings_(std::move(settings)) {
    if (sort_.is_for_devices()) use_fake_gpus().stumble(true);
    Rendezvous meeting;
    meeting.rank = rank_;
    meeting.size = size_;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) meeting.peers.push_back(peer);
    wire_store_ = make_prefix_store(store_, "wire");
    meeting.store = wire_store_.get();
    meeting.settings = &settings_;
    meeting.listener = &listener_;
    meeting.until = deadline_in(Seconds(60));
    wire_ = wire_provider().connect(meeting).transport;
  }

  const BackendSort& sort() const { return sort_; }
  /// Returns the place of this rank's buffers: a device, or on_host.
  int place() const { return sort_.is_for_devices() ? rank_ : on_host; }

  /// Makes a backend for all ranks, in reverse order unless `as_they_are`. Returns null if it is not for so few ranks.
  std::unique_ptr<BackendRank> make(std::uint64_t id, bool as_they_are = false) {
    Group group;
    group.id = id;
    group.rank = as_they_are ? rank_ : size_ - 1 - rank_;
    std::vector<int> members;
    for (int i = 0; i < size_; ++i) members.push_back(as_they_are ? i : size_ - 1 - i);
    group.members = members;
    std::unique_ptr<Backend> made = make_backend(group);
    if (!made) return nullptr;
    return std::make_unique<BackendRank>(group.rank, size_, std::move(made), std::vector<Engine*>{wire_.get()});
  }

  /// Makes progress until every rank has called this as often as this rank.
  void meet(BackendRank& rank) {
    const int target = ++meetings_ * size_;
    const Deadline late = deadline_in(Seconds(60));
    come("met");
    for (std::string text; came("met") < target;) {
      if (store_->find("failed", text)) throw std::runtime_error("stops: another rank failed");
      if (Clock::now() > late) throw std::runtime_error("waited 60 s for the others");
      for (const Deadline next = deadline_in(Seconds(0.0005)); Clock::now() < next;) rank.progress();
    }
  }
  /// come() counts ranks that have reached a point of the test; came() returns how many have.
  void come(const std::string& where) { store_->add(where, 1); }
  int came(const std::string& where) {
    std::string text;
    return store_->find(where, text) ? std::stoi(text) : 0;
  }
  /// Checks that all ranks pass the same numbers.
  void expect_alike(BackendRank& rank, const std::string& what, const std::vector<std::uint64_t>& said) {
    meet(rank);
    std::string text;
    for (const std::uint64_t one : said) text += std::to_string(one) + " ";
    std::vector<Awaited> keys;
    for (int i = 0; i < size_; ++i) keys.push_back({what + "/" + std::to_string(i)});
    const auto mine = static_cast<std::size_t>(rank_);
    const auto all = store_->set_and_wait(keys[mine].key, text, keys, deadline_in(Seconds(60)));
    EXPECT_EQ(all.front(), text) << what;
  }
  void failed() { store_->set("failed", "yes"); }

 private:
  // If a transport has collectives of its own, it is also the transport.
  const Provider& wire_provider() const {
    if (sort_.provider != nullptr && sort_.provider->make_backend == nullptr) return *sort_.provider;
    for (const Provider* one : providers())
      if (one->name != "inproc" && one->viable(settings_).viable) return *one;
    throw std::runtime_error("no transport here goes between processes");
  }
  std::unique_ptr<Backend> make_backend(const Group& group) {
    if (sort_.name == "planned") return std::make_unique<PlannedBackend>(*wire_, group, settings_);
    if (sort_.name == "staged") return make_staged(group);
    if (sort_.provider->make_backend == nullptr) return wire_->make_backend(group);
    BackendMeeting meeting;
    meeting.group = &group;
    meeting.world_size = size_;
    meeting.store = make_prefix_store(store_, "backend/" + std::to_string(group.id));
    meeting.local_rank = rank_;
    meeting.settings = &settings_;
    meeting.until = deadline_in(Seconds(60));
    meeting.wire = wire_.get();
    return sort_.provider->make_backend(meeting);
  }
  std::unique_ptr<Backend> make_staged(const Group& group) {
    const auto plans = [this, group] {
      return std::make_unique<HostBackend>(*wire_, group, settings_,
                                           std::make_shared<const Selector>(settings_, "", std::vector<std::string>()));
    };
    return std::make_unique<staged::StagedBackend>(
        group, staged::Host{[this]() -> Accelerator& { return accelerator(settings_); }, plans,
                            [this](std::size_t bytes) { return wire_->allocate(bytes); },
                            static_cast<std::size_t>(settings_.stage_bytes)});
  }

  const BackendSort sort_;
  const int rank_, size_;
  const std::shared_ptr<Store> store_;
  const Settings settings_;
  std::shared_ptr<Store> wire_store_;
  RecordingListener listener_;
  std::unique_ptr<Transport> wire_;
  int meetings_ = 0;
};

/// Plays each call by one of the algorithms of its kind, taken in turn.
class InTurn final : public DeviceRank {
 public:
  InTurn(const BackendSort& sort, BackendRank& rank, int place) : sort_(sort), rank_(rank), place_(place) {}
  int rank() const override { return rank_.rank(); }
  int size() const override { return rank_.size(); }
  int device() const override { return place_; }
  bool play(const Collective& call) override {
    const auto names = sort_.algorithms(call.kind);
    if (names.empty()) return false;
    std::string_view algorithm = insisted_ ? *insisted_ : names[static_cast<std::size_t>(turn_++) % names.size()];
    if (!insisted_ && !rank_.backend->supports(call, algorithm).ok()) algorithm = {};
    if (!rank_.backend->supports(call, algorithm).ok()) return false;
    rank_.play(call, algorithm);
    ++played_[static_cast<std::size_t>(call.kind)];
    return true;
  }
  /// From now on uses this algorithm only, and plays nothing if it is refused.
  void insist(std::string_view algorithm) { insisted_ = algorithm; }
  int played(Kind kind) const { return played_[static_cast<std::size_t>(kind)]; }
  /// Checks that calls of these kinds were played, not all refused.
  void expect_played(std::initializer_list<Kind> kinds) const {
    for (const Kind kind : kinds)
      EXPECT_TRUE(played_[static_cast<std::size_t>(kind)] > 0 || sort_.algorithms(kind).empty()) << name(kind);
  }

 private:
  const BackendSort& sort_;
  BackendRank& rank_;
  const int place_;
  int turn_ = 0;
  std::optional<std::string_view> insisted_;
  std::array<int, kind_count> played_{};
};

/// A test of every backend.
class EveryBackend : public ::testing::TestWithParam<BackendSort> {
 protected:
  using Body = std::function<void(BackendWorld&, BackendRank&)>;

  void SetUp() override {
    if (!GetParam().reason.empty()) GTEST_SKIP() << GetParam().reason;
  }
  void run(int size, const Body& body) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    ++runs_;
    ProcessWorld& world = process_world();
    if (!world.there()) {
      const auto store = make_prefix_store(make_file_store(folder_.path()), std::to_string(runs_));
      Fleet fleet(size, [&](int rank) { return play(rank, size, store, body); });
      return fleet.expect_success();
    }
    if (size != world.self.size) return;
    EXPECT_EQ(play(world.self.rank, size, world.next_store(), body), "");
  }
  /// Runs on 1 to 5 and 8 ranks; our own plans, which depend on the number of ranks, also on 17.
  void run_all(const Body& body) {
    for (const int size : {1, 2, 3, 4, 5, 8, 17})
      if (thinned ? size < 4 : size <= 8 || GetParam().name == "planned") run(size, body);
  }
  Settings settings = with_fake_nccl(process_world().self.settings);

 private:
  std::string play(int rank, int size, std::shared_ptr<Store> store, const Body& body) {
    Settings own = settings;
    own.job = folder_.path() + std::to_string(runs_);
    if (process_world().there()) own.job = "backends" + std::to_string(runs_);
    own.stage_bytes = own.lane_bytes = 16 << 10;  // small, so that calls have several slices and lanes
    own.secret = "a secret";
    BackendWorld world(GetParam(), rank, size, std::move(store), own);
    try {
      const std::unique_ptr<BackendRank> self = world.make(7);
      if (!self) return {};
      body(world, *self);
      world.meet(*self);
    } catch (...) {
      world.failed();
      throw;
    }
    return ::testing::Test::HasFailure() ? "see above" : "";
  }
  int runs_ = 0;
  TemporaryFolder folder_;
};

}  // namespace tutti::testing

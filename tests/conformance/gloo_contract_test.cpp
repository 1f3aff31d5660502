// The gloo backend's contract: mismatched calls, ranks that have gone or never come, cancelled calls, and what is left
// after the backend is destroyed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <set>

#include "tests/support/backend_ranks.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/comes_true.hpp"
#include "transports/addresses.hpp"

namespace tutti::testing {
namespace {

class GlooContract : public WithBackend {
 protected:
  GlooContract() : WithBackend("gloo") {}
};

std::size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

Collective allreduce_of(std::vector<float>& data) {
  Collective call;
  call.kind = Kind::allreduce;
  call.in = ConstBuffer(data);
  call.out = Buffer(data);
  call.op = sum;
  return call;
}

TEST_F(GlooContract, RefusesWhatItHasNot) {
  run(1, [&](BackendRank& rank) {
    std::vector<float> data(8);
    Collective call = allreduce_of(data);
    EXPECT_TRUE(rank.backend->supports(call, "").ok());
    EXPECT_TRUE(rank.backend->supports(call, "bcube").ok());
    EXPECT_EQ(rank.backend->supports(call, "tree").code(), Code::invalid);
    EXPECT_EQ(rank.backend->supports(call, "tree").text(),
              "gloo has no algorithm 'tree' for allreduce, but ring, bcube, halving_doubling");
    call.op = band;
    EXPECT_EQ(rank.backend->supports(call, "").code(), Code::unsupported);
    call.op = sum;
    call.in.count = call.out.count = std::size_t{1} << 28;
    EXPECT_EQ(rank.backend->supports(call, "halving_doubling").code(), Code::unsupported);
    EXPECT_TRUE(rank.backend->supports(call, "ring").ok());
    call.in.device.kind = call.out.device.kind = Device::Kind::cuda;
    EXPECT_EQ(rank.backend->supports(call, "").code(), Code::unsupported);
    call = {};
    call.kind = Kind::reduce_scatter;
    EXPECT_EQ(rank.backend->supports(call, "").code(), Code::unsupported);
    EXPECT_TRUE(provider->algorithms(Kind::reduce_scatter).empty());
    EXPECT_TRUE(provider->algorithms(Kind::send).empty());
  });
}

TEST_F(GlooContract, CallsEndInTheirOrderAndTheBellRings) {
  std::barrier together(3);
  run(3, [&](BackendRank& rank) {
    std::vector<std::vector<float>> data(20, std::vector<float>(3000, 1.0f));
    if (rank.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the others sleep until this
    std::vector<Report*> reports;
    for (auto& one : data) reports.push_back(&rank.start(allreduce_of(one), reports.size() % 2 ? "bcube" : "ring"));
    const auto ended = [&]() -> bool {
      std::vector<bool> states;
      for (const Report* report : reports) states.push_back(report->ends > 0);
      EXPECT_TRUE(std::is_sorted(states.rbegin(), states.rend())) << "a later call ended before an earlier one";
      return states.back();
    };
    EXPECT_TRUE(rank.until(ended));
    for (const Report* report : reports) EXPECT_TRUE(report->ends == 1 && report->outcome.ok());
    for (const auto& one : data) EXPECT_EQ(one, std::vector<float>(3000, 3.0f));
    EXPECT_TRUE(rank.rank() == 0 || rank.wakes > 0);
    together.arrive_and_wait();
  });
}

TEST_F(GlooContract, CallsThatDoNotMatchNeverMeet) {
  std::barrier together(2);
  run(2, [&](BackendRank& rank) {
    std::vector<float> data(rank.rank() == 0 ? 100 : 100'000, 1.0f);
    Report& report = rank.start(allreduce_of(data));
    EXPECT_FALSE(rank.until([&, start = Clock::now()] {
      return report.ends > 0 || !report.troubles.empty() || Clock::now() - start > std::chrono::milliseconds(300);
    }) && report.ends > 0);
    together.arrive_and_wait();  // both ranks still wait, and nothing was written
    EXPECT_EQ(data, std::vector<float>(data.size(), 1.0f));
    rank.backend->cancel(Status::failure(Code::mismatch, "they do not match"));
    EXPECT_EQ(report.ends, 1);
    EXPECT_EQ(report.outcome.code(), Code::mismatch);
    together.arrive_and_wait();
  });
}

TEST_F(GlooContract, CancelEndsWhatWaits) {
  for (const std::string_view algorithm : provider->algorithms(Kind::allreduce)) {
    std::barrier together(4);
    run(4, [&](BackendRank& rank) {
      std::vector<float> data(1 << 20, 1.0f), more(10);
      if (rank.rank() == 3) {  // rank 3 never makes the calls
        together.arrive_and_wait();
        return;
      }
      Report& first = rank.start(allreduce_of(data), algorithm);
      Report& second = rank.start(allreduce_of(more), algorithm);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      rank.backend->progress();
      EXPECT_EQ(first.ends + second.ends, 0);
      rank.backend->cancel(Status::failure(Code::timeout, "too late"));
      for (const Report* report : {&first, &second}) {
        EXPECT_EQ(report->ends, 1);
        EXPECT_EQ(report->outcome.code(), Code::timeout);
      }
      together.arrive_and_wait();
    });
  }
}

TEST_F(GlooContract, ARankThatIsGoneIsNamed) {
  for (const std::string_view algorithm : provider->algorithms(Kind::allreduce)) {
    std::barrier together(3);
    std::atomic<bool> given_up = false;  // a survivor has given up; the other one may then see that instead
    run(3, [&](BackendRank& rank) {
      std::vector<float> data(1 << 20, 1.0f);
      rank.play(allreduce_of(data), algorithm);
      if (rank.rank() == 1) rank.backend.reset();
      together.arrive_and_wait();
      if (rank.rank() == 1) return together.arrive_and_wait();
      Report& report = rank.start(allreduce_of(data), algorithm);
      EXPECT_TRUE(rank.until([&] { return report.ends > 0 || !report.troubles.empty(); }));
      EXPECT_EQ(report.ends, 0);  // a call ends only when it is cancelled
      EXPECT_EQ(report.troubles.size(), 1u);
      if (!report.troubles.empty()) {
        const Cause& why = report.troubles.front().cause();
        EXPECT_EQ(why.code, Code::peer_lost);
        EXPECT_TRUE(why.culprit == 11 || given_up.load()) << why.text;
        EXPECT_EQ(why.reporter, 10 + rank.rank());
        EXPECT_EQ(why.group, 7u);
        given_up = true;
        rank.backend->cancel(report.troubles.front());
      }
      EXPECT_EQ(report.ends, 1);
      EXPECT_EQ(report.outcome.code(), Code::peer_lost);
      together.arrive_and_wait();
    });
  }
}

// Returns the error of the first of two ranks if the second one never comes.
Error refusal(const Provider& provider, const Settings& settings, double seconds) {
  const std::shared_ptr<Store> store = make_local_store();
  Group group;
  group.members = {0, 1};
  BackendMeeting meeting;
  meeting.group = &group;
  meeting.store = store;
  meeting.settings = &settings;
  meeting.until = deadline_in(Seconds(seconds));
  return caught([&] { (void)provider.make_backend(meeting); });
}

TEST_F(GlooContract, WhoeverNeverComesIsWaitedForUntilTheDeadline) {
  const Error error = refusal(*provider, settings, 0.2);
  EXPECT_EQ(error.code(), Code::timeout) << error.what();
}

TEST_F(GlooContract, OnlyIPv6) {
  Settings own = settings;
  own.set("iface", "::1", "test");
  try {
    (void)allowed_interfaces(local_interfaces(), own.iface);
  } catch (const Error& error) {
    GTEST_SKIP() << "no IPv6 here: " << error.what();
  }
  run_backends(*provider, 3, own, [](BackendRank& rank) {
    std::vector<float> data(5000, 1.0f);
    rank.play(allreduce_of(data), "bcube");
    EXPECT_EQ(data, std::vector<float>(5000, 3.0f));
  });
}

TEST_F(GlooContract, AnUnknownInterfaceIsRefused) {
  Settings own = settings;
  own.set("iface", "nosuch0", "test");
  const Error error = refusal(*provider, own, 5);
  EXPECT_EQ(error.code(), Code::invalid);
  EXPECT_NE(std::string(error.what()).find("nosuch0"), std::string::npos);
}

std::set<int> inherited_sockets() {
  std::set<int> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    struct stat what {};
    if (::fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode) && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
      sockets.insert(fd);
  }
  return sockets;
}

TEST_F(GlooContract, StartedProgramsDoNotInheritConnections) {
  const std::set<int> before = inherited_sockets();  // sockets of the test process itself
  std::barrier together(3);
  run(3, [&](BackendRank& rank) {
    together.arrive_and_wait();
    EXPECT_TRUE(rank.rank() != 0 || inherited_sockets() == before);  // only rank 0 looks, while no rank opens anything
    together.arrive_and_wait();
  });
}

TEST_F(GlooContract, NothingIsLeftBehind) {
  const auto once = [&] {
    std::atomic<bool> heard{false};  // by a rank that waits for rank 0; the other may wait for that rank alone
    run(3, [&](BackendRank& rank) {
      std::vector<float> data(1000, 1.0f);
      rank.play(allreduce_of(data));
      Report& report = rank.start(allreduce_of(data));
      if (rank.rank() == 0) return rank.backend.reset();  // leaves while a call is in flight
      EXPECT_TRUE(rank.until([&] { return heard || report.ends > 0 || !report.troubles.empty(); }));
      heard = true;
      rank.backend->cancel(Status::failure(Code::aborted, "enough"));
    });
  };
  once();
  const std::size_t descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
  for (int i = 0; i < 5; ++i) once();
  // A joined thread may be listed for a moment longer, even in the first reading.
  EXPECT_TRUE(comes_true([&] { return entries_of("/proc/self/fd") <= descriptors; }));
  EXPECT_TRUE(comes_true([&] { return entries_of("/proc/self/task") <= threads; }));
}

}  // namespace
}  // namespace tutti::testing

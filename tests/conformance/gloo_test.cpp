// Tests specific to the gloo backend; backend_conformance.cpp has the tests for all backends.
#include <gtest/gtest.h>

#include "tests/support/backend_ranks.hpp"
#include "tests/support/device_cases.hpp"
#include "tests/support/thinned.hpp"

namespace tutti::testing {
namespace {

/// A rank that makes all calls by one algorithm.
class By final : public DeviceRank {
 public:
  By(BackendRank& rank, std::string_view algorithm) : rank_(rank), algorithm_(algorithm) {}
  int rank() const override { return rank_.rank(); }
  int size() const override { return rank_.size(); }
  int device() const override { return on_host; }
  bool play(const Collective& call) override {
    rank_.play(call, algorithm_);
    return true;
  }

 private:
  BackendRank& rank_;
  const std::string_view algorithm_;
};

class Gloo : public WithBackend {
 protected:
  Gloo() : WithBackend("gloo") {}
};

TEST_F(Gloo, CountsOfHalvingDoubling) {
  for (const int p : {2, 3, 5, 6, 7, 8, 11}) {
    if (thinned && p > 7) continue;
    run(p, [&](BackendRank& rank) {
      By by(rank, "halving_doubling");
      for (std::size_t count = 0; count < (thinned ? 12u : 70u); ++count)
        Folded(by, {Kind::allreduce, DType::i32, sum, count, count % 2 == 0, false}).play();
    });
  }
}

TEST_F(Gloo, LargeBuffersTakeSeveralSegments) {
  const std::size_t count = thinned ? 1 << 20 : 5'000'011;
  for (const int p : {2, 3})
    run(p, [&](BackendRank& rank) {
      for (const std::string_view algorithm : provider->algorithms(Kind::allreduce)) {
        By by(rank, algorithm);
        Folded(by, {Kind::allreduce, DType::f32, avg, count, false, false}).play();
      }
      By ring(rank, "ring");
      Folded(ring, {Kind::reduce, DType::i16, sum, count, false, false}).play();
    });
}

}  // namespace
}  // namespace tutti::testing

// The messages that a recorder has seen.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "collectives/doctor/recording.hpp"
#include "transports/core/recorder.hpp"

namespace tutti::testing {

/// A recorder of its own for a transport under test.
inline std::unique_ptr<Recorder> make_recorder(int rank = 0, int size = 1) {
  return Recorder::make("on", {rank, size, -1, "test"});
}

/// Its messages, in the order of their starts. Fails the test if some are lost.
inline std::vector<doctor::RecordedCall> messages_of(const Recorder& recorder) {
  std::vector<doctor::RecordedCall> messages;
  for (doctor::Recording& all : doctor::read_recordings(recorder.file())) {
    EXPECT_LT(all.calls.size(), RecordedRank::records_in_ring) << "the oldest are gone";
    EXPECT_EQ(all.lost, 0u);
    messages = std::move(all.calls);
  }
  return messages;
}

}  // namespace tutti::testing

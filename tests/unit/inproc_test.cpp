// The transport inproc, driven by one thread.
#include "tests/support/ranks.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

using testing::Outcome;
using testing::pattern;
using Block = std::vector<std::byte>;

class Inproc : public ::testing::Test {
 protected:
  Inproc() {
    settings_.job = "inproc_test";
    for (const int rank : {0, 1}) {
      Rendezvous meeting;
      meeting.rank = rank;
      meeting.size = 2;
      meeting.store = store_.get();
      meeting.settings = &settings_;
      meeting.listener = &listeners_[rank];
      transports_[rank] = find_provider("inproc", settings_).provider->connect(meeting).transport;
    }
  }
  static Done note(Outcome& outcome) {
    return [&outcome](const Status& status) {
      ++outcome.runs;
      outcome.status = status;
    };
  }
  void settle() {
    for (int i = 0; i < 10; ++i)
      for (auto& transport : transports_)
        if (transport) transport->progress();
  }

  Settings settings_;
  std::shared_ptr<Store> store_ = make_local_store();
  testing::RecordingListener listeners_[2];
  std::unique_ptr<Transport> transports_[2];
  const Tag tag_{1, 1, 0};
  const Block large_ = pattern(100'000, 1), small_ = pattern(4, 2);
  Block into_large_ = Block(100'000), into_small_ = Block(4);
  Outcome sent_large_, sent_small_, got_large_, got_small_;
};

TEST_F(Inproc, ASmallMessageIsNotTakenForTheLargeOneBeforeItThatWasCancelled) {
  transports_[0]->send(1, tag_, 0, large_, note(sent_large_));
  transports_[0]->send(1, tag_, 0, small_, note(sent_small_));
  transports_[0]->cancel(1, Status::failure(Code::peer_lost, "another rank is lost", 5));
  transports_[1]->recv(0, tag_, 0, into_large_, note(got_large_));
  transports_[1]->recv(0, tag_, 0, into_small_, note(got_small_));
  settle();
  EXPECT_EQ(sent_large_.status.code(), Code::peer_lost);
  EXPECT_EQ(sent_large_.runs, 1);
  ASSERT_TRUE(got_large_.done());
  EXPECT_EQ(got_large_.status.code(), Code::peer_lost) << got_large_.status.text();
  EXPECT_TRUE(got_small_.ok());
  EXPECT_EQ(into_small_, small_);
  EXPECT_TRUE(listeners_[0].causes().empty()) << "nothing is a mismatch";
}

TEST_F(Inproc, NorForOneOfARankThatHasEnded) {
  transports_[0]->send(1, tag_, 0, large_, note(sent_large_));
  transports_[0]->send(1, tag_, 0, small_, note(sent_small_));
  transports_[0].reset();
  transports_[1]->recv(0, tag_, 0, into_large_, note(got_large_));
  transports_[1]->recv(0, tag_, 0, into_small_, note(got_small_));
  settle();
  EXPECT_EQ(got_large_.status.code(), Code::peer_lost) << got_large_.status.text();
  EXPECT_TRUE(got_small_.ok());
}

TEST_F(Inproc, AReceiverThatCancelsForgetsWhatWasCancelled) {
  for (const int first : {0, 1}) {
    transports_[0]->send(1, tag_, 0, large_, [](const Status&) {});
    transports_[0]->send(1, tag_, 0, small_, [](const Status&) {});
    for (const int rank : {first, 1 - first}) transports_[rank]->cancel(1, Status::failure(Code::aborted, "enough"));
    settle();
    EXPECT_FALSE(transports_[1]->arrived(0, tag_).has_value()) << "first " << first;
  }
}

}  // namespace
}  // namespace tutti

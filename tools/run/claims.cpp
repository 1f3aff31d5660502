#include "tools/run/claims.hpp"

#include <algorithm>
#include <climits>
#include <csignal>
#include <utility>

#include "collectives/doctor/letter.hpp"
#include "tools/run/ranks.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

void expect(bool holds, const char* otherwise) {
  if (!holds) throw Error(Code::protocol, otherwise);
}

}  // namespace

Claims::Claims(const std::vector<Branch>& branches, const std::vector<Host>& hosts, std::size_t first)
    : branches_(branches) {
  for (std::size_t i = 0; i < branches.size(); ++i)
    for (std::size_t host = branches[i].first; host < branches[i].end(); ++host)
      for (const int rank : hosts[host - first].ranks) ranks_[rank].branch = i;
}

/// Returns the rank's record. Throws if the rank is not one of the branch's, or if ranks have not been started.
Claims::Rank& Claims::rank_of(std::size_t branch, int rank) {
  const auto found = ranks_.find(rank);
  expect(going_ && found != ranks_.end() && found->second.branch == branch,
         "it speaks of a rank that it has not been told to start");
  return found->second;
}

void Claims::take_output(Stream& stream, const Frame& frame) {
  expect(stream.unwritten + frame.text.size() <= stream_window, "it sends more output than it may");
  expect(!stream.ended, "it sends output after its end");
  stream.unwritten += frame.text.size();
  stream.ended = frame.text.empty();
}

void Claims::take_lost(const Branch& branch, const Frame& frame) const {
  const auto begin = static_cast<std::int64_t>(branch.first), end = static_cast<std::int64_t>(branch.end());
  expect(frame.subject > begin && frame.subject < end && frame.number > 0 && frame.number <= end - frame.subject,
         "it speaks of a host that it has not been told to start");
}

bool Claims::has_host(std::size_t branch, std::int32_t host) const {
  const auto place = static_cast<std::size_t>(host);
  return host >= 0 && place >= branches_[branch].first && place < branches_[branch].end();
}

/// An answer to an earlier question may come late; each rank has one answer to each question.
void Claims::take_answer(std::size_t branch, const Frame& frame) {
  if (frame.say == Say::patient) {
    Rank& about = rank_of(branch, frame.subject);
    expect(frame.number > about.answered && frame.number <= question_, "it answers what it has not been asked");
    expect(frame.text.size() <= doctor::longest_letter, "it says too much of a rank");
    about.answered = frame.number;
    return;
  }
  expect(has_host(branch, frame.subject), "it answers for a host that is not its own");
  expect(frame.number > 0 && frame.number <= (frame.say == Say::clock ? stamp_ : question_) && frame.text.size() < 32,
         "it answers what it has not been asked");
}

void Claims::take(std::size_t branch, const Frame& frame) {
  switch (frame.say) {
    case Say::refused: expect(has_host(branch, frame.subject), "it refuses for a host that is not its own"); break;
    case Say::started: {
      Rank& about = rank_of(branch, frame.subject);
      expect(!about.started && frame.number > 0 && frame.number <= INT_MAX, "it starts a rank that runs already");
      about.started = true;
      if (std::exchange(about.restarts, false)) about.streams[0].ended = about.streams[1].ended = false;
      break;
    }
    case Say::ended:
      expect(rank_of(branch, frame.subject).started, "a rank has ended there that was not started");
      break;
    case Say::stopped:
      expect(rank_of(branch, frame.subject).started && frame.number > 0 && frame.number < NSIG,
             "a rank is stopped there that was not started");
      break;
    case Say::output:
      expect(frame.subject >= 0, "it speaks of a rank that does not exist");
      take_output(rank_of(branch, frame.subject / 2).streams[frame.subject % 2], frame);
      break;
    case Say::consumed:
      expect(has(0) && branch_of(0) == branch, "it speaks of input that it has not been given");
      if (frame.number < 0) break;
      expect(static_cast<std::uint64_t>(frame.number) <= unread_, "it consumes more input than there was");
      unread_ -= static_cast<std::size_t>(frame.number);
      break;
    case Say::unstarted:
      expect(std::exchange(rank_of(branch, frame.subject).restarts, false),
             "it speaks of a replacement that was not asked for");
      expect(frame.number > 0 && frame.number < exit_signal_base, "its exit code cannot be");
      break;
    case Say::lost: take_lost(branches_[branch], frame); break;
    case Say::clock:
    case Say::patient:
    case Say::examined: take_answer(branch, frame); break;
    default: throw Error(Code::protocol, "it says what only a launcher says");
  }
}

void Claims::tell(const Frame& frame) {
  switch (frame.say) {
    case Say::go: going_ = true; break;
    case Say::end: ending_ = true; break;
    case Say::clock: stamp_ = std::max(stamp_, frame.number); break;
    case Say::ask: question_ = std::max(question_, frame.number); break;
    case Say::input: unread_ += frame.text.size(); break;
    case Say::restart:
      if (const auto found = ranks_.find(frame.subject); found != ranks_.end()) {
        found->second.started = false;
        found->second.restarts = true;
      }
      break;
    case Say::taken:
      if (const auto found = ranks_.find(frame.subject / 2); found != ranks_.end() && frame.number > 0) {
        std::size_t& unwritten = found->second.streams[frame.subject & 1].unwritten;
        unwritten -= std::min(unwritten, static_cast<std::size_t>(frame.number));
      }
      break;
    default: break;
  }
}

}  // namespace tutti::tools

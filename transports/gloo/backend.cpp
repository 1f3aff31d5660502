#include "transports/gloo/backend.hpp"

#include "transports/gloo/calls.hpp"
#include "tutti/fork.hpp"

namespace tutti {

GlooBackend::GlooBackend(const BackendMeeting& meeting)
    : generation_(fork_generation()),
      worker_(meeting.group->size() > 1 ? std::make_unique<Worker>(meeting) : nullptr) {}

GlooBackend::~GlooBackend() {
  // A forked child has no threads to join; joining would block forever.
  if (fork_generation() != generation_) static_cast<void>(worker_.release());
}

Status GlooBackend::supports(const Collective& call, std::string_view algorithm) const {
  return gloo_supports(call, algorithm);
}

void GlooBackend::start(Call& call) {
  if (!worker_) {
    gloo_play_alone(call.what);
    return call.ended({});
  }
  if (call.algorithm.empty()) call.algorithm = gloo_algorithms(call.what.kind).front();
  worker_->play(call);
}

void GlooBackend::cancel(const Status& why) noexcept {
  if (!worker_) return;
  // ended() of the last call may destroy this backend.
  for (Call* const call : worker_->cancel()) call->ended(why);
}

bool GlooBackend::progress() {
  if (!worker_ || !worker_->has_news()) return false;
  const Worker::News news = worker_->take_news();
  // ended() of the last call may destroy this backend.
  for (Call* const call : news.ended) call->ended({});
  if (news.troubled != nullptr) news.troubled->trouble(news.trouble);
  return true;
}

Engine::Fds GlooBackend::fds() const noexcept { return {worker_ ? worker_->bell() : -1, -1}; }

bool GlooBackend::arm(bool on) { return !worker_ || worker_->arm(on); }

}  // namespace tutti

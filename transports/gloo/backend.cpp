#include "transports/gloo/backend.hpp"

#include <algorithm>

#include "transports/core/fork.hpp"
#include "transports/gloo/calls.hpp"

namespace tutti {

GlooBackend::GlooBackend(const BackendMeeting& meeting)
    : generation_(fork_generation()),
      worker_(meeting.group->size() > 1 ? std::make_unique<Worker>(meeting) : nullptr) {}

GlooBackend::~GlooBackend() {
  // In a forked child there are no threads to end, and whoever waits for them waits for ever.
  if (fork_generation() != generation_) static_cast<void>(worker_.release());
}

Status GlooBackend::supports(const Collective& call, std::string_view algorithm) const {
  return gloo_supports(call, algorithm);
}

void GlooBackend::start(const Collective& call, const Launch& launch, CallListener& listener) {
  if (!worker_) {
    gloo_play_alone(call);
    return listener.ended({});
  }
  // The names of the table live as long as the module, which is for ever.
  const auto known = gloo_algorithms(call.kind);
  const auto named = std::ranges::find(known, launch.algorithm);
  worker_->play({&call, launch.sequence, named == known.end() ? known.front() : *named, &listener});
}

void GlooBackend::cancel(const Status& why) noexcept {
  if (!worker_) return;
  // The last listener may take this backend with it.
  for (const Worker::Call& call : worker_->cancel()) call.listener->ended(why);
}

bool GlooBackend::progress() {
  if (!worker_ || !worker_->has_news()) return false;
  const Worker::News news = worker_->take_news();
  // The last listener may take this backend with it.
  for (const Worker::Call& call : news.ended) call.listener->ended({});
  if (news.troubled != nullptr) news.troubled->trouble(news.trouble);
  return true;
}

Engine::Fds GlooBackend::fds() const noexcept { return {worker_ ? worker_->bell() : -1, -1}; }

bool GlooBackend::arm(bool on) { return !worker_ || worker_->arm(on); }

std::string GlooBackend::where(std::uint32_t sequence) const { return worker_ ? worker_->where(sequence) : ""; }

}  // namespace tutti

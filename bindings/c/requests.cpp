// The C functions of requests: test, wait, cancel and notification.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>

#include "bindings/c/handles.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::c {
namespace {

Seconds patience(double seconds) {
  if (std::isnan(seconds) || seconds < 0)
    throw Error(Code::invalid, "seconds is " + std::to_string(seconds) + "; it is 0 or more");
  return Seconds(seconds);
}

std::vector<Work> works_of(std::size_t n, const tutti_request* requests) {
  std::vector<Work> works;
  if (n > 0) given(requests, "requests");
  for (std::size_t i = 0; i < n; ++i) works.push_back(usable(requests[i], "a request").work);
  return works;
}

/// Makes the descriptor. The completion callback shares its ownership.
void make_event(tutti_request_s& request) {
  const auto owner = std::make_shared<Descriptor>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!*owner)
    throw Error(Code::resource, "no descriptor can be had for the request: " + std::string(std::strerror(errno)));
  const auto ring = [owner] {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(owner->fd(), &one, sizeof one));
  };
  if (request.work.done()) {
    ring();
  } else {
    request.work.then([ring](const Status&) { ring(); });
  }
  request.event = owner;
  request.event_fd = owner->fd();
}

}  // namespace
}  // namespace tutti::c

using namespace tutti;
using namespace tutti::c;

extern "C" {

tutti_result tutti_test(tutti_request request, int* done) { return tutti_wait_for(request, 0, done); }

tutti_result tutti_wait(tutti_request request) {
  return guarded([&] { usable(request, "request").work.wait(); });
}

tutti_result tutti_wait_for(tutti_request request, double seconds, int* done) {
  return guarded([&] {
    given(done, "done");
    const Work& work = usable(request, "request").work;
    *done = work.wait_for(patience(seconds)) ? 1 : 0;
  });
}

tutti_result tutti_wait_any(size_t n, const tutti_request* requests, double seconds, size_t* which) {
  return guarded([&] {
    given(which, "which");
    const std::vector<Work> works = works_of(n, requests);
    *which = wait_any(works, patience(seconds)).value_or(n);
  });
}

tutti_result tutti_wait_all(size_t n, const tutti_request* requests) {
  return guarded([&] {
    std::exception_ptr first;
    for (const Work& work : works_of(n, requests)) {
      try {
        work.wait();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  });
}

tutti_result tutti_request_cancel(tutti_request request, int* cancelled) {
  return guarded([&] {
    given(cancelled, "cancelled");
    *cancelled = usable(request, "request").work.cancel() ? 1 : 0;
  });
}

tutti_result tutti_request_source(tutti_request request, int* rank) {
  return guarded([&]() -> tutti_result {
    given(rank, "rank");
    const tutti_request_s& of = usable(request, "request");
    if (!of.from && of.source < 0) throw Error(Code::invalid, "the request is not of a receive, so it has no source");
    if (!of.work.done()) return TUTTI_IN_PROGRESS;
    *rank = of.from ? of.from->wait() : of.source;
    return TUTTI_OK;
  });
}

tutti_result tutti_request_eventfd(tutti_request request, int* fd) {
  return guarded([&] {
    given(fd, "fd");
    tutti_request_s& of = usable(request, "request");
    if (!of.event) make_event(of);
    *fd = of.event_fd;
  });
}

tutti_result tutti_request_then(tutti_request request, void (*fn)(tutti_result result, void* user), void* user) {
  return guarded([&] {
    given(fn, "fn");
    usable(request, "request").work.then([fn, user](const Status& status) {
      fn(static_cast<tutti_result>(status.code()), user);
    });
  });
}

tutti_result tutti_request_free(tutti_request request) {
  return guarded([&] {
    if (request != nullptr) delete &usable(request, "request");
  });
}

}  // extern "C"

// Events: epoll sets and eventfds as the progress engine uses them.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <span>

namespace tutti {

/// Returns `fd`, or throws Error{resource} with errno's text if it is negative; `what` is the call that failed.
int checked(int fd, const char* what);

/// Adds `fd` to the epoll set, unless it is negative. Throws Error{resource}.
void watch_for(int epoll, int fd, std::uint32_t events);

/// Like epoll_wait(), with a limit in nanoseconds.
int wait_for_events(int epoll, std::span<epoll_event> events, std::chrono::nanoseconds limit) noexcept;

/// Makes an eventfd readable.
void signal(int event) noexcept;
/// Resets an eventfd, so that it is not readable.
void drain(int event) noexcept;

}  // namespace tutti

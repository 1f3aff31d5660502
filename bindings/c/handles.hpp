// Helpers of the C functions: the handles, the conversion of exceptions to results, and structs of any version.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/c/tutti.h"
#include "bindings/common/views.hpp"
#include "tutti/communicator.hpp"
#include "tutti/fork.hpp"
#include "tutti/settings.hpp"
#include "tutti/status.hpp"
#include "tutti/store.hpp"

namespace tutti::c {

/// The calls of one thread between tutti_group_begin and tutti_group_end.
struct Collected {
  std::vector<Collective> calls = {};
  std::optional<CallOptions> options = {};  ///< of the first call
};

}  // namespace tutti::c

struct tutti_comm_s {
  explicit tutti_comm_s(tutti::Communicator made) : communicator(std::move(made)) {}
  tutti::Communicator communicator;
  const std::uint32_t generation = tutti::fork_generation();
  std::mutex mutex;
  std::map<std::thread::id, tutti::c::Collected> collected = {};  // guarded by mutex
};

struct tutti_request_s {
  tutti::Work work;
  int source = -1;                        ///< the sender that a receive names
  std::optional<tutti::Value<int>> from;  ///< for a receive from any rank: the same call as `work`
  std::shared_ptr<void> event;            ///< owner of the descriptor of tutti_request_eventfd
  int event_fd = -1;
  const std::uint32_t generation = tutti::fork_generation();
};

struct tutti_store_s {
  std::shared_ptr<tutti::Store> store;
  const std::uint32_t generation = tutti::fork_generation();
};

struct tutti_memory_s {
  std::shared_ptr<void> owner;
  const std::uint32_t generation = tutti::fork_generation();
};

namespace tutti::c {

static_assert(TUTTI_INTERNAL == static_cast<int>(Code::internal) && TUTTI_U64 == static_cast<int>(DType::u64) &&
              TUTTI_PREMUL_SUM == static_cast<int>(Op::premul_sum));

/// Stores the exception being handled as this thread's last error. Returns its result code.
tutti_result note_failure() noexcept;
/// Clears the last error.
void note_success() noexcept;

/// Runs the body of a C function and converts exceptions to a result. The body may return a tutti_result.
template <class Body>
tutti_result guarded(Body&& body) noexcept {
  try {
    note_success();
    if constexpr (std::is_same_v<decltype(body()), tutti_result>) {
      return body();
    } else {
      body();
      return TUTTI_OK;
    }
  } catch (...) {
    return note_failure();
  }
}

/// Throws Error{invalid} if an argument is NULL.
template <class T>
T* given(T* pointer, const char* name) {
  if (pointer == nullptr) throw Error(Code::invalid, std::string(name) + " is NULL; it must point to something");
  return pointer;
}

/// The object of a handle. Throws Error{invalid} for NULL and for a handle that was made before this process was
/// forked.
template <class T>
T& usable(T* handle, const char* name) {
  if (given(handle, name)->generation != fork_generation())
    throw Error(Code::invalid,
                std::string(name) + " was made before this process was forked; make one of its own here");
  return *handle;
}

/// Checks a struct of `bytes` bytes from a newer version, of which this library knows the first `known` bytes. Throws
/// Error{invalid} if a later byte is not zero, because the program then uses a field that this library does not know.
void check_tail(const void* start, std::size_t known, std::size_t bytes, const char* name);

/// A copy of the struct. Fields that the program's older version lacks have the values of `standard`.
template <class T>
T completed(const T* pointer, const T& standard, const char* name) {
  const std::size_t bytes = given(pointer, name)->struct_size;
  if (bytes < sizeof(std::size_t))
    throw Error(Code::invalid, std::string(name) + "->struct_size is " + std::to_string(bytes) +
                                   "; initialise the struct by its macro, or set it to the struct's sizeof");
  check_tail(pointer, sizeof(T), bytes, name);
  T whole = standard;
  std::memcpy(&whole, pointer, bytes < sizeof(T) ? bytes : sizeof(T));
  return whole;
}

/// Copies text into the caller's buffer, truncated to fit and zero-terminated.
void put_text(std::string_view text, char* into, std::size_t bytes);

/// Returns `made` as a handle, or NULL if it is empty.
void hand_out(std::optional<Communicator> made, tutti_comm* comm);

/// The type or operator of a number. Throws Error{invalid} for an unknown one.
bindings::View view_of(tutti_dtype dtype);
Reduction reduction_of(tutti_op op, double factor);

}  // namespace tutti::c

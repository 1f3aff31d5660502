// MPI's own functions, for the preload: looked up by name at the first call, in the MPI library of the process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace tutti::preload {

/// The dlopen() handle of the process's MPI library; RTLD_DEFAULT if the program is linked to it statically. Loads
/// nothing.
void* mpi_library() noexcept;

/// A function of that library. Ends the process with a message if there is none of this name.
void* find_function(const char* name) noexcept;

/// A string literal as a template argument.
template <std::size_t size>
struct Name {
  constexpr Name(const char (&from)[size]) { std::copy_n(from, size, text); }
  char text[size];
};

/// Calls the function `name` with exactly these argument types.
template <Name name, class... Arguments>
int call_original(Arguments... arguments) {
  using Signature = int (*)(Arguments...);
  static constinit std::atomic<Signature> found{nullptr};
  Signature function = found.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = reinterpret_cast<Signature>(find_function(name.text));
    found.store(function, std::memory_order_release);
  }
  return function(arguments...);
}

}  // namespace tutti::preload

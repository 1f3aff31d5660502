// MPI's own functions, for the preload: looked up by name at the first call, in the MPI library of the process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace tutti::preload {

/// The dlopen() handle of the process's MPI library; RTLD_DEFAULT if the program is linked to it statically. Loads
/// nothing.
void* mpi_library() noexcept;

/// A function of the MPI library. Ends the process with a message if the library has no function of this name.
void* find_function(const char* name) noexcept;

/// The function of this name that the program would call without the preload. Ends the process with a message if there
/// is none.
void* find_next_function(const char* name) noexcept;

/// A string literal as a template argument.
template <std::size_t size>
struct Name {
  constexpr Name(const char (&from)[size]) { std::copy_n(from, size, text); }
  char text[size];
};

/// Calls the function `name` with exactly these argument types. `find` looks it up at the first call.
template <auto find, Name name, class Result, class... Arguments>
Result call_found(Arguments... arguments) {
  using Signature = Result (*)(Arguments...);
  static constinit std::atomic<Signature> found{nullptr};
  Signature function = found.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = reinterpret_cast<Signature>(find(name.text));
    found.store(function, std::memory_order_release);
  }
  return function(arguments...);
}

/// Calls a C function of MPI.
template <Name name, class Result = int, class... Arguments>
Result call_original(Arguments... arguments) {
  return call_found<find_function, name, Result>(arguments...);
}

}  // namespace tutti::preload

// MPI's own functions in the preload: found by name when first called, in whichever library the process has.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace tutti::preload {

/// The library of MPI in this process, as dlopen() gives it; RTLD_DEFAULT where it is the program itself. Opens none.
void* mpi_library() noexcept;

/// A function of it. Ends the process, with a sentence, where there is none of the name.
void* find_function(const char* name) noexcept;

/// A text as a template's argument.
template <std::size_t size>
struct Name {
  constexpr Name(const char (&from)[size]) { std::copy_n(from, size, text); }
  char text[size];
};

/// The function `name`, for arguments of just these types.
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

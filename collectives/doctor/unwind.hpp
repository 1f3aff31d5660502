// The functions that are active on a stack, by the tables that compilers leave for exceptions.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/doctor/memory_map.hpp"
#include "collectives/doctor/sample.hpp"

namespace tutti::doctor {

/// A function that has been entered and has not returned.
struct Active {
  std::uint64_t at = 0;    ///< its next instruction
  bool has_called = true;  ///< the instruction before it is a call; false for the innermost, and where a signal came
  std::uint64_t top = 0;   ///< the top of the stack there
};

/// The active functions, the innermost first. Ends before a function without a table, and where a register is needed
/// that the sample does not tell; `complete` says if it has reached the first function of the thread.
std::vector<Active> unwind(pid_t pid, const std::vector<Mapping>& maps, const Sample& sample, bool& complete);

/// The name by which this process can open a file that the process `pid` has mapped.
std::string openable(pid_t pid, const std::string& path);

}  // namespace tutti::doctor

// Finds, from a thread's registers and stack, which function of the program it is in.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "collectives/doctor/memory_map.hpp"
#include "collectives/doctor/sample.hpp"

namespace tutti::doctor {

struct Place {
  std::string function;   ///< "main+0x41 in a.out", "Python"; empty: unknown
  std::string through;    ///< the library function that it has called: "sleep in libc.so.6"; empty: unknown
  std::string innermost;  ///< the function with the next instruction: "clock_nanosleep"; empty: unknown
};

/// The innermost function of the program that is active on the stack. Where the tables for unwinding end, it is found
/// by the return addresses on the stack, and may then be one that was active before.
Place place_of(pid_t pid, const std::vector<Mapping>& maps, const Sample& sample);

}  // namespace tutti::doctor

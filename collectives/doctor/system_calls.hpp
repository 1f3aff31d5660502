// The names of the system calls in which a process may wait.
#pragma once

#include <string>

namespace tutti::doctor {

/// "read" for the number of read on this kind of processor; "system call 451" for one without a name here.
std::string call_name(long number);

}  // namespace tutti::doctor

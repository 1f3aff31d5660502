// The NCCL library of this process, loaded at run time, so that programs run without it.
#pragma once

#include <string>

#include "transports/nccl/api.hpp"
#include "tutti/settings.hpp"
#include "tutti/status.hpp"

namespace tutti::nccl {

struct Library {
  Api call{};
  int version = 0;  ///< as ncclGetVersion() returns it: 22703
  std::string file;
  std::string missing;  ///< why it cannot be used, as a clause; empty: it can
};

/// The library named by the setting nccl_library, if it is set; else the one that the process has loaded (for example
/// with PyTorch); else libnccl.so.2 as found by the dynamic loader. Opened once per name and never closed. Any
/// thread.
const Library& library(const Settings& settings);

/// The version as text: "2.27.3".
std::string version_text(int version);

/// NCCL's text for a failure: "ncclAllReduce: unhandled cuda error (NCCL WARN Cuda failure 'out of memory')".
std::string describe(const Library& nccl, Result result, const char* function);

/// Throws Error, unless `result` is success or in_progress.
void check(const Library& nccl, Result result, const char* function);

}  // namespace tutti::nccl

// The NCCL of this process: found at run time, so that everything that is built runs where it is missing.
#pragma once

#include <string>

#include "transports/core/settings.hpp"
#include "transports/core/status.hpp"
#include "transports/nccl/api.hpp"

namespace tutti::nccl {

struct Library {
  Api call{};
  int version = 0;  ///< as ncclGetVersion() counts: 22703
  std::string file;
  std::string missing;  ///< why it cannot be used, as a clause; empty: it can
};

/// The file that the setting nccl_library names, and no other where it names one; else the one that the process has
/// loaded already (PyTorch's, say), else libnccl.so.2 as the loader finds it. Opened once for each name, for ever. Any
/// thread.
const Library& library(const Settings& settings);

/// "2.27.3"
std::string version_text(int version);

/// What NCCL says of a failure: "ncclAllReduce: unhandled cuda error (NCCL WARN Cuda failure 'out of memory')".
std::string describe(const Library& nccl, Result result, const char* function);

/// Throws Error, unless `result` is success or in_progress.
void check(const Library& nccl, Result result, const char* function);

}  // namespace tutti::nccl

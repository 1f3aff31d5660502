// StoreProcess: a job's store that another process serves.
#pragma once

#include <sys/types.h>

#include <memory>

#include "tutti/store.hpp"

namespace tutti::growth {

class StoreProcess {
 public:
  /// Starts the process. `clients`: the expected number of clients.
  explicit StoreProcess(int clients);
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  ~StoreProcess() { end(); }

  /// Connects a new client, in any process.
  std::shared_ptr<Store> connect() const;
  /// Ends the process. Returns the CPU seconds that it used.
  double end();

 private:
  pid_t process_ = -1;
  int port_ = 0, stop_ = -1;  // the process ends when stop_ is closed
  double seconds_ = 0;
};

}  // namespace tutti::growth

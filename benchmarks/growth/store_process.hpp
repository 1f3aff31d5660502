// StoreProcess: a job's store that another process serves.
#pragma once

#include <sys/types.h>

#include <memory>

#include "tutti/store.hpp"

namespace tutti::growth {

class StoreProcess {
 public:
  /// Serves so many clients.
  explicit StoreProcess(int clients);
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  ~StoreProcess() { end(); }

  /// A client of it; in any process.
  std::shared_ptr<Store> connect() const;
  /// Ends it. Returns the seconds of CPU that it took.
  double end();

 private:
  pid_t process_ = -1;
  int port_ = 0, stop_ = -1;  // stop_: it ends when this is closed
  double seconds_ = 0;
};

}  // namespace tutti::growth

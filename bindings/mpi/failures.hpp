// Reports tutti's errors as MPI errors.
#pragma once

#include <mpi.h>

#include <exception>
#include <string>
#include <utility>

#include "tutti/status.hpp"

namespace tutti::preload {

/// Creates tutti's MPI error class. Call it after take_library(), while the process has one MPI thread.
void begin_failures();

/// An argument that MPI does not allow.
class BadArgument : public Error {
 public:
  /// `error_class` is MPI's. `mpi_notices` is true if every MPI looks at this argument before it makes the call, and
  /// reports it with more detail.
  BadArgument(int error_class, bool mpi_notices, std::string text)
      : Error(Code::invalid, std::move(text)), error_class_(error_class), mpi_notices_(mpi_notices) {}
  int error_class() const noexcept { return error_class_; }
  bool mpi_notices() const noexcept { return mpi_notices_; }

 private:
  int error_class_;
  bool mpi_notices_;
};

/// Logs the fault of an argument of `function`, and calls the communicator's error handler with the class. Returns the
/// class if the handler returns.
int report_bad_argument(MPI_Comm comm, const std::string& function, const BadArgument& error) noexcept;

/// Calls the communicator's error handler with an error code that has the error's text. Returns the code if the handler
/// returns.
int report_failure(MPI_Comm comm, const std::exception& error) noexcept;

}  // namespace tutti::preload

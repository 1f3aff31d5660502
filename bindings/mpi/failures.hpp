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
  /// `error_class` is MPI's.
  BadArgument(int error_class, std::string text) : Error(Code::invalid, std::move(text)), error_class_(error_class) {}
  int error_class() const noexcept { return error_class_; }

 private:
  int error_class_;
};

/// Logs that an argument of `function` is wrong, and calls the communicator's error handler with the error class.
/// Returns the class if the handler returns.
int report_bad_argument(MPI_Comm comm, const std::string& function, const BadArgument& error) noexcept;

/// Calls the communicator's error handler with an error code that has the error's text. Returns the code if the handler
/// returns.
int report_failure(MPI_Comm comm, const std::exception& error) noexcept;

}  // namespace tutti::preload

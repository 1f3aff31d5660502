#include "bindings/mpi/failures.hpp"

#include <map>
#include <mutex>
#include <string>

#include "bindings/mpi/library.hpp"
#include "tutti/log.hpp"

namespace tutti::preload {
namespace {

int error_class = MPI_ERR_OTHER;

/// Makes one error code per text. MPI's default handler aborts the job with the code; MPI_Error_string() returns the
/// text.
int code_of(const std::string& sentence) {
  static std::mutex mutex;
  static auto& codes = *new std::map<std::string, int>;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = codes.try_emplace(sentence, error_class);
  if (is_new && library().add_error_code(error_class, &found->second) == MPI_SUCCESS)
    library().add_error_string(found->second, sentence.substr(0, MPI_MAX_ERROR_STRING - 1).c_str());
  return found->second;
}

}  // namespace

void begin_failures() {
  library().add_error_class(&error_class);
  library().add_error_string(error_class, "tutti: a collective failed");
}

int report_bad_argument(MPI_Comm comm, const std::string& function, const BadArgument& error) noexcept {
  log(LogLevel::error, function + ": " + error.what());
  library().comm_call_errhandler(comm, error.error_class());
  return error.error_class();
}

int report_failure(MPI_Comm comm, const std::exception& error) noexcept {
  int code = error_class;
  try {
    log(LogLevel::error, error.what());
    code = code_of(std::string("tutti: ") + error.what());
  } catch (const std::exception&) {
  }
  library().comm_call_errhandler(comm, code);
  return code;
}

}  // namespace tutti::preload

// Status: the result type of everything below the public API. Error: the exception that the API throws.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti {

enum class Code : std::uint8_t {
  ok,
  peer_lost,    ///< a rank died, or its host stopped responding
  mismatch,     ///< ranks called different collectives, or one collective with different arguments
  timeout,      ///< the deadline passed
  aborted,      ///< abort() was called, or a handle was dropped during stack unwinding
  unsupported,  ///< no available backend supports this call
  invalid,      ///< an argument is wrong
  resource,     ///< out of memory, descriptors or space
  protocol,     ///< a peer sent a message that this version does not understand
  internal,     ///< a defect in tutti
};

std::string_view name(Code code) noexcept;

/// The cause of a failure. Plain data of fixed size, because ranks send it: in a shared segment, in an abort frame,
/// through the store. All ranks of a communicator end with the same Cause.
struct Cause {
  Code code = Code::ok;
  std::uint8_t spare[3] = {};  ///< explicit padding, so that no uninitialised bytes are sent
  std::int32_t culprit = -1;   ///< world rank that the failure concerns; -1: none
  std::int32_t reporter = -1;  ///< world rank that detected the failure
  std::uint32_t more_spare = 0;
  std::uint64_t group = 0;  ///< the communicator that fails; 0: every communicator with `culprit` as a member
  char host[48] = {};       ///< of the culprit, if known
  char text[320] = {};      ///< one or two sentences: what happened, and what to do next

  /// Sets `text`, cut to its size.
  void say(std::string_view sentence) noexcept;

  /// Makes a valid Cause of any sizeof(Cause) bytes that another process has sent: an unknown code becomes `protocol`,
  /// texts are zero-terminated, and control characters become '?'.
  static Cause received(const void* bytes) noexcept;
};
static_assert(std::has_unique_object_representations_v<Cause>);

/// Ok, or a Cause. Cheap to copy; safe to read from any thread.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  explicit Status(const Cause& cause) : cause_(std::make_shared<const Cause>(cause)) {}

  /// A failure; `culprit` as in Cause.
  static Status failure(Code code, std::string_view text, int culprit = -1);

  bool ok() const noexcept { return !cause_; }
  Code code() const noexcept { return cause_ ? cause_->code : Code::ok; }
  const Cause& cause() const noexcept { return *cause_; }  ///< only when !ok()
  std::string_view text() const noexcept { return cause_ ? std::string_view(cause_->text) : std::string_view(); }

 private:
  std::shared_ptr<const Cause> cause_;
};

/// Thrown by Work::wait(), by the constructors and by argument checks.
class Error : public std::runtime_error {
 public:
  /// The message is made printable in one line, since it may quote data from outside: control characters become text
  /// such as \n or \x1b, and the middle of a very long message is left out.
  Error(Code code, const std::string& message, int culprit = -1);
  Error(const Cause& cause, const std::string& message) : Error(cause.code, message, cause.culprit) {}

  Code code() const noexcept { return code_; }
  /// World rank that the error concerns; -1: none.
  int culprit() const noexcept { return culprit_; }

 private:
  Code code_;
  int culprit_;
};

}  // namespace tutti

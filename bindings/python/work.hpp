// Calls of Python programs: their operands, which live until the call is done, and the Work that `async_op=True` gives.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/python/arrays.hpp"
#include "collectives/api/communicator.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::python {

/// What the keyword arguments of every call say.
struct Options {
  bool async_op = false;
  std::optional<double> timeout = {};
  std::optional<std::string> algorithm = {};
  std::optional<std::int64_t> stream = {};
  std::optional<std::string> dtype = {};
};

/// Memory that a call reads or writes: an array's own, a packed copy of it, or a number.
struct Operand {
  Array array;
  std::unique_ptr<std::byte[]> own = {};  ///< the packed copy, or the number
  bool copied_back = false;               ///< the packed copy is the result

  std::byte* data() const noexcept { return own ? own.get() : array.data; }
};

/// What becomes of a call's outcome when it is done.
enum class Outcome { object, number, source };

/// A call that has started; not copyable. All members are used with the GIL held.
class PyWork {
 public:
  PyWork(Communicator communicator, Work work, std::vector<Operand> operands, nb::object result, Outcome outcome);
  PyWork(PyWork&&) noexcept = default;
  PyWork& operator=(PyWork&&) = delete;
  /// Does not wait: what is not done yet is kept until it is.
  ~PyWork();

  /// Waits without the GIL, looking for signals ten times a second; a signal that raises aborts the communicator.
  /// Throws TimeoutError where `timeout` seconds pass; the call goes on.
  nb::object wait(std::optional<double> timeout);
  bool done() const noexcept { return work_.done(); }
  nb::object result();
  bool cancel();
  /// Runs callback(work) on a thread that may wait. `self` is this object.
  void add_done_callback(nb::object self, nb::object callback);
  /// Makes the descriptor readable when the call is done.
  void ring(std::shared_ptr<Descriptor> event) const;

 private:
  friend class Submission;
  void finish();  // once, when it is done and has not failed

  std::optional<Communicator> communicator_;
  Work work_;
  std::vector<Operand> operands_;
  nb::object result_;
  Outcome outcome_ = Outcome::object;
  bool finished_ = false;
};

/// Puts one call together of what Python gives, starts it, and makes its result.
class Submission {
 public:
  Submission(Communicator& communicator, const Options& options, Kind kind);

  /// An operand that the call reads, writes, or both; a number becomes memory of its own.
  const Operand& read(nb::handle object, const char* argument = "data");
  const Operand& write(nb::handle object, const char* argument = "out");
  const Operand& change(nb::handle object, const char* argument = "data");
  static bool is_number(nb::handle object);

  ConstBuffer in(const Operand& operand) const;
  Buffer out(const Operand& operand) const;
  Reduction reduction(const Operand& operand, const std::string& op, double factor) const;
  /// Counts of rows, as the library counts: in its elements.
  std::vector<std::size_t> counts(const std::vector<std::size_t>& rows, const Operand& operand) const;

  Collective call;

  /// Starts it; a result, or with async_op a Work. The result is `object`, or for Outcome::number what the last number
  /// operand then holds.
  nb::object run(nb::object object, Outcome outcome = Outcome::object);

 private:
  Operand& add(nb::handle object, Access access, const char* argument, bool packs, bool copied_back);
  CallOptions call_options() const;

  Communicator& communicator_;
  const Options& options_;
  std::vector<Operand> operands_;
};

/// Before the interpreter ends: no thread of ours touches Python afterwards, and what is under way is waited for, a
/// while.
void stop_threads();

}  // namespace tutti::python

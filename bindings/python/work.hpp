// Calls of Python programs: their operands, which live until the call is done, and the Work that `async_op=True`
// returns.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/python/arrays.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/communicator.hpp"

namespace tutti::python {

/// The keyword arguments that all calls have.
struct Options {
  bool async_op = false;
  std::optional<double> timeout = {};
  std::optional<std::string> algorithm = {};
  std::optional<std::int64_t> stream = {};
  std::optional<std::string> dtype = {};
};

/// Memory that a call reads or writes: the array's own, a contiguous copy of it, or a number.
struct Operand {
  Array array;
  std::unique_ptr<std::byte[]> own = {};  ///< the contiguous copy, or the number
  bool copied_back = false;               ///< true: the copy is the result and is copied back to the array

  std::byte* data() const noexcept { return own ? own.get() : array.data; }
};

/// The kind of a call's result: the object that was passed in; the source rank of a message; or a value that is made
/// from the last operand: a number of the passed object's type, or the sum or product of Python integers.
enum class Outcome { object, source, number, integer_sum, integer_product };

/// A call that has started. Not copyable. All members are used with the GIL held.
class PyWork {
 public:
  PyWork(Communicator communicator, Work work, std::vector<Operand> operands, nb::object result, Outcome outcome);
  PyWork(PyWork&&) noexcept = default;
  PyWork& operator=(PyWork&&) = delete;
  /// Does not wait. A call that is not done is kept alive until it is done.
  ~PyWork();

  /// Waits without the GIL. Checks for signals ten times per second; if a signal handler raises, aborts the
  /// communicator. Throws TimeoutError after `timeout` seconds; the call then continues.
  nb::object wait(std::optional<double> timeout);
  bool done() const noexcept { return work_.done(); }
  nb::object result();
  bool cancel();
  /// Calls callback(work) on a thread that may block. `self` is this object.
  void add_done_callback(nb::object self, nb::object callback);
  /// Makes the event's descriptor readable when the call is done.
  void ring(std::shared_ptr<Descriptor> event) const;

 private:
  friend class Submission;
  void finish();  // called once, when the call has succeeded

  std::optional<Communicator> communicator_;
  Work work_;
  std::vector<Operand> operands_;
  nb::object result_;
  Outcome outcome_ = Outcome::object;
  bool finished_ = false;
};

/// Builds a call from Python arguments, starts it, and returns its result.
class Submission {
 public:
  Submission(Communicator& communicator, const Options& options, Kind kind);

  /// Adds an operand that the call reads, writes, or both. A number is copied into memory of its own.
  const Operand& read(nb::handle object, const char* argument = "data");
  const Operand& write(nb::handle object, const char* argument = "out");
  const Operand& change(nb::handle object, const char* argument = "data");
  /// Throws as write() would.
  void check(nb::handle object, const char* argument = "out") const;
  /// The array `object`, of which only shape and type are used.
  Array look(nb::handle object, const char* argument = "data") const;
  /// Adds memory of this call's own for `count` numbers of the type of `operand`.
  const Operand& numbers_like(const Operand& operand, std::size_t count = 1);
  /// Adds an integer as two halves, whose sums do not overflow. Throws OverflowError if it does not fit into 64 bits.
  const Operand& halves(nb::handle integer);
  /// True for a number of Python or NumPy.
  static bool is_number(nb::handle object);
  /// True for an integer of Python that is no bool.
  static bool is_integer(nb::handle object);

  ConstBuffer in(const Operand& operand) const;
  Buffer out(const Operand& operand) const;
  /// The reduction for the operand's type. Throws TypeError if the type has no reductions.
  Reduction reduction(const Operand& operand, const std::string& op, double factor) const;
  /// Converts counts of rows to counts of library elements.
  std::vector<std::size_t> counts(const std::vector<std::size_t>& rows, const Operand& operand) const;

  Collective call;

  /// Starts the call and returns its result, or a Work with async_op. Throws TypeError if the operands' types differ.
  nb::object run(nb::object object, Outcome outcome = Outcome::object);

 private:
  Operand& add(nb::handle object, Access access, const char* argument, bool packs, bool copied_back);
  CallOptions call_options() const;
  void check_types() const;

  Communicator& communicator_;
  const Options& options_;
  std::vector<Operand> operands_;
};

/// Called before the interpreter exits. Stops the callback thread, so that no thread uses Python afterwards, and waits
/// at most 2 s for kept calls.
void stop_threads();

}  // namespace tutti::python

#include "bindings/python/work.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "bindings/python/communicator.hpp"
#include "bindings/python/completer.hpp"
#include "transports/core/checked.hpp"

namespace tutti::python {
namespace {

constexpr Seconds between_looks(0.1);

/// True for a number, date or record of NumPy. False for texts, and for bytes, which are treated as an array.
bool is_numpy_scalar(nb::handle object) {
  static PyObject* generic = nullptr;  // never released, because the module may outlive the interpreter's own state
  if (generic == nullptr) {
    PyObject* const numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");  // borrowed
    if (numpy == nullptr || !nb::hasattr(numpy, "generic")) return false;
    generic = nb::object(nb::handle(numpy).attr("generic")).release().ptr();
  }
  if (PyObject_IsInstance(object.ptr(), generic) != 1) return false;
  const auto kind = nb::cast<std::string>(object.attr("dtype").attr("kind"));
  return std::string_view("SUO").find(kind) == std::string_view::npos;
}

[[noreturn]] void overflow(const char* text) {
  PyErr_SetString(PyExc_OverflowError, text);
  throw nb::python_error();
}

std::vector<std::int64_t> integers_in(const Operand& operand) {
  std::vector<std::int64_t> all(operand.array.items());
  std::memcpy(all.data(), operand.data(), all.size() * sizeof(std::int64_t));
  return all;
}

/// The sum of integers, computed from the sums of their lower and of their upper halves.
nb::object sum_in(const Operand& operand) {
  const std::vector<std::int64_t> halves = integers_in(operand);
  __extension__ using Wide = __int128;
  const Wide sum = static_cast<Wide>(halves[1]) * (Wide{1} << 32) + halves[0];
  if (sum < INT64_MIN || sum > INT64_MAX)
    overflow("the sum of the ranks' integers does not fit into 64 bits; give floats, or use allgather_object()");
  return nb::int_(static_cast<std::int64_t>(sum));
}

nb::object product_in(const Operand& operand) {
  const std::vector<std::int64_t> factors = integers_in(operand);
  if (std::ranges::count(factors, 0) > 0) return nb::int_(0);
  constexpr std::uint64_t most = std::uint64_t{1} << 63;  // largest magnitude of a negative product
  std::uint64_t magnitude = 1;
  bool negative = false, fits = true;
  for (const std::int64_t factor : factors) {
    negative ^= factor < 0;
    const std::uint64_t by = factor < 0 ? 0 - static_cast<std::uint64_t>(factor) : static_cast<std::uint64_t>(factor);
    fits = fits && !__builtin_mul_overflow(magnitude, by, &magnitude) && magnitude <= most;
  }
  if (!fits || (magnitude == most && !negative))
    overflow("the product of the ranks' integers does not fit into 64 bits; give floats, or use allgather_object()");
  return nb::int_(static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude));
}

/// The number in an operand, as an object of the type of `like`.
nb::object number_in(const Operand& operand, nb::handle like) {
  const std::byte* const at = operand.data();
  if (is_numpy_scalar(like)) return helper("_arrays", "number")(like, nb::bytes(at, operand.array.bytes()));
  switch (operand.array.view.meaning) {
    case bindings::Meaning::truth: return nb::bool_(*at != std::byte{0});
    case bindings::Meaning::complex: {
      double parts[2];
      std::memcpy(parts, at, sizeof parts);
      return nb::steal(PyComplex_FromDoubles(parts[0], parts[1]));
    }
    default: break;
  }
  if (operand.array.view.dtype == DType::i64) {
    std::int64_t value;
    std::memcpy(&value, at, sizeof value);
    return nb::int_(value);
  }
  double value;
  std::memcpy(&value, at, sizeof value);
  return nb::float_(value);
}

}  // namespace

PyWork::PyWork(Communicator communicator, Work work, std::vector<Operand> operands, nb::object result, Outcome outcome)
    : communicator_(std::move(communicator)),
      work_(std::move(work)),
      operands_(std::move(operands)),
      result_(std::move(result)),
      outcome_(outcome) {}

PyWork::~PyWork() {
  if (!communicator_) return;  // a moved-from object
  if (work_.done()) {
    const nb::gil_scoped_release released;
    communicator_.reset();
  } else {
    keep_until_done(std::move(*communicator_), std::move(work_), std::move(operands_));
  }
}

nb::object PyWork::wait(std::optional<double> timeout) {
  const Deadline until = timeout ? deadline_in(checked_seconds(Seconds(*timeout), "timeout")) : never;
  for (;;) {
    bool done = false;
    {
      const nb::gil_scoped_release released;
      const Seconds left = timeout ? Seconds(until - Clock::now()) : between_looks;
      done = work_.wait_for(std::clamp(left, Seconds(0), between_looks));
    }
    if (done) break;
    if (PyErr_CheckSignals() != 0) {
      const nb::python_error interrupted;
      {
        const nb::gil_scoped_release released;
        communicator_->abort("a signal ended the wait of the Python program");
      }
      throw interrupted;
    }
    if (timeout && Clock::now() >= until) {
      PyErr_SetString(PyExc_TimeoutError, "the call is not done yet; it goes on");
      throw nb::python_error();
    }
  }
  finish();
  return result_;
}

nb::object PyWork::result() {
  if (!work_.done()) throw std::runtime_error("the call is not done yet; wait() for it, or ask done() first");
  return wait(0);
}

bool PyWork::cancel() {
  const nb::gil_scoped_release released;
  return work_.cancel();
}

void PyWork::finish() {
  if (finished_) return;
  for (const Operand& one : operands_)
    if (one.copied_back && one.own) unpack(one.own.get(), one.array);
  switch (outcome_) {
    case Outcome::object: break;
    case Outcome::source: result_ = nb::int_(Value<int>(work_).wait()); break;
    case Outcome::number: result_ = number_in(operands_.back(), result_); break;
    case Outcome::integer_sum: result_ = sum_in(operands_.back()); break;
    case Outcome::integer_product: result_ = product_in(operands_.back()); break;
  }
  finished_ = true;  // after the switch, so that every wait() raises OverflowError again
  operands_.clear();
}

void PyWork::add_done_callback(nb::object self, nb::object callback) {
  call_back(work_, std::move(self), std::move(callback));
}

void PyWork::ring(std::shared_ptr<Descriptor> event) const {
  const auto write_one = [event = std::move(event)] {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event->fd(), &one, sizeof one));
  };
  if (work_.done()) return write_one();
  work_.then([write_one](const Status&) { write_one(); });
}

// ---- a call ------------------------------------------------------------------------------------------

Submission::Submission(Communicator& communicator, const Options& options, Kind kind)
    : communicator_(communicator), options_(options) {
  call.kind = kind;
  operands_.reserve(2);  // a call has at most two operands, so references to them stay valid
  let_go_of_the_done();
}

namespace {

void refuse_number(nb::handle object, const char* argument) {
  if (Submission::is_number(object))
    throw nb::type_error((std::string(argument) + " is a number, which has no memory; give an array").c_str());
}

}  // namespace

void Submission::check(nb::handle object, const char* argument) const {
  refuse_number(object, argument);
  array_of(object, Access::writes, {argument, options_.dtype, options_.stream});
}

Array Submission::look(nb::handle object, const char* argument) const {
  if (is_number(object)) return {};
  return array_of(object, Access::reads, {argument, options_.dtype, options_.stream});
}

bool Submission::is_number(nb::handle object) {
  PyObject* const one = object.ptr();
  return PyFloat_Check(one) || PyLong_Check(one) || PyComplex_Check(one) || is_numpy_scalar(object);
}

bool Submission::is_integer(nb::handle object) { return PyLong_Check(object.ptr()) && !PyBool_Check(object.ptr()); }

const Operand& Submission::read(nb::handle object, const char* argument) {
  return add(object, Access::reads, argument, true, false);
}
const Operand& Submission::write(nb::handle object, const char* argument) {
  refuse_number(object, argument);
  return add(object, Access::writes, argument, false, true);
}
const Operand& Submission::change(nb::handle object, const char* argument) {
  return add(object, Access::writes, argument, true, true);
}

namespace {

std::int64_t integer(nb::handle object) {
  int beyond = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &beyond);
  if (beyond != 0) overflow("an integer does not fit into 64 bits; give a float, or use allgather_object()");
  return value;
}

Operand operand_of_scalar(nb::handle object, const Wish& wish) {
  const nb::object point = helper("_arrays", "point")(object);
  Operand made;
  made.array = array_of(point, Access::reads, wish);
  made.own = std::make_unique<std::byte[]>(made.array.bytes());
  pack(made.array, made.own.get());
  return made;
}

Operand operand_of_number(nb::handle object) {
  Operand made;
  made.own = std::make_unique<std::byte[]>(16);
  PyObject* const one = object.ptr();
  const auto put = [&](const char* type, const auto& value) {
    made.array.view = *bindings::find_view(type);
    std::memcpy(made.own.get(), &value, sizeof value);
  };
  if (PyBool_Check(one)) {
    put("bool", static_cast<std::uint8_t>(one == Py_True));
  } else if (PyLong_Check(one)) {
    put("i64", integer(object));
  } else if (PyFloat_Check(one)) {
    put("f64", PyFloat_AsDouble(one));
  } else {
    const double parts[2] = {PyComplex_RealAsDouble(one), PyComplex_ImagAsDouble(one)};
    made.array.view = *bindings::find_view("c128");
    std::memcpy(made.own.get(), parts, sizeof parts);
  }
  return made;
}

}  // namespace

Operand& Submission::add(nb::handle object, Access access, const char* argument, bool packs, bool copied_back) {
  const Wish wish{argument, options_.dtype, options_.stream};
  if (is_numpy_scalar(object)) return operands_.emplace_back(operand_of_scalar(object, wish));
  if (is_number(object)) return operands_.emplace_back(operand_of_number(object));
  Operand& made = operands_.emplace_back();
  made.array = array_of(object, access, wish);
  Array& array = made.array;
  if (array.device.kind == Device::Kind::cuda && array.device.index < 0)
    array.device = communicator_.accelerator().device_of(array.data);
  if (array.is_packed()) return made;
  if (array.device.kind != Device::Kind::cpu)
    throw nb::value_error("device memory must be contiguous; give a contiguous copy");
  made.own = std::make_unique<std::byte[]>(array.bytes());
  made.copied_back = copied_back;
  if (packs) pack(array, made.own.get());
  return made;
}

const Operand& Submission::numbers_like(const Operand& operand, std::size_t count) {
  Operand& made = operands_.emplace_back();
  made.array.view = operand.array.view;
  made.array.type = operand.array.type;
  if (count != 1) made.array.shape = {static_cast<std::int64_t>(count)};
  made.own = std::make_unique<std::byte[]>(made.array.bytes());
  return made;
}

const Operand& Submission::halves(nb::handle number) {
  const std::int64_t value = integer(number);
  const std::int64_t halves[] = {value & 0xffffffff, value >> 32};
  Operand& made = operands_.emplace_back();
  made.array.view = *bindings::find_view("i64");
  made.array.shape = {2};
  made.own = std::make_unique<std::byte[]>(sizeof halves);
  std::memcpy(made.own.get(), halves, sizeof halves);
  return made;
}

ConstBuffer Submission::in(const Operand& operand) const { return out(operand); }

Buffer Submission::out(const Operand& operand) const {
  const Array& array = operand.array;
  return {operand.data(), array.items() * array.view.elements, array.view.dtype, array.device};
}

Reduction Submission::reduction(const Operand& operand, const std::string& op, double factor) const {
  const auto parsed = parse_op(op);
  if (!parsed)
    throw Error(Code::invalid, "there is no operator '" + op +
                                   "'; there are sum, avg, prod, min, max, band, bor, bxor and premul_sum");
  if (factor != 1.0 && *parsed != Op::premul_sum)
    throw Error(Code::invalid,
                "factor is for the operator premul_sum, not for " + op + "; leave it out, or scale the data");
  const Array& array = operand.array;
  if (array.view.meaning == bindings::Meaning::bytes)
    throw nb::type_error((op + " is not defined for bytes: the elements (" + array.type +
                          ") are of a type, or in a byte order, that can only be moved; convert them, as by "
                          "astype('f8'), or name their type by dtype=")
                             .c_str());
  return reduction_on(array.view, {*parsed, factor});
}

std::vector<std::size_t> Submission::counts(const std::vector<std::size_t>& rows, const Operand& operand) const {
  std::vector<std::size_t> all = rows;
  for (std::size_t& one : all) {
    const auto elements = checked_product(one, operand.array.row_items() * operand.array.view.elements);
    if (!elements) throw nb::value_error("a count is more than an address space holds");
    one = *elements;
  }
  return all;
}

CallOptions Submission::call_options() const {
  CallOptions made;
  made.timeout = options_.timeout;
  if (options_.algorithm) made.algorithm = *options_.algorithm;
  for (const Operand& one : operands_) {
    if (one.array.device.kind != Device::Kind::cuda) continue;
    const std::optional<std::int64_t> stream = options_.stream ? options_.stream : one.array.stream;
    if (stream) made.stream = Stream{reinterpret_cast<void*>(*stream), one.array.device.index};
  }
  return made;
}

void Submission::check_types() const {
  if (operands_.size() < 2) return;
  const bindings::View &one = operands_[0].array.view, &other = operands_[1].array.view;
  const auto is_bytes = [](const bindings::View& view) {
    return view.meaning == bindings::Meaning::bytes || view.dtype == DType::u8;
  };
  if (one.name == other.name || (is_bytes(one) && is_bytes(other))) return;
  throw nb::type_error(
      ("data holds " + std::string(one.name) + " and out " + std::string(other.name) + "; they must be of one type")
          .c_str());
}

nb::object Submission::run(nb::object object, Outcome outcome) {
  check_types();
  CallOptions with = call_options();
  Work work;
  bool done = false;
  {
    const nb::gil_scoped_release released;
    work = communicator_.launch(std::move(call), with);
    if (!options_.async_op) done = work.wait_for(between_looks);
  }
  const bool as_it_is = std::ranges::none_of(operands_, [](const Operand& one) { return one.own != nullptr; });
  if (done && as_it_is && outcome == Outcome::object) return object;
  PyWork made(communicator_, std::move(work), std::move(operands_), std::move(object), outcome);
  if (options_.async_op) return nb::cast(std::move(made));
  return made.wait(std::nullopt);
}

}  // namespace tutti::python

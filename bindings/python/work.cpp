#include "bindings/python/work.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "bindings/python/completer.hpp"

namespace tutti::python {
namespace {

constexpr Seconds between_looks(0.1);

/// The number in an operand, as a Python object.
nb::object number_in(const Operand& operand) {
  const std::byte* const at = operand.data();
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
  const Deadline until = timeout ? deadline_in(Seconds(*timeout)) : never;
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
  finished_ = true;
  for (const Operand& one : operands_)
    if (one.copied_back && one.own) unpack(one.own.get(), one.array);
  if (outcome_ == Outcome::number) result_ = number_in(operands_.back());
  if (outcome_ == Outcome::source) result_ = nb::int_(Value<int>(work_).wait());
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

bool Submission::is_number(nb::handle object) {
  PyObject* const one = object.ptr();
  return PyFloat_Check(one) || PyLong_Check(one) || PyComplex_Check(one);
}

const Operand& Submission::read(nb::handle object, const char* argument) {
  return add(object, Access::reads, argument, true, false);
}
const Operand& Submission::write(nb::handle object, const char* argument) {
  return add(object, Access::writes, argument, false, true);
}
const Operand& Submission::change(nb::handle object, const char* argument) {
  return add(object, Access::writes, argument, true, true);
}

namespace {

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
    put("i64", nb::cast<std::int64_t>(object));
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
  if (is_number(object)) return operands_.emplace_back(operand_of_number(object));
  Wish wish{argument, options_.dtype, options_.stream};
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
  return reduction_on(operand.array.view, {*parsed, factor});
}

std::vector<std::size_t> Submission::counts(const std::vector<std::size_t>& rows, const Operand& operand) const {
  std::vector<std::size_t> all = rows;
  for (std::size_t& one : all) one *= operand.array.row_items() * operand.array.view.elements;
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

nb::object Submission::run(nb::object object, Outcome outcome) {
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

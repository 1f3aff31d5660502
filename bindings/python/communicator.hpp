// PyCommunicator: the Python class tutti.Communicator.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings/python/work.hpp"
#include "tutti/communicator.hpp"

namespace tutti::python {

/// A Communicator that is destroyed without the GIL: destroying the last handle disconnects from the other ranks, which
/// may block.
class PyCommunicator {
 public:
  explicit PyCommunicator(Communicator made, nb::object keep = {}) : made_(std::move(made)), keep_(std::move(keep)) {}
  PyCommunicator(PyCommunicator&&) noexcept = default;
  PyCommunicator& operator=(PyCommunicator&&) = delete;
  ~PyCommunicator() {
    if (!made_) return;
    const nb::gil_scoped_release released;
    made_.reset();
  }
  Communicator& operator*() { return *made_; }
  Communicator* operator->() { return &*made_; }

 private:
  std::optional<Communicator> made_;
  nb::object keep_;  // an object to keep alive, such as the MPI communicator that it was made from
};

using Class = nb::class_<PyCommunicator>;

/// Defines a method that calls f(communicator, options, arguments...). After its own arguments it has the keyword
/// arguments of all calls.
template <class... Arguments, class... Extra>
void def_call(Class& type, const char* name, nb::any (*f)(Communicator&, const Options&, Arguments...),
              const Extra&... extra) {
  type.def(
      name,
      [f](PyCommunicator& self, Arguments... arguments, bool async_op, std::optional<double> timeout,
          std::optional<std::string> algorithm, std::optional<std::int64_t> stream, std::optional<std::string> dtype) {
        const Options options{async_op, timeout, std::move(algorithm), stream, std::move(dtype)};
        return f(*self, options, std::move(arguments)...);
      },
      extra..., nb::kw_only(), nb::arg("async_op") = false, nb::arg("timeout") = nb::none(),
      nb::arg("algorithm") = nb::none(), nb::arg("stream") = nb::none(), nb::arg("dtype") = nb::none());
}

/// A function of a Python module in the same package: helper("_arrays", "empty").
nb::object helper(const char* module, const char* function);

void def_reductions(Class& type);  // reductions
void def_moves(Class& type);       // collectives that move data
void def_messages(Class& type);    // point-to-point messages
void def_groups(Class& type);
void def_survival(Class& type);
void def_objects(Class& type);
void def_makers(nb::module_& module);  // the functions init, connect and from_mpi

}  // namespace tutti::python

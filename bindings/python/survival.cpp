// Methods of tutti.Communicator with which a job outlives dead ranks, and admits processes that join it.
#include "bindings/python/communicator.hpp"

namespace tutti::python {
namespace {

/// The value of `bits`, which is any integer of Python or NumPy.
std::uint64_t bits_of(nb::handle bits) {
  const nb::object number = nb::steal(PyNumber_Index(bits.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const std::uint64_t value = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() == nullptr) return value;
  PyErr_Clear();
  throw nb::value_error("bits is a number of 64 bits, from 0 to 2**64 - 1");
}

nb::object agree(PyCommunicator& self, nb::object bits) {
  const std::uint64_t mine = bits_of(bits);
  Agreed agreed;
  {
    const nb::gil_scoped_release released;
    agreed = self->agree(mine);
  }
  return nb::make_tuple(agreed.bits, agreed.members);
}

PyCommunicator shrink(PyCommunicator& self) {
  const nb::gil_scoped_release released;
  return PyCommunicator(self->shrink());
}

PyCommunicator grow(PyCommunicator& self, int most, double patience) {
  const nb::gil_scoped_release released;
  return PyCommunicator(self->grow(most, patience));
}

int waiting(PyCommunicator& self) {
  const nb::gil_scoped_release released;
  return self->waiting();
}

}  // namespace

void def_survival(Class& type) {
  type.def(
      "agree", &agree, nb::arg("bits") = ~std::uint64_t{0},
      nb::sig("def agree(self, bits: int = 0xffffffffffffffff) -> tuple[int, list[int]]"),
      "The bitwise and of everyone's `bits`, and the ranks that are left: equal on all of these, even if ranks die "
      "meanwhile or the communicator has failed.");
  type.def("shrink", &shrink, "The ranks that are left, in their old order; works after a failure.");
  type.def("grow", &grow, nb::arg("most"), nb::arg("patience") = 0.0,
           "These ranks, followed by at most `most` processes that wait to join the job (TUTTI_JOIN); waits `patience` "
           "seconds for them. The same communicator if nobody comes.");
  type.def("waiting", &waiting, "How many processes wait for grow().");
  type.def_prop_ro(
      "epoch", [](PyCommunicator& self) { return self->epoch(); },
      "0 for the job's first ranks, and higher after each grow() that admits processes.");
}

}  // namespace tutti::python

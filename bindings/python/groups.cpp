// Methods of tutti.Communicator for ranks, groups, and objects (which Python code sends).
#include <nanobind/ndarray.h>

#include <algorithm>

#include "bindings/python/communicator.hpp"
#include "transports/core/checked.hpp"

namespace tutti::python {
namespace {

using Maybe = std::optional<PyCommunicator>;

/// Calls `make`, which makes a group, without holding the GIL.
template <class Maker>
Maybe made(const Maker& maker) {
  const nb::gil_scoped_release released;
  std::optional<Communicator> group = maker();
  if (!group) return std::nullopt;
  return Maybe(std::in_place, *std::move(group));
}

nb::list topology(PyCommunicator& self) {
  const Topology all = self->topology();
  nb::list places;
  for (int rank = 0; rank < all.size(); ++rank) {
    const Place place = all[rank];
    places.append(helper("_types", "Place")(place.host_name, all.host()[static_cast<std::size_t>(rank)],
                                            place.numa_node, place.gpu_domain, place.rack));
  }
  return places;
}

nb::dlpack::dtype dlpack_type(const bindings::View& view) {
  const auto bits = static_cast<std::uint8_t>(view.item_bytes() * 8);
  const auto code = [&]() -> nb::dlpack::dtype_code {
    if (view.meaning == bindings::Meaning::truth) return nb::dlpack::dtype_code::Bool;
    if (view.meaning == bindings::Meaning::complex) return nb::dlpack::dtype_code::Complex;
    if (view.dtype == DType::f16 || view.dtype == DType::f32 || view.dtype == DType::f64)
      return nb::dlpack::dtype_code::Float;
    const bool is_signed = view.name.front() == 'i';
    // bf16 arrays are returned as uint16
    return is_signed ? nb::dlpack::dtype_code::Int : nb::dlpack::dtype_code::UInt;
  }();
  return {static_cast<std::uint8_t>(code), bits, 1};
}

nb::ndarray<nb::numpy> allocate(PyCommunicator& self, std::vector<std::size_t> shape, const std::string& dtype) {
  const auto view = bindings::find_view(dtype);
  if (!view) throw Error(Code::invalid, "there is no element type '" + dtype + "'; one is 'f32'");
  std::vector<std::int64_t> sizes;
  for (const std::size_t one : shape)
    sizes.push_back(static_cast<std::int64_t>(std::min<std::size_t>(one, PTRDIFF_MAX)));
  const auto bytes = checked_product(view->item_bytes(), sizes);
  if (!bytes) throw nb::value_error("the shape is of more than an address space holds");
  auto* const memory = new Allocation<std::byte>(self->allocate<std::byte>(*bytes));
  const nb::capsule owner(memory, [](void* one) noexcept { delete static_cast<Allocation<std::byte>*>(one); });
  return nb::ndarray<nb::numpy>(memory->data(), shape.size(), shape.data(), owner, nullptr, dlpack_type(*view));
}

constexpr const char* capsule_name = "tutti.Communicator";

/// A capsule with a copy of the Communicator, for extension modules that are built separately.
nb::object capsule_of(PyCommunicator& self) {
  auto* const copy = new Communicator(*self);
  return nb::steal(PyCapsule_New(copy, capsule_name, [](PyObject* capsule) {
    delete static_cast<Communicator*>(PyCapsule_GetPointer(capsule, capsule_name));
  }));
}

PyCommunicator from_capsule(nb::handle capsule) {
  auto* const one = static_cast<Communicator*>(PyCapsule_GetPointer(capsule.ptr(), capsule_name));
  if (one == nullptr) throw nb::python_error();
  return PyCommunicator(*one);
}

void def_ranks(Class& type) {
  type.def_prop_ro(
      "rank", [](PyCommunicator& self) { return self->rank(); }, "This process's number, from 0.");
  type.def_prop_ro(
      "size", [](PyCommunicator& self) { return self->size(); }, "How many ranks there are.");
  type.def(
      "Get_rank", [](PyCommunicator& self) { return self->rank(); }, "rank, as mpi4py says it.");
  type.def(
      "Get_size", [](PyCommunicator& self) { return self->size(); }, "size, as mpi4py says it.");
  type.def(
      "world_rank",
      [](PyCommunicator& self, int i) {
        if (i < 0 || i >= self->size()) throw nb::index_error("there is no such rank");
        return self->world_rank(i);
      },
      nb::arg("i"), "The world rank of rank `i`.");
  type.def(
      "routes", [](PyCommunicator& self) { return self->routes(); }, "What reaches each rank: 'self', 'shm', ...");
  type.def("topology", &topology, nb::sig("def topology(self) -> list[tutti._types.Place]"), "Where each rank is.");
}

}  // namespace

void def_groups(Class& type) {
  def_ranks(type);
  type.def(
      "split", [](PyCommunicator& self, int color, int key) { return made([&] { return self->split(color, key); }); },
      nb::arg("color"), nb::arg("key") = 0, "Ranks of equal `color`, by (key, rank); a negative one joins none: None.");
  type.def(
      "split_by",
      [](PyCommunicator& self, const std::string& key) {
        return *made([&]() -> std::optional<Communicator> { return self->split_by(key); });
      },
      nb::arg("key"), "Ranks of equal keys, which are any texts.");
  type.def(
      "subgroup",
      [](PyCommunicator& self, const std::vector<int>& ranks) { return made([&] { return self->subgroup(ranks); }); },
      nb::arg("ranks"), "The listed ranks; all ranks call with one list. None for those that are not listed.");
  type.def(
      "group",
      [](PyCommunicator& self, const std::vector<int>& ranks, const std::string& name) {
        return *made([&]() -> std::optional<Communicator> { return self->group(ranks, name); });
      },
      nb::arg("ranks"), nb::arg("name"), "The listed ranks, which alone make the group, with one list and name.");
  type.def(
      "dup", [](PyCommunicator& self) { return *made([&]() -> std::optional<Communicator> { return self->dup(); }); },
      "The same ranks again; calls of the two do not wait for one another.");
  type.def(
      "node", [](PyCommunicator& self) { return *made([&]() -> std::optional<Communicator> { return self->node(); }); },
      "The ranks of this host.");
  type.def(
      "across",
      [](PyCommunicator& self) { return *made([&]() -> std::optional<Communicator> { return self->across(); }); },
      "The ranks with this rank's place on their hosts.");
  type.def(
      "leaders", [](PyCommunicator& self) { return made([&] { return self->leaders(); }); },
      "The first rank of every host; None for the others.");
  type.def(
      "abort",
      [](PyCommunicator& self, const std::string& why) {
        const nb::gil_scoped_release released;
        self->abort(why);
      },
      nb::arg("why") = "the program aborted the communicator", "End everything in flight, on all ranks.");
  type.def(
      "doctor",
      [](PyCommunicator& self, double patience) {
        const nb::gil_scoped_release released;
        return self->doctor(patience);
      },
      nb::arg("patience") = 1.0,
      "What holds up this job, and which rank is to blame in which call. Calls of `patience` seconds count as stuck.");
  type.def_prop_rw(
      "name", [](PyCommunicator& self) { return self->name(); },
      [](PyCommunicator& self, const std::string& name) { self->set_name(name); }, "Its name in reports.");
  type.def("allocate", &allocate, nb::arg("shape"), nb::arg("dtype") = "f32",
           nb::sig("def allocate(self, shape: collections.abc.Sequence[int], dtype: str = 'f32') -> typing.Any"),
           "A NumPy array of zeros that the other ranks of the host read and write in place; 'bf16' comes as uint16.");
  type.def("_capsule", &capsule_of);
  type.def_static("_from_capsule", &from_capsule, nb::arg("capsule"));
}

void def_objects(Class& type) {
  const auto root = nb::arg("root") = 0;
  const auto tag = nb::arg("tag") = 0;
  type.def(
      "allgather_object",
      [](nb::object self, nb::object value) { return helper("_objects", "allgather")(self, value); },
      nb::arg("value").none(), nb::sig("def allgather_object(self, value: typing.Any) -> list[typing.Any]"),
      "Everyone's `value`, pickled on the way.");
  type.def(
      "broadcast_object",
      [](nb::object self, nb::object value, int from) { return helper("_objects", "broadcast")(self, value, from); },
      nb::arg("value") = nb::none(), root,
      nb::sig("def broadcast_object(self, value: typing.Any = None, root: int = 0) -> typing.Any"),
      "The root's `value`.");
  type.def(
      "gather_object",
      [](nb::object self, nb::object value, int to) { return helper("_objects", "gather")(self, value, to); },
      nb::arg("value").none(), root,
      nb::sig("def gather_object(self, value: typing.Any, root: int = 0) -> list[typing.Any] | None"),
      "Everyone's `value` at `root`; None elsewhere.");
  type.def(
      "scatter_object",
      [](nb::object self, nb::object values, int from) { return helper("_objects", "scatter")(self, values, from); },
      nb::arg("values") = nb::none(), root,
      nb::sig("def scatter_object(self, values: collections.abc.Sequence[typing.Any] | None = None, root: int = 0)"
              " -> typing.Any"),
      "One of the root's `values` for each rank.");
  type.def(
      "send_object",
      [](nb::object self, nb::object value, int to, int with) { helper("_objects", "send")(self, value, to, with); },
      nb::arg("value").none(), nb::arg("to"), tag,
      nb::sig("def send_object(self, value: typing.Any, to: int, tag: int = 0) -> None"), "Send `value`, pickled.");
  type.def(
      "recv_object",
      [](nb::object self, int source, int with) { return helper("_objects", "recv")(self, source, with); },
      nb::arg("source"), tag, nb::sig("def recv_object(self, source: int, tag: int = 0) -> typing.Any"),
      "What rank `source` sends by send_object.");
}

}  // namespace tutti::python

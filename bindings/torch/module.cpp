// The Python module tutti.torch._c10d_<version>.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/extension.h>

#include "bindings/torch/backend.hpp"
#include "bindings/torch/flight_recorder.hpp"
#include "bindings/torch/future.hpp"

namespace tutti::torch_binding {
namespace {

namespace py = pybind11;
using std::chrono::milliseconds;

/// A capsule that owns a copy of the Communicator, for other extension modules.
py::capsule communicator_of(const Backend& backend) {
  auto* const copy = new Communicator(backend.communicator());
  return py::capsule(copy, "tutti.Communicator", [](PyObject* capsule) {
    delete static_cast<Communicator*>(PyCapsule_GetPointer(capsule, "tutti.Communicator"));
  });
}

c10::intrusive_ptr<Backend> make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                 const std::string& name, milliseconds timeout,
                                 const std::vector<std::int64_t>& members, const std::string& id,
                                 const c10::intrusive_ptr<Backend::Options>& options) {
  auto own = c10::make_intrusive<Backend::Options>(name, timeout);
  if (options) own->algorithm = options->algorithm;
  own->group_name = id;
  for (const std::int64_t member : members) own->global_ranks_in_group.push_back(static_cast<std::uint64_t>(member));
  return c10::make_intrusive<Backend>(Origin{.store = store, .rank = rank, .size = size, .members = members, .id = id},
                                      std::move(own));
}

c10::intrusive_ptr<Backend::Options> copy(const Backend::Options& options) {
  return c10::make_intrusive<Backend::Options>(options);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  const py::object base = py::module::import("torch._C._distributed_c10d").attr("Backend");
  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>> backend(m, "Backend");
  py::class_<Future, torch::jit::PythonFutureWrapper, std::shared_ptr<Future>>(m, "Future")
      .def("then", &Future::then)
      .def("add_done_callback", &Future::add_done_callback)
      .def("wait", &Future::wait)
      .def("done", &Future::done)
      .def("value", &Future::value);
  py::class_<Work, c10d::Work, c10::intrusive_ptr<Work>>(m, "Work").def(
      "get_future", [](const c10::intrusive_ptr<Work>& self) { return std::make_shared<Future>(self); });
  py::class_<Backend::Options, c10d::Backend::Options, c10::intrusive_ptr<Backend::Options>>(m, "Options")
      .def(py::init([](milliseconds timeout, const std::string& algorithm) {
             auto options = c10::make_intrusive<Backend::Options>("tutti", timeout);
             options->algorithm = algorithm;
             return options;
           }),
           py::arg("timeout") = kBackendDefaultTimeout, py::arg("algorithm") = "")
      .def_readwrite("algorithm", &Backend::Options::algorithm)
      .def("__copy__", &copy)
      .def("__deepcopy__", [](const Backend::Options& self, const py::dict&) { return copy(self); });
  backend.def("lost_ranks", &Backend::lost_ranks, py::call_guard<py::gil_scoped_release>())
      .def(py::init(&make), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"), py::arg("timeout"),
           py::arg("members"), py::arg("id"), py::arg("options"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options", [](Backend& self) {
        return c10::static_intrusive_pointer_cast<Backend::Options>(self.getBackendOptions());
      });
  m.def("communicator", &communicator_of);
  m.def("flight_recorder_is_on", [] { return FlightRecorder::instance().is_on(); });
  m.def("dump_flight_recorder", [](bool stacks) {
    std::string dump;
    {
      const py::gil_scoped_release release;
      dump = FlightRecorder::instance().dump(stacks);
    }
    return py::bytes(dump);
  });
  m.def("flight_recorder_rank", [] { return FlightRecorder::instance().rank(); });
  m.def("leave_all", [](double seconds) { Backend::leave_all(Seconds(seconds)); });
}

}  // namespace tutti::torch_binding

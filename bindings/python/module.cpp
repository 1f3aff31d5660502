// The Python module tutti._core.
#include <nanobind/nanobind.h>
#include <sys/eventfd.h>

#include "bindings/python/communicator.hpp"
#include "collectives/doctor/opinion.hpp"
#include "tutti/log.hpp"

namespace tutti::python {

nb::object helper(const char* module, const char* function) {
  return nb::module_::import_((std::string("tutti.") + module).c_str()).attr(function);
}

namespace {

/// Converts Error to the Python class tutti.Error.
void raise(const std::exception_ptr& caught, void* /*unused*/) {
  try {
    std::rethrow_exception(caught);
  } catch (const Error& error) {
    const nb::object type = helper("_types", "Error");
    const nb::object made = type(error.what(), std::string(name(error.code())), error.culprit());
    PyErr_SetObject(type.ptr(), made.ptr());
  }
}

/// A descriptor for event loops. It becomes readable when one of the calls that it was passed to is done.
struct Event {
  std::shared_ptr<Descriptor> descriptor;
};

Event make_event() {
  const auto descriptor = std::make_shared<Descriptor>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!*descriptor) throw Error(Code::resource, "no descriptor can be had for the event loop");
  return {descriptor};
}

void def_work(nb::module_& module) {
  nb::class_<Event>(module, "_Event")
      .def("__init__", [](Event* self) { new (self) Event(make_event()); })
      .def("fileno", [](const Event& self) { return self.descriptor->fd(); });
  nb::class_<PyWork>(module, "Work", "A call that has started; what it was given is kept until it is done.")
      .def("wait", &PyWork::wait, nb::arg("timeout") = nb::none(),
           nb::sig("def wait(self, timeout: float | None = None) -> typing.Any"),
           "The result. Raises what failed; TimeoutError where `timeout` seconds pass, and the call goes on.")
      .def("done", &PyWork::done, "Whether it is over; failed counts too.")
      .def_prop_ro("result", &PyWork::result, nb::sig("def result(self) -> typing.Any"),
                   "What wait() gives, of a call that is done.")
      .def("cancel", &PyWork::cancel, "Take back a receive that has met no message; whether that was so.")
      .def(
          "add_done_callback",
          [](nb::object self, nb::object callback) {
            nb::cast<PyWork&>(self).add_done_callback(self, std::move(callback));
          },
          nb::arg("callback"),
          nb::sig("def add_done_callback(self, callback: collections.abc.Callable[[Work], object]) -> None"),
          "Run callback(work) when it is done, on a thread of its own, which may wait.")
      .def("_ring", [](const PyWork& self, const Event& event) { self.ring(event.descriptor); })
      .def(
          "__await__", [](nb::object self) { return helper("_async", "wait_in_loop")(self); },
          nb::sig("def __await__(self) -> collections.abc.Generator[typing.Any, None, typing.Any]"));
}

nb::list settings_table() {
  nb::list rows;
  const Settings settings = Settings::from_environment();
  for (const SettingInfo& row : setting_table())
    rows.append(nb::make_tuple(std::string(row.key), value_text(settings, row), std::string(row.meaning)));
  return rows;
}

}  // namespace
}  // namespace tutti::python

NB_MODULE(_core, module) {
  using namespace tutti::python;
  nb::set_leak_warnings(false);  // calls in flight at interpreter exit are leaked
  nb::register_exception_translator(raise);
  module.doc() = "The compiled part of tutti.";
  module.attr("__version__") = TUTTI_PYTHON_VERSION;
  def_work(module);
  Class type(module, "Communicator", "Ranks 0 to size - 1 that call collectives together, each in the same order.");
  def_groups(type);
  def_survival(type);
  def_reductions(type);
  def_moves(type);
  def_messages(type);
  def_objects(type);
  def_makers(module);
  module.def("_settings", &settings_table);
  module.def(
      "_doctor",
      [](const std::string& which, double patience) {
        const nb::gil_scoped_release released;
        return tutti::doctor::opinions(which, static_cast<tutti::doctor::Time>(1e9 * patience));
      },
      nb::arg("which"), nb::arg("patience"));
  module.def("_fold_isa", [] { return std::string(tutti::fold_isa()); });
}

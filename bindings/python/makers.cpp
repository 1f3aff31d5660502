// The Python functions init(), connect() and from_mpi(), which make communicators.
#include <atomic>

#include "bindings/python/communicator.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/log.hpp"
#include "tutti/store.hpp"
#include "tutti/turns.hpp"

namespace tutti::python {
namespace {

std::atomic<bool> python_ends = false;

/// A store implemented by a Python object. Any thread. Fails after the interpreter has exited.
class ObjectStore final : public Store {
 public:
  explicit ObjectStore(nb::object object) : object_(object.release().ptr()) {}
  ~ObjectStore() override {
    if (python_ends) return;  // leaks the object
    const nb::gil_scoped_acquire gil;
    Py_DECREF(object_);
  }

  void set(std::string_view key, std::string_view value) override {
    run([&](nb::handle store) { store.attr("set")(bytes(key), bytes(value)); });
  }
  std::string wait(std::string_view key, Deadline until) override {
    return run([&](nb::handle store) {
      const double left = std::max(0.0, Seconds(until - Clock::now()).count());
      return text(store.attr("wait")(bytes(key), left));
    });
  }
  bool find(std::string_view key, std::string& value) override {
    return run([&](nb::handle store) {
      const nb::object found = store.attr("find")(bytes(key));
      if (found.is_none()) return false;
      value = text(found);
      return true;
    });
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    return run([&](nb::handle store) { return nb::cast<std::int64_t>(store.attr("add")(bytes(key), amount)); });
  }
  std::string set_once(std::string_view key, std::string_view value) override {
    return run([&](nb::handle store) { return text(store.attr("set_once")(bytes(key), bytes(value))); });
  }
  void erase(std::string_view key) override {
    run([&](nb::handle store) { store.attr("erase")(bytes(key)); });
  }

 private:
  static nb::bytes bytes(std::string_view text) { return nb::bytes(text.data(), text.size()); }
  static std::string text(const nb::object& object) {
    const auto all = nb::cast<nb::bytes>(object);
    return {all.c_str(), all.size()};
  }

  /// Converts Python exceptions to Error, which contains no Python objects.
  template <class Body>
  std::invoke_result_t<Body, nb::handle> run(const Body& body) {
    if (python_ends) throw Error(Code::resource, "the program's store has ended with the interpreter");
    const nb::gil_scoped_acquire gil;
    std::string why;
    bool late = false;
    try {
      return body(nb::handle(object_));
    } catch (const nb::python_error& error) {
      late = error.matches(PyExc_TimeoutError);
      why = error.what();
    } catch (const nb::cast_error&) {
      why = "it returned what is neither bytes nor, from add, a number";
    }
    throw Error(late ? Code::timeout : Code::resource, "the program's store failed: " + why);
  }

  PyObject* const object_;
};

Settings settings_of(const nb::dict& given, std::optional<double> timeout) {
  Settings settings = Settings::from_environment();
  for (const auto [key, value] : given)
    settings.set(nb::cast<std::string>(key), nb::cast<std::string>(nb::str(value)), "the program");
  if (timeout) settings.timeout = *timeout;
  if (const auto level = parse_log_level(settings.log)) set_log_level(*level);
  return settings;
}

PyCommunicator init(std::optional<double> timeout, nb::kwargs given) {
  const Settings settings = settings_of(given, timeout);
  const nb::gil_scoped_release released;
  return PyCommunicator(Communicator::from_env(settings));
}

PyCommunicator connect(nb::object store, int rank, int size, std::optional<double> timeout, nb::kwargs given) {
  Bootstrap bootstrap;
  if (size < 1 || rank < 0 || rank >= size) throw nb::value_error("ranks are 0 to size - 1");
  bootstrap.rank = rank;
  bootstrap.size = size;
  bootstrap.launcher = "the program";
  bootstrap.settings = settings_of(given, timeout);
  if (store.is_none() && size > 1) throw nb::type_error("give a store, by which the ranks find one another");
  std::shared_ptr<Store> meeting;
  const bool is_url = nb::isinstance<nb::str>(store);
  const std::string url = is_url ? nb::cast<std::string>(store) : std::string();
  if (!is_url && !store.is_none()) meeting = std::make_shared<ObjectStore>(store);
  const nb::gil_scoped_release released;
  const Settings& settings = bootstrap.settings;
  if (is_url) meeting = open_store(url, settings.secret, deadline_in(Seconds(settings.connect_timeout)));
  if (!meeting) meeting = make_local_store();
  launchers::join_others(bootstrap, meeting);
  return PyCommunicator(Communicator::connect(bootstrap));
}

PyCommunicator from_mpi(nb::object comm, std::optional<double> timeout, nb::kwargs given) {
  const nb::object own = comm.attr("Dup")();  // so that the program's messages and ours do not match
  CommonLibrary library;
  library.name = "MPI";
  library.rank = nb::cast<int>(own.attr("Get_rank")());
  library.size = nb::cast<int>(own.attr("Get_size")());
  library.native = nb::cast<std::int64_t>(own.attr("py2f")());
  library.broadcast = [&](std::string& text) {
    const auto all = nb::cast<nb::bytes>(own.attr("bcast")(nb::bytes(text.data(), text.size())));
    text.assign(all.c_str(), all.size());
  };
  library.allgather = [&](const std::string& mine, std::string& all) {
    all.clear();
    for (nb::handle one : own.attr("allgather")(nb::bytes(mine.data(), mine.size()))) {
      const auto part = nb::cast<nb::bytes>(one);
      all.append(part.c_str(), part.size());
    }
  };
  const Bootstrap bootstrap = bootstrap_over(library, settings_of(given, timeout));
  std::optional<Communicator> made;
  {
    const nb::gil_scoped_release released;
    made = Communicator::connect(bootstrap);
  }
  return PyCommunicator(*std::move(made), own);
}

}  // namespace

void def_makers(nb::module_& module) {
  module.def(
      "init", &init, nb::arg("timeout") = nb::none(), nb::arg("settings"),
      nb::sig("def init(*, timeout: float | None = None, **settings: object) -> Communicator"),
      "The ranks that `tutti run`, torchrun, mpirun or srun started; alone without one. Settings as in the book.");
  module.def(
      "connect", &connect, nb::arg("store").none(), nb::arg("rank"), nb::arg("size"), nb::arg("timeout") = nb::none(),
      nb::arg("settings"),
      nb::sig("def connect(store: object, rank: int, size: int, *, timeout: float | None = None, **settings: object)"
              " -> Communicator"),
      "Ranks that meet in a store: 'tcp://HOST:PORT', 'file:///FOLDER', or an object with set(key, value), "
      "wait(key, seconds), find(key), add(key, amount), set_once(key, value) and erase(key), of bytes.");
  module.def(
      "from_mpi", &from_mpi, nb::arg("comm"), nb::arg("timeout") = nb::none(), nb::arg("settings"),
      nb::sig("def from_mpi(comm: typing.Any, *, timeout: float | None = None, **settings: object) -> Communicator"),
      "The ranks of a communicator of mpi4py, which is duplicated once.");
  module.def("_stop", [] {
    stop_threads();
    python_ends = true;
  });
}

}  // namespace tutti::python

// Point-to-point messages and the barrier, for Python.
#include "bindings/python/communicator.hpp"
#include "collectives/api/arguments.hpp"

namespace tutti::python {
namespace {

nb::any as_any(nb::object object) { return nb::borrow<nb::any>(object); }

nb::any barrier(Communicator& of, const Options& options) {
  Submission to(of, options, Kind::barrier);
  return as_any(to.run(nb::none()));
}

nb::any send(Communicator& of, const Options& options, nb::any data, int to, int tag) {
  check_message("send", to, tag, of.size());
  Submission message(of, options, Kind::send);
  message.call.in = message.in(message.read(data));
  message.call.out = Buffer(nullptr, 0, message.call.in.dtype);
  message.call.to = to;
  message.call.tag = tag;
  return as_any(message.run(nb::none()));
}

nb::any receive(Communicator& of, const Options& options, const nb::any& data, int source, int tag, bool any) {
  check_message(any ? "recv_any" : "recv", any ? 0 : source, tag, of.size());
  Submission message(of, options, Kind::send);
  message.call.out = message.out(message.write(data, "data"));
  message.call.in = ConstBuffer(nullptr, 0, message.call.out.dtype);
  message.call.from = source;
  message.call.from_any = any;
  message.call.tag = tag;
  return as_any(message.run(data, any ? Outcome::source : Outcome::object));
}

nb::any recv(Communicator& of, const Options& options, nb::any data, int source, int tag) {
  return receive(of, options, data, source, tag, false);
}
nb::any recv_any(Communicator& of, const Options& options, nb::any data, int tag) {
  return receive(of, options, data, -1, tag, true);
}

nb::any exchange(Communicator& of, const Options& options, const nb::any& data, nb::object out, int to, int source,
                 int tag) {
  Submission message(of, options, Kind::send);
  const Operand& given = message.read(data);
  message.call.in = message.in(given);
  message.call.to = to;
  message.call.from = source;
  message.call.tag = tag;
  if (out.is_none() && Submission::is_number(data)) {
    message.call.out = message.out(message.numbers_like(given));
    return as_any(message.run(data, Outcome::number));
  }
  if (out.is_none()) {
    nb::list shape;
    for (const std::int64_t one : given.array.shape) shape.append(one);
    out = helper("_arrays", "empty")(data, nb::tuple(shape));
  }
  message.call.out = message.out(message.write(out));
  return as_any(message.run(out));
}

nb::any sendrecv(Communicator& of, const Options& options, nb::any data, int to, int source, nb::object out, int tag) {
  for (const int peer : {to, source}) check_message("sendrecv", peer, tag, of.size());
  return exchange(of, options, data, std::move(out), to, source, tag);
}

nb::any shift(Communicator& of, const Options& options, nb::any data, int offset, nb::object out) {
  const int n = of.size(), by = ((offset % n) + n) % n;
  constexpr int shift_tag = -1;  // a tag that no send can have
  return exchange(of, options, data, std::move(out), (of.rank() + by) % n, (of.rank() + n - by) % n, shift_tag);
}

nb::object probe(PyCommunicator& self, int source, int tag) {
  std::optional<Arrived> one;
  {
    const nb::gil_scoped_release released;
    one = self->probe(source, tag);
  }
  if (!one) return nb::none();
  return helper("_types", "Arrived")(one->from, one->tag, one->bytes, one->count, std::string(name(one->dtype)));
}

}  // namespace

void def_messages(Class& type) {
  const auto data = nb::arg("data");
  const auto out = nb::arg("out") = nb::none();
  const auto tag = nb::arg("tag") = 0;
  def_call(type, "barrier", &barrier, "Return when every rank has called it.");
  def_call(type, "send", &send, data, nb::arg("to"), tag,
           "Send `data` to rank `to`; its recv names equal type and count.");
  def_call(type, "recv", &recv, data, nb::arg("source"), tag, "Receive into `data` what rank `source` sends.");
  def_call(type, "recv_any", &recv_any, data, tag, "Receive from whichever rank sends first; the rank that it was.");
  def_call(type, "sendrecv", &sendrecv, data, nb::arg("to"), nb::arg("source"), out, tag,
           "Send `data` to `to` and receive from `source`; what came, in `out` or an array like `data`.");
  def_call(type, "shift", &shift, data, nb::arg("offset") = 1, out,
           "Everyone's `data` goes to rank + offset, modulo size; what rank - offset had.");
  type.def("probe", &probe, nb::arg("source") = any_rank, tag,
           nb::sig("def probe(self, source: int = -1, tag: int = 0) -> tutti._types.Arrived | None"),
           "What has come from `source`, or from anyone (-1), and no receive has met; or None. Takes nothing.");
}

}  // namespace tutti::python

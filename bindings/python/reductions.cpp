// The methods of tutti.Communicator for reductions.
#include "bindings/python/communicator.hpp"

namespace tutti::python {
namespace {

nb::any as_any(nb::object object) { return nb::borrow<nb::any>(object); }

/// allreduce and reduce of a Python integer. The result raises OverflowError if it does not fit into 64 bits.
nb::any reduce_integer(Communicator& of, const Options& options, Kind kind, nb::handle data, const std::string& op,
                       int root) {
  const bool here = kind == Kind::allreduce || of.rank() == root;
  if (op == "sum") {
    Submission to(of, options, kind);
    to.call.root = root;
    const Operand& halves = to.halves(data);
    to.call.in = to.in(halves);
    to.call.op = to.reduction(halves, op, 1.0);
    if (here) to.call.out = to.out(halves);
    return as_any(to.run(nb::none(), here ? Outcome::integer_sum : Outcome::object));
  }
  Submission to(of, options, kind == Kind::allreduce ? Kind::allgather : Kind::gather);
  to.call.root = root;
  const Operand& given = to.read(data);
  to.call.in = to.in(given);
  if (here) to.call.out = to.out(to.numbers_like(given, static_cast<std::size_t>(of.size())));
  return as_any(to.run(nb::none(), here ? Outcome::integer_product : Outcome::object));
}

/// allreduce and reduce: in place if there is no `out`.
nb::any reduce_all(Communicator& of, const Options& options, Kind kind, nb::any data, const std::string& op,
                   nb::object out, int root, double factor) {
  const bool is_number = out.is_none() && Submission::is_number(data);
  if (is_number && Submission::is_integer(data) && (op == "sum" || op == "prod"))
    return reduce_integer(of, options, kind, data, op, root);
  Submission to(of, options, kind);
  to.call.root = root;
  const bool here = kind == Kind::allreduce || of.rank() == root;
  const bool in_place = out.is_none();
  const Operand& given = in_place && here ? to.change(data) : to.read(data);
  to.call.in = to.in(given);
  to.call.op = to.reduction(given, op, factor);
  if (here) to.call.out = in_place ? to.out(given) : to.out(to.write(out));
  if (!here) return as_any(to.run(nb::none()));
  return as_any(to.run(in_place ? nb::object(data) : out, is_number ? Outcome::number : Outcome::object));
}

nb::any allreduce(Communicator& of, const Options& options, nb::any data, std::string op, nb::object out,
                  double factor) {
  return reduce_all(of, options, Kind::allreduce, std::move(data), op, std::move(out), 0, factor);
}

nb::any reduce(Communicator& of, const Options& options, nb::any data, std::string op, int root, nb::object out,
               double factor) {
  return reduce_all(of, options, Kind::reduce, std::move(data), op, std::move(out), root, factor);
}

nb::tuple with_rows(const Array& array, std::int64_t rows) {
  nb::list shape;
  shape.append(rows);
  for (std::size_t i = 1; i < array.shape.size(); ++i) shape.append(array.shape[i]);
  return nb::tuple(shape);
}

std::int64_t rows_of(const Array& array) {
  if (array.shape.empty()) throw nb::value_error("data has no axis; its first axis is what is cut into blocks");
  return array.shape[0];
}

nb::any reduce_scatter(Communicator& of, const Options& options, nb::any data, std::string op, nb::object out,
                       double factor) {
  Submission to(of, options, Kind::reduce_scatter);
  const Operand& given = to.read(data);
  to.call.in = to.in(given);
  to.call.op = to.reduction(given, op, factor);
  if (out.is_none()) {
    if (rows_of(given.array) % of.size() != 0)
      throw nb::value_error("the first axis of data is not a multiple of size; use reduce_scatterv, or give `out`");
    out = helper("_arrays", "empty")(data, with_rows(given.array, rows_of(given.array) / of.size()));
  }
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

nb::any reduce_scatterv(Communicator& of, const Options& options, nb::any data, std::vector<std::size_t> counts,
                        std::string op, nb::object out, double factor) {
  Submission to(of, options, Kind::reduce_scatter);
  const Operand& given = to.read(data);
  to.call.variable = true;
  to.call.in = to.in(given);
  to.call.op = to.reduction(given, op, factor);
  if (counts.size() != static_cast<std::size_t>(of.size()))
    throw nb::value_error("counts must have one entry for each rank");
  to.call.in_counts = to.counts(counts, given);
  if (out.is_none())
    out = helper("_arrays", "empty")(
        data, with_rows(given.array, static_cast<std::int64_t>(counts[static_cast<std::size_t>(of.rank())])));
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

}  // namespace

void def_reductions(Class& type) {
  def_call(
      type, "allreduce", &allreduce, nb::arg("data"), nb::arg("op") = "sum", nb::arg("out") = nb::none(),
      nb::arg("factor") = 1.0,
      "Fold everyone's `data` by `op`, on every rank: in place, or into `out`. A number gives a number of its type, "
      "which is the same on all ranks; where the sum or product of Python's integers does not fit into 64 bits, "
      "all ranks raise OverflowError, and the communicator goes on. NumPy's integers wrap, as in arrays.");
  def_call(type, "reduce", &reduce, nb::arg("data"), nb::arg("op") = "sum", nb::arg("root") = 0,
           nb::arg("out") = nb::none(), nb::arg("factor") = 1.0,
           "As allreduce, at `root` only; the others get None, and their data stays as it is.");
  def_call(type, "reduce_scatter", &reduce_scatter, nb::arg("data"), nb::arg("op") = "sum", nb::arg("out") = nb::none(),
           nb::arg("factor") = 1.0,
           "Fold everyone's `data`, whose first axis is cut into size equal blocks; this rank's block.");
  def_call(type, "reduce_scatterv", &reduce_scatterv, nb::arg("data"), nb::arg("counts"), nb::arg("op") = "sum",
           nb::arg("out") = nb::none(), nb::arg("factor") = 1.0,
           "As reduce_scatter, with counts[i] rows of the first axis for rank i.");
}

}  // namespace tutti::python

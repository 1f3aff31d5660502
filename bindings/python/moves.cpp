// The methods of tutti.Communicator for collectives that move data.
#include <optional>

#include "bindings/python/communicator.hpp"
#include "transports/core/checked.hpp"

namespace tutti::python {
namespace {

using Counts = std::optional<std::vector<std::size_t>>;

nb::any as_any(nb::object object) { return nb::borrow<nb::any>(object); }

nb::object empty(nb::handle like, const nb::list& shape) { return helper("_arrays", "empty")(like, nb::tuple(shape)); }

/// The shape of an array that stacks one array of this shape per rank.
nb::list stacked(const Communicator& of, const Array& array) {
  nb::list shape;
  shape.append(of.size());
  for (const std::int64_t one : array.shape) shape.append(one);
  return shape;
}

nb::list with_rows(const Array& array, std::size_t rows) {
  if (array.shape.empty()) throw nb::value_error("data has no axis; its first axis is what is cut into blocks");
  nb::list shape;
  shape.append(rows);
  for (std::size_t i = 1; i < array.shape.size(); ++i) shape.append(array.shape[i]);
  return shape;
}

std::size_t rows_of(const Array& array) { return array.shape.empty() ? 1 : static_cast<std::size_t>(array.shape[0]); }

std::size_t sum_of(const std::vector<std::size_t>& counts) {
  const std::optional<std::size_t> total = checked_sum(counts);
  if (!total) throw nb::value_error("the sum of the counts is more than an address space holds");
  return *total;
}

void check_counts(const Communicator& of, const std::vector<std::size_t>& counts) {
  if (counts.size() != static_cast<std::size_t>(of.size()))
    throw nb::value_error("counts must have one entry for each rank");
}

/// Returns the number of rows of each rank, for callers that did not pass it. Makes a blocking allgather.
std::vector<std::size_t> gathered_rows(Communicator& of, std::size_t mine) {
  const nb::gil_scoped_release released;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(of.size()));
  const std::uint64_t own[] = {mine};
  of.allgather(own, all).wait();
  return {all.begin(), all.end()};
}

/// Determines the counts of allgatherv and gatherv: checks the caller's counts, or else gathers them, which blocks.
/// Gathers only after the other arguments have been checked.
void settle_counts(Submission& to, Communicator& of, const Operand& given, const nb::object& out, Counts& counts) {
  if (counts) return check_counts(of, *counts);
  out.is_none() ? void(with_rows(given.array, 0)) : to.check(out);
  counts = gathered_rows(of, rows_of(given.array));
}

nb::any broadcast(Communicator& of, const Options& options, nb::any data, int root) {
  Submission to(of, options, Kind::broadcast);
  to.call.root = root;
  to.call.out = to.out(of.rank() == root ? to.read(data) : to.change(data));  // the call only reads the root's data
  return as_any(to.run(data, Submission::is_number(data) ? Outcome::number : Outcome::object));
}

nb::any allgather(Communicator& of, const Options& options, nb::any data, nb::object out) {
  Submission to(of, options, Kind::allgather);
  const Operand& given = to.read(data);
  to.call.in = to.in(given);
  if (out.is_none()) out = empty(data, stacked(of, given.array));
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

nb::any allgatherv(Communicator& of, const Options& options, nb::any data, Counts counts, nb::object out) {
  Submission to(of, options, Kind::allgather);
  const Operand& given = to.read(data);
  to.call.variable = true;
  to.call.in = to.in(given);
  settle_counts(to, of, given, out, counts);
  to.call.out_counts = to.counts(*counts, given);
  if (out.is_none()) out = empty(data, with_rows(given.array, sum_of(*counts)));
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

nb::any gather(Communicator& of, const Options& options, nb::any data, int root, nb::object out) {
  Submission to(of, options, Kind::gather);
  const Operand& given = to.read(data);
  to.call.root = root;
  to.call.in = to.in(given);
  if (of.rank() != root) return as_any(to.run(nb::none()));
  if (out.is_none()) out = empty(data, stacked(of, given.array));
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

nb::any gatherv(Communicator& of, const Options& options, nb::any data, Counts counts, int root, nb::object out) {
  Submission to(of, options, Kind::gather);
  const Operand& given = to.read(data);
  const bool here = of.rank() == root;
  to.call.root = root;
  to.call.variable = true;
  to.call.in = to.in(given);
  settle_counts(to, of, given, here ? out : nb::none(), counts);
  if (!here) return as_any(to.run(nb::none()));
  to.call.out_counts = to.counts(*counts, given);
  if (out.is_none()) out = empty(data, with_rows(given.array, sum_of(*counts)));
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

/// The result array: `out`, or a new array like `data`. Ranks other than the root must pass one of the two.
nb::object place_of_block(const nb::object& out, const nb::object& data, std::size_t rows, const Submission& to) {
  if (!out.is_none()) return out;
  if (data.is_none())
    throw nb::type_error(
        "give `out` on every rank but the root: the memory for this rank's block; or `data` like the root's");
  return empty(data, with_rows(to.look(data), rows));
}

std::size_t rows_of_block(const Communicator& of, const nb::object& data, const Submission& to) {
  if (data.is_none()) return 0;
  const std::size_t all = rows_of(to.look(data)), size = static_cast<std::size_t>(of.size());
  if (all % size != 0)
    throw nb::value_error("the first axis of data is not a multiple of size; use scatterv, or give `out`");
  return all / size;
}

nb::any scatter(Communicator& of, const Options& options, nb::object data, int root, nb::object out) {
  Submission to(of, options, Kind::scatter);
  to.call.root = root;
  if (of.rank() == root) to.call.in = to.in(to.read(data));
  if (out.is_none()) out = place_of_block(out, data, rows_of_block(of, data, to), to);
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

nb::any scatterv(Communicator& of, const Options& options, nb::object data, Counts counts, int root, nb::object out) {
  Submission to(of, options, Kind::scatter);
  const bool here = of.rank() == root;
  to.call.root = root;
  to.call.variable = true;
  if (counts) check_counts(of, *counts);
  if (here) {
    if (!counts) throw nb::type_error("give `counts` at the root: how many rows of the first axis each rank gets");
    const Operand& given = to.read(data);
    to.call.in = to.in(given);
    to.call.in_counts = to.counts(*counts, given);
  }
  if (out.is_none() && !counts)
    throw nb::type_error("give `out`: the memory for this rank's block; or `data` and `counts`");
  out = place_of_block(out, data, counts ? (*counts)[static_cast<std::size_t>(of.rank())] : 0, to);
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

nb::any alltoall(Communicator& of, const Options& options, nb::any data, nb::object out) {
  Submission to(of, options, Kind::alltoall);
  const Operand& given = to.read(data);
  to.call.in = to.in(given);
  if (out.is_none()) {
    nb::list shape;
    for (const std::int64_t one : given.array.shape) shape.append(one);
    out = empty(data, shape);
  }
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

nb::any alltoallv(Communicator& of, const Options& options, nb::any data, std::vector<std::size_t> in_counts,
                  Counts out_counts, nb::object out) {
  Submission to(of, options, Kind::alltoall);
  check_counts(of, in_counts);
  const Operand& given = to.read(data);
  if (sum_of(in_counts) != rows_of(given.array))
    throw nb::value_error("the sum of in_counts is not the number of rows of data");
  if (out_counts) check_counts(of, *out_counts);
  out.is_none() ? void(with_rows(given.array, 0)) : to.check(out);
  if (!out_counts) {
    const nb::gil_scoped_release released;
    std::vector<std::uint64_t> mine(in_counts.begin(), in_counts.end()), theirs(mine.size());
    of.alltoall(mine, theirs).wait();
    out_counts.emplace(theirs.begin(), theirs.end());
  }
  to.call.variable = true;
  to.call.in = to.in(given);
  to.call.in_counts = to.counts(in_counts, given);
  to.call.out_counts = to.counts(*out_counts, given);
  if (out.is_none()) out = empty(data, with_rows(given.array, sum_of(*out_counts)));
  to.call.out = to.out(to.write(out));
  return as_any(to.run(out));
}

}  // namespace

void def_moves(Class& type) {
  const auto data = nb::arg("data");
  const auto out = nb::arg("out") = nb::none();
  const auto root = nb::arg("root") = 0;
  const auto counts = nb::arg("counts") = nb::none();
  for (const char* name : {"broadcast", "bcast"})
    def_call(type, name, &broadcast, data, root,
             "The root's `data` everywhere, in place; the root's is only read. A number gives a number.");
  def_call(type, "allgather", &allgather, data, out, "Everyone's `data`, stacked along a new first axis by rank.");
  def_call(
      type, "allgatherv", &allgatherv, data, counts, out,
      "Everyone's `data`, one after the other along the first axis. `counts`: everyone's number of rows, asked for "
      "where it is left out.");
  def_call(type, "gather", &gather, data, root, out, "As allgather, at `root` only; the others get None.");
  def_call(type, "gatherv", &gatherv, data, counts, root, out,
           "As allgatherv, at `root` only; the others get None. `counts` on all ranks, or on none.");
  def_call(
      type, "scatter", &scatter, nb::arg("data").none(), root, out,
      "Equal blocks of the first axis of the root's `data`, one for each rank. Elsewhere `out` is wanted, or `data` of "
      "the root's type and shape.");
  def_call(type, "scatterv", &scatterv, nb::arg("data").none(), counts, root, out,
           "As scatter, with counts[i] rows for rank i; the root, and ranks without `out`, need `counts`.");
  def_call(type, "alltoall", &alltoall, data, out,
           "Block j of `data` goes to rank j; block i of the result is rank i's.");
  def_call(type, "alltoallv", &alltoallv, data, nb::arg("in_counts"), nb::arg("out_counts") = nb::none(), out,
           "As alltoall, with in_counts[j] rows to rank j. `out_counts` are asked for where all ranks leave them out.");
}

}  // namespace tutti::python

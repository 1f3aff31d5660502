// Compares reductions with their PMPI twins: types, operators, in place.
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>

#include "tests/mpi/twins.hpp"

namespace twins {
namespace {

struct Element {
  const char* name;
  MPI_Datatype type;
  void (*fill)(void*, int count, int seed);
  double precision;  ///< permitted relative error; 0: every bit must be equal
  std::size_t bytes;
};

template <class T>
void fill_numbers(void* memory, int count, int seed) {
  for (int i = 0; i < count; ++i) static_cast<T*>(memory)[i] = static_cast<T>(1 + (i * 3 + seed * 5) % 7);
}
template <class T>
void fill_truths(void* memory, int count, int seed) {
  for (int i = 0; i < count; ++i) static_cast<T*>(memory)[i] = (i + seed) % 3 != 0;
}
template <class T>
void fill_complex(void* memory, int count, int seed) {
  for (int i = 0; i < count; ++i) static_cast<std::complex<T>*>(memory)[i] = {T(i % 5 + seed), T(seed - i % 3)};
}

const std::vector<Element>& numbers() {
  static const std::vector<Element> all = {
      {"signed char", MPI_SIGNED_CHAR, fill_numbers<signed char>, 0, 1},
      {"unsigned char", MPI_UNSIGNED_CHAR, fill_numbers<unsigned char>, 0, 1},
      {"short", MPI_SHORT, fill_numbers<short>, 0, 2},
      {"unsigned short", MPI_UNSIGNED_SHORT, fill_numbers<unsigned short>, 0, 2},
      {"int", MPI_INT, fill_numbers<int>, 0, 4},
      {"unsigned", MPI_UNSIGNED, fill_numbers<unsigned>, 0, 4},
      {"long", MPI_LONG, fill_numbers<long>, 0, 8},
      {"unsigned long long", MPI_UNSIGNED_LONG_LONG, fill_numbers<unsigned long long>, 0, 8},
      {"int64_t", MPI_INT64_T, fill_numbers<std::int64_t>, 0, 8},
      {"float", MPI_FLOAT, fill_numbers<float>, 1e-5, 4},
      {"double", MPI_DOUBLE, fill_numbers<double>, 1e-13, 8},
  };
  return all;
}

void expect_near(const Memory& ours, const Memory& theirs, const Element& element, const std::string& what,
                 const Where& where) {
  if (element.precision == 0) return expect_equal(ours, theirs, what, where);
  for (std::size_t i = 0; i < ours.size() / element.bytes; ++i) {
    double a = 0, b = 0;
    if (element.bytes == 4) {
      float x = 0, y = 0;
      std::memcpy(&x, &ours[4 * i], 4);
      std::memcpy(&y, &theirs[4 * i], 4);
      a = x, b = y;
    } else {
      std::memcpy(&a, &ours[8 * i], 8);
      std::memcpy(&b, &theirs[8 * i], 8);
    }
    if (std::abs(a - b) <= element.precision * std::max(1.0, std::abs(b))) continue;
    std::printf("rank %d of %d: %s differs at element %zu: %g and not %g\n", where.rank, where.size, what.c_str(), i, a,
                b);
    ++failures;
    return;
  }
}

/// Compares each reduction function with its twin, out of place and in place.
void reduce_all(const Where& where, const Element& element, MPI_Op op, const std::string& op_name, int count,
                bool taken) {
  const std::size_t bytes = element.bytes * static_cast<std::size_t>(count);
  const auto blocks = static_cast<std::size_t>(where.size);
  const std::string what = std::string(" of ") + element.name + " " + op_name + " x " + std::to_string(count);
  for (const bool in_place : {false, true}) {
    const std::string form = what + (in_place ? " in place" : "");
    Memory in(bytes * blocks + 1), ours(in.size(), 0xEE);
    element.fill(in.data(), count * where.size, where.rank);
    if (in_place) ours = in;
    Memory theirs = ours;
    const void* from = in_place ? MPI_IN_PLACE : in.data();
    perform(taken, "Allreduce", MPI_Allreduce, MPI_Iallreduce, from, ours.data(), count, element.type, op, where.comm);
    PMPI_Allreduce(from, theirs.data(), count, element.type, op, where.comm);
    expect_near(ours, theirs, element, "Allreduce" + form, where);

    const int root = count % where.size;
    if (in_place) ours = theirs = in;
    const void* mine = in_place && where.rank != root ? in.data() : from;
    perform(taken, "Reduce", MPI_Reduce, MPI_Ireduce, mine, ours.data(), count, element.type, op, root, where.comm);
    PMPI_Reduce(mine, theirs.data(), count, element.type, op, root, where.comm);
    if (where.rank == root) expect_near(ours, theirs, element, "Reduce" + form, where);

    if (in_place) ours = theirs = in;
    perform(taken, "Reduce_scatter_block", MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, from, ours.data(),
            count, element.type, op, where.comm);
    PMPI_Reduce_scatter_block(from, theirs.data(), count, element.type, op, where.comm);
    ours.resize(bytes), theirs.resize(bytes);
    expect_near(ours, theirs, element, "Reduce_scatter_block" + form, where);

    std::vector<int> counts(blocks, count);
    counts.front() = 0;
    ours.assign(in.size(), 0xEE);
    if (in_place) ours = in;
    theirs = ours;
    perform(taken, "Reduce_scatter", MPI_Reduce_scatter, MPI_Ireduce_scatter, from, ours.data(), counts.data(),
            element.type, op, where.comm);
    PMPI_Reduce_scatter(from, theirs.data(), counts.data(), element.type, op, where.comm);
    const std::size_t own = element.bytes * static_cast<std::size_t>(counts[static_cast<std::size_t>(where.rank)]);
    ours.resize(own), theirs.resize(own);
    expect_near(ours, theirs, element, "Reduce_scatter" + form, where);
  }
}

void add_up(void* in, void* out, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<int*>(out)[i] += static_cast<int*>(in)[i];
}

}  // namespace

void reductions(const Where& where) {
  const std::vector<std::pair<const char*, MPI_Op>> ops = {{"sum", MPI_SUM},  {"prod", MPI_PROD}, {"min", MPI_MIN},
                                                           {"max", MPI_MAX},  {"band", MPI_BAND}, {"bor", MPI_BOR},
                                                           {"bxor", MPI_BXOR}};
  for (const Element& element : numbers())
    for (const auto& [name, op] : ops) {
      const bool bits = op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR;
      if (bits && element.precision > 0) continue;
      if (brief && op != MPI_SUM && element.type != MPI_UNSIGNED && element.type != MPI_DOUBLE) continue;
      reduce_all(where, element, op, name, element.bytes == 4 ? 1000 : 5, true);
    }
  const Element number = numbers()[4], large = numbers()[9];
  reduce_all(where, number, MPI_SUM, "sum", 0, true);
  reduce_all(where, large, MPI_SUM, "sum", 30000, true);
  const Element truth{"C_BOOL", MPI_C_BOOL, fill_truths<bool>, 0, 1};
  for (const auto& [name, op] : {std::pair{"land", MPI_LAND}, {"lor", MPI_LOR}, {"lxor", MPI_LXOR}})
    reduce_all(where, truth, op, name, 9, true);
  const Element complex{"C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, fill_complex<double>, 0, 16};
  reduce_all(where, complex, MPI_SUM, "sum", 11, true);

  // A preload leaves to MPI: products of complex numbers, logical operators on numbers, pairs, user-defined operators.
  reduce_all(where, complex, MPI_PROD, "prod", 3, false);
  reduce_all(where, number, MPI_LAND, "land", 5, false);
  const Element pair{"2INT", MPI_2INT,
                     [](void* memory, int count, int seed) { fill_numbers<int>(memory, 2 * count, seed); }, 0, 8};
  reduce_all(where, pair, MPI_MAXLOC, "maxloc", 5, false);
  MPI_Op own;
  MPI_Op_create(&add_up, 1, &own);
  reduce_all(where, number, own, "a user's", 5, false);
  MPI_Op_free(&own);
}

}  // namespace twins

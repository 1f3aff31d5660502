// Scenes of calls with wrong arguments, on all ranks or on one.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/mpi/behaviour.hpp"

namespace behaviour {

namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

}  // namespace

/// Wrong arguments give the errors of MPI, and the next call works.
void errors() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int word = 0, other = 0;
  MPI_Request request;
  MPI_Datatype uncommitted = made_type(false);
  std::vector<int> lists(static_cast<std::size_t>(size), 1), many(static_cast<std::size_t>(24 * size));
  for (int turn = 0; turn < 2; ++turn) {
    expect(class_of(MPI_Bcast(&word, 1, MPI_INT, size, comm)) == MPI_ERR_ROOT, "Bcast from no rank");
    expect(class_of(MPI_Bcast(&word, -1, MPI_INT, 0, comm)) == MPI_ERR_COUNT, "Bcast of less than nothing");
    expect(class_of(MPI_Bcast(&word, 1, MPI_DATATYPE_NULL, 0, comm)) == MPI_ERR_TYPE, "Bcast of no type");
    expect(class_of(MPI_Bcast(many.data(), 1, uncommitted, 0, comm)) == MPI_ERR_TYPE, "Bcast of an uncommitted type");
    expect(class_of(MPI_Ibcast(&word, 1, MPI_DATATYPE_NULL, 0, comm, &request)) == MPI_ERR_TYPE, "Ibcast of no type");
    expect(class_of(MPI_Gather(&word, 1, MPI_DATATYPE_NULL, many.data(), 1, MPI_INT, 0, comm)) == MPI_ERR_TYPE,
           "Gather of no type");
    expect_sum(comm);
  }
  expect(MPI_Allreduce(&word, &other, 1, MPI_DATATYPE_NULL, MPI_SUM, comm) != MPI_SUCCESS, "Allreduce of no type");
  expect(MPI_Allreduce(&word, &other, 1, MPI_INT, MPI_OP_NULL, comm) != MPI_SUCCESS, "Allreduce by no operator");
  expect(class_of(MPI_Barrier(MPI_COMM_NULL)) == MPI_ERR_COMM, "Barrier of no communicator");
  // Arguments that are not significant on this rank may have any value.
  const MPI_Datatype any = rank == 0 ? MPI_INT : MPI_DATATYPE_NULL;
  expect(MPI_Gather(&word, 1, MPI_INT, many.data(), 1, any, 0, comm) == MPI_SUCCESS, "Gather");
  expect(MPI_Gatherv(&word, 1, MPI_INT, many.data(), rank == 0 ? lists.data() : nullptr,
                     rank == 0 ? lists.data() : nullptr, any, 0, comm) == MPI_SUCCESS,
         "Gatherv");
  expect(MPI_Scatter(many.data(), 1, any, &word, 1, MPI_INT, 0, comm) == MPI_SUCCESS, "Scatter");
  expect(MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, many.data(), 1, MPI_INT, comm) == MPI_SUCCESS, "Allgather");
  expect_sum(comm);
  MPI_Type_free(&uncommitted);
  MPI_Comm_free(&comm);
}

/// Wrong arguments that tutti detects, but an MPI may not.
void in_place() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int word = rank, sum = 0;
  expect(class_of(MPI_Allreduce(&word, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER,
         "into MPI_IN_PLACE");
  expect(class_of(MPI_Bcast(nullptr, 1, MPI_INT, 0, comm)) == MPI_ERR_BUFFER, "Bcast of null");
  expect(class_of(MPI_Allreduce(&word, nullptr, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER, "Allreduce into null");
  expect(class_of(MPI_Allreduce(&word, &word, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER, "Allreduce of one buffer");
  expect(class_of(MPI_Allreduce(&word, &sum, -1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_COUNT,
         "Allreduce of less than nothing");
  expect(class_of(MPI_Ibcast(&word, 1, MPI_INT, 0, comm, nullptr)) == MPI_ERR_ARG, "Ibcast without a request");
  expect(MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == sum_of_ranks(size), "a sum");
  MPI_Comm_free(&comm);
}

/// One rank refuses a call. The others take part in it, and get an error that names the rank and its reason.
void refused() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Datatype type = made_type(rank != 1);
  std::vector<int> words(64);
  MPI_Barrier(comm);
  int code = MPI_Bcast(words.data(), 1, type, 1, comm);
  if (rank == 1) {
    expect(class_of(code) == MPI_ERR_TYPE, "Bcast of an uncommitted type");
    code = MPI_Barrier(comm);  // must fail, because it matches no call of the others
  }
  const std::string text = text_of(code);
  expect(text.find("rank 1 does not take part in its MPI_Bcast, since a datatype is none") != text.npos, text.c_str());
  MPI_Type_free(&type);
  MPI_Comm_free(&comm);
}

/// The same in the first call of a communicator, if the rank's wrong argument makes it give the call to MPI.
void refused_by_mpi() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int sum = 0;
  int code = MPI_Allreduce(&rank, &sum, 1, rank == 1 ? MPI_DATATYPE_NULL : MPI_INT, MPI_SUM, comm);
  expect(code != MPI_SUCCESS, "Allreduce of no type");
  if (rank == 1) code = MPI_Barrier(comm);
  const std::string text = text_of(code);
  expect(text.find("rank 1 does not take part in its MPI_Allreduce") != text.npos, text.c_str());
  MPI_Comm_free(&comm);
}

/// Once the communicator has failed, wrong calls still give MPI's errors.
void refused_twice() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  int word = 0;
  MPI_Bcast(&word, 1, rank == 1 ? MPI_DATATYPE_NULL : MPI_INT, 0, comm);
  MPI_Barrier(comm);
  for (int turn = 0; turn < 2; ++turn)
    expect(class_of(MPI_Bcast(&word, 1, MPI_DATATYPE_NULL, 0, comm)) == MPI_ERR_TYPE, "Bcast of no type");
  MPI_Comm_free(&comm);
}

/// The same for a mistake that only tutti detects: the root receives more than it sends.
void refused_by_tutti() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  std::vector<int> all(static_cast<std::size_t>(size)), own(10);
  const int code = MPI_Scatter(all.data(), 1, MPI_INT, own.data(), rank == 0 ? 10 : 1, MPI_INT, 0, comm);
  expect(code != MPI_SUCCESS, "Scatter of one element into ten");
  MPI_Comm_free(&comm);
}

namespace {

/// Rank 1 makes a wrong call, and each rank gets an error in that call or in the next one.
void refused_here(const std::string& function, const std::function<int(MPI_Comm, bool)>& call) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  int code = call(comm, rank == 1);
  if (rank == 1) expect(code != MPI_SUCCESS, function.c_str());
  if (rank == 1 || code == MPI_SUCCESS) code = MPI_Barrier(comm);
  const std::string text = text_of(code);
  expect(text.find("rank 1 does not take part in its " + function + ",") != text.npos,
         (function + ": " + text).c_str());
  MPI_Comm_free(&comm);
}

}  // namespace

/// One rank's wrong argument, in each place that an MPI may not check, and in those that decide who makes the call.
void refused_of_every_kind() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // MPI_Wait() uses its handler
  MPI_Datatype good = made_type(true), bad = made_type(false);
  std::vector<int> sent(static_cast<std::size_t>(24 * size)), got(sent.size());
  const auto counts = [](bool wrong) { return wrong ? -1 : 1; };
  const auto type = [&](bool wrong) { return wrong ? bad : good; };
  refused_here("MPI_Allgather", [&](MPI_Comm comm, bool wrong) {
    return MPI_Allgather(sent.data(), 1, good, got.data(), 1, type(wrong), comm);
  });
  refused_here("MPI_Gather", [&](MPI_Comm comm, bool wrong) {
    return MPI_Gather(sent.data(), 1, good, got.data(), 1, type(wrong), 1, comm);
  });
  refused_here("MPI_Scatter", [&](MPI_Comm comm, bool wrong) {
    return MPI_Scatter(sent.data(), 1, type(wrong), got.data(), 1, good, 1, comm);
  });
  refused_here("MPI_Scatter", [&](MPI_Comm comm, bool wrong) {
    return MPI_Scatter(sent.data(), counts(wrong), good, got.data(), 1, good, 1, comm);
  });
  refused_here("MPI_Alltoall", [&](MPI_Comm comm, bool wrong) {
    return MPI_Alltoall(sent.data(), counts(wrong), good, got.data(), 1, good, comm);
  });
  refused_here("MPI_Allreduce", [&](MPI_Comm comm, bool wrong) {
    return MPI_Allreduce(sent.data(), got.data(), 1, MPI_INT, wrong ? MPI_OP_NULL : MPI_SUM, comm);
  });
  refused_here("MPI_Allreduce", [&](MPI_Comm comm, bool wrong) {
    return MPI_Allreduce(sent.data(), got.data(), 1, wrong ? MPI_DOUBLE : MPI_LONG, MPI_BAND, comm);
  });
  refused_here("MPI_Ibcast", [&](MPI_Comm comm, bool wrong) {
    MPI_Request request;
    const int code = MPI_Ibcast(sent.data(), 1, type(wrong), 1, comm, &request);
    if (code == MPI_SUCCESS) expect(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS, "Wait for a refused call");
    return code;
  });
  MPI_Type_free(&good);
  MPI_Type_free(&bad);
}

/// Rank 1 cannot allocate the memory for a copy.
void refused_for_memory() {
  constexpr int elements = 16 << 20;
  std::vector<int> words(2 * elements);
  MPI_Datatype type;
  MPI_Type_vector(elements, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  refused_here("MPI_Bcast", [&](MPI_Comm comm, bool wrong) {
    rlimit usual{};
    getrlimit(RLIMIT_AS, &usual);
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit little{static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (8 << 20)), usual.rlim_max};
    if (wrong) setrlimit(RLIMIT_AS, &little);
    const int code = MPI_Bcast(words.data(), 1, type, 1, comm);
    if (wrong) setrlimit(RLIMIT_AS, &usual);
    return code;
  });
  MPI_Type_free(&type);
}

}  // namespace behaviour

// What an MPI program may do around its collectives, one scene for each argument; prints "ok" once. Without a preload
// all scenes must pass too, except `mismatch`, `in-place` and the `refused` ones, and `freed` under Open MPI, which
// fails when a communicator is freed.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/mpi/behaviour.hpp"

using namespace behaviour;

namespace {

/// Rank 0's send completes only if rank 1, which waits in a collective, drives MPI's progress meanwhile.
void large_send() {
  std::vector<char> message(std::size_t{64} << 20, 'm');
  const int bytes = static_cast<int>(message.size());
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1) MPI_Irecv(message.data(), bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
  if (rank == 0) MPI_Send(message.data(), bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
  expect_sum(MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// Rank 1 waits for a message while the others need its part of a collective.
void waiting_in_a_message() {
  std::vector<int> all(100000, 1);
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE, all.data(), static_cast<int>(all.size()), MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (rank != 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
  char word = 0;
  if (rank == 0) MPI_Send(&word, 1, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Recv(&word, 1, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  expect(std::ranges::all_of(all, [](int x) { return x == size; }), "a sum is wrong");
}

void new_communicator() {
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  for (int turn = 0; turn < 3; ++turn) {
    int sum = 0;
    MPI_Request request;
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy, &request);
    if (turn != 1) expect_sum(copy);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(request == MPI_REQUEST_NULL && sum == sum_of_ranks(size), "Iallreduce on a new communicator");
  }
  MPI_Comm_free(&copy);
}

/// A message and two collectives, completed by each function that completes requests.
void requests() {
  const auto next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int way = 0; way < 6; ++way) {
    int sum = 0, root_word = rank == 0 ? way : -1, token = -1;
    MPI_Request all[4];
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all[0]);
    MPI_Irecv(&token, 1, MPI_INT, before, way, MPI_COMM_WORLD, &all[1]);
    MPI_Ibcast(&root_word, 1, MPI_INT, 0, MPI_COMM_WORLD, &all[2]);
    MPI_Isend(&rank, 1, MPI_INT, next, way, MPI_COMM_WORLD, &all[3]);
    MPI_Status statuses[4];
    int left = 4, index = 0, done = 0, indices[4];
    switch (way) {
      case 0: MPI_Waitall(4, all, statuses); break;
      case 1:
        for (; left > 0; --left) {
          MPI_Waitany(4, all, &index, statuses);
          expect(index >= 0 && index < 4 && all[index] == MPI_REQUEST_NULL, "Waitany");
        }
        break;
      case 2:
        while (left > 0) {
          MPI_Waitsome(4, all, &done, indices, statuses);
          expect(done > 0, "Waitsome");
          left -= std::max(done, 1);
        }
        break;
      case 3:
        for (done = 0; !done;) MPI_Testall(4, all, &done, statuses);
        break;
      case 4:
        while (left > 0) {
          MPI_Testany(4, all, &index, &done, statuses);
          if (done) --left;
        }
        break;
      default:
        while (left > 0) {
          MPI_Testsome(4, all, &done, indices, statuses);
          left -= done;
        }
    }
    for (const MPI_Request one : all) expect(one == MPI_REQUEST_NULL, "a request was not ended");
    expect(sum == sum_of_ranks(size) && root_word == way && token == before, "a result is wrong");
  }
  int sum = 0, done = 0;
  MPI_Request request;
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  while (!done) MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
  expect(request != MPI_REQUEST_NULL && sum == sum_of_ranks(size), "Request_get_status");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// Cancels a receive without a sender, before and while a collective's request is open.
void cancel() {
  for (const bool after : {false, true}) {
    int sum = 0, word = -1, cancelled = 0;
    MPI_Request all[2];
    MPI_Irecv(&word, 1, MPI_INT, (rank + 1) % size, 99, MPI_COMM_WORLD, &all[0]);
    if (!after) MPI_Cancel(&all[0]);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all[1]);
    if (after) MPI_Cancel(&all[0]);
    MPI_Status statuses[2];
    MPI_Waitall(2, all, statuses);
    MPI_Test_cancelled(&statuses[0], &cancelled);
    expect(cancelled && word == -1, "a receive was not taken back");
    MPI_Test_cancelled(&statuses[1], &cancelled);
    expect(!cancelled && sum == sum_of_ranks(size), "the collective beside it");
  }
}

/// Several threads make collectives at once, each on its own communicator.
void threads() {
  constexpr int many = 3;
  std::vector<MPI_Comm> comms(many);
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> all;
  for (const MPI_Comm comm : comms)
    all.emplace_back([comm] {
      for (int i = 0; i < 50; ++i) {
        expect_sum(comm);
        int sum = 0;
        MPI_Request request;
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(sum == sum_of_ranks(size), "a thread's sum is wrong");
      }
    });
  for (std::thread& one : all) one.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

/// Frees type, operator and communicator of calls in flight, and creates others, which may get the same handles.
void freed() {
  for (int turn = 0; turn < 100; ++turn) {
    std::vector<int> words(64, -1), blocks(static_cast<std::size_t>(64 * size), -1);
    if (rank == 0)
      for (int i = 0; i < 64; ++i) words[static_cast<std::size_t>(i)] = turn + i;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(comm);
    MPI_Datatype type = made_type(true);
    MPI_Op op;
    MPI_Op_create(
        [](void* in, void* out, int* count, MPI_Datatype*) {
          for (int i = 0; i < *count; ++i) static_cast<int*>(out)[i] += static_cast<int*>(in)[i];
        },
        1, &op);
    int sum = 0, plain = 0;
    MPI_Request all[4];
    MPI_Ibcast(words.data(), 2, type, 0, comm, &all[0]);
    MPI_Iallgather(&rank, 1, MPI_INT, blocks.data(), 1, MPI_INT, comm, &all[1]);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, &all[2]);  // a user's operator, so MPI makes the call
    MPI_Iallreduce(&rank, &plain, 1, MPI_INT, MPI_SUM, comm, &all[3]);
    MPI_Type_free(&type);
    MPI_Op_free(&op);
    MPI_Comm_free(&comm);
    MPI_Datatype others[2];
    MPI_Type_vector(8, 1, 4, MPI_INT, &others[0]);
    MPI_Type_vector(2, 1, 2, MPI_CHAR, &others[1]);
    for (MPI_Datatype& one : others) MPI_Type_commit(&one);
    MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
    for (MPI_Datatype& one : others) MPI_Type_free(&one);
    for (int i = 0; i < 8; ++i) {
      const auto first = static_cast<std::size_t>(3 * i), second = first + 22;
      expect(words[first] == turn + 3 * i && words[second] == turn + 22 + 3 * i, "a word of a freed type");
    }
    for (int i = 0; i < size; ++i) expect(blocks[static_cast<std::size_t>(i)] == i, "a block");
    expect(sum == sum_of_ranks(size) && plain == sum, "a sum of a freed operator or communicator");
  }
}

/// Ranks make different calls: they get an error with a text. MPI itself would not detect this.
void mismatch() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::vector<int> in(8, 1), out(8);
  const int code = MPI_Allreduce(in.data(), out.data(), rank == 0 ? 8 : 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(code != MPI_SUCCESS, "nobody noticed");
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  expect(std::strstr(text, "tutti: ") != nullptr, text);
  std::fflush(stdout);
}

/// Communicators whose calls MPI makes itself.
void others() {
  expect_sum(MPI_COMM_SELF);
  MPI_Comm half, between;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  expect_sum(half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, 3, &between);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, between);
  int wanted = 0;
  for (int i = 0; i < size; ++i)
    if (i % 2 != rank % 2) wanted += i;
  expect(sum == wanted, "a sum between groups");
  std::vector<int> words(static_cast<std::size_t>(size));
  if (rank % 2 == 1)
    MPI_Gather(&rank, 1, MPI_INT, nullptr, 0, MPI_DATATYPE_NULL, 0, between);
  else
    MPI_Gather(nullptr, 0, MPI_DATATYPE_NULL, words.data(), 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, between);
  for (int i = 1; rank == 0 && i < size; i += 2)
    expect(words[static_cast<std::size_t>(i / 2)] == i, "a Gather between groups");
  MPI_Barrier(between);
  MPI_Comm_disconnect(&between);
  MPI_Comm_free(&half);
}

/// Types of absolute addresses, which count from MPI_BOTTOM.
void bottom() {
  std::vector<int> sent(static_cast<std::size_t>(8 * size), rank), got(static_cast<std::size_t>(8 * size), -1);
  const auto at = [](const int* words) {
    MPI_Datatype pair, type;
    const int two[] = {1, 1};
    MPI_Aint places[2];
    MPI_Get_address(words, &places[0]);
    MPI_Get_address(words + 2, &places[1]);
    MPI_Type_create_hindexed(2, two, places, MPI_INT, &pair);
    MPI_Type_create_resized(pair, places[0], 4 * sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&pair);
    return type;
  };
  MPI_Datatype from = at(sent.data()), to = at(got.data());
  const auto expect_every_second = [&](const char* what) {
    for (int i = 0; i < 8 * size; ++i) {
      expect(got[static_cast<std::size_t>(i)] == (i % 2 == 0 ? i / 8 : -1), what);
      got[static_cast<std::size_t>(i)] = -1;
    }
  };
  MPI_Allgather(MPI_BOTTOM, 2, from, MPI_BOTTOM, 2, to, MPI_COMM_WORLD);
  expect_every_second("Allgather at MPI_BOTTOM");
  MPI_Request request;
  MPI_Iallgather(MPI_BOTTOM, 2, from, MPI_BOTTOM, 2, to, MPI_COMM_WORLD, &request);
  MPI_Type_free(&from);
  MPI_Type_free(&to);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_every_second("Iallgather at MPI_BOTTOM");
}

/// Open MPI 4.1 saturates sums of chars, and MPICH 4.0 compares unsigned chars as if they had a sign. Prints "alike" if
/// this MPI does neither.
void differing() {
  std::vector<signed char> hundred(64, 100), sum(64);
  std::vector<unsigned char> mixed(64, rank == 0 ? 100 : 200), most(64);
  PMPI_Allreduce(hundred.data(), sum.data(), 64, MPI_SIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
  PMPI_Allreduce(mixed.data(), most.data(), 64, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
  const bool alike = sum[0] == static_cast<signed char>(100 * size) && most[0] == 200;
  if (alike && rank == 0) std::printf("alike\n");
  MPI_Allreduce(hundred.data(), sum.data(), 64, MPI_SIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(mixed.data(), most.data(), 64, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
  expect(sum[0] == static_cast<signed char>(100 * size) && most[0] == 200, "a small integer is wrong");
}

void nothing() {}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> scenes = {{"large-send", large_send},
                                                               {"waiting", waiting_in_a_message},
                                                               {"new", new_communicator},
                                                               {"requests", requests},
                                                               {"cancel", cancel},
                                                               {"threads", threads},
                                                               {"errors", errors},
                                                               {"mismatch", mismatch},
                                                               {"freed", freed},
                                                               {"in-place", in_place},
                                                               {"refused", refused},
                                                               {"refused-by-mpi", refused_by_mpi},
                                                               {"refused-by-tutti", refused_by_tutti},
                                                               {"refused-twice", refused_twice},
                                                               {"refused-of-every-kind", refused_of_every_kind},
                                                               {"refused-for-memory", refused_for_memory},
                                                               {"others", others},
                                                               {"bottom", bottom},
                                                               {"differing", differing},
                                                               {"nothing", nothing}};
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "threads") == 0 && level < MPI_THREAD_MULTIPLE) continue;
    scenes.at(argv[i])();
  }
  int all_failures = 0;
  PMPI_Allreduce(&failures, &all_failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%s\n", all_failures == 0 ? "ok" : "failed");
  MPI_Finalize();
  return all_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

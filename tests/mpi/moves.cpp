// Compares calls that only move data with their PMPI twins: layouts, lists, roots, in place.
#include <array>

#include "tests/mpi/twins.hpp"

namespace twins {
namespace {

/// Four ints of data per element: contiguous, every second int, in reverse order, or contiguous with a gap at the end.
struct Layout {
  MPI_Datatype type;
  std::size_t extent;
};
std::array<Layout, 4> layouts() {
  static const std::array<Layout, 4> made_once = [] {
    std::array<Layout, 4> all;
    MPI_Type_contiguous(4, MPI_INT, &all[0].type);
    MPI_Type_vector(4, 1, 2, MPI_INT, &all[1].type);
    const int lengths[] = {1, 1, 1, 1}, places[] = {3, 2, 1, 0};
    MPI_Type_indexed(4, lengths, places, MPI_INT, &all[2].type);
    MPI_Type_create_resized(all[0].type, 0, 24, &all[3].type);
    for (Layout& one : all) {
      MPI_Aint lower = 0, extent = 0;
      MPI_Type_commit(&one.type);
      MPI_Type_get_extent(one.type, &lower, &extent);
      one.extent = static_cast<std::size_t>(extent);
    }
    return all;
  }();
  return made_once;
}

/// The buffers of one call on this rank. Other ranks may use other layouts.
struct Buffers {
  Memory in, ours, theirs;
  void prepare(std::size_t in_bytes, std::size_t out_bytes, int seed) {
    in.assign(in_bytes + 64, 0);
    ours.assign(out_bytes + 64, 0);
    fill(in, seed);
    fill(ours, seed + 100);
    theirs = ours;
  }
};

void blocks(const Where& where, const Layout& sent, const Layout& received, int count, int root) {
  const auto n = static_cast<std::size_t>(count), all = n * static_cast<std::size_t>(where.size);
  const std::string what = " of " + std::to_string(count) + " from " + std::to_string(root);
  Buffers b;

  b.prepare(0, n * sent.extent, where.rank);
  perform(true, "Bcast", MPI_Bcast, MPI_Ibcast, b.ours.data(), count, sent.type, root, where.comm);
  PMPI_Bcast(b.theirs.data(), count, sent.type, root, where.comm);
  expect_equal(b.ours, b.theirs, "Bcast" + what, where);

  for (const bool in_place : {false, true}) {
    const void* const in_place_mark = MPI_IN_PLACE;
    b.prepare(n * sent.extent, all * received.extent, where.rank);
    const void* from = in_place ? in_place_mark : b.in.data();
    perform(true, "Allgather", MPI_Allgather, MPI_Iallgather, from, count, sent.type, b.ours.data(), count,
            received.type, where.comm);
    PMPI_Allgather(from, count, sent.type, b.theirs.data(), count, received.type, where.comm);
    expect_equal(b.ours, b.theirs, "Allgather" + what, where);

    b.prepare(all * sent.extent, all * received.extent, where.rank);
    from = in_place ? in_place_mark : b.in.data();
    perform(true, "Alltoall", MPI_Alltoall, MPI_Ialltoall, from, count, sent.type, b.ours.data(), count, received.type,
            where.comm);
    PMPI_Alltoall(from, count, sent.type, b.theirs.data(), count, received.type, where.comm);
    expect_equal(b.ours, b.theirs, "Alltoall" + what, where);

    b.prepare(n * sent.extent, all * received.extent, where.rank);
    from = in_place && where.rank == root ? in_place_mark : b.in.data();
    perform(true, "Gather", MPI_Gather, MPI_Igather, from, count, sent.type, b.ours.data(), count, received.type, root,
            where.comm);
    PMPI_Gather(from, count, sent.type, b.theirs.data(), count, received.type, root, where.comm);
    expect_equal(b.ours, b.theirs, "Gather" + what, where);

    b.prepare(all * sent.extent, n * received.extent, where.rank);
    const bool kept = in_place && where.rank == root;
    void* const mark = const_cast<void*>(in_place_mark);
    perform(true, "Scatter", MPI_Scatter, MPI_Iscatter, b.in.data(), count, sent.type, kept ? mark : b.ours.data(),
            count, received.type, root, where.comm);
    PMPI_Scatter(b.in.data(), count, sent.type, kept ? mark : b.theirs.data(), count, received.type, root, where.comm);
    expect_equal(b.ours, b.theirs, "Scatter" + what, where);
  }
}

/// Counts and displacements: packed (form 0), with gaps (form 1), or in reverse order (form 2).
struct List {
  std::vector<int> counts, displs;
  std::size_t end = 0;
};
List list_of(const std::vector<int>& counts, int form) {
  List made_list{counts, std::vector<int>(counts.size()), 0};
  int next = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::size_t i = form == 2 ? counts.size() - 1 - k : k;
    made_list.displs[i] = next;
    next += counts[i] + (form == 1 ? 1 : 0);
  }
  made_list.end = static_cast<std::size_t>(next);
  return made_list;
}

void lists(const Where& where, const Layout& sent, const Layout& received, int form, int root) {
  std::vector<int> each;  // rank i's count; rank 1 has none
  for (int i = 0; i < where.size; ++i) each.push_back(i == 1 ? 0 : i + 2);
  const int own = each[static_cast<std::size_t>(where.rank)];
  const List list = list_of(each, form);
  const std::string what = " in form " + std::to_string(form) + " from " + std::to_string(root);
  const void* const mark = MPI_IN_PLACE;
  Buffers b;
  for (const bool in_place : {false, true}) {
    b.prepare(static_cast<std::size_t>(own) * sent.extent, list.end * received.extent, where.rank);
    const void* from = in_place ? mark : b.in.data();
    perform(true, "Allgatherv", MPI_Allgatherv, MPI_Iallgatherv, from, own, sent.type, b.ours.data(),
            list.counts.data(), list.displs.data(), received.type, where.comm);
    PMPI_Allgatherv(from, own, sent.type, b.theirs.data(), list.counts.data(), list.displs.data(), received.type,
                    where.comm);
    expect_equal(b.ours, b.theirs, "Allgatherv" + what, where);

    b.prepare(static_cast<std::size_t>(own) * sent.extent, list.end * received.extent, where.rank);
    from = in_place && where.rank == root ? mark : b.in.data();
    const bool at_root = where.rank == root;  // other ranks need not pass the lists
    const int* const counts = at_root ? list.counts.data() : nullptr;
    const int* const displs = at_root ? list.displs.data() : nullptr;
    perform(true, "Gatherv", MPI_Gatherv, MPI_Igatherv, from, own, sent.type, b.ours.data(), counts, displs,
            received.type, root, where.comm);
    PMPI_Gatherv(from, own, sent.type, b.theirs.data(), counts, displs, received.type, root, where.comm);
    expect_equal(b.ours, b.theirs, "Gatherv" + what, where);

    b.prepare(list.end * sent.extent, static_cast<std::size_t>(own) * received.extent, where.rank);
    void* const kept = const_cast<void*>(mark);
    const bool keeps = in_place && at_root;
    perform(true, "Scatterv", MPI_Scatterv, MPI_Iscatterv, b.in.data(), counts, displs, sent.type,
            keeps ? kept : b.ours.data(), own, received.type, root, where.comm);
    PMPI_Scatterv(b.in.data(), counts, displs, sent.type, keeps ? kept : b.theirs.data(), own, received.type, root,
                  where.comm);
    expect_equal(b.ours, b.theirs, "Scatterv" + what, where);
  }

  // Rank i sends (i + j) % 3 elements to rank j. In place, both ranks of a pair thus send equally many.
  std::vector<int> pairs;
  for (int j = 0; j < where.size; ++j) pairs.push_back((where.rank + j) % 3);
  const List out = list_of(pairs, form), in = list_of(pairs, (form + 1) % 3);
  for (const bool in_place : {false, true}) {
    b.prepare(in.end * sent.extent, out.end * received.extent, where.rank);
    const void* const from = in_place ? mark : b.in.data();
    perform(true, "Alltoallv", MPI_Alltoallv, MPI_Ialltoallv, from, in.counts.data(), in.displs.data(), sent.type,
            b.ours.data(), out.counts.data(), out.displs.data(), received.type, where.comm);
    PMPI_Alltoallv(from, in.counts.data(), in.displs.data(), sent.type, b.theirs.data(), out.counts.data(),
                   out.displs.data(), received.type, where.comm);
    expect_equal(b.ours, b.theirs, "Alltoallv" + what, where);
  }
}

}  // namespace

void moves(const Where& where) {
  const auto all = layouts();
  for (const int count : {0, 1, 3, 500}) {
    if (brief && count == 3) continue;
    for (int turn = 0; turn < 4; ++turn) {
      // Each rank describes the same four numbers by another layout.
      const auto mine = static_cast<std::size_t>((turn + where.rank) % 4),
                 other = static_cast<std::size_t>((turn + 1) % 4);
      blocks(where, all[mine], all[other], count, turn % where.size);
      if (count == 1)
        for (int form = 0; form < 3; ++form) lists(where, all[other], all[mine], form, turn % where.size);
    }
  }
  perform(true, "Barrier", MPI_Barrier, MPI_Ibarrier, where.comm);
}

}  // namespace twins

// Open MPI's collectives, measured with the benchmark's loop. Starts itself under mpirun.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "tools/bench/measure.hpp"
#include "tools/options.hpp"

namespace tutti::bench {
namespace {

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::i8: return MPI_INT8_T;
    case DType::u8: return MPI_UINT8_T;
    case DType::i16: return MPI_INT16_T;
    case DType::i32: return MPI_INT32_T;
    case DType::i64: return MPI_INT64_T;
    case DType::f32: return MPI_FLOAT;
    case DType::f64: return MPI_DOUBLE;
    default: return MPI_DATATYPE_NULL;
  }
}

MPI_Op op_of(Op op) {
  switch (op) {
    case Op::sum: return MPI_SUM;
    case Op::prod: return MPI_PROD;
    case Op::min: return MPI_MIN;
    case Op::max: return MPI_MAX;
    case Op::band: return MPI_BAND;
    case Op::bor: return MPI_BOR;
    case Op::bxor: return MPI_BXOR;
    default: return MPI_OP_NULL;
  }
}

class OpenMpi : public Implementation {
 public:
  OpenMpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  std::string name() const override { return "openmpi"; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::string refuses(const Case& what) const override {
    if (type_of(what.dtype) == MPI_DATATYPE_NULL)
      return "openmpi has no type for " + std::string(tutti::name(what.dtype));
    if (what.reduces() && op_of(what.op.op) == MPI_OP_NULL)
      return "openmpi has no op for " + std::string(tutti::name(what.op.op));
    if (what.count > 0x7fffffff) return "openmpi's counts end at 2^31 - 1";
    return {};
  }

  void run(const Case& what, const std::byte* from, std::byte* into) override {
    const MPI_Datatype type = type_of(what.dtype);
    const int count = static_cast<int>(what.count);
    const bool here = what.in_place, at_root = rank_ == what.root;
    const void* in = here ? MPI_IN_PLACE : from;
    const MPI_Comm comm = MPI_COMM_WORLD;
    switch (what.kind) {
      case Kind::allreduce: MPI_Allreduce(in, into, count, type, op_of(what.op.op), comm); break;
      case Kind::reduce:
        MPI_Reduce(here && at_root ? MPI_IN_PLACE : from, into, count, type, op_of(what.op.op), what.root, comm);
        break;
      case Kind::broadcast: MPI_Bcast(into, count, type, what.root, comm); break;
      case Kind::allgather: MPI_Allgather(in, count, type, into, count, type, comm); break;
      case Kind::reduce_scatter: MPI_Reduce_scatter_block(in, into, count, type, op_of(what.op.op), comm); break;
      case Kind::gather:
        MPI_Gather(here && at_root ? MPI_IN_PLACE : from, count, type, into, count, type, what.root, comm);
        break;
      case Kind::scatter:
        MPI_Scatter(from, count, type, here && at_root ? MPI_IN_PLACE : into, count, type, what.root, comm);
        break;
      case Kind::alltoall: MPI_Alltoall(in, count, type, into, count, type, comm); break;
      case Kind::barrier: MPI_Barrier(comm); break;
      case Kind::send:
        MPI_Sendrecv(from, count, type, (rank_ + 1) % ranks_, 0, into, count, type, (rank_ + ranks_ - 1) % ranks_, 0,
                     comm, MPI_STATUS_IGNORE);
        break;
    }
  }

 private:
  int rank_ = 0, ranks_ = 1;
};

[[noreturn]] void launch(const Request& request, int count, char** words) {
  const int ranks = request.ranks > 0 ? request.ranks : 2;
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  // Default settings, but for what more ranks than cores need in order to run at all.
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
  std::vector<std::string> launcher = {PEER_MPIRUN, "-n", std::to_string(ranks)};
  launcher.insert(launcher.end(), words, words + count);
  launch_with_board(launcher, ranks);
}

int run(int count, char** words) {
  const Request request = parse_request("openmpi", {words + 1, words + count});
  const char* board = std::getenv(board_variable);
  if (!board) launch(request, count, words);
  MPI_Init(nullptr, nullptr);
  OpenMpi peer;
  int code = 1;
  try {
    code = measure_and_print(peer, *open_shared_board(board, peer.rank(), peer.ranks()), request);
  } catch (const std::exception& error) {
    if (peer.rank() == 0) std::fprintf(stderr, "openmpi: %s\n", error.what());
  }
  MPI_Finalize();
  return code;
}

}  // namespace
}  // namespace tutti::bench

int main(int count, char** words) {
  try {
    return tutti::bench::run(count, words);
  } catch (const tutti::tools::Finished& finished) {
    return finished.exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "openmpi: %s\n", error.what());
    return 2;
  }
}

// An MPI's collectives, measured with the benchmark's loop. The one source is compiled with each MPI's own headers.
#include <mpi.h>

#include <sstream>

#include "benchmarks/peers/peer.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

constexpr const char* family =
#if defined(OPEN_MPI)
    "openmpi";
#elif defined(I_MPI_VERSION)
    "intel";
#elif defined(MPICH_VERSION)
    "mpich";
#else
    "mpi";
#endif

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::i8: return MPI_INT8_T;
    case DType::u8: return MPI_UINT8_T;
    case DType::i16: return MPI_INT16_T;
    case DType::i32: return MPI_INT32_T;
    case DType::i64: return MPI_INT64_T;
    case DType::u16: return MPI_UINT16_T;
    case DType::u32: return MPI_UINT32_T;
    case DType::u64: return MPI_UINT64_T;
    case DType::f32: return MPI_FLOAT;
    case DType::f64: return MPI_DOUBLE;
#if defined(MPIX_C_BF16)
    case DType::bf16: return MPIX_C_BF16;
#elif defined(MPIX_BFLOAT16)
    case DType::bf16: return MPIX_BFLOAT16;
#endif
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

class Mpi : public Implementation {
 public:
  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  std::string name() const override { return family; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::string refuses(const Case& what) const override {
    if (type_of(what.dtype) == MPI_DATATYPE_NULL) return "MPI has no type for " + std::string(tutti::name(what.dtype));
    if (what.reduces() && op_of(what.op.op) == MPI_OP_NULL)
      return "MPI has no op for " + std::string(tutti::name(what.op.op));
    if (what.count > 0x7fffffff) return "MPI's counts end at 2^31 - 1";
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

  void run_beside(const Case& what, const std::byte* from, std::byte* into,
                  const std::function<void()>& compute) override {
    MPI_Request request = begin(what, from, into);
    compute();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }

 private:
  /// Starts a nonblocking call, out of place.
  MPI_Request begin(const Case& what, const std::byte* in, std::byte* into) {
    const MPI_Datatype type = type_of(what.dtype);
    const int count = static_cast<int>(what.count);
    const MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    switch (what.kind) {
      case Kind::allreduce: MPI_Iallreduce(in, into, count, type, op_of(what.op.op), comm, &request); break;
      case Kind::reduce: MPI_Ireduce(in, into, count, type, op_of(what.op.op), what.root, comm, &request); break;
      case Kind::broadcast: MPI_Ibcast(into, count, type, what.root, comm, &request); break;
      case Kind::allgather: MPI_Iallgather(in, count, type, into, count, type, comm, &request); break;
      case Kind::reduce_scatter:
        MPI_Ireduce_scatter_block(in, into, count, type, op_of(what.op.op), comm, &request);
        break;
      case Kind::gather: MPI_Igather(in, count, type, into, count, type, what.root, comm, &request); break;
      case Kind::scatter: MPI_Iscatter(in, count, type, into, count, type, what.root, comm, &request); break;
      case Kind::alltoall: MPI_Ialltoall(in, count, type, into, count, type, comm, &request); break;
      case Kind::barrier: MPI_Ibarrier(comm, &request); break;
      case Kind::send: throw Error(Code::invalid, "MPI 3 has no nonblocking sendrecv");
    }
    return request;
  }

  int rank_ = 0, ranks_ = 1;
};

/// The first line of the version, with single spaces between words: "Open MPI v5.0.11", "MPICH Version: 4.0.2".
std::string version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);  // may be called before MPI_Init
  const std::string whole(text);
  std::string line;
  std::istringstream words(whole.substr(0, whole.find_first_of("\n,")));
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

int work(const Task& task) {
  MPI_Init(nullptr, nullptr);
  int code;
  {
    Mpi peer;
    code = measure_peer(peer, task);
  }
  if (code > 2) MPI_Abort(MPI_COMM_WORLD, code);  // other ranks may be inside a call that never ends
  MPI_Finalize();
  return code;
}

}  // namespace
}  // namespace tutti::bench

int main(int count, char** words) {
  return tutti::bench::peer_main(count, words, tutti::bench::family, tutti::bench::version, tutti::bench::work);
}

#include "transports/mpi/session.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>

#include "transports/mpi/family.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"

namespace tutti::mpi {
namespace {

Session* the_session = nullptr;

/// tutti's fold as an MPI_User_function. Commutative.
template <DType dtype, Op op>
void fold(void* in, void* inout, int* count, MPI_Datatype*) {
  auto* const into = static_cast<std::byte*>(inout);
  Fold{dtype, op, 1.0}(into, into, static_cast<const std::byte*>(in),
                       static_cast<std::size_t>(*count) * size_of(dtype));
}

struct OwnFold {
  DType dtype;
  Op op;
  MPI_User_function* function;
};

template <DType dtype>
constexpr std::array<OwnFold, 4> arithmetic{{{dtype, Op::sum, fold<dtype, Op::sum>},
                                             {dtype, Op::prod, fold<dtype, Op::prod>},
                                             {dtype, Op::min, fold<dtype, Op::min>},
                                             {dtype, Op::max, fold<dtype, Op::max>}}};

// The operations for which tutti's folds are used. MPI has no 16-bit floating point types, and its min and max do not
// define the result for NaN. MPI libraries differ on integers: Open MPI 4.1 saturates sums of 8 and 16 bits, and MPICH
// 4.0 compares MPI_UINT8_T as signed. So all integers of 8 and 16 bits and all unsigned ones use tutti's folds.
constexpr std::array<OwnFold, 4> whole_rows[] = {arithmetic<DType::i8>,  arithmetic<DType::u8>,  arithmetic<DType::i16>,
                                                 arithmetic<DType::u16>, arithmetic<DType::u32>, arithmetic<DType::u64>,
                                                 arithmetic<DType::f16>, arithmetic<DType::bf16>};
constexpr OwnFold single_cells[] = {{DType::f32, Op::min, fold<DType::f32, Op::min>},
                                    {DType::f32, Op::max, fold<DType::f32, Op::max>},
                                    {DType::f64, Op::min, fold<DType::f64, Op::min>},
                                    {DType::f64, Op::max, fold<DType::f64, Op::max>}};

std::string level_name(int level) {
  if (level == MPI_THREAD_SINGLE) return "MPI_THREAD_SINGLE";
  if (level == MPI_THREAD_FUNNELED) return "MPI_THREAD_FUNNELED";
  return level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE";
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

}  // namespace

Session& Session::begin(const Settings& settings) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (the_session != nullptr) return *the_session;
  const Library& mpi = library(settings);
  if (!mpi.missing.empty()) throw Error(Code::resource, "the provider mpi: " + mpi.missing);
  int begun = 0, level = MPI_THREAD_SINGLE;
  mpi.call.initialized(&begun);
  if (begun)
    mpi.call.query_thread(&level);
  else if (mpi.call.init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
    throw Error(Code::resource, "MPI_Init_thread of " + mpi.path + " failed");
  // before the checks that throw, so that MPI is finalised if it was initialised here
  the_session = new Session(mpi, begun == 0, level);
  if (level < MPI_THREAD_SERIALIZED)
    throw Error(Code::unsupported, "MPI gives no more than " + level_name(level) + ", and tutti needs " +
                                       level_name(MPI_THREAD_SERIALIZED) +
                                       ": ask MPI_Init_thread() for it, or use another backend");
  if (level < MPI_THREAD_MULTIPLE)
    log(LogLevel::info, "MPI gives " + level_name(level) +
                            " instead of MPI_THREAD_MULTIPLE: tutti calls it from one "
                            "thread at a time, and the program must not call it at the same time");
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  mpi.call.library_version(version, &length);
  log(LogLevel::info, "mpi is " + first_line(version) + " from " + mpi.path +
                          (begun ? ", initialised by the program" : ", initialised by tutti"));
  return *the_session;
}

Session::Session(const Library& library, bool ours, int level)
    : call(library.call),
      handles(predefined_handles(library.handle)),
      ours_(ours),
      one_thread_(level < MPI_THREAD_MULTIPLE),
      generation_(fork_generation()) {
  create_ops();
  call_at_finalize();
  std::atexit(at_exit);
}

void Session::create_ops() {
  for (std::size_t o = 0; o < ops_.size(); ++o) ops_[o].fill(handles.ops[o]);
  const auto create = [&](const OwnFold& own) {
    MPI_Op made{};
    check(call.op_create(own.function, 1, &made), "MPI_Op_create");
    const auto set = [&](Op op) { ops_[static_cast<std::size_t>(op)][static_cast<std::size_t>(own.dtype)] = made; };
    set(own.op);
    if (own.op != Op::sum) return;
    set(Op::avg);
    set(Op::premul_sum);
  };
  for (const auto& row : whole_rows) std::ranges::for_each(row, create);
  std::ranges::for_each(single_cells, create);
}

std::unique_lock<std::recursive_mutex> Session::turn() {
  return one_thread_ ? std::unique_lock(mutex_) : std::unique_lock<std::recursive_mutex>();
}

MPI_Op Session::op(Op op, DType dtype) const {
  return ops_[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
}

MPI_Datatype Session::many(std::size_t count, DType dtype, std::size_t at) {
  constexpr std::size_t part = std::size_t{1} << 30;
  MPI_Datatype whole{}, made{};
  check(call.type_contiguous(static_cast<int>(part), type(dtype), &whole), "MPI_Type_contiguous");
  const int lengths[] = {static_cast<int>(count / part), static_cast<int>(count % part)};
  const MPI_Aint places[] = {static_cast<MPI_Aint>(at),
                             static_cast<MPI_Aint>(at + count / part * part * size_of(dtype))};
  const MPI_Datatype types[] = {whole, type(dtype)};
  check(call.type_create_struct(2, lengths, places, types, &made), "MPI_Type_create_struct");
  check(call.type_commit(&made), "MPI_Type_commit");
  call.type_free(&whole);
  return made;
}

MPI_Comm Session::world(std::int64_t base) const { return base == no_native ? handles.world : communicator_of(base); }

void Session::check_ranks(std::int64_t base, int world_size, int world_rank) {
  const auto one_at_a_time = turn();
  int rank = 0, size = 0;
  check(call.comm_size(world(base), &size), "MPI_Comm_size");
  check(call.comm_rank(world(base), &rank), "MPI_Comm_rank");
  if (size != world_size || rank != world_rank)
    throw Error(Code::invalid,
                "MPI says that this is rank " + std::to_string(rank) + " of " + std::to_string(size) +
                    ", but the job says rank " + std::to_string(world_rank) + " of " + std::to_string(world_size) +
                    ": start the program with the mpiexec of the same MPI (TUTTI_MPI_LIBRARY names another library)");
}

Status Session::status(int code, const char* function) const {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "no reason given";
  int length = 0, kind = 0;
  call.error_string(code, text, &length);
  call.error_class(code, &kind);
  return Status::failure(kind == MPI_ERR_TRUNCATE ? Code::mismatch : Code::resource,
                         std::string(function) + " failed: " + first_line(text));
}

void Session::check(int code, const char* function) const {
  if (const Status outcome = status(code, function); !outcome.ok())
    throw Error(outcome.cause(), std::string(outcome.text()));
}

void Session::join() noexcept {
  const std::lock_guard lock(users_mutex_);
  ++users_;
}

void Session::leave() noexcept {
  const std::lock_guard lock(users_mutex_);
  if (--users_ == 0 && exiting_) finalize();
}

bool Session::ended() const {
  if (ending() || fork_generation() != generation_) return true;  // in a forked child MPI belongs to the parent
  int is = 0;
  call.finalized(&is);
  return is != 0;
}

// If communicators still exist, as globals of the program, the end of the last one finalises MPI.
void Session::at_exit() {
  Session& session = *the_session;
  if (fork_generation() != session.generation_) return;  // MPI belongs to the parent
  const std::lock_guard lock(session.users_mutex_);
  session.exiting_ = true;
  if (session.users_ == 0) session.finalize();
}

void Session::finalize() noexcept {
  if (!ours_ || ended()) return;
  if (kept_.load()) {
    log(LogLevel::info, "MPI is not finalised, as it would wait for calls that cannot end");
    return;
  }
  call.finalize();
}

// Registers a callback on MPI_COMM_SELF, which MPI_Finalize() runs first, while messages can still be exchanged.
void Session::call_at_finalize() {
  int key = 0;
  check(call.comm_create_keyval(
            +[](MPI_Comm, int, void*, void*, void*, int* copied) { return *copied = 0, MPI_SUCCESS; }, at_finalize,
            &key, nullptr),
        "MPI_Comm_create_keyval");
  check(call.comm_set_attr(handles.self, key, this), "MPI_Comm_set_attr");
}

int Session::at_finalize(MPI_Comm, int, void* session, void*) {
  Session& self = *static_cast<Session*>(session);
  if (!self.kept_.load())
    for (const MPI_Comm comm : self.leaving_) self.empty(comm);
  self.ending_.store(true);
  return MPI_SUCCESS;
}

void Session::free_at_end(MPI_Comm comm) {
  const std::lock_guard lock(users_mutex_);
  leaving_.push_back(comm);
}

// Receives pending messages, mostly goodbyes, until no member sends any more: some MPI libraries report messages left
// at finalisation.
void Session::empty(MPI_Comm comm) {
  MPI_Request barrier = handles.no_request;
  std::vector<std::byte> rest;
  if (call.ibarrier(comm, &barrier) != MPI_SUCCESS) return;
  for (int over = 0; !over;) {
    int there = 0, bytes = 0, received = 0;
    MPI_Message message;
    MPI_Status from;
    call.test(&barrier, &over, MPI_STATUS_IGNORE);
    do {
      if (call.improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &message, &from) != MPI_SUCCESS) return;
      if (!there) break;
      call.get_count(&from, type(DType::u8), &bytes);
      rest.resize(static_cast<std::size_t>(bytes));
      MPI_Request request = handles.no_request;
      if (call.imrecv(rest.data(), bytes, type(DType::u8), &message, &request) != MPI_SUCCESS) return;
      for (received = 0; !received;) call.test(&request, &received, MPI_STATUS_IGNORE);
    } while (true);
  }
}

Comm::Comm(Session& session, std::int64_t base, int world_rank, const std::vector<int>& members, std::uint64_t name)
    : session_(session), comm_(session.handles.no_comm) {
  static std::atomic<int> made{0};
  const Functions& call = session.call;
  const auto turn = session.turn();
  const MPI_Comm world = session.world(base);
  // The tag distinguishes communicators made concurrently by two threads; 32767 is the largest tag that every MPI
  // supports.
  const int tag = static_cast<int>((name ^ name >> 15 ^ name >> 30 ^ name >> 45) & 0x7fff);
  MPI_Group all{}, mine{};
  session.check(call.comm_group(world, &all), "MPI_Comm_group");
  session.check(call.group_incl(all, static_cast<int>(members.size()), members.data(), &mine), "MPI_Group_incl");
  session.check(call.comm_create_group(world, mine, tag, &comm_), "MPI_Comm_create_group");
  call.group_free(&mine);
  call.group_free(&all);
  call.comm_set_errhandler(comm_, session.handles.errors_return);
  call.comm_rank(comm_, &rank_);
  call.comm_size(comm_, &size_);
  session.join();
  log(LogLevel::debug, "MPI communicator " + std::to_string(++made) + " made, of " + std::to_string(size_) + " ranks",
      world_rank);
}

void Comm::abandon() noexcept {
  abandoned_ = true;
  session_.keep();
}

Comm::~Comm() {
  if (!abandoned_ && !session_.ended()) {
    const auto turn = session_.turn();
    if (lingers_)
      session_.free_at_end(comm_);
    else
      session_.call.comm_free(&comm_);
  }
  session_.leave();
}

}  // namespace tutti::mpi

// Makes each call either with tutti, or with MPI and the program's own arguments.
#include "bindings/mpi/engine.hpp"

#include <array>
#include <cstring>
#include <string>

#include "bindings/mpi/checking.hpp"
#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/decision.hpp"
#include "bindings/mpi/failures.hpp"
#include "bindings/mpi/library.hpp"
#include "bindings/mpi/requests.hpp"
#include "bindings/mpi/translation.hpp"
#include "bindings/mpi/waiting.hpp"
#include "transports/mpi/settings.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/log.hpp"

namespace tutti::preload {
namespace {

Policy policy;
int rank_here = 0;

/// Numbers of calls per function made by tutti and by MPI: blocking, then nonblocking.
struct Counters {
  std::array<std::array<std::atomic<std::uint64_t>, function_count>, 2> taken{}, kept{};
};
Counters counters;

void count(const Call& call, bool ours, bool with_request) noexcept {
  auto& row = (ours ? counters.taken : counters.kept)[with_request ? 1 : 0];
  row[static_cast<std::size_t>(call.function)].fetch_add(1, std::memory_order_relaxed);
}

/// The function's name without the prefix MPI_: "Bcast", "Ibcast".
std::string name_of(Function function, bool with_request) {
  std::string name = function_name(function);
  if (with_request) name[0] = static_cast<char>(name[0] - 'A' + 'a');
  return (with_request ? "I" : "") + name;
}

std::string listed(const auto& rows) {
  std::string text;
  for (std::size_t form = 0; form < rows.size(); ++form)
    for (std::size_t i = 0; i < function_count; ++i)
      if (const std::uint64_t n = rows[form][i].load(std::memory_order_relaxed); n > 0) {
        text += (text.empty() ? "" : ", ") + name_of(static_cast<Function>(i), form == 1) + " " + std::to_string(n);
      }
  return text.empty() ? "none" : text;
}

/// Calls have no deadline, as in MPI: a rank may wait for the others for any time. The doctor calls them by MPI's
/// names.
const CallOptions& options(Function function, bool with_request) {
  using Named = std::array<std::array<std::pair<std::string, CallOptions>, function_count>, 2>;
  static const Named& all = *[] {
    auto* const made = new Named;  // never destroyed: records point to the names
    for (std::size_t form = 0; form < made->size(); ++form)
      for (std::size_t i = 0; i < function_count; ++i) {
        auto& [name, call] = (*made)[form][i];
        name = "MPI_" + name_of(static_cast<Function>(i), form == 1);
        call.timeout = no_deadline;
        call.label = name.c_str();
      }
    return made;
  }();
  return all[with_request ? 1 : 0][static_cast<std::size_t>(function)].second;
}

/// Launches the call. Throws BadArgument for arguments that tutti refuses, such as overlapping buffers.
Work launch(const Translation& translation, Known& known, Function function, bool with_request) {
  try {
    Work work = known.tutti->launch(translation.collective(), options(function, with_request));
    accept_call(known);
    return work;
  } catch (const Error& error) {
    if (error.code() != Code::invalid) throw;
    throw BadArgument(MPI_ERR_ARG, error.what());
  }
}

/// Reports that this rank has not launched the call, to the other ranks and to the program. Returns MPI's error code.
int refuse(const Call& call, bool with_request, Known& known, const std::exception& error) {
  const std::string function = "MPI_" + name_of(call.function, with_request);
  refuse_call(function, known, error.what());
  const auto* const bad = dynamic_cast<const BadArgument*>(&error);
  return bad == nullptr ? report_failure(call.comm, error) : report_bad_argument(call.comm, function, *bad);
}

/// True if `code` reports a wrong argument. Other ranks may have passed a correct one.
bool is_of_argument(int code) {
  int error_class = MPI_ERR_OTHER;
  library().error_class(code, &error_class);
  for (const int one : {MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_OP, MPI_ERR_ROOT, MPI_ERR_TYPE})
    if (error_class == one) return true;
  return false;
}

/// Makes the call with MPI. If MPI refuses a reduction because of an argument, tells the other ranks: the type and
/// operator decide who makes a reduction, so ranks with correct arguments may have given it to tutti, and wait.
int make_by_mpi(const Call& call, bool with_request, const Original& original, Known* known) {
  const int result = original();
  if (result != MPI_SUCCESS && known != nullptr && known->tutti && is_reduction(call.function) &&
      is_of_argument(result))
    refuse_call("MPI_" + name_of(call.function, with_request), *known, "MPI finds an argument wrong");
  return result;
}

int run_ours(const Call& call, const Original& original, Known& known, const Decision& decision) {
  bool launched = false;
  try {
    Translation translation(call, known, decision.folding);
    settle_refusals(known);
    std::optional<Comparison> comparison;
    if (policy.check) {
      comparison.emplace(call, original, known, decision.folding);
      if (comparison->result() != MPI_SUCCESS) {
        refuse_call("MPI_" + name_of(call.function, false), known, "MPI refuses it");
        return comparison->result();
      }
    }
    const Work work = launch(translation, known, call.function, false);
    launched = true;
    wait_for_work(work, known);
    translation.finish();
    if (comparison) comparison->compare();
    return MPI_SUCCESS;
  } catch (const std::exception& error) {
    return launched ? report_failure(call.comm, error) : refuse(call, false, known, error);
  }
}

/// The first blocking call on an MPI communicator makes its Known, also if MPI makes the call. All ranks therefore make
/// it in the same call, even if a wrong argument on one rank leads to another decision there.
int run(const Call& call, const Original& original) {
  Known* const known = find_or_make_known(call.comm);
  const Decision decision = decide(call, known, policy);
  count(call, decision.ours, false);
  return decision.ours ? run_ours(call, original, *known, decision) : make_by_mpi(call, false, original, known);
}

int start_ours(const Call& call, MPI_Request* request, Known& known, const Decision& decision) {
  bool launched = false;
  try {
    if (request == nullptr) throw BadArgument(MPI_ERR_ARG, "the request is null");
    Open open{
        known.shared_from_this(), call.comm, std::make_unique<Translation>(call, known, decision.folding), {}, {}};
    open.translation->outlive_the_call();
    settle_refusals(known);
    if (policy.check)
      open.shadow = std::make_unique<Shadow>(call, open.translation->collective(), known, decision.folding);
    open.work = launch(*open.translation, known, call.function, true);
    launched = true;
    return add_request(std::move(open), request);
  } catch (const std::exception& error) {
    return launched ? report_failure(call.comm, error) : refuse(call, true, known, error);
  }
}

/// A nonblocking call must not wait, so it does not make a tutti communicator for an unknown MPI communicator.
int start(const Call& call, MPI_Request* request, const Original& original) {
  Known* const known = find_known(call.comm);
  const Decision decision = decide(call, known, policy);
  count(call, decision.ours, true);
  return decision.ours ? start_ours(call, request, *known, decision) : make_by_mpi(call, true, original, known);
}

void finalize() {
  end_requests();
  log(LogLevel::info, "calls of MPI over tutti: " + listed(counters.taken) + "; left to MPI: " + listed(counters.kept),
      rank_here);
  library().barrier(library().handles.world);
  end_communicators();
  end_waiting();
  leave_library();
}

bool all_can(bool mine) {
  const int can = mine;
  int everyone = 0;
  library().allreduce(&can, &everyone, 1, type_of(DType::i32), op_of(Op::min), library().handles.world);
  return everyone != 0;
}

Settings settings_here() {
  Settings settings = Settings::from_environment();
  for (const std::string* value : {&settings.backend, &settings.transport})
    if (value->find("mpi") != std::string::npos)
      throw Error(Code::invalid, "the setting '" + *value +
                                     "' would lead back to MPI; leave mpi out of TUTTI_BACKEND and TUTTI_TRANSPORT");
  return settings;
}

/// Checks that MPI_Pack() neither changes the bytes of an element nor adds a header.
void check_packing() {
  const std::uint32_t value = 0x01020304;
  std::array<std::byte, 64> packed{};
  int position = 0;
  library().pack(&value, 1, type_of(DType::u32), packed.data(), static_cast<int>(packed.size()), &position,
                 library().own);
  if (position != 4 || std::memcmp(packed.data(), &value, 4) != 0)
    throw Error(Code::unsupported, "MPI_Pack() of this MPI puts more than the data into its result");
}

Communicator make_world(const Settings& settings) {
  const MPI_Comm world = library().handles.world;
  CommonLibrary mpi;
  mpi.name = "MPI";
  library().comm_rank(world, &mpi.rank);
  library().comm_size(world, &mpi.size);
  mpi.broadcast = [&](std::string& text) {
    library().bcast(text.data(), static_cast<int>(text.size()), byte_type(), 0, world);
  };
  mpi.allgather = [&](const std::string& mine, std::string& all) {
    const int bytes = static_cast<int>(mine.size());
    library().allgather(mine.data(), bytes, byte_type(), all.data(), bytes, byte_type(), world);
  };
  return Communicator::connect(bootstrap_over(mpi, settings));
}

/// Runs a step on all ranks. If it throws on any rank, that rank logs a warning, and all ranks return false.
template <class Step>
bool together(Step&& step) {
  std::string why;
  try {
    step();
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (all_can(why.empty())) return true;
  if (!why.empty()) log(LogLevel::warn, "collectives stay with MPI: " + why, rank_here);
  return false;
}

const Engine* begin(void* handle) {
  take_library(handle);
  library().comm_rank(library().handles.world, &rank_here);
  Settings settings;
  if (!together([&] {
        settings = settings_here();
        check_packing();
        note_types(handle);
      })) {
    leave_library();
    return nullptr;
  }
  std::int64_t agreed[2] = {settings.of(mpi_min_bytes), settings.of(mpi_check)};
  library().bcast(agreed, 2, type_of(DType::i64), 0, library().handles.world);
  policy = {agreed[0], agreed[1] != 0};
  begin_failures();
  begin_waiting();
  if (!together([&] { begin_communicators(make_world(settings)); })) {
    end_communicators();
    end_waiting();
    leave_library();
    return nullptr;
  }
  static const Engine engine{
      &run, &start, &open_requests(), &complete_requests, &settle_requests, &pause_for_requests, &finalize};
  return &engine;
}

}  // namespace
}  // namespace tutti::preload

extern "C" [[gnu::visibility("default")]] const tutti::preload::Engine* tutti_mpi_begin(void* library) {
  try {
    return tutti::preload::begin(library);
  } catch (const std::exception& error) {  // from take_library(); it fails on all ranks, which have the same library
    tutti::log(tutti::LogLevel::warn, std::string("collectives stay with MPI: ") + error.what());
    return nullptr;
  }
}

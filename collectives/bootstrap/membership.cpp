// Detects which launcher started this process, and its rank.
#include "collectives/bootstrap/membership.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

std::string text_or(const Environment& environment, const std::string& name, const std::string& otherwise) {
  return environment(name).value_or(otherwise);
}

/// The environment variables in which a launcher passes the fields of Membership.
struct Names {
  Launcher launcher;
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr Names tutti_run = {Launcher::tutti_run, "tutti run",        "TUTTI_RANK",
                             "TUTTI_SIZE",        "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE"};
constexpr Names by_hand = {Launcher::by_hand,   "hand", tutti_run.rank, tutti_run.size, tutti_run.local_rank,
                           tutti_run.local_size};
constexpr Names torchrun = {Launcher::torchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names open_mpi = {Launcher::open_mpi,           "Open MPI",
                            "OMPI_COMM_WORLD_RANK",       "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names hydra = {Launcher::hydra, "hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kubernetes = {Launcher::kubernetes, "Kubernetes", "JOB_COMPLETION_INDEX", "TUTTI_SIZE", "", ""};

/// Reads the local rank and size. A launcher need not set the local size; it is 1 then.
void read_local(const Environment& environment, const Names& names, Membership& found) {
  const auto rank = number_in(environment, names.local_rank), size = number_in(environment, names.local_size);
  found.local_rank = rank.value_or(0);
  found.local_size = size.value_or(1);
  const int most = size ? found.local_size : found.size;
  if (found.local_rank >= 0 && found.local_rank < most && most <= found.size) return;
  const auto text = [&](const char* name) { return name + ("=" + environment(name).value_or("(not set)")); };
  throw Error(Code::invalid, found.evidence + " and " + text(names.local_rank) +
                                 (size ? ", " + text(names.local_size) : std::string()) +
                                 " contradict one another: local ranks go from 0 to the local size - 1, and no host "
                                 "has more ranks than there are; mend or unset them");
}

/// Reads rank and size of one launcher; nullopt if one of them is missing.
std::optional<Membership> read(const Environment& environment, const Names& names) {
  if (!environment(names.rank) || !environment(names.size)) return std::nullopt;
  Membership found;
  found.launcher = names.launcher;
  found.name = names.name;
  found.evidence =
      std::string(names.rank) + "=" + *environment(names.rank) + ", " + names.size + "=" + *environment(names.size);
  found.rank = *number_in(environment, names.rank);
  found.size = *number_in(environment, names.size);
  if (found.size < 1 || found.rank < 0 || found.rank >= found.size)
    throw Error(Code::invalid, found.evidence + ": ranks go from 0 to size - 1; mend or unset these variables");
  read_local(environment, names, found);
  return found;
}

/// As read(), for launchers that always set both variables.
std::optional<Membership> read_both(const Environment& environment, const Names& names) {
  const auto rank = environment(names.rank), size = environment(names.size);
  if (rank.has_value() == size.has_value()) return read(environment, names);
  throw Error(Code::invalid, std::string(names.name) + "'s " + (rank ? names.rank : names.size) + "=" +
                                 (rank ? *rank : *size) + " is set, but " + (rank ? names.size : names.rank) +
                                 " is not; pass all of its variables on to the program, or unset this one");
}

std::optional<Membership> read_tutti(const Environment& environment, bool has_store) {
  const auto found = read(environment, environment("TUTTI_STARTER") ? tutti_run : by_hand);
  const bool by_index = environment("JOB_COMPLETION_INDEX") && !environment("TUTTI_RANK");
  if (!found && !by_index && (environment("TUTTI_RANK") || environment("TUTTI_SIZE")))
    throw Error(Code::invalid, "one of TUTTI_RANK and TUTTI_SIZE is set and the other is not; set both, or neither");
  if (found && found->size > 1 && !has_store)
    throw Error(Code::invalid,
                found->evidence +
                    ", but TUTTI_STORE is not set; set it to tcp://HOST:PORT or file:///FOLDER, or start "
                    "the program with `tutti run`");
  return found;
}

std::optional<Membership> read_torchrun(const Environment& environment, bool has_store, Choice& choice) {
  if (!environment("RANK") || !environment("WORLD_SIZE")) return std::nullopt;
  if (!has_store && !(environment("MASTER_ADDR") && environment("MASTER_PORT"))) {
    choice.warnings.push_back(
        "RANK and WORLD_SIZE are set but MASTER_ADDR and MASTER_PORT are not, so they are not used; set these too, or "
        "TUTTI_STORE, if they are meant");
    return std::nullopt;
  }
  return read(environment, torchrun);
}

std::optional<Membership> read_hydra(const Environment& environment, bool has_store, Choice& choice) {
  if (!environment("PMI_RANK") || !environment("PMI_SIZE")) return std::nullopt;
  if (!has_store && !environment("PMI_FD")) {
    choice.warnings.push_back(
        "PMI_RANK and PMI_SIZE are set but PMI_FD is not, so they are not used; set TUTTI_STORE=tcp://HOST:PORT if "
        "they "
        "are meant");
    return std::nullopt;
  }
  return read(environment, hydra);
}

/// Valid only within a job step (srun): a batch script has SLURM_PROCID too, but is not a rank.
std::optional<Membership> read_slurm(const Environment& environment) {
  constexpr std::uint64_t first_special_step = 0xfffffff0;  // batch, extern, interactive
  const std::string step = text_or(environment, "SLURM_STEP_ID", "");
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), id);
  if (error != std::errc() || end != step.data() + step.size() || id >= first_special_step) return std::nullopt;
  const char* size = environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  auto found = read_both(environment, {Launcher::slurm, "SLURM", "SLURM_PROCID", size, "SLURM_LOCALID", ""});
  if (!found) return std::nullopt;
  const std::string per_node =
      text_or(environment, "SLURM_STEP_TASKS_PER_NODE", text_or(environment, "SLURM_TASKS_PER_NODE", ""));
  const int here = tasks_on_node(per_node, number_in(environment, "SLURM_NODEID").value_or(0));
  found->local_size = here > 0 ? here : found->local_rank + 1;
  return found;
}

/// A pod of an indexed Job. TUTTI_SIZE or TUTTI_STORE has to be set too, since most indexed Jobs do not run ranks.
std::optional<Membership> read_kubernetes(const Environment& environment, bool has_store) {
  const auto index = environment(kubernetes.rank), size = environment(kubernetes.size);
  if (!index || environment("TUTTI_RANK") || (!size && !has_store)) return std::nullopt;
  std::string evidence(kubernetes.rank);
  evidence.append("=").append(*index);
  if (!size)
    throw Error(Code::invalid,
                evidence + " and TUTTI_STORE are set, but TUTTI_SIZE is not; set it to the Job's completions");
  const auto found = read(environment, kubernetes);
  if (found->size > 1 && !has_store)
    throw Error(Code::invalid, found->evidence +
                                   ", but TUTTI_STORE is not set; set it to tcp://JOB-0.SERVICE:PORT, the pod with "
                                   "index 0, which will serve there");
  return found;
}

std::string described(const Membership& m) {
  return m.name + " says rank " + std::to_string(m.rank) + " of " + std::to_string(m.size) + " (" + m.evidence + ")";
}

/// Two launchers in one environment are either nested or a mistake.
void compare(const Environment& environment, const Membership& winner, const Membership& other, Choice& choice) {
  if (winner.rank == other.rank && winner.size == other.size) {
    choice.notes.push_back(other.name + "'s variables say the same");
    return;
  }
  // srun commonly starts one mpirun or torchrun per node, and torchrun may be started by any launcher.
  const bool nested = other.launcher == Launcher::slurm ||
                      (winner.launcher == Launcher::torchrun && environment("TORCHELASTIC_RUN_ID"));
  if (!nested)
    throw Error(Code::invalid,
                "two launchers disagree about this process: " + described(winner) + ", " + described(other) +
                    ". Unset the variables of one, or set TUTTI_RANK, TUTTI_SIZE and TUTTI_STORE and unset both");
  choice.notes.push_back(described(other) + ": taken for what started " + winner.name);
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (!value) return std::nullopt;
    return value;
  };
}

std::optional<int> number_in(const Environment& environment, const std::string& name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size())
    throw Error(Code::invalid, name + "='" + *text + "' is not a number; mend or unset it");
  return number;
}

Choice choose_membership(const Environment& environment, bool has_store) {
  Choice choice;
  std::vector<Membership> found;
  for (auto& candidate :
       {read_tutti(environment, has_store), read_torchrun(environment, has_store, choice),
        read_both(environment, open_mpi), read_hydra(environment, has_store, choice), read_slurm(environment)})
    if (candidate) found.push_back(*candidate);
  // Kubernetes comes last: a launcher inside the pod is more specific.
  if (found.empty())
    if (auto pod = read_kubernetes(environment, has_store)) found.push_back(*pod);
  if (found.empty()) return choice;
  choice.membership = found.front();
  for (std::size_t i = 1; i < found.size(); ++i) compare(environment, found.front(), found[i], choice);
  return choice;
}

}  // namespace tutti::launchers

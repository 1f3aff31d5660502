// Which launcher started this process, and which rank it is.
#include "collectives/bootstrap/membership.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "transports/core/status.hpp"

namespace tutti::launchers {
namespace {

std::string text_or(const Environment& environment, const std::string& name, const std::string& otherwise) {
  return environment(name).value_or(otherwise);
}

/// The names of the variables in which a launcher says what Membership holds.
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
constexpr Names torchrun = {Launcher::torchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names open_mpi = {Launcher::open_mpi,           "Open MPI",
                            "OMPI_COMM_WORLD_RANK",       "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names hydra = {Launcher::hydra, "hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

/// Rank and size of one launcher; nothing where one of the two is missing.
std::optional<Membership> read(const Environment& environment, const Names& names) {
  if (!environment(names.rank) || !environment(names.size)) return std::nullopt;
  Membership found;
  found.launcher = names.launcher;
  found.name = names.name;
  found.evidence =
      std::string(names.rank) + "=" + *environment(names.rank) + ", " + names.size + "=" + *environment(names.size);
  found.rank = *number_in(environment, names.rank);
  found.size = *number_in(environment, names.size);
  found.local_rank = number_in(environment, names.local_rank).value_or(0);
  found.local_size = number_in(environment, names.local_size).value_or(1);
  if (found.size < 1 || found.rank < 0 || found.rank >= found.size)
    throw Error(Code::invalid, found.evidence + ": ranks go from 0 to size - 1; mend or unset these variables");
  return found;
}

std::optional<Membership> read_tutti(const Environment& environment, bool has_store) {
  const auto found = read(environment, tutti_run);
  if (!found && (environment("TUTTI_RANK") || environment("TUTTI_SIZE")))
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

/// Only within a step of srun's: a batch script has SLURM_PROCID too, and is nobody's rank.
std::optional<Membership> read_slurm(const Environment& environment) {
  constexpr std::uint64_t first_special_step = 0xfffffff0;  // batch, extern, interactive
  const std::string step = text_or(environment, "SLURM_STEP_ID", "");
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), id);
  if (error != std::errc() || end != step.data() + step.size() || id >= first_special_step) return std::nullopt;
  const char* size = environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  auto found = read(environment, {Launcher::slurm, "SLURM", "SLURM_PROCID", size, "SLURM_LOCALID", ""});
  if (!found) return std::nullopt;
  const std::string per_node =
      text_or(environment, "SLURM_STEP_TASKS_PER_NODE", text_or(environment, "SLURM_TASKS_PER_NODE", ""));
  const int here = tasks_on_node(per_node, number_in(environment, "SLURM_NODEID").value_or(0));
  found->local_size = here > 0 ? here : found->local_rank + 1;
  return found;
}

std::string described(const Membership& m) {
  return m.name + " says rank " + std::to_string(m.rank) + " of " + std::to_string(m.size) + " (" + m.evidence + ")";
}

/// Two launchers in one environment: one within the other, or a mistake.
void compare(const Environment& environment, const Membership& winner, const Membership& other, Choice& choice) {
  if (winner.rank == other.rank && winner.size == other.size) {
    choice.notes.push_back(other.name + "'s variables say the same");
    return;
  }
  // srun commonly starts one mpirun or torchrun on each node, and one torchrun may be started by anything.
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
       {read_tutti(environment, has_store), read_torchrun(environment, has_store, choice), read(environment, open_mpi),
        read_hydra(environment, has_store, choice), read_slurm(environment)})
    if (candidate) found.push_back(*candidate);
  if (found.empty()) return choice;
  choice.membership = found.front();
  for (std::size_t i = 1; i < found.size(); ++i) compare(environment, found.front(), found[i], choice);
  return choice;
}

}  // namespace tutti::launchers

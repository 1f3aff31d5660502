// Finding the store: by URL, by a port derived from the job, by a folder, or through PMI.
#include "collectives/bootstrap/meeting.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "collectives/bootstrap/pmi.hpp"
#include "collectives/bootstrap/served_store.hpp"
#include "collectives/bootstrap/socket.hpp"
#include "collectives/bootstrap/store_url.hpp"
#include "tutti/store.hpp"

namespace tutti::launchers {
namespace {

/// Rank 0 serves at the first port that is free, and the other ranks search the same ports.
Meeting meet_at_ports(const Membership& m, const std::string& host, const std::string& listen, int first_port,
                      const std::string& secret, Deadline until) {
  Meeting meeting;
  if (m.rank != 0) {
    std::vector<Endpoint> endpoints;
    for (const int port : port_candidates(first_port)) endpoints.push_back({host, port});
    meeting.store = connect_any(endpoints, secret, until, meeting.place);
    return meeting;
  }
  std::string why;
  for (const int port : port_candidates(first_port)) {
    try {
      meeting.store = serve_store(listen, port, secret).store;
      meeting.place = "tcp://" + sockets::shown(host, port);
      return meeting;
    } catch (const Error& error) {
      why = error.what();
    }
  }
  throw Error(Code::resource, "rank 0 can serve the store at none of the 16 ports from " + std::to_string(first_port) +
                                  " on (" + why + "); set TUTTI_STORE=tcp://HOST:PORT");
}

/// Uses the store at TUTTI_STORE. If its address is on this host and no process serves it yet, rank 0 serves it, except
/// under `tutti run`, which serves it itself. In an indexed Job of Kubernetes rank 0's pod serves it, on all
/// interfaces, because the pod's host name may not resolve there yet.
Meeting meet_by_url(const Membership& m, const Settings& settings, Deadline until) {
  const StoreUrl url = parse_store_url(settings.store);
  Meeting meeting;
  meeting.place = settings.store;
  meeting.guarded = !url.folder.empty() || !settings.secret.empty();
  if (url.folder.empty() && m.rank == 0 && m.launcher != Launcher::tutti_run) {
    const bool here = m.launcher == Launcher::kubernetes;
    try {
      meeting.store = serve_store(here ? "" : url.host, url.port, settings.secret).store;
      return meeting;
    } catch (const Error& error) {
      if (here || error.code() != Code::resource) throw;  // otherwise another process or another host may serve it
    }
  }
  meeting.store = open_store(settings.store, settings.secret, until);
  return meeting;
}

std::string value_of(const Environment& environment, const std::string& name) { return environment(name).value_or(""); }

/// A key known to the job's ranks: the secret, or without one the job's name.
std::string key_of(const Settings& settings, const std::string& job) {
  return settings.secret.empty() ? "job " + job : settings.secret;
}

Meeting meet_torchrun(const Membership& m, const Settings& settings, const Environment& environment, Deadline until) {
  const std::string job = "torchrun-" + value_of(environment, "TORCHELASTIC_RUN_ID") + "-" +
                          value_of(environment, "TORCHELASTIC_RESTART_COUNT") + "-" +
                          value_of(environment, "MASTER_PORT");
  const bool one_host = m.local_size == m.size;
  const std::string host = one_host ? sockets::loopback_host() : value_of(environment, "MASTER_ADDR");
  const int port = number_in(environment, "MASTER_PORT").value_or(0);
  if (port < 1 || port > 65535) throw Error(Code::invalid, "MASTER_PORT=" + std::to_string(port) + " is no port");
  Meeting meeting = meet_at_ports(m, host, one_host ? host : "", port + 1, key_of(settings, job), until);
  meeting.job = job;
  meeting.guarded = !settings.secret.empty();
  return meeting;
}

Meeting meet_open_mpi(const Membership& m, const Settings&, const Environment& environment, Deadline) {
  const std::string space = value_of(environment, "PMIX_NAMESPACE");
  std::string session = value_of(environment, "PMIX_SERVER_TMPDIR");
  if (session.empty()) session = value_of(environment, "OMPI_MCA_orte_jobfam_session_dir");
  const std::string advice =
      "set TUTTI_STORE=tcp://HOST_OF_RANK_0:PORT, which rank 0 will serve, and TUTTI_SECRET on all ranks "
      "(mpirun -x TUTTI_STORE -x TUTTI_SECRET ...)";
  if (m.local_size != m.size)
    throw Error(Code::invalid, "Open MPI runs this job on several hosts and names no meeting point: " + advice);
  std::error_code error;
  if (session.empty() || !std::filesystem::is_directory(session, error))
    throw Error(Code::invalid,
                "Open MPI names no session folder (PMIX_SERVER_TMPDIR) where ranks could meet: " + advice);
  std::string folder = session + "/tutti";
  if (!space.empty()) {
    folder += '-';
    for (const char c : space) folder += c == '/' ? '_' : c;
  }
  Meeting meeting;
  meeting.store = make_file_store(folder);
  meeting.place = "file://" + folder;
  meeting.job = "openmpi-" + space;
  return meeting;
}

/// The store of a job under hydra. `pmi` lives as long as the store, because an MPI that is initialised in the meantime
/// needs the session; it is destroyed just before the store.
struct MetByPmi {
  std::shared_ptr<Store> store;
  std::unique_ptr<Pmi> pmi;
};

Meeting meet_hydra(const Membership& m, const Settings& settings, const Environment& environment, Deadline until) {
  auto met = std::make_shared<MetByPmi>();
  met->pmi = std::make_unique<Pmi>(number_in(environment, "PMI_FD").value_or(-1), settings.connect_timeout);
  Pmi& pmi = *met->pmi;
  Meeting meeting;
  meeting.job = "hydra-" + pmi.job();
  const std::string key = "tutti-store";
  if (m.rank == 0) {
    const CardedStore mine = serve_with_card(m.local_size == m.size, settings.secret);
    pmi.put(key, to_text(mine.card));
    meeting.place = shown({mine.card.endpoints.front()});
    met->store = mine.served.store;
  }
  pmi.barrier();
  if (m.rank != 0) {
    const StoreCard card = parse_store_card(pmi.read(key));
    met->store = connect_any(card.endpoints, card.secret.empty() ? settings.secret : card.secret, until, meeting.place);
  }
  meeting.store = std::shared_ptr<Store>(met, met->store.get());
  return meeting;
}

Meeting meet_slurm(const Membership& m, const Settings& settings, const Environment& environment, Deadline until) {
  const std::string id = value_of(environment, "SLURM_JOB_ID"), step = value_of(environment, "SLURM_STEP_ID");
  const std::string job = "slurm-" + id + "-" + step + "-" + value_of(environment, "SLURM_RESTART_COUNT");
  std::string list = value_of(environment, "SLURM_STEP_NODELIST");
  if (list.empty()) list = value_of(environment, "SLURM_JOB_NODELIST");
  if (list.empty())
    throw Error(Code::invalid, "SLURM names no hosts (SLURM_STEP_NODELIST); set TUTTI_STORE=tcp://HOST_OF_RANK_0:PORT");
  const std::vector<std::string> hosts = expand_hosts(list);
  const bool one_host = hosts.size() == 1;
  const std::string loopback = sockets::loopback_host();
  const bool on_first = hosts.front() == value_of(environment, "SLURMD_NODENAME");
  // Job steps that run at the same time get ports far apart, below the kernel's ephemeral range.
  constexpr std::uint64_t lowest = 15000, span = 16000, spread = 7919;
  const std::uint64_t number = std::strtoull(id.c_str(), nullptr, 10) * 64 + std::strtoull(step.c_str(), nullptr, 10);
  const int port = static_cast<int>(lowest + number * spread % span);
  Meeting meeting = meet_at_ports(m, one_host || on_first ? loopback : hosts.front(), one_host ? loopback : "", port,
                                  key_of(settings, job), until);
  meeting.job = job;
  meeting.guarded = !settings.secret.empty();
  return meeting;
}

Meeting meet_first_time(const Membership& m, const Settings& settings, const Environment& environment, Deadline until) {
  if (m.size == 1) return {make_local_store(), "alone", "this process", true};
  if (!settings.store.empty()) return meet_by_url(m, settings, until);
  switch (m.launcher) {
    case Launcher::torchrun: return meet_torchrun(m, settings, environment, until);
    case Launcher::open_mpi: return meet_open_mpi(m, settings, environment, until);
    case Launcher::hydra: return meet_hydra(m, settings, environment, until);
    case Launcher::slurm: return meet_slurm(m, settings, environment, until);
    case Launcher::tutti_run:
    case Launcher::by_hand:
    case Launcher::kubernetes:
    case Launcher::alone: break;
  }
  throw Error(Code::internal, m.name + " has no meeting point");
}

struct Met {
  std::weak_ptr<Store> store;
  Meeting rest;  // all fields except the store
};

/// The stores this process has opened, by launcher, rank and store, so that a second bootstrap reuses them.
struct MetBefore {
  std::mutex mutex;
  std::map<std::string, Met> meetings;
};

MetBefore& met_before() {
  static MetBefore instance;
  return instance;
}

}  // namespace

std::vector<int> port_candidates(int first) {
  constexpr int tries = 16, lowest = 1024, highest = 65535;
  std::vector<int> ports;
  for (int i = 0; i < tries; ++i) {
    const int port = first + i;
    ports.push_back(port <= highest ? std::max(port, lowest + i) : lowest + (port - highest));
  }
  return ports;
}

Meeting meet(const Membership& m, const Settings& settings, const Environment& environment, Deadline until) {
  if (m.size == 1) return meet_first_time(m, settings, environment, until);
  const std::string key = m.name + "\n" + m.evidence + "\n" + settings.store + "\n" + settings.secret + "\n" +
                          value_of(environment, "MASTER_PORT") + "\n" + value_of(environment, "PMIX_NAMESPACE") + "\n" +
                          value_of(environment, "SLURM_STEP_ID");
  {
    const std::lock_guard lock(met_before().mutex);
    if (const auto found = met_before().meetings.find(key); found != met_before().meetings.end())
      if (auto store = found->second.store.lock()) {
        Meeting again = found->second.rest;
        again.store = std::move(store);
        return again;
      }
  }
  Meeting meeting = meet_first_time(m, settings, environment, until);
  Meeting rest = meeting;
  rest.store.reset();
  const std::lock_guard lock(met_before().mutex);
  met_before().meetings.insert_or_assign(key, Met{meeting.store, rest});
  return meeting;
}

}  // namespace tutti::launchers

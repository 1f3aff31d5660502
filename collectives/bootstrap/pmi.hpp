// PMI-1, the text protocol of MPICH's hydra over PMI_FD; private to collectives/bootstrap.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::launchers {

/// The PMI session of this process. A process has only one, and shares it with MPI: if MPI is initialised before or
/// during this object's lifetime, MPI does the init and finalize of the session. MPI can be initialised as long as
/// this object lives. All functions throw Error{peer_lost, protocol}.
class Pmi {
 public:
  /// `fd` is not closed. Each answer is waited for at most `patience` seconds.
  Pmi(int fd, double patience);
  /// Tells the launcher that this rank ends normally.
  ~Pmi();
  Pmi(const Pmi&) = delete;
  Pmi& operator=(const Pmi&) = delete;

  const std::string& job() const noexcept { return job_; }
  void put(const std::string& key, const std::string& value);
  std::string read(const std::string& key);
  /// Returns when all ranks have called it.
  void barrier();

  /// What an answer says of `field`: the rest of its line after `field`=; empty if no field is asked for. The answer
  /// must begin with "cmd=`expected`" and not say that it failed.
  static std::string field_of(const std::string& answer, const std::string& question, const std::string& expected,
                              const std::string& field);

 private:
  /// Sends a line. Returns what field_of() finds in the answer.
  std::string ask(const std::string& line, const std::string& expected, const std::string& field);
  std::string receive(const std::string& question);

  const int fd_;
  const double patience_;
  const std::uint32_t generation_;  // of core/fork.hpp; a forked child does not use the session
  std::string job_;
};

}  // namespace tutti::launchers

// PMI-1, the text protocol over PMI_FD of MPICH's hydra; private to collectives/bootstrap.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::launchers {

/// One process's conversation with its launcher. A process has one in its life, and shares it with an MPI: where that
/// is initialised, before or during this object's life, the beginning and the end of the conversation are MPI's, and
/// MPI can still be initialised as long as it lives. Every call throws Error{peer_lost, protocol}.
class Pmi {
 public:
  /// `fd` stays the launcher's: it is never closed here. Each answer is waited for at most `patience` seconds.
  Pmi(int fd, double patience);
  /// Tells the launcher that this rank will end normally.
  ~Pmi();
  Pmi(const Pmi&) = delete;
  Pmi& operator=(const Pmi&) = delete;

  const std::string& job() const noexcept { return job_; }
  void put(const std::string& key, const std::string& value);
  std::string read(const std::string& key);
  /// Returns when all ranks have called it.
  void barrier();

 private:
  /// Sends a line; the answer has to begin with "cmd=`expected`". Returns what follows `field`= in it, to the end of
  /// the line.
  std::string ask(const std::string& line, const std::string& expected, const std::string& field);
  std::string receive(const std::string& question);

  const int fd_;
  const double patience_;
  const std::uint32_t generation_;  // of forks: a child has nothing to say here
  std::string job_;
};

}  // namespace tutti::launchers

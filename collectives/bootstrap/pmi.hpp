// PMI-1, the text protocol of MPICH's hydra over PMI_FD; private to collectives/bootstrap.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::launchers {

/// The PMI session of this process. A process has one session at most, and MPI uses the same one. If MPI is initialised
/// before or during this object's lifetime, MPI makes the session's init and finalize. After this object's end MPI
/// cannot be initialised for the first time. All functions throw Error{peer_lost, protocol, timeout}.
class Pmi {
 public:
  /// Does not own `fd`. Waits for each answer at most `patience` seconds. Throws Error{invalid} if the process has had
  /// a session before.
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

  /// Returns the rest of the line `answer` after "`field`="; empty if `field` is empty. Throws Error{protocol} unless
  /// the answer begins with "cmd=`expected`" and reports success.
  static std::string field_of(const std::string& answer, const std::string& question, const std::string& expected,
                              const std::string& field);

 private:
  /// Sends a line, waits for the answer, and returns its field_of().
  std::string ask(const std::string& line, const std::string& expected, const std::string& field);
  std::string receive(const std::string& question);

  const int fd_;
  const double patience_;
  const std::uint32_t generation_;  // of tutti/fork.hpp; a forked child does not use the session
  std::string job_;
};

}  // namespace tutti::launchers

// Joining: the data that a process needs to join a run with masters, and the file that contains their addresses.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tutti::engine {

/// The numbers that a joining worker needs besides the configuration. The settings of the run's parameter server
/// contain them.
struct Family {
  std::size_t workers = 0, processes = 0;  ///< workers at the start of the run, and processes of each
  int ranks = 0;                           ///< number of ranks of the run's job

  std::map<std::string, std::string> settings(const std::string& strategy) const;
  static Family read(const std::map<std::string, std::string>& settings);
};

/// Writes the servers' addresses (ParameterServer::address()) to the file `join` in the run's folder. They contain a
/// secret, so only the file's owner can read it. Throws Error{resource}.
void write_join_file(const std::string& run, const std::vector<std::string>& addresses);
/// Throws Error{invalid} if there is no such file.
std::vector<std::string> read_join_file(const std::string& run);
void remove_join_file(const std::string& run);

}  // namespace tutti::engine

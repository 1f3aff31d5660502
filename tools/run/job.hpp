// What `tutti run` was asked to do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::tools {

struct Job {
  int ranks = 0;
  std::vector<std::string> words;  ///< the program and its arguments
  std::string file;                ///< the program's file
  bool tag_output = false;
  double grace = 2;       ///< seconds that the others have to end by themselves once one has failed
  double time_limit = 0;  ///< seconds until all is ended; 0: none
  std::map<std::string, std::string> variables;  ///< for every rank, beside its own
  std::string id;                                ///< the value of TUTTI_JOB, by which stragglers are known
};

/// Starts the ranks, passes on signals and output, ends all when one fails. Returns the exit code.
int run_job(const Job& job);

}  // namespace tutti::tools

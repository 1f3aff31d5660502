// Bootstraps from the real environment and meets the other ranks in the store. The launcher tests start it.
//
//   bootstrap_probe [twice]     prints "rank R of N by LAUNCHER local L of M secret S sum T"
//   bootstrap_probe stays       prints it and waits until it is ended
//   bootstrap_probe leaves      opens the store and ends
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tutti/bootstrap.hpp"

namespace {

/// Each rank sets a key of the store and reads the keys of all ranks.
void meet(const tutti::Bootstrap& self) {
  const auto until = tutti::deadline_in(tutti::Seconds(60));
  self.store->set("hello/" + std::to_string(self.rank), std::to_string(self.rank + 1));
  long sum = 0;
  for (int i = 0; i < self.size; ++i) sum += std::stol(self.store->wait("hello/" + std::to_string(i), until));
  char line[512];
  const int n =
      std::snprintf(line, sizeof line, "rank %d of %d by %s local %d of %d secret %s sum %ld\n", self.rank, self.size,
                    self.launcher.c_str(), self.local_rank, self.local_size, self.settings.secret.c_str(), sum);
  static_cast<void>(!write(STDOUT_FILENO, line, static_cast<std::size_t>(n)));
}

}  // namespace

int main(int count, char** words) {
  try {
    const tutti::Bootstrap first = tutti::bootstrap_from_environment(tutti::Settings::from_environment());
    if (count > 1 && std::strcmp(words[1], "leaves") == 0) return 0;
    meet(first);
    if (count > 1 && std::strcmp(words[1], "twice") == 0)
      meet(tutti::bootstrap_from_environment(tutti::Settings::from_environment()));
    if (count > 1 && std::strcmp(words[1], "stays") == 0)
      for (;;) pause();
    return 0;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == tutti::Code::invalid ? 2 : 1;
  }
}

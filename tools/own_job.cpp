#include "tools/own_job.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <system_error>

#include "tutti/status.hpp"

namespace tutti::tools {

bool inside_a_job() {
  for (const char* variable : {"TUTTI_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (std::getenv(variable)) return true;
  return std::getenv("RANK") && std::getenv("WORLD_SIZE");
}

void become_job(int ranks, const Settings& settings, const std::vector<std::string>& words,
                const std::vector<std::string>& flags) {
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  if (program.filename().string().starts_with("tutti-")) program.replace_filename("tutti");  // in the same folder
  const std::string self = program;
  std::vector<std::string> line = {self, "run", "-np", std::to_string(ranks)};
  if (settings.sources.contains("backend")) line.insert(line.end(), {"--backend", settings.backend});
  if (settings.sources.contains("transport")) line.insert(line.end(), {"--transport", settings.transport});
  if (settings.sources.contains("net")) line.insert(line.end(), {"--net", settings.net});
  line.insert(line.end(), flags.begin(), flags.end());
  line.push_back(self);
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  throw Error(Code::resource, "cannot run " + self + ": " + std::generic_category().message(errno));
}

}  // namespace tutti::tools

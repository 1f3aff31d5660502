#include "tools/inside_a_job.hpp"

#include <cstdlib>
#include <initializer_list>

namespace tutti::tools {

bool inside_a_job() {
  for (const char* variable : {"TUTTI_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (std::getenv(variable)) return true;
  return std::getenv("RANK") && std::getenv("WORLD_SIZE");
}

}  // namespace tutti::tools

// tutti.h in C++98: the macros initialise the structs, and a communicator of one rank adds up.
#include <tutti.h>

#include <cstdio>

int main() {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.timeout = 10;
  tutti_call call = TUTTI_CALL_INIT;
  tutti_comm comm = 0;
  double value[2] = {1.5, 2.5};
  if (tutti_check(TUTTI_VERSION) != TUTTI_OK || tutti_comm_from_env(&config, &comm) != TUTTI_OK ||
      tutti_allreduce(comm, TUTTI_IN_PLACE, value, 2, TUTTI_F64, TUTTI_SUM, &call, 0) != TUTTI_OK ||
      tutti_comm_free(comm) != TUTTI_OK) {
    std::fprintf(stderr, "%s\n", tutti_last_error());
    return 1;
  }
  std::printf("tutti %s: %g %g\n", tutti_version_string(), value[0], value[1]);
  return 0;
}

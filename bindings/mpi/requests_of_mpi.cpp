// MPI's functions that complete requests, as the preload exports them. They first complete tutti's requests and then
// call MPI's function. For MPI, tutti's requests are ordinary generalized requests.
#include "bindings/mpi/completion.hpp"

using namespace tutti::preload;

extern "C" {

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  complete(1, request);
  return call_original<"PMPI_Wait">(request, status);
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status* statuses) {
  complete(count, requests);
  return call_original<"PMPI_Waitall">(count, requests, statuses);
}
int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  const auto test = [&](bool& some) {
    int done = 0;
    const int result = call_original<"PMPI_Testany">(count, requests, index, &done, status);
    some = done != 0;
    return result;
  };
  return wait_for_some(count, requests, test,
                       [&] { return call_original<"PMPI_Waitany">(count, requests, index, status); });
}
int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  const auto test = [&](bool& some) {
    const int result = call_original<"PMPI_Testsome">(count, requests, done, indices, statuses);
    some = *done != 0;
    return result;
  };
  return wait_for_some(count, requests, test,
                       [&] { return call_original<"PMPI_Waitsome">(count, requests, done, indices, statuses); });
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  settle(1, request);
  return call_original<"PMPI_Test">(request, done, status);
}
int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status* statuses) {
  settle(count, requests);
  return call_original<"PMPI_Testall">(count, requests, done, statuses);
}
int MPI_Testany(int count, MPI_Request requests[], int* index, int* done, MPI_Status* status) {
  settle(count, requests);
  return call_original<"PMPI_Testany">(count, requests, index, done, status);
}
int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  settle(count, requests);
  return call_original<"PMPI_Testsome">(count, requests, done, indices, statuses);
}
int MPI_Request_get_status(MPI_Request request, int* done, MPI_Status* status) {
  settle(1, &request);
  return call_original<"PMPI_Request_get_status">(request, done, status);
}
int MPI_Request_free(MPI_Request* request) {
  complete(1, request);
  return call_original<"PMPI_Request_free">(request);
}

}  // extern "C"

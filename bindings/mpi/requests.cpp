#include "bindings/mpi/requests.hpp"

#include <mutex>
#include <unordered_map>
#include <vector>

#include "bindings/mpi/failures.hpp"
#include "bindings/mpi/library.hpp"
#include "bindings/mpi/waiting.hpp"

namespace tutti::preload {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<MPI_Request, std::shared_ptr<Open>> open;  // guarded by mutex
  std::atomic<int> count{0};
};
Table& table() {
  static auto& one = *new Table;
  return one;
}

/// The query function of the generalized request: sets the status and returns the result, to which `result` points.
int tell(void* result, MPI_Status* status) {
  library().status_set_elements(status, byte_type(), 0);
  library().status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return *static_cast<const int*>(result);
}
int free_result(void* result) {
  delete static_cast<int*>(result);
  return MPI_SUCCESS;
}
int cancel_nothing(void*, int) { return MPI_SUCCESS; }

std::shared_ptr<Open> find(MPI_Request request) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().open.find(request);
  return found != table().open.end() ? found->second : nullptr;
}

/// Completes a request; waits if the call or its check is still running.
void end(MPI_Request request, Open& open) {
  try {
    wait_for_work(open.work, *open.known);
    if (open.shadow) {
      while (!open.shadow->done()) wait_a_little({});
      open.shadow->compare();
    }
    open.translation->finish();
  } catch (const std::exception& error) {
    *open.result = report_failure(open.known->freed ? library().handles.world : open.comm, error);
  }
  {
    const std::lock_guard lock(table().mutex);
    table().open.erase(request);
  }
  table().count.fetch_sub(1, std::memory_order_acq_rel);
  library().grequest_complete(request);
}

std::vector<Work> works_of(int count, const MPI_Request* requests) {
  std::vector<Work> works;
  const std::lock_guard lock(table().mutex);
  for (int i = 0; i < count; ++i)
    if (const auto found = table().open.find(requests[i]); found != table().open.end())
      works.push_back(found->second->work);
  return works;
}

}  // namespace

const std::atomic<int>& open_requests() noexcept { return table().count; }

int add_request(Open open, MPI_Request* request) {
  auto result = std::make_unique<int>(MPI_SUCCESS);
  open.result = result.get();
  const int made = library().grequest_start(&tell, &free_result, &cancel_nothing, result.get(), request);
  if (made != MPI_SUCCESS) return made;
  static_cast<void>(result.release());  // now owned by the request: free_result() deletes it
  const std::lock_guard lock(table().mutex);
  table().open[*request] = std::make_shared<Open>(std::move(open));
  table().count.fetch_add(1, std::memory_order_acq_rel);
  return MPI_SUCCESS;
}

void complete_requests(int count, const MPI_Request* requests) {
  for (int i = 0; i < count; ++i)
    if (const auto open = find(requests[i])) end(requests[i], *open);
}

int settle_requests(int count, const MPI_Request* requests) {
  int left = 0;
  for (int i = 0; i < count; ++i) {
    const auto open = find(requests[i]);
    if (!open) continue;
    bool done = true;
    try {
      done = open->work.wait_for(Seconds(0)) && (!open->shadow || open->shadow->done());
    } catch (const std::exception&) {  // end() reports the error
    }
    if (done) {
      end(requests[i], *open);
    } else {
      fail_if_refused(*open->known);
      ++left;
    }
  }
  return left;
}

void pause_for_requests(int count, const MPI_Request* requests) { wait_a_little(works_of(count, requests)); }

void end_requests() noexcept {
  std::vector<MPI_Request> left;
  {
    const std::lock_guard lock(table().mutex);
    for (const auto& [request, _] : table().open) left.push_back(request);
  }
  complete_requests(static_cast<int>(left.size()), left.data());
}

}  // namespace tutti::preload

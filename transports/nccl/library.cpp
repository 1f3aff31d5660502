#include "transports/nccl/library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "transports/nccl/settings.hpp"

namespace tutti::nccl {
namespace {

constexpr const char* usual_name = "libnccl.so.2";

void* open_library(const std::string& named) {
  if (!named.empty()) return dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (void* const present = dlopen(usual_name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return present;
  return dlopen(usual_name, RTLD_NOW | RTLD_LOCAL);
}

template <class Function>
bool find(void* handle, const char* name, Function*& into, std::string& lacks) {
  into = reinterpret_cast<Function*>(dlsym(handle, name));
  if (into == nullptr && lacks.empty()) lacks = name;
  return into != nullptr;
}

// Looks up all functions; returns the name of the first one missing.
std::string find_all(void* handle, Api& call) {
  std::string lacks;
  find(handle, "ncclGetVersion", call.get_version, lacks);
  find(handle, "ncclGetUniqueId", call.get_unique_id, lacks);
  find(handle, "ncclCommInitRankConfig", call.comm_init_rank_config, lacks);
  find(handle, "ncclCommFinalize", call.comm_finalize, lacks);
  find(handle, "ncclCommDestroy", call.comm_destroy, lacks);
  find(handle, "ncclCommAbort", call.comm_abort, lacks);
  find(handle, "ncclCommGetAsyncError", call.comm_get_async_error, lacks);
  find(handle, "ncclCommCount", call.comm_count, lacks);
  find(handle, "ncclGetErrorString", call.get_error_string, lacks);
  find(handle, "ncclGetLastError", call.get_last_error, lacks);
  find(handle, "ncclRedOpCreatePreMulSum", call.red_op_create_pre_mul_sum, lacks);
  find(handle, "ncclRedOpDestroy", call.red_op_destroy, lacks);
  find(handle, "ncclReduce", call.reduce, lacks);
  find(handle, "ncclBroadcast", call.broadcast, lacks);
  find(handle, "ncclAllReduce", call.all_reduce, lacks);
  find(handle, "ncclReduceScatter", call.reduce_scatter, lacks);
  find(handle, "ncclAllGather", call.all_gather, lacks);
  find(handle, "ncclSend", call.send, lacks);
  find(handle, "ncclRecv", call.recv, lacks);
  find(handle, "ncclGroupStart", call.group_start, lacks);
  find(handle, "ncclGroupEnd", call.group_end, lacks);
  return lacks;
}

std::unique_ptr<Library> load(const std::string& named) {
  auto made = std::make_unique<Library>();
  void* const handle = open_library(named);
  if (handle == nullptr) {
    const char* const why = dlerror();
    made->missing = std::string("there is no NCCL (") + (why ? why : "unknown reason") +
                    "); TUTTI_NCCL_LIBRARY=/path/to/libnccl.so.2 names it";
    return made;
  }
  const std::string lacks = find_all(handle, made->call);
  Dl_info place{};
  if (made->call.get_version != nullptr && dladdr(reinterpret_cast<void*>(made->call.get_version), &place) != 0 &&
      place.dli_fname != nullptr)
    made->file = place.dli_fname;
  if (made->call.get_version == nullptr || made->call.get_version(&made->version) != success) {
    made->missing = (named.empty() ? usual_name : named) + " is no NCCL: it does not tell its version";
  } else if (made->version < oldest_version) {
    made->missing = made->file + " is NCCL " + version_text(made->version) + ", and " + version_text(oldest_version) +
                    " or later is needed; TUTTI_NCCL_LIBRARY names another";
  } else if (!lacks.empty()) {
    made->missing = made->file + " (NCCL " + version_text(made->version) + ") has no function " + lacks;
  }
  return made;
}

}  // namespace

const Library& library(const Settings& settings) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, std::unique_ptr<Library>, std::less<>>;
  const std::lock_guard lock(mutex);
  const std::string named = settings.of(nccl_library);
  auto& one = all[named];
  if (!one) one = load(named);
  return *one;
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string describe(const Library& nccl, Result result, const char* function) {
  const char* const what = nccl.call.get_error_string(result);
  std::string text = std::string(function) + ": " + (what ? what : "error " + std::to_string(result));
  const char* const last = nccl.call.get_last_error(nullptr);
  std::string more = last ? last : "";
  std::ranges::replace(more, '\n', ' ');
  while (!more.empty() && more.back() == ' ') more.pop_back();
  if (!more.empty()) text += " (" + more + ")";
  return text;
}

void check(const Library& nccl, Result result, const char* function) {
  if (result == success || result == in_progress) return;
  throw Error(result == invalid_argument || result == invalid_usage ? Code::invalid : Code::resource,
              describe(nccl, result, function) + "; NCCL_DEBUG=WARN makes NCCL say more");
}

}  // namespace tutti::nccl

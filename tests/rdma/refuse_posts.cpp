// To be loaded before a program's libraries (LD_PRELOAD). Makes the program's RDMA devices fail:
//
//   TEST_REFUSE_SENDS=N       N requests to send are accepted and all later ones refused, for lack of a resource
//   TEST_REFUSE_RECEIVES=N    the same for requests to receive
//   TEST_REFUSE_MESSAGES=1    no memory can be registered for a message
//   TEST_BREAK_RXE1=FILE      the device rxe1 reports a fatal error once FILE exists
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

int (*real_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
int (*real_receive)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);

bool refuses(const char* name, int& taken) {
  const char* const most = std::getenv(name);
  return most != nullptr && taken++ >= std::atoi(most);
}

int send_some(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
  static int taken = 0;
  return refuses("TEST_REFUSE_SENDS", taken) ? ENOMEM : real_send(pair, request, refused);
}

int receive_some(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** refused) {
  static int taken = 0;
  return refuses("TEST_REFUSE_RECEIVES", taken) ? ENOMEM : real_receive(pair, request, refused);
}

auto real_register() {
  void* const library = dlopen("libibverbs.so.1", RTLD_LAZY);
  return reinterpret_cast<ibv_mr* (*)(ibv_pd*, void*, size_t, uint64_t, unsigned)>(
      dlvsym(library, "ibv_reg_mr_iova2", "IBVERBS_1.8"));
}

}  // namespace

// Verbs are called through a table in the device's context, which is changed here.
extern "C" ibv_context* ibv_open_device(ibv_device* device) {
  void* const library = dlopen("libibverbs.so.1", RTLD_LAZY);
  const auto real = reinterpret_cast<ibv_context* (*)(ibv_device*)>(dlvsym(library, "ibv_open_device", "IBVERBS_1.1"));
  ibv_context* const context = real(device);
  if (context == nullptr) return nullptr;
  real_send = context->ops.post_send;
  real_receive = context->ops.post_recv;
  context->ops.post_send = send_some;
  context->ops.post_recv = receive_some;
  return context;
}

// A message's buffer is registered by ibv_reg_mr_iova2, because its access flags differ between sender and receiver.
// Memory that stays registered goes through ibv_reg_mr, inside which the library calls the other function.
extern "C" ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* first, size_t bytes, uint64_t address, unsigned access) {
  errno = ENOMEM;
  if (std::getenv("TEST_REFUSE_MESSAGES") != nullptr) return nullptr;
  return real_register()(domain, first, bytes, address, access);
}

extern "C" int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  static bool told = false;
  const char* const file = std::getenv("TEST_BREAK_RXE1");
  if (file != nullptr && !told && std::strcmp(context->device->name, "rxe1") == 0 && access(file, F_OK) == 0) {
    told = true;
    *event = {};
    event->event_type = IBV_EVENT_DEVICE_FATAL;
    return 0;
  }
  void* const library = dlopen("libibverbs.so.1", RTLD_LAZY);
  return reinterpret_cast<int (*)(ibv_context*, ibv_async_event*)>(
      dlvsym(library, "ibv_get_async_event", "IBVERBS_1.1"))(context, event);
}

extern "C" void ibv_ack_async_event(ibv_async_event* event) {
  if (event->event_type == IBV_EVENT_DEVICE_FATAL) return;  // made by ibv_get_async_event above
  void* const library = dlopen("libibverbs.so.1", RTLD_LAZY);
  reinterpret_cast<void (*)(ibv_async_event*)>(dlvsym(library, "ibv_ack_async_event", "IBVERBS_1.1"))(event);
}

#undef ibv_reg_mr
extern "C" ibv_mr* ibv_reg_mr(ibv_pd* domain, void* first, size_t bytes, int access) {
  return real_register()(domain, first, bytes, reinterpret_cast<std::uintptr_t>(first), static_cast<unsigned>(access));
}

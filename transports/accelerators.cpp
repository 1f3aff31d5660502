// The accelerator of this process, and a stand-in for processes without one.
#include "transports/accelerators.hpp"

#include <atomic>
#include <mutex>

#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

// An accelerator without devices; every call is refused with the reason.
class NoAccelerator final : public Accelerator {
 public:
  explicit NoAccelerator(std::string why) : why_(std::move(why)) {}

  std::string_view name() const noexcept override { return "none"; }
  std::string why_not() const override { return why_; }
  const std::vector<DeviceInfo>& devices() const override { return devices_; }
  void with_current(int, const std::function<void()>&) override { refuse(); }
  Device device_of(const void*) const override { return {}; }
  std::shared_ptr<void> allocate(int, std::size_t) override { refuse(); }
  std::shared_ptr<void> allocate_pinned(std::size_t) override { refuse(); }
  std::shared_ptr<void> pin(void*, std::size_t) override { refuse(); }
  Stream make_stream(int, bool) override { refuse(); }
  void destroy(const Stream&) noexcept override {}
  void synchronize(const Stream&) override { refuse(); }
  Event make_event(int) override { refuse(); }
  void destroy(const Event&) noexcept override {}
  void record(const Event&, const Stream&) override { refuse(); }
  void wait(const Stream&, const Event&) override { refuse(); }
  bool query(const Event&) override { refuse(); }
  void synchronize(const Event&) override { refuse(); }
  void copy(const Stream&, void*, const void*, std::size_t) override { refuse(); }
  void zero(const Stream&, void*, std::size_t) override { refuse(); }
  void fold(const Stream&, const Fold&, std::span<std::byte* const>, std::span<const std::byte* const>,
            std::size_t) override {
    refuse();
  }
  void scale(const Stream&, DType, std::span<std::byte>, const std::byte*, double) override { refuse(); }
  std::unique_ptr<Gate> hold(const Stream&) override { refuse(); }
  std::string failure(int) override { return {}; }
  Allocated allocation_of(const void*) const override { refuse(); }
  MemoryHandle share(const Allocated&) override { refuse(); }
  std::byte* open(const MemoryHandle&, int) override { refuse(); }
  void close(std::byte*) noexcept override {}
  bool reach(int, int) override { return false; }

 private:
  [[noreturn]] void refuse() const { throw Error(Code::unsupported, "no device: " + why_); }

  const std::string why_;
  const std::vector<DeviceInfo> devices_;
};

// `why` is a clause. The object is never destroyed.
Accelerator& none(std::string why) { return *new NoAccelerator(std::move(why)); }

Accelerator& load(const Settings& settings) {
  if (settings.accelerator == "none") return none("the setting accelerator is none");
  const Found found = find_provider(settings.accelerator, settings);
  if (found.provider == nullptr) return none(found.reason);
  if (found.provider->accelerator == nullptr)
    return none("the provider '" + settings.accelerator + "', which the setting accelerator names, has no devices");
  return found.provider->accelerator(settings);
}

std::atomic<Accelerator*> chosen{nullptr};

Accelerator& chosen_or(const Settings* settings) {
  static std::mutex mutex;
  if (Accelerator* const one = chosen.load(std::memory_order_acquire)) return *one;
  const std::lock_guard lock(mutex);
  if (Accelerator* const one = chosen.load(std::memory_order_acquire)) return *one;
  Accelerator& loaded = load(settings != nullptr ? *settings : Settings::from_environment());
  chosen.store(&loaded, std::memory_order_release);
  return loaded;
}

}  // namespace

Accelerator& accelerator(const Settings& settings) { return chosen_or(&settings); }
Accelerator& accelerator() { return chosen_or(nullptr); }

int device_of_rank(const Accelerator& one, int local_rank) {
  const std::size_t count = one.devices().size();
  return count == 0 ? 0 : static_cast<int>(static_cast<std::size_t>(local_rank) % count);
}

void use_accelerator(Accelerator& one) noexcept { chosen.store(&one, std::memory_order_release); }

}  // namespace tutti

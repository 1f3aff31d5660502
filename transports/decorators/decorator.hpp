// Decorator: a Transport that forwards all calls except make_backend() to another one; base class of decorators.
#pragma once

#include <memory>
#include <utility>

#include "tutti/provider/transport.hpp"

namespace tutti {

class Decorator : public Transport {
 public:
  explicit Decorator(std::unique_ptr<Transport> inner)
      : Transport(inner->name(), inner->rank(), inner->size()), inner_(std::move(inner)) {}

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override {
    inner_->send(to, tag, call, from, std::move(done));
  }
  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    inner_->recv(from, tag, call, into, std::move(done));
  }
  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    inner_->recv_reduce(from, tag, call, into, with, fold, std::move(done));
  }
  std::optional<Unmatched> arrived(int from, const Tag& tag) override { return inner_->arrived(from, tag); }
  bool retract(int from, const Tag& tag, const std::byte* into) override { return inner_->retract(from, tag, into); }
  void control(int to, ConstBytes message) override { inner_->control(to, message); }
  void spread(const Cause& why) noexcept override { inner_->spread(why); }
  void cancel(std::uint64_t group, const Status& why) noexcept override { inner_->cancel(group, why); }
  bool progress() override { return inner_->progress(); }
  Fds fds() const noexcept override { return inner_->fds(); }
  bool arm(bool on) override { return inner_->arm(on); }
  std::shared_ptr<void> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t bytes) override {
    return inner_->adopt(std::move(memory), bytes);
  }
  std::string describe(int to) const override { return inner_->describe(to); }
  bool polled() const noexcept override { return inner_->polled(); }
  void watch() override { inner_->watch(); }

 protected:
  Transport& inner() noexcept { return *inner_; }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace tutti

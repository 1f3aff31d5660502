#include "engine/strategies/sparse_average.hpp"

#include <c10/core/GradMode.h>

#include "engine/strategies/counts.hpp"

namespace tutti::engine::exchange {
namespace {

constexpr const char* prefix = "sparta.";

}  // namespace

SparseAverage::SparseAverage(double part, std::uint64_t seed, const std::vector<nn::NamedTensor>& parameters,
                             const Replica& replica, nn::SyncStats& given) {
  if (part == 0) return;
  Communicator world = replica.world;
  const auto mask = nn::mask_compression({.part = part, .seed = seed, .feedback = 0, .keep_others = true});
  for (auto& group : by_type(parameters)) {
    const Flat& flat = flats_.emplace_back(group, world, *replica.tensor_device);
    exchanges_.push_back(std::make_unique<nn::Exchange>(world, replica.tensor_device, given));
    codecs_.push_back(mask->codec({.gradients = flat.all(), .parts = flat.parts()}, *exchanges_.back()));
  }
}

void SparseAverage::step() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < flats_.size(); ++i) {
    flats_[i].take();
    codecs_[i]->start(*exchanges_[i]);
  }
  for (std::size_t i = 0; i < flats_.size(); ++i) {
    do exchanges_[i]->wait();
    while (!codecs_[i]->advance(*exchanges_[i]));
    flats_[i].give();
  }
}

std::vector<nn::NamedTensor> SparseAverage::state() const {
  std::vector<nn::NamedTensor> all;
  for (const auto& codec : codecs_)
    for (const auto& [name, tensor] : codec->state()) all.emplace_back(prefix + name, tensor);
  return all;
}

void SparseAverage::load_state(const std::vector<nn::NamedTensor>& state) {
  for (const auto& codec : codecs_) copy_from(state, codec->state(), prefix);
}

}  // namespace tutti::engine::exchange

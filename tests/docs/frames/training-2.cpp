// The engine's loop, with LibTorch.
#include "engine/trainer.hpp"

void train(tutti::Communicator& world, const tutti::engine::Network& network, const tutti::engine::DataSplit& data) {
  // the block
}

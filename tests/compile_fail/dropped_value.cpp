// The result of a scalar collective comes from wait(); dropping it is a mistake.
// expect: ignoring returned value of type .tutti::Value<float>.*nodiscard
#include "tutti.hpp"

float worst(tutti::Communicator& world, float loss) {
#ifdef WRONG
  world.allreduce(loss, tutti::max);
  return loss;
#else
  return world.allreduce(loss, tutti::max).wait();
#endif
}

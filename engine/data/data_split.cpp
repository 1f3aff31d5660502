#include "engine/data/data_split.hpp"

#include "tutti/status.hpp"

namespace tutti::engine {

ImageShape DataSplit::image() const {
  const Array found = train->get(0)[inputs.at(0)];
  const ArrayShape& shape = found.shape();
  if (inputs.size() != 1 || shape.size() != 3)
    throw Error(Code::invalid,
                "the network takes images (channels x height x width, as data=random:1x28x28 has), but '" + inputs[0] +
                    "' is " + found.describe() + ": take another network or other data");
  const auto side = [&](std::size_t d) { return static_cast<std::size_t>(shape[d]); };
  return {side(0), side(1), side(2)};
}

std::vector<Transform> DataSplit::preparation() const {
  std::vector<Transform> found;
  const Sample one = train->get(0);
  for (const std::string& input : inputs)
    if (one[input].dtype() == DType::u8)
      found.push_back(&input == &inputs[0] ? normalise(input, mean, deviation) : normalise(input, {0}, {1}));
  found.push_back(classes > 0 ? check_label(target, classes) : convert(target, DType::f32));
  return found;
}

}  // namespace tutti::engine

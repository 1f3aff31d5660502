// data=random: random samples of any shape, the same for equal seeds. Three dimensions give images of bytes; other
// shapes give f32 in [-1, 1).
#include "engine/data/random.hpp"

#include <charconv>

#include "engine/data/formats/kinds.hpp"

namespace tutti::engine {
namespace {

ArrayShape parse_shape(const Source& source, std::string_view text) {
  constexpr std::int64_t largest = 1 << 20;
  ArrayShape shape;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data();; ++at) {
    std::int64_t dim = 0;
    const auto [rest, error] = std::from_chars(at, end, dim);
    if (error != std::errc() || dim < 1 || dim > largest || (rest != end && *rest != 'x'))
      source.refuse("'" + std::string(text) + "' is no shape");
    shape.push_back(dim);
    at = rest;
    if (at == end) break;
  }
  elements(shape);
  return shape;
}

Array random_numbers(ArrayShape shape, std::size_t samples, Random& random) {
  const bool images = shape.size() == 3;
  shape.insert(shape.begin(), static_cast<std::int64_t>(samples));
  return Array::make(images ? DType::u8 : DType::f32, shape, [&](std::byte* into) {
    const std::size_t count = elements(shape);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t draw = random.next();
      if (images)
        into[i] = static_cast<std::byte>(draw >> 56);
      else
        reinterpret_cast<float*>(into)[i] = static_cast<float>(draw >> 40) * 0x1p-23F - 1.0F;
    }
  });
}

std::shared_ptr<const Dataset> random_part(const Source& source, const DataSplit& split, std::size_t samples,
                                           Random random) {
  const ArrayShape shape = parse_shape(source, source.values.at(0));
  Fields columns{{split.inputs[0], random_numbers(shape, samples, random)}};
  if (split.classes == 0) {
    columns[split.target] = random_numbers(parse_shape(source, source.option("target")), samples, random);
  } else {
    std::vector<std::int64_t> labels(samples);
    for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<std::int64_t>(i % split.classes);
    columns[split.target] = Array(std::move(labels));
  }
  return std::make_shared<ArrayDataset>(std::move(columns));
}

}  // namespace

DataSplit open_random(const Source& source) {
  const ArrayShape shape = parse_shape(source, source.values.at(0));
  const std::size_t samples = source.number("samples", source.random_samples);
  const bool classes = source.option("target").empty();
  DataSplit split;
  split.inputs = {shape.size() == 3 ? "image" : "input"};
  split.target = classes ? "label" : "target";
  split.classes = classes ? source.number("classes", 10) : 0;
  split.train = random_part(source, split, samples, Random::keyed(source.seed, 1));
  split.test = random_part(source, split, std::max<std::size_t>(samples / 8, 1), Random::keyed(source.seed, 2));
  measure(split);
  split.description = "random tensors of " + describe(shape) + ", not images: " + std::to_string(samples) +
                      " samples for measuring throughput; accuracy means nothing here";
  return split;
}

}  // namespace tutti::engine

// The progress of an epoch as a checkpoint contains it, and samplers that resume from it.
#include "engine/data/sampler.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {
namespace {

void go_on(engine::Progress progress, engine::Way way) {
  engine::Sampler sampler({.samples = 100, .batch = 8, .rank = 1, .size = 2, .seed = 3, .way = way, .files = {60, 40}});
  if (way != engine::Way::batch) progress.data.clear();  // it names one Way only
  sampler.resume(progress);
  std::size_t samples = 0;
  for (std::size_t step = sampler.first_step(); step < sampler.steps(); ++step) samples += sampler.local(step).size();
  expect(samples <= 100, "a sample is seen twice");
  expect(engine::Progress::parse(sampler.progress(sampler.steps()).text()).epoch == progress.epoch, "another epoch");
}

}  // namespace

bool take(Input input) {
  using engine::Way;
  return !refuses([&] {
    const engine::Progress progress = engine::Progress::parse(text_of(input));
    for (const Way way : {Way::contiguous, Way::strided, Way::file, Way::batch}) go_on(progress, way);
  });
}

}  // namespace tutti::fuzz

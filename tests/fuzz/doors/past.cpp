// The history of a run, beside its checkpoints.
#include "engine/checkpoint/history.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  return !refuses(
      [&] {
        const engine::RunPast past = engine::parse_history(text_of(input), "history.jsonl");
        expect(past.losses.size() + past.epochs.size() + past.validations.size() <= input.size(),
               "more results than bytes");
      },
      "history.jsonl");
}

}  // namespace tutti::fuzz

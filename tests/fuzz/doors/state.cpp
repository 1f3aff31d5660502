// The state of a run, in a checkpoint.
#include "engine/checkpoint/state.hpp"

#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const auto file = file_with(input, ".json");
  return !refuses(
      [&] {
        const auto state = engine::RunState::read(file);
        expect(state.ranks > 0, "a run of no ranks");
        expect(state.best_validation <= state.history.validations, "the best validation is none of those that were");
        const auto& past = state.history;
        expect(past.bytes > 0 || past.file.empty() || past.losses + past.epochs + past.validations == 0,
               "an empty history has results");
        state.json();
      },
      file.string());
}

}  // namespace tutti::fuzz

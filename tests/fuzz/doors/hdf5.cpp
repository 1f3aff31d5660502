// Data of HDF5 files: the names of the data sets, and all of their rows.
#include "engine/data/formats/hdf5_file.hpp"
#include "tests/fuzz/door.hpp"

/// LeakSanitizer calls this. libhdf5 leaks memory of its own when it refuses a corrupt file.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace tutti::fuzz {

bool take(Input input) {
  const auto file = file_with(input, ".h5");
  return !refuses(
      [&] {
        engine::Hdf5File::try_out(file, {}, {"/"});
        const engine::Hdf5File opened(file);
        for (const engine::Hdf5Column& column : opened.columns("/")) opened.read(column);
      },
      file.string());
}

}  // namespace tutti::fuzz

// Replaces hdf5.cpp and hdf5_file.cpp in builds without the HDF5 library.
#include "engine/data/formats/hdf5_file.hpp"
#include "engine/data/formats/kinds.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

DataSplit open_hdf5(const Source& source) {
  source.refuse("this tutti was built without HDF5: install libhdf5-dev and build it again");
}

void write_hdf5(const std::filesystem::path& file, const Fields&) {
  throw Error(Code::unsupported, file.string() +
                                     ": this tutti was built without HDF5, which it would be written with: "
                                     "install libhdf5-dev and build it again");
}

}  // namespace tutti::engine

// The addresses of MPI_IN_PLACE and MPI_BOTTOM in Open MPI's Fortran.
#include "bindings/mpi/fortran.hpp"

#include <dlfcn.h>

namespace tutti::preload {

constinit const void* fortran::in_places[2 * spellings] = {};
constinit const void* fortran::bottoms[2 * spellings] = {};

// Looks up the program's variables, and those of the MPI library in case only a module of the program links that
// library. A missing name gets an address that no buffer has; it is not null, because null is C's MPI_BOTTOM.
void find_fortran_addresses() noexcept {
  constexpr const char* in_place[] = {"mpi_fortran_in_place_", "mpi_fortran_in_place__", "mpi_fortran_in_place",
                                      "MPI_FORTRAN_IN_PLACE"};
  constexpr const char* bottom[] = {"mpi_fortran_bottom_", "mpi_fortran_bottom__", "mpi_fortran_bottom",
                                    "MPI_FORTRAN_BOTTOM"};
  const auto find = [](void* where, const char* const(&names)[fortran::spellings], const void** found) {
    for (const char* name : names) {
      const void* const address = dlsym(where, name);
      *found++ = address != nullptr ? address : &fortran::in_places;
    }
  };
  find(RTLD_DEFAULT, in_place, fortran::in_places);
  find(mpi_library(), in_place, fortran::in_places + fortran::spellings);
  find(RTLD_DEFAULT, bottom, fortran::bottoms);
  find(mpi_library(), bottom, fortran::bottoms + fortran::spellings);
}

}  // namespace tutti::preload

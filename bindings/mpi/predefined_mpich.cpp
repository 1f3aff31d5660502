// The predefined types and operators of MPICH and MPIs derived from it: integer constants.
#include "bindings/mpi/library.hpp"

namespace tutti::preload {

std::vector<PredefinedType> predefined_types(void*) {
  const PredefinedType all[] = {{MPI_CHAR, Sort::whole},
                                {MPI_SIGNED_CHAR, Sort::whole},
                                {MPI_UNSIGNED_CHAR, Sort::natural},
                                {MPI_BYTE, Sort::byte},
                                {MPI_SHORT, Sort::whole},
                                {MPI_UNSIGNED_SHORT, Sort::natural},
                                {MPI_INT, Sort::whole},
                                {MPI_UNSIGNED, Sort::natural},
                                {MPI_LONG, Sort::whole},
                                {MPI_UNSIGNED_LONG, Sort::natural},
                                {MPI_LONG_LONG_INT, Sort::whole},
                                {MPI_UNSIGNED_LONG_LONG, Sort::natural},
                                {MPI_INT8_T, Sort::whole},
                                {MPI_UINT8_T, Sort::natural},
                                {MPI_INT16_T, Sort::whole},
                                {MPI_UINT16_T, Sort::natural},
                                {MPI_INT32_T, Sort::whole},
                                {MPI_UINT32_T, Sort::natural},
                                {MPI_INT64_T, Sort::whole},
                                {MPI_UINT64_T, Sort::natural},
                                {MPI_AINT, Sort::whole},
                                {MPI_OFFSET, Sort::whole},
                                {MPI_COUNT, Sort::whole},
                                {MPI_FLOAT, Sort::real},
                                {MPI_DOUBLE, Sort::real},
                                {MPI_C_BOOL, Sort::truth},
                                {MPI_C_FLOAT_COMPLEX, Sort::complex},
                                {MPI_C_DOUBLE_COMPLEX, Sort::complex},
                                {MPI_INTEGER, Sort::whole},
                                {MPI_INTEGER1, Sort::whole},
                                {MPI_INTEGER2, Sort::whole},
                                {MPI_INTEGER4, Sort::whole},
                                {MPI_INTEGER8, Sort::whole},
                                {MPI_REAL, Sort::real},
                                {MPI_REAL4, Sort::real},
                                {MPI_REAL8, Sort::real},
                                {MPI_DOUBLE_PRECISION, Sort::real},
                                {MPI_COMPLEX, Sort::complex},
                                {MPI_COMPLEX8, Sort::complex},
                                {MPI_COMPLEX16, Sort::complex},
                                {MPI_DOUBLE_COMPLEX, Sort::complex}};
  const MPI_Datatype none = MPI_DATATYPE_NULL;  // for Fortran types if MPI was built without Fortran
  std::vector<PredefinedType> found;
  for (const PredefinedType& one : all)
    if (one.type != none) found.push_back(one);
  return found;
}

LogicalOps logical_ops(void*) { return {MPI_LAND, MPI_LOR, MPI_LXOR}; }

}  // namespace tutti::preload

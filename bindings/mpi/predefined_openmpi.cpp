// The predefined types and operators of Open MPI: variables of its library, looked up by name.
#include "bindings/mpi/library.hpp"

namespace tutti::preload {

std::vector<PredefinedType> predefined_types(void* library) {
  constexpr struct {
    const char* variable;
    Sort sort;
  } all[] = {{"char", Sort::whole},
             {"signed_char", Sort::whole},
             {"unsigned_char", Sort::natural},
             {"byte", Sort::byte},
             {"short", Sort::whole},
             {"unsigned_short", Sort::natural},
             {"int", Sort::whole},
             {"unsigned", Sort::natural},
             {"long", Sort::whole},
             {"unsigned_long", Sort::natural},
             {"long_long_int", Sort::whole},
             {"unsigned_long_long", Sort::natural},
             {"int8_t", Sort::whole},
             {"uint8_t", Sort::natural},
             {"int16_t", Sort::whole},
             {"uint16_t", Sort::natural},
             {"int32_t", Sort::whole},
             {"uint32_t", Sort::natural},
             {"int64_t", Sort::whole},
             {"uint64_t", Sort::natural},
             {"aint", Sort::whole},
             {"offset", Sort::whole},
             {"count", Sort::whole},
             {"float", Sort::real},
             {"double", Sort::real},
             {"c_bool", Sort::truth},
             {"c_float_complex", Sort::complex},
             {"c_double_complex", Sort::complex},
             {"integer", Sort::whole},
             {"integer1", Sort::whole},
             {"integer2", Sort::whole},
             {"integer4", Sort::whole},
             {"integer8", Sort::whole},
             {"real", Sort::real},
             {"real4", Sort::real},
             {"real8", Sort::real},
             {"dblprec", Sort::real},
             {"cplex", Sort::complex},
             {"complex8", Sort::complex},
             {"complex16", Sort::complex},
             {"dblcplex", Sort::complex}};
  std::vector<PredefinedType> found;
  for (const auto& [variable, sort] : all) {
    const std::string name = std::string("ompi_mpi_") + variable;
    if (const auto type = mpi::predefined<MPI_Datatype>(library, name.c_str())) found.push_back({type, sort});
  }
  return found;
}

LogicalOps logical_ops(void* library) {
  return {mpi::predefined<MPI_Op>(library, "ompi_mpi_op_land"), mpi::predefined<MPI_Op>(library, "ompi_mpi_op_lor"),
          mpi::predefined<MPI_Op>(library, "ompi_mpi_op_lxor")};
}

}  // namespace tutti::preload

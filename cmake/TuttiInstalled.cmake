# The package for Python, and with it the backend for torch, compiled alone for a tutti that is installed:
# `TUTTI_ROOT=PREFIX pip install .`, or -DTUTTI_ROOT=PREFIX, where PREFIX is what `cmake --install BUILD --prefix PREFIX` was given.
#
# The bindings include headers of libtutti that are not installed, so this tree has to be the one that was installed: of the same
# version, and with the same headers.
set(usual "")
if(DEFINED SKBUILD)  # only of pip is it known that it is meant
  set(usual "$ENV{TUTTI_ROOT}")
endif()
set(TUTTI_ROOT "${usual}" CACHE PATH "An installed tutti, for which the Python package alone is built; empty: build all of tutti")

# One hash of the headers that the bindings may include.
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS include/*.hpp collectives/*.hpp transports/core/*.hpp)
file(GLOB more RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS transports/*.hpp)
list(APPEND headers ${more})
list(SORT headers)
set(hashes "")
foreach(header IN LISTS headers)
  file(SHA256 ${PROJECT_SOURCE_DIR}/${header} hash)
  string(APPEND hashes "${header} ${hash}\n")
endforeach()
string(SHA256 TUTTI_HEADERS "${hashes}")

# Sets tutti::tutti, and TUTTI_INSTALLED_LIB, _BIN and _INCLUDE, or ends the configuring with what to do.
macro(tutti_find_installed)
  get_filename_component(TUTTI_ROOT "${TUTTI_ROOT}" ABSOLUTE BASE_DIR "$ENV{PWD}")
  set(install_first "install one (cmake --preset release && cmake --build --preset release && cmake --install build/release --prefix ${TUTTI_ROOT}), or leave TUTTI_ROOT out, which builds all of tutti")
  find_package(tutti CONFIG QUIET PATHS ${TUTTI_ROOT} PATH_SUFFIXES lib/cmake/tutti lib64/cmake/tutti ${CMAKE_INSTALL_LIBDIR}/cmake/tutti NO_DEFAULT_PATH)
  if(NOT tutti_FOUND)
    message(FATAL_ERROR "TUTTI_ROOT=${TUTTI_ROOT}: there is no installed tutti (tutti-config.cmake): ${install_first}.")
  endif()
  if(NOT tutti_VERSION VERSION_EQUAL PROJECT_VERSION)
    message(FATAL_ERROR "TUTTI_ROOT=${TUTTI_ROOT}: the tutti there is ${tutti_VERSION}, and this tree's Python package needs ${PROJECT_VERSION}: ${install_first}; or take the sources of ${tutti_VERSION}.")
  endif()
  if(NOT "${tutti_HEADERS}" STREQUAL "${TUTTI_HEADERS}")
    message(FATAL_ERROR "TUTTI_ROOT=${TUTTI_ROOT}: the tutti ${tutti_VERSION} there was built from other headers than this tree's: ${install_first}; or take the sources that it was built from.")
  endif()
  get_target_property(library_type tutti::tutti TYPE)
  if(NOT library_type STREQUAL "SHARED_LIBRARY")
    message(FATAL_ERROR "TUTTI_ROOT=${TUTTI_ROOT}: the tutti there is a static library; the Python package needs a shared one (BUILD_SHARED_LIBS=ON): ${install_first}.")
  endif()
  get_target_property(library tutti::tutti LOCATION)
  get_filename_component(TUTTI_INSTALLED_LIB "${library}" DIRECTORY)
  get_target_property(TUTTI_INSTALLED_INCLUDE tutti::tutti INTERFACE_INCLUDE_DIRECTORIES)
  set(TUTTI_INSTALLED_BIN ${TUTTI_ROOT}/${CMAKE_INSTALL_BINDIR})
  message(STATUS "The Python package alone is built, for the tutti ${tutti_VERSION} in ${TUTTI_ROOT}")
endmacro()

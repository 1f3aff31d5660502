# Install rules and the package config: find_package(tutti) gives tutti::tutti, and tutti::nn with COMPONENTS nn.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

install(TARGETS tutti EXPORT tutti-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT tutti-targets NAMESPACE tutti:: DESTINATION ${package_dir})

# The headers keep their paths, so that they include one another as they do here; tutti.hpp and tutti_mpi.hpp are also on top.
install(DIRECTORY transports collectives DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti FILES_MATCHING PATTERN "*.hpp")
install(FILES collectives/tutti.hpp collectives/tutti_mpi.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti)

# tutti::nn is described by hand in the config: which LibTorch it needs is for the user's CMake to find.
set(TUTTI_HAS_NN OFF)
if(TARGET tutti_nn)
  set(TUTTI_HAS_NN ON)
  install(TARGETS tutti_nn LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY nn engine DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti FILES_MATCHING PATTERN "*.hpp")
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tutti-config.cmake.in ${PROJECT_BINARY_DIR}/tutti-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tutti-config.cmake ${PROJECT_BINARY_DIR}/tutti-config-version.cmake
  DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Installed tree: the library, its public headers, the program, and a package for find_package(rlx).

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rlx)

install(TARGETS rlx rlx_extras EXPORT rlxTargets)
install(DIRECTORY include/rlx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET rlx_cli)
  install(TARGETS rlx_command_line rlx_media EXPORT rlxTargets)
  install(TARGETS rlx_cli)
endif()

install(EXPORT rlxTargets NAMESPACE rlx:: DESTINATION ${package_dir})
configure_package_config_file(cmake/rlxConfig.cmake.in ${PROJECT_BINARY_DIR}/rlxConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rlxConfig.cmake ${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake
  DESTINATION ${package_dir})

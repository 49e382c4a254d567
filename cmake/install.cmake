# Installed tree: the library, its public headers, the program, documents, and a package for find_package(rlx).

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rlx)

install(TARGETS rlx rlx_extras EXPORT rlxTargets)
install(DIRECTORY include/rlx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT rlxTargets NAMESPACE rlx:: DESTINATION ${package_dir})
# What needs libpng and libjpeg-turbo is apart, so that those who do not ask for it need neither.
if(TARGET rlx_cli)
  set_target_properties(rlx_measure PROPERTIES EXPORT_NAME measure)
  install(TARGETS rlx_command_line rlx_measure rlx_media EXPORT rlxMediaTargets)
  install(EXPORT rlxMediaTargets NAMESPACE rlx:: DESTINATION ${package_dir})
  install(TARGETS rlx_cli)
endif()

# Beside each other as here, so that the links between them lead somewhere.
install(FILES LICENSE README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(cmake/rlxConfig.cmake.in ${PROJECT_BINARY_DIR}/rlxConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rlxConfig.cmake ${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake
  DESTINATION ${package_dir})

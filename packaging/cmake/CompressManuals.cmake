# CPack runs this script before it packs a package: Debian's packages have compressed manual pages.
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_DIRECTORY}/*.[1-8]")
list(FILTER pages INCLUDE REGEX "/share/man/man[1-8]/")
foreach(page ${pages})
  execute_process(COMMAND gzip -9nf "${page}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# HOCKET_SANITIZE is a list for -fsanitize=; it applies to everything that is built.
if(HOCKET_SANITIZE)
  string(REPLACE ";" "," flags "${HOCKET_SANITIZE}")
  add_compile_options(-fsanitize=${flags} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${flags})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-error=maybe-uninitialized)  # instrumented <regex> looks so to g++ 12 (GCC bug 105562)
    if("thread" IN_LIST HOCKET_SANITIZE)
      add_compile_options(-Wno-error=tsan)  # Boost.Asio has fences, which it does not need beside its mutexes
    endif()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND "undefined" IN_LIST HOCKET_SANITIZE)
    add_compile_options(-fno-sanitize=function)       # clang 14 cannot compile coroutines with it
  endif()
endif()

// What the C tests share: each check says what it was about, and ends the program where it fails.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

static int checks = 0;

static void check(int holds, const char* what) {
  __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);  // a store's functions are called by several threads
  if (holds) return;
  fprintf(stderr, "failed: %s (the last error: '%s')\n", what, tutti_last_error());
  exit(1);
}

static void ok(tutti_result result, const char* what) {
  if (result != TUTTI_OK) fprintf(stderr, "%s: %s: ", tutti_result_name(result), tutti_last_error());
  check(result == TUTTI_OK, what);
}

static inline void refused(tutti_result result, const char* what) {
  check(result == TUTTI_INVALID && strlen(tutti_last_error()) > 10, what);
}

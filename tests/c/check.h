// Checks that the C tests share. A check that fails prints what it checked, and ends the program.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

static int checks = 0;

static void check(int holds, const char* what) {
  __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);  // atomic, because ranks may be threads, which all call check()
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

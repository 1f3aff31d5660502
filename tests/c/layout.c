// Prints what a compiled program relies on: the values of all enums, and the sizes and offsets of all structs. Compared
// with layout.txt, of which no line may ever change on 64-bit machines.
#include <stddef.h>
#include <stdio.h>
#include <tutti.h>

static void show(const char* name, long value) { printf("%s %ld\n", name, value); }

static void results_and_types(void) {
  static const tutti_result results[] = {TUTTI_OK,       TUTTI_PEER_LOST,   TUTTI_MISMATCH,   TUTTI_TIMEOUT,
                                         TUTTI_ABORTED,  TUTTI_UNSUPPORTED, TUTTI_INVALID,    TUTTI_RESOURCE,
                                         TUTTI_PROTOCOL, TUTTI_INTERNAL,    TUTTI_IN_PROGRESS};
  for (size_t i = 0; i < sizeof results / sizeof results[0]; ++i) show(tutti_result_name(results[i]), results[i]);
  show("TUTTI_I8", TUTTI_I8);
  show("TUTTI_U8", TUTTI_U8);
  show("TUTTI_I16", TUTTI_I16);
  show("TUTTI_I32", TUTTI_I32);
  show("TUTTI_I64", TUTTI_I64);
  show("TUTTI_F16", TUTTI_F16);
  show("TUTTI_BF16", TUTTI_BF16);
  show("TUTTI_F32", TUTTI_F32);
  show("TUTTI_F64", TUTTI_F64);
  show("TUTTI_U16", TUTTI_U16);
  show("TUTTI_U32", TUTTI_U32);
  show("TUTTI_U64", TUTTI_U64);
  show("TUTTI_BOOL", TUTTI_BOOL);
  show("TUTTI_C64", TUTTI_C64);
  show("TUTTI_C128", TUTTI_C128);
  show("TUTTI_BYTES", TUTTI_BYTES);
}

static void operators(void) {
  show("TUTTI_SUM", TUTTI_SUM);
  show("TUTTI_AVG", TUTTI_AVG);
  show("TUTTI_PROD", TUTTI_PROD);
  show("TUTTI_MIN", TUTTI_MIN);
  show("TUTTI_MAX", TUTTI_MAX);
  show("TUTTI_BAND", TUTTI_BAND);
  show("TUTTI_BOR", TUTTI_BOR);
  show("TUTTI_BXOR", TUTTI_BXOR);
  show("TUTTI_PREMUL_SUM", TUTTI_PREMUL_SUM);
  show("TUTTI_ANY_RANK", TUTTI_ANY_RANK);
}

static void structs(void) {
  show("tutti_config", sizeof(tutti_config));
  show("tutti_config.timeout", offsetof(tutti_config, timeout));
  show("tutti_config.connect_timeout", offsetof(tutti_config, connect_timeout));
  show("tutti_config.rank", offsetof(tutti_config, rank));
  show("tutti_config.size", offsetof(tutti_config, size));
  show("tutti_config.local_rank", offsetof(tutti_config, local_rank));
  show("tutti_config.local_size", offsetof(tutti_config, local_size));
  show("tutti_config.job", offsetof(tutti_config, job));
  show("tutti_config.secret", offsetof(tutti_config, secret));
  show("tutti_config.settings", offsetof(tutti_config, settings));
  show("tutti_call", sizeof(tutti_call));
  show("tutti_call.timeout", offsetof(tutti_call, timeout));
  show("tutti_call.factor", offsetof(tutti_call, factor));
  show("tutti_call.algorithm", offsetof(tutti_call, algorithm));
  show("tutti_call.device", offsetof(tutti_call, device));
  show("tutti_call.stream", offsetof(tutti_call, stream));
  show("tutti_call.has_stream", offsetof(tutti_call, has_stream));
  show("tutti_store_ops", sizeof(tutti_store_ops));
  show("tutti_store_ops.set", offsetof(tutti_store_ops, set));
  show("tutti_store_ops.wait", offsetof(tutti_store_ops, wait));
  show("tutti_store_ops.find", offsetof(tutti_store_ops, find));
  show("tutti_store_ops.add", offsetof(tutti_store_ops, add));
  show("tutti_store_ops.set_once", offsetof(tutti_store_ops, set_once));
  show("tutti_store_ops.erase", offsetof(tutti_store_ops, erase));
  show("tutti_oob", sizeof(tutti_oob));
  show("tutti_oob.rank", offsetof(tutti_oob, rank));
  show("tutti_oob.size", offsetof(tutti_oob, size));
  show("tutti_oob.allgather", offsetof(tutti_oob, allgather));
  show("tutti_unique_id", sizeof(tutti_unique_id));
}

int main(void) {
  results_and_types();
  operators();
  structs();
  return 0;
}

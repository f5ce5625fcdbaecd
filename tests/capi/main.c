/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that opens a model, trains it, goes on from a checkpoint, saves and runs it, and
 * makes mistakes on purpose. Arguments: the model, a file with input [N, 3] and output [N, 2]; a
 * folder. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hone/hone.h"

static int failures = 0;

static void check(int ok, const char* what, const hone_error* error) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "FAILED: %s (%s)\n", what, error ? error->message : "");
}

static hone_tensor tensor(const char* name, hone_dtype dtype, int64_t n, int64_t m,
                          const void* data, size_t bytes) {
  hone_tensor t;
  memset(&t, 0, sizeof t);
  t.struct_size = sizeof t;
  t.name = name;
  t.dtype = dtype;
  t.rank = m ? 2 : 1;
  t.dims[0] = n;
  t.dims[1] = m;
  t.data = data;
  t.bytes = bytes;
  return t;
}

int main(int argc, char** argv) {
  hone_error error = {sizeof(hone_error), ""};
  hone_model *model = NULL, *trained = NULL, *again = NULL;
  hone_session* session = NULL;
  hone_session_options limited;
  hone_result* result = NULL;
  hone_trainer *trainer = NULL, *resumed = NULL;
  float x[4][3] = {{1, 0, 0}, {-1, 0, 1}, {2, 1, 0}, {-2, 1, 1}};
  int64_t label[4] = {1, 0, 1, 0};
  double first = 0, loss = 0, other = 0;
  int64_t peak = 0;
  char path[512], checkpoint[512];
  int i;
  hone_tensor batch[2], out;
  hone_trainer_options options;

  if (argc != 3) return 2;
  snprintf(path, sizeof path, "%s/capi.hone", argv[2]);
  snprintf(checkpoint, sizeof checkpoint, "%s/capi.ckpt", argv[2]);
  batch[0] = tensor("x", HONE_F32, 4, 3, x, sizeof x);
  batch[1] = tensor("label", HONE_I64, 4, 0, label, sizeof label);

  check(hone_model_open("no/such/file", &again, &error) == HONE_NOT_FOUND, "missing file", &error);
  check(strstr(error.message, "no/such/file") != NULL, "the message names the file", &error);
  check(hone_model_open(NULL, &again, &error) == HONE_INVALID_ARGUMENT, "null path", &error);
  check(hone_model_open(argv[1], &model, &error) == HONE_OK, "open", &error);
  if (!model) return 1;
  check(hone_model_input_count(model) == 1, "one input", NULL);
  check(strcmp(hone_model_input_name(model, 0), "x") == 0, "its name", NULL);
  check(hone_model_output_name(model, 7) == NULL, "no output 7", NULL);

  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.loss = "cross_entropy(logits, label)";
  options.optimizer = HONE_ADAMW;
  options.lr = 0.05;
  check(hone_trainer_create(model, &options, &trainer, &error) == HONE_OK, "trainer", &error);
  if (!trainer) return 1;
  check(hone_trainer_step(trainer, batch, 1, &loss, &error) == HONE_NOT_FOUND, "no label", &error);
  check(hone_trainer_step(trainer, batch, 2, &first, &error) == HONE_OK, "step", &error);
  for (i = 0; i < 100; ++i)
    check(hone_trainer_step(trainer, batch, 2, &loss, &error) == HONE_OK, "step", &error);
  check(loss < first, "the loss falls", NULL);
  check(hone_trainer_save(trainer, checkpoint, &error) == HONE_OK, "checkpoint", &error);
  check(hone_trainer_create(model, &options, &resumed, &error) == HONE_OK, "second", &error);
  check(hone_trainer_restore(resumed, checkpoint, &error) == HONE_OK, "restore", &error);
  check(hone_trainer_step(trainer, batch, 2, &loss, &error) == HONE_OK, "step on", &error);
  check(hone_trainer_step(resumed, batch, 2, &other, &error) == HONE_OK, "step on", &error);
  check(loss == other, "the same loss, bit for bit", NULL);
  check(hone_trainer_peak_bytes(trainer, batch, 2, &peak, &error) == HONE_OK, "peak", &error);
  check(peak > 0, "it takes memory", NULL);
  check(hone_trainer_set_memory_limit(trainer, 16, &error) == HONE_OUT_OF_MEMORY, "16 bytes",
        &error);
  check(strstr(error.message, "the smallest that works") != NULL, "the message says what works",
        &error);
  check(hone_trainer_set_memory_limit(trainer, peak, &error) == HONE_OK, "its own peak", &error);
  check(hone_trainer_step(trainer, batch, 2, &loss, &error) == HONE_OK, "step in it", &error);
  label[0] = 5;
  check(hone_trainer_step(trainer, batch, 2, &loss, &error) == HONE_INVALID_ARGUMENT, "label 5",
        &error);
  label[0] = 1;

  check(hone_trainer_model(trainer, &trained, &error) == HONE_OK, "snapshot", &error);
  check(hone_model_save(trained, path, &error) == HONE_OK, "save", &error);
  check(hone_model_open(path, &again, &error) == HONE_OK, "open again", &error);
  memset(&limited, 0, sizeof limited);
  limited.struct_size = sizeof limited;
  limited.max_dims = "N=";
  check(hone_session_create(again, &limited, &session, &error) == HONE_INVALID_ARGUMENT,
        "N=", &error);
  limited.max_dims = "N=3";
  check(hone_session_create(again, &limited, &session, &error) == HONE_OK, "limited", &error);
  check(hone_session_run(session, batch, 1, &result, &error) == HONE_INVALID_ARGUMENT,
        "4 rows of at most 3", &error);
  hone_session_free(session);
  session = NULL;
  check(hone_session_create(again, NULL, &session, &error) == HONE_OK, "session", &error);
  check(hone_session_run(session, batch, 1, &result, &error) == HONE_OK, "run", &error);
  check(hone_result_count(result) == 1, "one output", NULL);
  memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  check(hone_result_get(result, 0, &out, &error) == HONE_OK, "output", &error);
  check(out.rank == 2 && out.dims[0] == 4 && out.dims[1] == 2, "its shape", NULL);
  for (i = 0; out.data && i < 4; ++i) {
    const float* row = (const float*)out.data + 2 * i;
    check((row[1] > row[0]) == (label[i] == 1), "it has learned the labels", NULL);
  }
  check(hone_result_get(result, 3, &out, &error) == HONE_INVALID_ARGUMENT, "no output 3", &error);
  batch[0].bytes = 8;
  hone_result_free(result);
  result = NULL;
  check(hone_session_run(session, batch, 1, &result, &error) == HONE_INVALID_ARGUMENT, "bytes",
        &error);

  hone_result_free(result);
  hone_session_free(session);
  hone_trainer_free(trainer);
  hone_trainer_free(resumed);
  hone_model_free(model);
  hone_model_free(trained);
  hone_model_free(again);
  printf("hone %s: %d failures\n", hone_version(), failures);
  return failures != 0;
}

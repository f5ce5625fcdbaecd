/* SPDX-License-Identifier: Apache-2.0 */
/* Hone's C interface: open a model, run it, train it, save it. Stable: structs begin with their
 * size and only grow at their end, functions are only added.
 *
 * Objects are opaque and owned by the caller, who frees them with the matching _free (a null
 * pointer is fine). One object is for one thread at a time; a model may serve many sessions and
 * trainers. Every call that may fail returns a code, and writes one sentence into `error` unless it
 * is null. Nothing aborts, prints or throws. */
#ifndef HONE_HONE_H
#define HONE_HONE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HONE_API __attribute__((visibility("default")))
#else
#define HONE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hone_code {
  HONE_OK = 0,
  HONE_INVALID_ARGUMENT = 1, /* the caller's mistake */
  HONE_INVALID_MODEL = 2,    /* a damaged file */
  HONE_UNSUPPORTED = 3,
  HONE_NOT_FOUND = 4,
  HONE_IO_ERROR = 5,
  HONE_OUT_OF_MEMORY = 6,
  HONE_CANCELLED = 7,
  HONE_INTERNAL = 8
} hone_code;

/* Where a failure is explained. Set struct_size to sizeof(hone_error) before the first use. */
typedef struct hone_error {
  size_t struct_size;
  char message[1024]; /* ends with a zero byte; cut when longer */
} hone_error;

typedef enum hone_dtype {
  HONE_F64 = 0,
  HONE_F32 = 1,
  HONE_F16 = 2,
  HONE_BF16 = 3,
  HONE_I8 = 4,
  HONE_U8 = 5,
  HONE_I32 = 6,
  HONE_I64 = 7,
  HONE_BOOL = 8
} hone_dtype;

#define HONE_MAX_RANK 8

/* A tensor in the caller's memory (inputs) or in a result's (outputs): contiguous, row-major. */
typedef struct hone_tensor {
  size_t struct_size;
  const char* name;
  hone_dtype dtype;
  int32_t rank;
  int64_t dims[HONE_MAX_RANK];
  const void* data;
  size_t bytes; /* must be what dtype and dims say */
} hone_tensor;

typedef struct hone_model hone_model;
typedef struct hone_session hone_session;
typedef struct hone_result hone_result;
typedef struct hone_trainer hone_trainer;

/* "0.1.0". */
HONE_API const char* hone_version(void);

/* ---- models */

/* Opens a .hone, .onnx or .tflite file. */
HONE_API hone_code hone_model_open(const char* path, hone_model** model, hone_error* error);
/* Writes a .hone file, atomically. */
HONE_API hone_code hone_model_save(const hone_model* model, const char* path, hone_error* error);
/* Writes an ONNX file. */
HONE_API hone_code hone_model_export_onnx(const hone_model* model, const char* path,
                                          hone_error* error);
HONE_API size_t hone_model_input_count(const hone_model* model);
HONE_API size_t hone_model_output_count(const hone_model* model);
/* Names live as long as the model; null when there is no such input or output. */
HONE_API const char* hone_model_input_name(const hone_model* model, size_t index);
HONE_API const char* hone_model_output_name(const hone_model* model, size_t index);
HONE_API void hone_model_free(hone_model* model);

/* ---- running */

typedef struct hone_session_options {
  size_t struct_size;
  int32_t threads;       /* the caller's included; 0: 1 */
  int64_t memory_limit;  /* bytes for weights, activations and scratch; 0: none */
  const char* max_dims;  /* "N=16,T=512": the largest extents of named dimensions, larger inputs are
                            refused; null: none */
  int32_t deterministic; /* not 0: the same bits for any number of threads */
} hone_session_options;

/* `options` may be null. The model's weights are shared: the model may be freed, not changed. */
HONE_API hone_code hone_session_create(const hone_model* model, const hone_session_options* options,
                                       hone_session** session, hone_error* error);
/* Runs on named inputs, whose memory is read during the call only. The result owns the outputs. */
HONE_API hone_code hone_session_run(hone_session* session, const hone_tensor* inputs, size_t count,
                                    hone_result** result, hone_error* error);
HONE_API void hone_session_free(hone_session* session);

HONE_API size_t hone_result_count(const hone_result* result);
/* Describes output `index`; its pointers live as long as the result. */
HONE_API hone_code hone_result_get(const hone_result* result, size_t index, hone_tensor* tensor,
                                   hone_error* error);
HONE_API void hone_result_free(hone_result* result);

/* ---- training */

typedef enum hone_optimizer { HONE_SGD = 0, HONE_ADAM = 1, HONE_ADAMW = 2 } hone_optimizer;

typedef struct hone_trainer_options {
  size_t struct_size;
  const char* loss; /* "cross_entropy(logits, label)"; see the command line's --loss */
  hone_optimizer optimizer;
  double lr;
  double momentum; /* sgd */
  double weight_decay;
  double clip_norm;      /* 0: do not clip */
  const char* trainable; /* globs, separated by commas; null: all parameters */
  uint64_t seed;
  int32_t threads;          /* 0: 1 */
  int64_t memory_limit;     /* bytes for weights, optimizer state, activations and scratch, kept by
                               computing things again: the results are the same; 0: none */
  const char* spill_folder; /* where optimizer state may lie if the limit cannot be kept
                               otherwise; null: nowhere */
  const char* max_dims;     /* as of hone_session_options */
  int32_t deterministic;    /* as of hone_session_options */
} hone_trainer_options;

/* Trains a copy of the model's weights. */
HONE_API hone_code hone_trainer_create(const hone_model* model, const hone_trainer_options* options,
                                       hone_trainer** trainer, hone_error* error);
/* One step on a batch: the model's inputs and the loss's targets by name. `loss` (may be null) is
 * the loss before the update. When the loss is not finite nothing is updated. */
HONE_API hone_code hone_trainer_step(hone_trainer* trainer, const hone_tensor* batch, size_t count,
                                     double* loss, hone_error* error);
/* What training on such batches takes at its peak, in bytes, known before the first step. */
HONE_API hone_code hone_trainer_peak_bytes(hone_trainer* trainer, const hone_tensor* batch,
                                           size_t count, int64_t* bytes, hone_error* error);
/* Changes the memory limit between two steps. HONE_OUT_OF_MEMORY: it cannot be kept, the message
 * names the smallest that can, and the old one stays. */
HONE_API hone_code hone_trainer_set_memory_limit(hone_trainer* trainer, int64_t bytes,
                                                 hone_error* error);
/* The loss on a batch in inference mode; nothing is updated. */
HONE_API hone_code hone_trainer_evaluate(hone_trainer* trainer, const hone_tensor* batch,
                                         size_t count, double* loss, hone_error* error);
/* A new model with the current weights. */
HONE_API hone_code hone_trainer_model(const hone_trainer* trainer, hone_model** model,
                                      hone_error* error);
/* Writes and reads a checkpoint, from which training goes on bit for bit. */
HONE_API hone_code hone_trainer_save(const hone_trainer* trainer, const char* path,
                                     hone_error* error);
HONE_API hone_code hone_trainer_restore(hone_trainer* trainer, const char* path, hone_error* error);
HONE_API void hone_trainer_free(hone_trainer* trainer);

#ifdef __cplusplus
}
#endif

#endif /* HONE_HONE_H */

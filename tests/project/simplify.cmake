# SPDX-License-Identifier: Apache-2.0
# What `hone convert` and `hone inspect --diff` say of simplification, and the files they write.
#   cmake -DHONE=<command> -DMODELS=<tests/golden> -DWORK=<folder> -P simplify.cmake
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
set(written_out ${MODELS}/torch_layernorm_op9/model.onnx)  # nine nodes that are one layer_norm
set(normalised ${MODELS}/train_convnet/model.onnx)         # two convolutions with batch norm

# Runs hone; its output has to match `pattern`. `status` is its exit code.
function(expect status pattern)
  execute_process(COMMAND ${HONE} ${ARGN} WORKING_DIRECTORY ${WORK} RESULT_VARIABLE result
                  OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT result EQUAL status OR NOT "${out}${err}" MATCHES "${pattern}")
    message(SEND_ERROR "hone ${ARGN}\nexit code ${result}, expected ${status} and '${pattern}', got\n${out}${err}")
  endif()
endfunction()

expect(0 "9 nodes -> 1\n.*normalisations recognised +1\n" convert ${written_out} -o full.hone)
expect(0 "9 nodes -> 9\n" convert ${written_out} --simplify exact -o exact.hone)
expect(0 "^[^\n]*\n  9 nodes, [^\n]*\n$" convert ${written_out} --simplify none -o none.hone)
expect(0 "layer_norm +1\n +all +1\n" inspect full.hone)
expect(0 "all +9\n" inspect none.hone)
expect(0 "all +9 +1 +-8\n.*9 nodes -> 1\n" inspect --diff ${written_out})
expect(0 "layer_norm +0 +1 +\\+1\n.*all +9 +1 +-8\n" inspect none.hone full.hone --diff)

# ONNX back: the small file is read as it was written.
expect(0 "9 nodes -> 1\n" convert ${written_out} --simplify-only -o small.onnx)
expect(0 "layer_norm +1\n +all +1\n" inspect small.onnx --simplify none)
expect(0 "into convolutions: 2\n" convert ${normalised} --fold-batch-norm -o folded.hone)
expect(0 "batch_norm +2 +0 +-2\n" inspect --diff ${normalised} folded.hone)

expect(1 "convert writes .hone files" convert ${written_out} -o wrong.onnx)
expect(1 "two models are for --diff" inspect full.hone none.hone)
expect(2 "some" convert ${written_out} --simplify some -o wrong.hone)

/*
** toolkit.c -- what core/device/cuda and the stand-ins of spec/gpu/lib take from headers of CUDA's toolkit, held against them.
** It is compiled where they are (toolkit_spec.lua), and never run: sizes, numbers, types of calls.
*/
#include <cublasLt.h>
#include <cusolverDn.h>
#if __has_include(<cufft.h>)
#include <cufft.h>
#endif
#include <stddef.h>

#define SAME(name, value) _Static_assert((name) == (value), #name)

SAME(CUBLAS_STATUS_NOT_INITIALIZED, 1);
SAME(CUBLAS_STATUS_ALLOC_FAILED, 3);
SAME(CUBLAS_STATUS_INVALID_VALUE, 7);
SAME(CUBLAS_STATUS_ARCH_MISMATCH, 8);
SAME(CUBLAS_STATUS_INTERNAL_ERROR, 14);
SAME(CUBLAS_STATUS_NOT_SUPPORTED, 15);
SAME(CUBLAS_COMPUTE_32F, 68);
SAME(CUBLAS_COMPUTE_32F_FAST_TF32, 77);
SAME(CUBLAS_OP_N, 0);
SAME(CUBLAS_OP_T, 1);
SAME(CUBLAS_FILL_MODE_LOWER, 0);
SAME(CUDA_R_32F, 0);
SAME(CUDA_R_64F, 1);
SAME(CUDA_R_16F, 2);
SAME(CUDA_C_32F, 4);
SAME(CUDA_C_64F, 5);
SAME(CUDA_R_16BF, 14);
SAME(CUBLASLT_MATMUL_DESC_TRANSA, 3);
SAME(CUBLASLT_MATMUL_DESC_TRANSB, 4);
SAME(CUBLASLT_MATMUL_DESC_EPILOGUE, 7);
SAME(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8);
SAME(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 26);
SAME(CUBLASLT_MATRIX_LAYOUT_LD, 4);
SAME(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5);
SAME(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6);
SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1);
SAME(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8);
SAME(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2);
SAME(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 4);
SAME(CUBLASLT_EPILOGUE_DEFAULT, 1);
SAME(CUBLASLT_EPILOGUE_RELU, 2);
SAME(CUBLASLT_EPILOGUE_BIAS, 4);
SAME(CUBLASLT_EPILOGUE_GELU, 32);
SAME(sizeof(cublasLtMatmulAlgo_t), 64);
SAME(sizeof(cublasLtMatmulHeuristicResult_t), 96);
SAME(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), 64);
SAME(offsetof(cublasLtMatmulHeuristicResult_t, state), 72);

SAME(CUSOLVER_STATUS_NOT_INITIALIZED, 1);
SAME(CUSOLVER_STATUS_ALLOC_FAILED, 2);
SAME(CUSOLVER_STATUS_INVALID_VALUE, 3);
SAME(CUSOLVER_STATUS_EXECUTION_FAILED, 6);
SAME(CUSOLVER_STATUS_INTERNAL_ERROR, 7);
SAME(CUSOLVER_STATUS_NOT_SUPPORTED, 9);
SAME(CUSOLVER_STATUS_INVALID_LICENSE, 11);
SAME(CUSOLVER_EIG_MODE_VECTOR, 1);

/* Calls, with handles and enums as what they are to who calls them. */
#define CALLS(name, type) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(&name), type), #name)
CALLS(cublasLtMatmul,
      cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                         cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t, const void *,
                         const void *, cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t,
                         const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t));
CALLS(cublasLtMatmulAlgoGetHeuristic,
      cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                         cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *,
                         int *));
CALLS(cublasLtMatmulAlgoCheck,
      cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                         const cublasLtMatmulAlgo_t *, cublasLtMatmulHeuristicResult_t *));
CALLS(cublasLtMatrixLayoutCreate,
      cublasStatus_t (*)(cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t));
CALLS(cublasLtMatmulDescCreate,
      cublasStatus_t (*)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t));
#define DN cusolverDnHandle_t, cusolverDnParams_t
#define ROOM void *, size_t, void *, size_t, int *
#define TYPE cudaDataType
CALLS(cusolverDnXpotrf,
      cusolverStatus_t (*)(DN, cublasFillMode_t, int64_t, TYPE, void *, int64_t, TYPE, ROOM));
CALLS(cusolverDnXgetrf,
      cusolverStatus_t (*)(DN, int64_t, int64_t, TYPE, void *, int64_t, int64_t *, TYPE, ROOM));
CALLS(cusolverDnXgetrs,
      cusolverStatus_t (*)(DN, cublasOperation_t, int64_t, int64_t, TYPE, const void *, int64_t,
                           const int64_t *, TYPE, void *, int64_t, int *));
CALLS(cusolverDnXgeqrf,
      cusolverStatus_t (*)(DN, int64_t, int64_t, TYPE, void *, int64_t, TYPE, void *, TYPE, ROOM));
CALLS(cusolverDnXsyevd, cusolverStatus_t (*)(DN, cusolverEigMode_t, cublasFillMode_t, int64_t, TYPE,
                                             void *, int64_t, TYPE, void *, TYPE, ROOM));
CALLS(cusolverDnXgesvd,
      cusolverStatus_t (*)(DN, signed char, signed char, int64_t, int64_t, TYPE, void *, int64_t,
                           TYPE, void *, TYPE, void *, int64_t, TYPE, void *, int64_t, TYPE, ROOM));
CALLS(cusolverDnXgesvd_bufferSize,
      cusolverStatus_t (*)(DN, signed char, signed char, int64_t, int64_t, TYPE, const void *,
                           int64_t, TYPE, const void *, TYPE, const void *, int64_t, TYPE,
                           const void *, int64_t, TYPE, size_t *, size_t *));
CALLS(cusolverDnSorgqr, cusolverStatus_t (*)(cusolverDnHandle_t, int, int, int, float *, int,
                                             const float *, float *, int, int *));

#if __has_include(<cufft.h>)
SAME(CUFFT_ALLOC_FAILED, 2);
SAME(CUFFT_R2C, 0x2a);
SAME(CUFFT_C2C, 0x29);
SAME(CUFFT_D2Z, 0x6a);
SAME(CUFFT_Z2Z, 0x69);
SAME(CUFFT_FORWARD, -1);
SAME(CUFFT_INVERSE, 1);
SAME(sizeof(cufftHandle), sizeof(int));
CALLS(cufftMakePlanMany64,
      cufftResult (*)(cufftHandle, int, long long *, long long *, long long, long long, long long *,
                      long long, long long, cufftType, long long, size_t *));
CALLS(cufftSetWorkArea, cufftResult (*)(cufftHandle, void *));
CALLS(cufftExecZ2Z, cufftResult (*)(cufftHandle, cufftDoubleComplex *, cufftDoubleComplex *, int));
CALLS(cufftExecD2Z, cufftResult (*)(cufftHandle, cufftDoubleReal *, cufftDoubleComplex *));
#endif

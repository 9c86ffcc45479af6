#map = affine_map<()[s0, s1] -> ((s0 * 64 + s1) * 4)>
#map1 = affine_map<()[s0] -> (s0)>
#map2 = affine_map<()[s0, s1] -> (s0 + s1 * 1024)>
#translation = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline workgroup_size = [256, 1, 1] subgroup_size = 64>
module attributes {transform.with_named_sequence} {
  util.func private @kernel(%arg0: tensor<4096xf32>) -> tensor<f32> {
    %0 = tensor.empty() : tensor<f32>
    %1 = tensor.empty() : tensor<4xf32>
    %2 = scf.forall (%arg1) in (4) shared_outs(%arg2 = %1) -> (tensor<4xf32>) {
      %c0 = arith.constant 0 : index
      %extracted_slice = tensor.extract_slice %arg2[%c0] [4] [1] : tensor<4xf32> to tensor<4xf32>
      %4 = scf.forall (%arg3) in (64) shared_outs(%arg4 = %extracted_slice) -> (tensor<4xf32>) {
        %c0_1 = arith.constant 0 : index
        %extracted_slice_2 = tensor.extract_slice %arg4[%c0_1] [4] [1] : tensor<4xf32> to tensor<4xf32>
        %5 = affine.apply #map()[%arg1, %arg3]
        %6 = affine.apply #map1()[%arg3]
        %cst = arith.constant dense<-0.000000e+00> : vector<4xf32>
        %cst_3 = arith.constant dense<-0.000000e+00> : vector<4xf32>
        %c0_4 = arith.constant 0 : index
        %c4 = arith.constant 4 : index
        %c1 = arith.constant 1 : index
        %7 = scf.for %arg5 = %c0_4 to %c4 step %c1 iter_args(%arg6 = %cst) -> (vector<4xf32>) {
          %18 = affine.apply #map1()[%arg5]
          %19 = affine.apply #map2()[%5, %18]
          %20 = ub.poison : f32
          %21 = vector.transfer_read %arg0[%19], %20 {in_bounds = [true]} : tensor<4096xf32>, vector<4xf32>
          %22 = arith.addf %arg6, %21 : vector<4xf32>
          scf.yield %22 : vector<4xf32>
        }
        %8 = vector.extract %7[0] : f32 from vector<4xf32>
        %9 = vector.extract %7[1] : f32 from vector<4xf32>
        %10 = vector.extract %7[2] : f32 from vector<4xf32>
        %11 = vector.extract %7[3] : f32 from vector<4xf32>
        %12 = arith.addf %8, %9 : f32
        %13 = arith.addf %12, %10 : f32
        %14 = arith.addf %13, %11 : f32
        %15 = gpu.subgroup_reduce add %14 cluster(size = 64) : (f32) -> f32
        %c0_5 = arith.constant 0 : index
        %16 = arith.cmpi eq, %arg3, %c0_5 : index
        %17 = scf.if %16 -> (tensor<4xf32>) {
          %18 = vector.from_elements %15 : vector<1xf32>
          %19 = vector.transfer_write %18, %extracted_slice_2[%arg1] {in_bounds = [true]} : vector<1xf32>, tensor<4xf32>
          scf.yield %19 : tensor<4xf32>
        } else {
          scf.yield %extracted_slice_2 : tensor<4xf32>
        }
        %c0_6 = arith.constant 0 : index
        scf.forall.in_parallel {
          tensor.parallel_insert_slice %17 into %arg4[%c0_6] [4] [1] : tensor<4xf32> into tensor<4xf32>
        }
      } {mapping = [#gpu.lane<linear_dim_0>]}
      %c0_0 = arith.constant 0 : index
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %4 into %arg2[%c0_0] [4] [1] : tensor<4xf32> into tensor<4xf32>
      }
    } {mapping = [#gpu.warp<linear_dim_0>]}
    gpu.barrier
    %3 = scf.forall (%arg1) in (1) shared_outs(%arg2 = %0) -> (tensor<f32>) {
      %c0 = arith.constant 0 : index
      %extracted_slice = tensor.extract_slice %arg2[] [] [] : tensor<f32> to tensor<f32>
      %4 = affine.apply #map1()[%arg1]
      %c0_0 = arith.constant 0 : index
      %5 = ub.poison : f32
      %6 = vector.transfer_read %2[%c0_0], %5 {in_bounds = [true]} : tensor<4xf32>, vector<4xf32>
      %7 = vector.extract %6[0] : f32 from vector<4xf32>
      %8 = vector.extract %6[1] : f32 from vector<4xf32>
      %9 = vector.extract %6[2] : f32 from vector<4xf32>
      %10 = vector.extract %6[3] : f32 from vector<4xf32>
      %11 = arith.addf %7, %8 : f32
      %12 = arith.addf %11, %9 : f32
      %13 = arith.addf %12, %10 : f32
      %cst = arith.constant 0.000000e+00 : f32
      %14 = arith.addf %cst, %13 : f32
      %inserted = tensor.insert %14 into %extracted_slice[] : tensor<f32>
      %c0_1 = arith.constant 0 : index
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %inserted into %arg2[] [] [] : tensor<f32> into tensor<f32>
      }
    } {mapping = [#gpu.thread<linear_dim_0>]}
    util.return %3 : tensor<f32>
  }
  transform.named_sequence @__kernel_config(%arg0: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.generic"]} attributes {iree_reduce.stage = "reduction"} in %arg0 : (!transform.any_op) -> !transform.any_op
    transform.foreach %0 : !transform.any_op {
    ^bb0(%arg1: !transform.any_op):
      %1 = transform.get_parent_op %arg1 <op_name = "func.func", deduplicate> : (!transform.any_op) -> !transform.any_op
      %2 = transform.get_parent_op %1 <op_name = "builtin.module", deduplicate> : (!transform.any_op) -> !transform.any_op
      %3 = transform.get_producer_of_operand %arg1[0] : (!transform.any_op) -> !transform.any_op
      transform.foreach %arg1 : !transform.any_op {
      ^bb0(%arg2: !transform.any_op):
        %8 = transform.get_result %3[0] : (!transform.any_op) -> !transform.any_value
        %9 = transform.get_result %arg2[0] : (!transform.any_op) -> !transform.any_value
        %10 = transform.util.import_symbol @kernel into %2 if undefined : (!transform.any_op) -> !transform.any_op
        %11 = transform.merge_handles %8 : !transform.any_value
        transform.util.cast_and_call inline_call %10(%11) -> %9 after %arg2 {
        } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> ()
      }
      transform.apply_dce to %1 : !transform.any_op
      transform.iree.eliminate_empty_tensors %1 : (!transform.any_op) -> ()
      %4 = transform.iree.bufferize <target_gpu> %1 : (!transform.any_op) -> !transform.any_op
      transform.iree.map_nested_forall_to_gpu_threads %4 workgroup_dims = [256, 1, 1] subgroup_size = 64 sync_after_distribution = false : (!transform.any_op) -> ()
      transform.apply_patterns to %4 {
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      transform.apply_cse to %4 : !transform.any_op
      transform.apply_patterns to %4 {
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      %5 = transform.apply_registered_pass "symbol-dce" to %2 : (!transform.any_op) -> !transform.any_op
      %6 = transform.structured.match ops{["func.func"]} in %5 : (!transform.any_op) -> !transform.any_op
      %7 = transform.param.constant #translation -> !transform.any_param
      transform.annotate %6 "translation_info" = %7 : !transform.any_op, !transform.any_param
    }
    transform.yield 
  }
}

#map = affine_map<()[s0, s1, s2] -> (s0 * 4 + s1 * 4 + s2)>
#map1 = affine_map<()[s0, s1] -> ((s0 * 16 + s1) * 4)>
#map2 = affine_map<()[s0, s1] -> (s0 * 16 + s1)>
#map3 = affine_map<()[s0] -> (s0)>
#map4 = affine_map<()[s0, s1] -> (s0 + s1 * 256)>
#map5 = affine_map<()[s0, s1] -> (s0 * 4 + s1)>
#map6 = affine_map<()[s0] -> (s0 mod 4)>
#map7 = affine_map<()[s0, s1] -> (s0)>
#translation = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline workgroup_size = [256, 1, 1] subgroup_size = 64>
module attributes {transform.with_named_sequence} {
  util.func private @kernel(%arg0: tensor<4x4096xf32>) -> tensor<4xf32> {
    %0 = tensor.empty() : tensor<4xf32>
    %1 = scf.forall (%arg1) in (1) shared_outs(%arg2 = %0) -> (tensor<4xf32>) {
      %c0 = arith.constant 0 : index
      %extracted_slice = tensor.extract_slice %arg2[%c0] [4] [1] : tensor<4xf32> to tensor<4xf32>
      %2 = tensor.empty() : tensor<4x4xf32>
      %3 = scf.forall (%arg3, %arg4) in (1, 4) shared_outs(%arg5 = %2) -> (tensor<4x4xf32>) {
        %c0_1 = arith.constant 0 : index
        %extracted_slice_2 = tensor.extract_slice %arg5[%c0_1, %c0_1] [4, 4] [1, 1] : tensor<4x4xf32> to tensor<4x4xf32>
        %5 = scf.forall (%arg6, %arg7) in (4, 16) shared_outs(%arg8 = %extracted_slice_2) -> (tensor<4x4xf32>) {
          %c0_4 = arith.constant 0 : index
          %extracted_slice_5 = tensor.extract_slice %arg8[%c0_4, %c0_4] [4, 4] [1, 1] : tensor<4x4xf32> to tensor<4x4xf32>
          %6 = affine.apply #map()[%arg1, %arg3, %arg6]
          %7 = affine.apply #map1()[%arg4, %arg7]
          %8 = affine.apply #map2()[%arg6, %arg7]
          %cst = arith.constant dense<-0.000000e+00> : vector<4xf32>
          %cst_6 = arith.constant dense<-0.000000e+00> : vector<4xf32>
          %c0_7 = arith.constant 0 : index
          %c16 = arith.constant 16 : index
          %c1 = arith.constant 1 : index
          %9 = scf.for %arg9 = %c0_7 to %c16 step %c1 iter_args(%arg10 = %cst) -> (vector<4xf32>) {
            %21 = affine.apply #map3()[%arg9]
            %22 = affine.apply #map4()[%7, %21]
            %23 = ub.poison : f32
            %24 = vector.transfer_read %arg0[%6, %22], %23 {in_bounds = [true]} : tensor<4x4096xf32>, vector<4xf32>
            %25 = arith.addf %arg10, %24 : vector<4xf32>
            scf.yield %25 : vector<4xf32>
          }
          %10 = vector.extract %9[0] : f32 from vector<4xf32>
          %11 = vector.extract %9[1] : f32 from vector<4xf32>
          %12 = vector.extract %9[2] : f32 from vector<4xf32>
          %13 = vector.extract %9[3] : f32 from vector<4xf32>
          %14 = arith.addf %10, %11 : f32
          %15 = arith.addf %14, %12 : f32
          %16 = arith.addf %15, %13 : f32
          %17 = gpu.subgroup_reduce add %16 cluster(size = 16) : (f32) -> f32
          %18 = affine.apply #map5()[%arg3, %arg6]
          %c0_8 = arith.constant 0 : index
          %19 = arith.cmpi eq, %arg7, %c0_8 : index
          %20 = scf.if %19 -> (tensor<4x4xf32>) {
            %21 = vector.from_elements %17 : vector<1xf32>
            %22 = vector.transfer_write %21, %extracted_slice_5[%18, %arg4] {in_bounds = [true]} : vector<1xf32>, tensor<4x4xf32>
            scf.yield %22 : tensor<4x4xf32>
          } else {
            scf.yield %extracted_slice_5 : tensor<4x4xf32>
          }
          %c0_9 = arith.constant 0 : index
          scf.forall.in_parallel {
            tensor.parallel_insert_slice %20 into %arg8[%c0_9, %c0_9] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<4x4xf32>
          }
        } {mapping = [#gpu.lane<linear_dim_1>, #gpu.lane<linear_dim_0>]}
        %c0_3 = arith.constant 0 : index
        scf.forall.in_parallel {
          tensor.parallel_insert_slice %5 into %arg5[%c0_3, %c0_3] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<4x4xf32>
        }
      } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
      gpu.barrier
      %4 = scf.forall (%arg3) in (4) shared_outs(%arg4 = %extracted_slice) -> (tensor<4xf32>) {
        %c0_1 = arith.constant 0 : index
        %extracted_slice_2 = tensor.extract_slice %arg4[%c0_1] [4] [1] : tensor<4xf32> to tensor<4xf32>
        %5 = affine.apply #map3()[%arg3]
        %6 = affine.apply #map6()[%5]
        %7 = affine.apply #map5()[%arg1, %6]
        %8 = affine.apply #map7()[%7, %6]
        %c0_3 = arith.constant 0 : index
        %9 = ub.poison : f32
        %10 = vector.transfer_read %3[%6, %c0_3], %9 {in_bounds = [true]} : tensor<4x4xf32>, vector<4xf32>
        %11 = vector.extract %10[0] : f32 from vector<4xf32>
        %12 = vector.extract %10[1] : f32 from vector<4xf32>
        %13 = vector.extract %10[2] : f32 from vector<4xf32>
        %14 = vector.extract %10[3] : f32 from vector<4xf32>
        %15 = arith.addf %11, %12 : f32
        %16 = arith.addf %15, %13 : f32
        %17 = arith.addf %16, %14 : f32
        %cst = arith.constant 0.000000e+00 : f32
        %18 = arith.addf %cst, %17 : f32
        %19 = vector.from_elements %18 : vector<1xf32>
        %20 = vector.transfer_write %19, %extracted_slice_2[%8] {in_bounds = [true]} : vector<1xf32>, tensor<4xf32>
        %c0_4 = arith.constant 0 : index
        scf.forall.in_parallel {
          tensor.parallel_insert_slice %20 into %arg4[%c0_4] [4] [1] : tensor<4xf32> into tensor<4xf32>
        }
      } {mapping = [#gpu.thread<linear_dim_0>]}
      %c0_0 = arith.constant 0 : index
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %4 into %arg2[%c0_0] [4] [1] : tensor<4xf32> into tensor<4xf32>
      }
    } {iree_reduce.stage = "workgroups", mapping = [#gpu.block<x>]}
    util.return %1 : tensor<4xf32>
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
        %9 = transform.get_result %3[0] : (!transform.any_op) -> !transform.any_value
        %10 = transform.get_result %arg2[0] : (!transform.any_op) -> !transform.any_value
        %11 = transform.util.import_symbol @kernel into %2 if undefined : (!transform.any_op) -> !transform.any_op
        %12 = transform.merge_handles %9 : !transform.any_value
        transform.util.cast_and_call inline_call %11(%12) -> %10 after %arg2 {
        } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> ()
      }
      transform.apply_dce to %1 : !transform.any_op
      %4 = transform.structured.match ops{["scf.forall"]} attributes {iree_reduce.stage = "workgroups"} in %1 : (!transform.any_op) -> !transform.any_op
      transform.iree.populate_workgroup_count_region_using_num_threads_slice %4 : (!transform.any_op) -> ()
      transform.iree.eliminate_empty_tensors %1 : (!transform.any_op) -> ()
      %5 = transform.iree.bufferize <target_gpu> %1 : (!transform.any_op) -> !transform.any_op
      transform.iree.forall_to_workgroup %5 : (!transform.any_op) -> ()
      transform.iree.map_nested_forall_to_gpu_threads %5 workgroup_dims = [256, 1, 1] subgroup_size = 64 sync_after_distribution = false : (!transform.any_op) -> ()
      transform.apply_patterns to %5 {
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      transform.apply_cse to %5 : !transform.any_op
      transform.apply_patterns to %5 {
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      %6 = transform.apply_registered_pass "symbol-dce" to %2 : (!transform.any_op) -> !transform.any_op
      %7 = transform.structured.match ops{["func.func"]} in %6 : (!transform.any_op) -> !transform.any_op
      %8 = transform.param.constant #translation -> !transform.any_param
      transform.annotate %7 "translation_info" = %8 : !transform.any_op, !transform.any_param
    }
    transform.yield 
  }
}

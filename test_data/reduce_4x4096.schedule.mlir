#map = affine_map<()[s0] -> (s0 mod 16)>
#translation = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline workgroup_size = [256, 1, 1] subgroup_size = 64>
module attributes {transform.with_named_sequence} {
  util.func private @combine(%arg0: tensor<1x1x4xf32>, %arg1: tensor<1x1xf32>) -> tensor<1x1xf32> {
    %thread_id_x = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %c0_1 = arith.constant 0 : index
    %0 = ub.poison : f32
    %1 = vector.transfer_read %arg0[%c0_0, %c0, %c0_1], %0 {in_bounds = [true]} : tensor<1x1x4xf32>, vector<4xf32>
    %2 = vector.extract %1[0] : f32 from vector<4xf32>
    %3 = vector.extract %1[1] : f32 from vector<4xf32>
    %4 = vector.extract %1[2] : f32 from vector<4xf32>
    %5 = vector.extract %1[3] : f32 from vector<4xf32>
    %6 = arith.addf %2, %3 : f32
    %7 = arith.addf %6, %4 : f32
    %8 = arith.addf %7, %5 : f32
    %9 = gpu.subgroup_reduce add %8 cluster(size = 16) : (f32) -> f32
    %10 = affine.apply #map()[%thread_id_x]
    %c0_2 = arith.constant 0 : index
    %11 = arith.cmpi eq, %10, %c0_2 : index
    %12 = scf.if %11 -> (tensor<1x1xf32>) {
      %13 = vector.from_elements %9 : vector<1xf32>
      %c0_3 = arith.constant 0 : index
      %c0_4 = arith.constant 0 : index
      %14 = vector.transfer_write %13, %arg1[%c0_3, %c0_4] {in_bounds = [true]} : vector<1xf32>, tensor<1x1xf32>
      scf.yield %14 : tensor<1x1xf32>
    } else {
      scf.yield %arg1 : tensor<1x1xf32>
    }
    util.return %12 : tensor<1x1xf32>
  }
  transform.named_sequence @__kernel_config(%arg0: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.generic"]} attributes {iree_reduce.stage = "reduction"} in %arg0 : (!transform.any_op) -> !transform.any_op
    transform.foreach %0 : !transform.any_op {
    ^bb0(%arg1: !transform.any_op):
      %1 = transform.get_parent_op %arg1 <op_name = "func.func", deduplicate> : (!transform.any_op) -> !transform.any_op
      %2 = transform.get_parent_op %1 <op_name = "builtin.module", deduplicate> : (!transform.any_op) -> !transform.any_op
      %3 = transform.get_producer_of_operand %arg1[0] : (!transform.any_op) -> !transform.any_op
      %4 = transform.get_producer_of_operand %arg1[1] : (!transform.any_op) -> !transform.any_op
      %tiled_op, %forall_op = transform.structured.tile_using_forall %arg1 tile_sizes [4](mapping = [#gpu.block<x>]) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      transform.iree.populate_workgroup_count_region_using_num_threads_slice %forall_op : (!transform.any_op) -> ()
      %fused_op, %new_containing_op = transform.structured.fuse_into_containing_op %4 into %forall_op : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
      %init_or_alloc_op, %fill_op, %split_linalg_op, %combining_linalg_op = transform.structured.split_reduction %tiled_op <split_factor = 256, insert_split_dimension = 1, inner_parallel> : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
      %init_or_alloc_op_0, %fill_op_1, %split_linalg_op_2, %combining_linalg_op_3 = transform.structured.split_reduction %combining_linalg_op <split_factor = 4, insert_split_dimension = 1> : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
      transform.apply_patterns to %1 {
        transform.apply_patterns.iree.bubble_expand
        transform.apply_patterns.tensor.reassociative_reshape_folding
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      %5 = transform.structured.match ops{["linalg.generic"]} in %1 : (!transform.any_op) -> !transform.any_op
      %6:3 = transform.split_handle %5 : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
      %7 = transform.param.constant "step" -> !transform.any_param
      transform.annotate %6#0 "iree_reduce.stage" = %7 : !transform.any_op, !transform.any_param
      %8 = transform.param.constant "lane" -> !transform.any_param
      transform.annotate %6#1 "iree_reduce.stage" = %8 : !transform.any_op, !transform.any_param
      %9 = transform.param.constant "subgroup" -> !transform.any_param
      transform.annotate %6#2 "iree_reduce.stage" = %9 : !transform.any_op, !transform.any_param
      %10 = transform.structured.match ops{["linalg.generic"]} attributes {iree_reduce.stage = "step"} in %1 : (!transform.any_op) -> !transform.any_op
      %11 = transform.get_producer_of_operand %10[1] : (!transform.any_op) -> !transform.any_op
      %12 = transform.param.constant "start" -> !transform.any_param
      transform.annotate %11 "iree_reduce.stage" = %12 : !transform.any_op, !transform.any_param
      %13 = transform.structured.match ops{["linalg.generic"]} attributes {iree_reduce.stage = "lane"} in %1 : (!transform.any_op) -> !transform.any_op
      %14 = transform.structured.match ops{["linalg.generic"]} attributes {iree_reduce.stage = "step"} in %1 : (!transform.any_op) -> !transform.any_op
      %15 = transform.get_producer_of_operand %13[1] : (!transform.any_op) -> !transform.any_op
      %16 = transform.get_producer_of_operand %14[1] : (!transform.any_op) -> !transform.any_op
      %tiled_op_4, %forall_op_5 = transform.structured.tile_using_forall %13 tile_sizes [4, 1](mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      %fused_op_6, %new_containing_op_7 = transform.structured.fuse_into_containing_op %15 into %forall_op_5 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
      %fused_op_8, %new_containing_op_9 = transform.structured.fuse_into_containing_op %14 into %new_containing_op_7 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
      %fused_op_10, %new_containing_op_11 = transform.structured.fuse_into_containing_op %16 into %new_containing_op_9 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
      %tiled_op_12, %forall_op_13 = transform.structured.tile_using_forall %tiled_op_4 tile_sizes [1, 0, 4](mapping = [#gpu.lane<linear_dim_1>, #gpu.lane<linear_dim_0>]) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      %fused_op_14, %new_containing_op_15 = transform.structured.fuse_into_containing_op %fused_op_6 into %forall_op_13 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
      %fused_op_16, %new_containing_op_17 = transform.structured.fuse_into_containing_op %fused_op_8 into %new_containing_op_15 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
      %fused_op_18, %new_containing_op_19 = transform.structured.fuse_into_containing_op %fused_op_10 into %new_containing_op_17 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
      %tiled_linalg_op, %loops = transform.structured.tile_using_for %fused_op_16 tile_sizes [0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      %17 = transform.structured.match ops{["linalg.generic"]} attributes {iree_reduce.stage = "subgroup"} in %1 : (!transform.any_op) -> !transform.any_op
      %tiled_op_20, %forall_op_21 = transform.structured.tile_using_forall %17 tile_sizes [1](mapping = [#gpu.thread<linear_dim_0>]) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      %fused_op_22, %new_containing_op_23 = transform.structured.fuse_into_containing_op %fused_op into %forall_op_21 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
      %18 = transform.structured.match ops{["linalg.generic"]} attributes {iree_reduce.stage = "lane"} in %1 : (!transform.any_op) -> !transform.any_op
      transform.foreach %18 : !transform.any_op {
      ^bb0(%arg2: !transform.any_op):
        %26 = transform.get_operand %arg2[0] : (!transform.any_op) -> !transform.any_value
        %27 = transform.get_producer_of_operand %arg2[1] : (!transform.any_op) -> !transform.any_op
        %28 = transform.get_operand %27[1] : (!transform.any_op) -> !transform.any_value
        %29 = transform.get_result %arg2[0] : (!transform.any_op) -> !transform.any_value
        %30 = transform.util.import_symbol @combine into %2 if undefined : (!transform.any_op) -> !transform.any_op
        %31 = transform.merge_handles %26, %28 : !transform.any_value
        transform.util.cast_and_call inline_call %30(%31) -> %29 after %arg2 {
        } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> ()
      }
      transform.apply_patterns to %1 {
        transform.apply_patterns.tensor.bubble_up_extract_slice
        transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
        transform.apply_patterns.linalg.swap_extract_slice_with_fill
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      %19 = transform.structured.vectorize_children_and_apply_patterns %1 <disable_multi_reduction_to_contract_patterns> : (!transform.any_op) -> !transform.any_op
      transform.apply_patterns to %19 {
        transform.apply_patterns.iree.fold_tensor_slice_into_transfer
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      %20 = transform.structured.match ops{["scf.for"]} in %19 : (!transform.any_op) -> !transform.any_op
      transform.loop.hoist_loop_invariant_subsets %20 : !transform.any_op
      transform.apply_patterns to %19 {
        transform.apply_patterns.iree.fold_tensor_slice_into_transfer
        transform.apply_patterns.vector.cast_away_vector_leading_one_dim
        transform.apply_patterns.vector.drop_unit_dims_with_shape_cast
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      transform.apply_cse to %19 : !transform.any_op
      transform.iree.eliminate_empty_tensors %19 : (!transform.any_op) -> ()
      %21 = transform.iree.bufferize <target_gpu> %19 : (!transform.any_op) -> !transform.any_op
      transform.iree.forall_to_workgroup %21 : (!transform.any_op) -> ()
      transform.iree.map_nested_forall_to_gpu_threads %21 workgroup_dims = [256, 1, 1] subgroup_size = 64 : (!transform.any_op) -> ()
      transform.apply_patterns to %21 {
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      transform.apply_cse to %21 : !transform.any_op
      transform.apply_patterns to %21 {
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      %22 = transform.iree.eliminate_gpu_barriers %21 : (!transform.any_op) -> !transform.any_op
      transform.apply_patterns to %22 {
        transform.apply_patterns.vector.reorder_multi_reduction_dims
        transform.apply_patterns.vector.multi_reduction_flattening
        transform.apply_patterns.vector.multi_reduction_unrolling
        transform.apply_patterns.vector.cast_away_vector_leading_one_dim
        transform.apply_patterns.canonicalization
      } : !transform.any_op
      %23 = transform.apply_registered_pass "symbol-dce" to %2 : (!transform.any_op) -> !transform.any_op
      %24 = transform.structured.match ops{["func.func"]} in %23 : (!transform.any_op) -> !transform.any_op
      %25 = transform.param.constant #translation -> !transform.any_param
      transform.annotate %24 "translation_info" = %25 : !transform.any_op, !transform.any_param
    }
    transform.yield 
  }
}

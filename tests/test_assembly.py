"""The assembly reader, on small pieces of text in the spellings of gfx9, gfx11 and gfx12."""

from __future__ import annotations

from iree_reduce_plugin.assembly import read_kernels

METADATA = """
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .actual_access:  read_only
        .name:           not_the_kernel
        .size:           8
    .group_segment_fixed_size: 64
    .max_flat_workgroup_size: 256
    .name:           k
    .reqd_workgroup_size:
      - 256
      - 1
      - 1
    .sgpr_count:     14
    .sgpr_spill_count: 1
    .symbol:         k.kd
    .vgpr_count:     61
    .vgpr_spill_count: 2
    .wavefront_size: 64
amdhsa.target:   amdgpu9.42-amd-amdhsa-unknown-gfx942
amdhsa.version:
  - 1
...
	.end_amdgpu_metadata
"""


def kernel(*lines: str):
    code = "\n".join(line if line.endswith(":") else "\t" + line for line in lines)
    return read_kernels(f"\t.text\nk:\n{code}\n.Lfunc_end0:\n\t.size\tk, .Lfunc_end0-k\n\ts_barrier\n{METADATA}")["k"]


def test_figures_come_from_the_kernels_own_metadata():
    found = kernel("s_endpgm")
    assert (found.shared_memory_bytes, found.vgprs, found.sgprs, found.spills, found.subgroup_size) == (64, 61, 14, 3, 64)
    assert (found.barriers_in_loop, found.barriers_outside) == (0, 0)


def test_a_text_without_kernels():
    assert read_kernels("\t.text\n") == {}


def test_loads_by_width_in_both_spellings():
    found = kernel(
        "s_load_dwordx4 s[0:3], s[4:5], 0x0",
        "buffer_load_dwordx4 v[4:7], v3, s[0:3], 0 offen nt",
        "global_load_b128 v[4:7], v0, s[0:1]",
        "global_load_dwordx2 v[4:5], v0, s[0:1]",
        "buffer_load_ushort v4, v3, s[0:3], 0 offen",
        "buffer_load_short_d16_hi v4, v3, s[0:3], 0 offen",
        "buffer_load_d16_b16 v4, v3, s[0:3], 0 offen",
        "flat_load_d16_hi_b16 v4, v[0:1]",
        "global_load_u8 v4, v0, s[0:1]",
        "ds_read_b128 v[2:5], v1",
        "buffer_store_dwordx4 v[4:7], v3, s[0:3], 0 offen",
        "s_endpgm",
    )
    assert found.wide_loads == {"b8": 1, "b16": 4, "b32": 0, "b64": 1, "b96": 0, "b128": 2}


def test_lane_operations():
    found = kernel(
        "v_add_f32_dpp v3, v3, v3 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1",
        "v_mov_b32_dpp v4, v3 row_mirror row_mask:0xf bank_mask:0xf",
        "ds_swizzle_b32 v1, v0 offset:swizzle(SWAP,16)",
        "ds_bpermute_b32 v1, v2, v3",
        "ds_permute_b32 v1, v2, v3",
        "v_permlanex16_b32 v1, v0, s0, s1",
        "v_permlane32_swap_b32_e32 v1, v0",
        "v_readlane_b32 s0, v1, 63",
        "v_readfirstlane_b32 s0, v1 ; uniform, not an exchange",
        "s_endpgm",
    )
    assert found.lane_ops == {"dpp": 2, "swizzle": 1, "bpermute": 1, "permute": 1, "permlane": 2, "readlane": 1}


def test_barriers_inside_and_outside_a_loop():
    found = kernel("s_barrier", ".LBB0_1:", "v_nop", "s_barrier", "s_cbranch_scc1 .LBB0_1", "s_barrier", "s_endpgm")
    assert (found.barriers_in_loop, found.barriers_outside) == (1, 2)


def test_a_forward_branch_is_no_loop():
    found = kernel("s_cbranch_execz .LBB0_2", "s_barrier", ".LBB0_2:", "s_endpgm")
    assert (found.barriers_in_loop, found.barriers_outside) == (0, 1)


def test_a_block_that_runs_once_inside_the_range_of_a_loop():
    found = kernel(
        ".LBB0_1:", "s_cbranch_scc0 .LBB0_3", "s_branch .LBB0_4",
        ".LBB0_3:", "s_barrier", "s_endpgm",
        ".LBB0_4:", "s_branch .LBB0_1",
    )  # fmt: skip
    assert (found.barriers_in_loop, found.barriers_outside) == (0, 1)


def test_gfx12_barriers_count_in_pairs():
    found = kernel("s_barrier_signal -1", "s_barrier_wait -1", "s_endpgm")
    assert (found.barriers_in_loop, found.barriers_outside) == (0, 1)


def test_loads_in_flight():
    load, wide = "buffer_load_dwordx4 v[4:7], v3, s[0:3], 0 offen", "global_load_b128 v[4:7], v0, s[0:1]"
    assert kernel("s_endpgm").loads_in_flight == 0
    assert kernel(load, load, "s_waitcnt vmcnt(1)", "v_add_f32 v0, v1, v2", load, "s_waitcnt vmcnt(0)", load).loads_in_flight == 2
    assert kernel(load, load, "s_waitcnt lgkmcnt(0)", load, "s_waitcnt lgkmcnt(0) vmcnt(2)", load, load).loads_in_flight == 4
    assert kernel(wide, wide, "s_wait_loadcnt 0x1", wide, wide, "s_wait_loadcnt_dscnt 0x0", wide).loads_in_flight == 3

"""The parser of pasted attributes: what it takes, and where it says that it stopped."""

import pytest
from one_line import check_one_line

from iree_reduce_plugin.errors import TuningError
from iree_reduce_plugin.tuning import Tuning
from iree_reduce_plugin.tuning_text import is_attribute, parse_attribute

CONFIG = "#iree_gpu.lowering_config<{workgroup = [4, 0], reduction = [0, 256], lane_basis = [[4, 16], [0, 1]]}>"
LAUNCH = "#iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [256, 1, 1] subgroup_size = 64"
OLD_LAUNCH = LAUNCH.replace("#iree_gpu.pipeline<VectorDistribute>", "LLVMGPUVectorDistribute")
GIVEN = {"workgroup": [4, 0], "reduction": [0, 256], "lane_basis": [[4, 16], [0, 1]]}
LAUNCHED = {"pipeline": "VectorDistribute", "workgroup_size": [256, 1, 1], "subgroup_size": 64}

READ = [
    (CONFIG, GIVEN),
    (f"  {CONFIG}\n", GIVEN),
    (f"lowering_config = {CONFIG}", GIVEN),
    (f"lowering_config = {CONFIG}, translation_info = {LAUNCH}>", GIVEN | LAUNCHED),
    (f"{LAUNCH}>", LAUNCHED),
    (f"{LAUNCH}, {{}}>", LAUNCHED),
    (f"#iree_codegen.compilation_info<lowering_config = {CONFIG}, translation_info = {LAUNCH}, {{}}>>", GIVEN | LAUNCHED),
    (f"#iree_codegen.compilation_info<\n  lowering_config = {CONFIG},\n\n  translation_info =\n{LAUNCH}>\n>", GIVEN | LAUNCHED),
    (f"#iree_codegen.compilation_info<translation_info = {LAUNCH}>, lowering_config = {CONFIG}>", GIVEN | LAUNCHED),
    (LAUNCH.replace(" workgroup", ", workgroup").replace(" subgroup", ", subgroup") + ">", LAUNCHED),
    (OLD_LAUNCH + ">", LAUNCHED | {"pipeline": "LLVMGPUVectorDistribute"}),
    (f"#a = {CONFIG}\n#b = {LAUNCH}, {{}}>\n#c = #iree_codegen.compilation_info<lowering_config = #a, translation_info = #b>",
     GIVEN | LAUNCHED),
    (f"#config = {CONFIG}", GIVEN),
    ("{workgroup = [4, 0], reduction = [0, 256], lane_basis = [[4, 16], [0, 1]]}", GIVEN),
    ("#iree_gpu.lowering_config<{workgroup = array<i64: 4, 0>, reduction = array<i32>}>", {"workgroup": [4, 0], "reduction": []}),
    ('#iree_gpu.lowering_config<{"workgroup" = [4 : i64, 0 : i64]}>', {"workgroup": [4, 0]}),
    ("// as printed\n#iree_gpu.lowering_config<{ // rows\n workgroup = [4, 0]}>", {"workgroup": [4, 0]}),
    ("#iree_gpu.lowering_config<{}>", {}),
]  # fmt: skip


@pytest.mark.parametrize("text, fields", READ, ids=range(len(READ)))
def test_read(text, fields):
    assert is_attribute(text)
    assert parse_attribute(text) == fields


def test_what_is_no_attribute():
    for text in ("tuning.json", '{"workgroup": [0]}', "dir/a = b.json", "[1]", "{}", ""):
        assert not is_attribute(text)


REFUSED = [
    ("#iree_gpu.lowering_config<{workgroup = [0; 1]}>", "line 1, column 42", "before '; 1]}>'", "',' or ']'"),
    ("#iree_gpu.lowering_config<{\n  workgroup = [0 1]}>", "line 2, column 18", "before '1]}>'"),
    ("#iree_gpu.lowering_config<{workgroup = [0]", "at its end", "'}'"),
    ("#iree_gpu.lowering_config<{workgroup = [0", "at its end", "']'"),
    ("#iree_gpu.lowering_config<{workgroup = }>", "before '}>'", "the value of workgroup"),
    ("#iree_gpu.lowering_config<{workgroup = [4.0, 0]}>", "before '4.0, 0]}>'", "whole number"),
    ("#iree_gpu.lowering_config<{workgroup = [99999999999999999999]}>", "whole number"),
    ("#iree_gpu.lowering_config<{workgroup = [0]}>>", "before '>'"),
    ("#iree_gpu.lowering_config<{workgroup = [0], workgroup = [4]}>", "workgroup", "twice"),
    ("#iree_gpu.lowering_config<{workgroup = [4 : 3]}>", "a type"),
    ("#iree_gpu.lowering_config<{workgroup = array<4, 0>}>", "the type of the array"),
    ("#iree_gpu.lowering_config<{workgroup = array<i64: 4; 0>}>", "',' or '>'"),
    ("#iree_gpu.lowering_config<[0]>", "no {...} dictionary"),
    ("#iree_gpu.lowering_config<{workgroup}>", "'workgroup' has no key"),
    ("#iree_gpu.lowering_config<{workgroup = " + "[" * 5000, "levels of brackets"),
    ("#", "expected"),
    ("//", "expected an attribute"),
    ("#config", "alias #config", "not defined"),
    ("#a = #b\n#b = #a", "alias", "not defined"),
    ("#iree_cpu.lowering_config<vector_common_parallel = [1]>", "#iree_cpu.lowering_config does not hold a tuning"),
    ("#iree_codegen.compilation_info<lowering_config = 3>", "3 is not an attribute"),
    (f"#iree_codegen.compilation_info<lowering_config = {CONFIG}, codegen_spec = @s>", "before '@s>'"),
    (f"#iree_codegen.compilation_info<lowering_config = {CONFIG}, spec = s>", "'spec'", "compilation_info"),
    (f"#iree_codegen.compilation_info<lowering_config = {CONFIG}, translation_info = {CONFIG}>", "workgroup", "twice"),
    (f"{LAUNCH}, {{gpu_pipeline_options = #iree_gpu.pipeline_options<prefetch_num_stages = 2>}}>", "gpu_pipeline_options", "leave it out"),
    (f"{LAUNCH} codegen_spec = s>", "codegen_spec", "leave it out"),
    (LAUNCH.replace("VectorDistribute", "TileAndFuse") + ">", "pipeline 'TileAndFuse'", "VectorDistribute"),
    (LAUNCH.replace("#iree_gpu.pipeline<VectorDistribute>", "#iree_codegen.no_pipeline") + ">", "pipeline '#iree_codegen.no_pipeline'"),
    ("#iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<MFMA_F32_16x16x16_F16>, subgroup_m_count = 2}>", "mma_kind", "matrix"),
    ("#iree_gpu.lowering_config<{promote_operands = [0, 1]}>", "promote_operands", "leave it out"),
    ("#iree_gpu.lowering_config<{lane_bases = [[64], [0]]}>", "lane_bases", "did you mean lane_basis?"),
    ("#iree_gpu.lowering_config<{thread_basis = [[64], [0]], lane_basis = [[64], [0]]}>", "only one"),
    ("#iree_gpu.lowering_config<{subgroup_size = [64]}>", "subgroup_size", "[64]", "not an integer"),
    ('#iree_gpu.lowering_config<{workgroup = "four"}>', "workgroup", "not a list"),
]  # fmt: skip


@pytest.mark.parametrize("text, words", [(case[0], case[1:]) for case in REFUSED], ids=range(len(REFUSED)))
def test_refused_in_one_line(text, words):
    with pytest.raises(TuningError) as e:
        Tuning.parse(text)
    check_one_line(str(e.value), words, 300)

// What drivers print about shaders, captured from Mesa 26.1.6.
#include "measure/shader_statistics.h"

#include <gtest/gtest.h>

#include <string>

namespace rlx::measure {
namespace {

TEST(ShaderStatistics, OfRadv) {
  const std::string text = R"(
Compute Shader:
*** SHADER STATS ***
Driver pipeline hash: 185562956505706732
SGPRs: 108
VGPRs: 192
Spilled SGPRs: 3
Spilled VGPRs: 7
Code size: 27544
LDS size: 8192
Scratch size: 0
Subgroups per SIMD: 8
Combined inputs: 0
Combined outputs: 0
Hash: 4191032835
Instructions: 5557
Copies: 120
Branches: 12
Latency: 38943
Inverse Throughput: 12379
VMEM Clause: 22
SMEM Clause: 17
Pre-Sched SGPRs: 34
Pre-Sched VGPRs: 157
VALU: 2965
SALU: 177
VMEM: 37
SMEM: 19
VOPD: 0
********************
)";
  const auto s = parse_radv_statistics(text);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->registers, 192);
  EXPECT_EQ(s->spills, 7);
  EXPECT_EQ(s->register_spills, 3);
  EXPECT_EQ(s->workgroup_bytes, 8192);
  EXPECT_EQ(s->room, 8);
  EXPECT_EQ(s->instructions, 5557);
  EXPECT_EQ(s->code_bytes, 27544);
  // A module of the driver itself before it.
  EXPECT_EQ(parse_radv_statistics("*** SHADER STATS ***\nVGPRs: 12\n" + text)->registers, 192);
  EXPECT_FALSE(parse_radv_statistics("radv: something else\n"));
}

TEST(ShaderStatistics, OfNak) {
  const std::string text =
      "NIR for compute shader:\nshader: MESA_SHADER_COMPUTE\nworkgroup_size: 256, 1, 1\nshared_size: 8192\n"
      "max_subgroup_size: 32\n"
      "con block b0:\n  con 32 %1 = load_const (0x00000004)\n"
      "NAK IR after calc_instr_deps:\nfn {\n}\n"
      "\nStage: compute\nInstruction count: 751\nStatic cycle count: 19305\nMax warps/SM: 48\n"
      "Spills to mem: 2\nSpills to reg: 24\nFills from mem: 3\nFills from reg: 31\nNum GPRs: 40\nSLM size: "
      "0\n"
      "Encoded shader:\n  00010000 000fc200\n";
  const auto s = parse_nak_statistics(text);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->registers, 40);
  EXPECT_EQ(s->spills, 5);
  EXPECT_EQ(s->register_spills, 24);
  EXPECT_EQ(s->workgroup_bytes, 8192);
  EXPECT_EQ(s->room, 48);
  EXPECT_EQ(s->instructions, 751);
  EXPECT_EQ(s->code_bytes, 751 * 16);
  EXPECT_FALSE(parse_nak_statistics("NIR for compute shader:\nshared_size: 8192\n"));
}

TEST(ShaderStatistics, OfAgx) {
  const auto s = parse_agx_statistics(
      "CS shader: 607 instrs, 381 alu, 381 fscib, 248 ic, 4434 code size, 113 gprs, 284 uniforms, 0 scratch, "
      "832 threads, 3 loops, 0:0 spills:fills, 144 preamble inst\n"
      "CS shader: 5196 instrs, 3973 alu, 3973 fscib, 464 ic, 40164 code size, 255 gprs, 512 uniforms, 268 "
      "scratch, 384 threads, 4 loops, 101:96 spills:fills, 107 preamble inst\n");
  ASSERT_TRUE(s);
  EXPECT_EQ(s->registers, 128);
  EXPECT_EQ(s->spills, 197);
  EXPECT_FALSE(s->workgroup_bytes);
  EXPECT_EQ(s->room, 384);
  EXPECT_EQ(s->instructions, 5196);
  EXPECT_EQ(s->code_bytes, 40164);
  EXPECT_FALSE(parse_agx_statistics(""));
}

TEST(ShaderStatistics, OfIr3) {
  const std::string text =
      "MESA: info: NIR (final form) for CL shader (null):\n"
      "MESA: info: shader: MESA_SHADER_COMPUTE\nMESA: info: workgroup_size: 256, 1, 1\n"
      "MESA: info: shared_size: 8192\nMESA: info: api_subgroup_size: 128\n"
      "MESA: info: stp.u32 p[r0.y+4], r5.w, 1\n"
      "MESA: info: (sy)(nop2) mov.f32f32 r52.z, c14.y\n"
      "MESA: info: (ss)ldp.u32 r5.w, p[r0.y+4], 1\n"
      "MESA: info: ; CL: outputs:\n"
      "MESA: info: ; CL prog 18/1: 960 instr, 337 nops, 623 non-nops, 60 mov, 2 cov, 1696 dwords\n"
      "MESA: info: ; CL prog 18/1: 0 last-baryf, 0 last-helper, 0 half, 12 full, 28 constlen\n"
      "MESA: info: ; CL prog 18/1: 380 cat0, 62 cat1, 403 cat2, 78 cat3, 0 cat4, 8 cat5, 23 cat6, 6 cat7\n"
      "MESA: info: ; CL prog 18/1: 72 sstall, 20 (ss), 97 systall, 13 (sy), 2 loops\n"
      "MESA: info: ; CL prog 18/1: 8 max_waves, 1 double_threadsize\n"
      "MESA: info: ; 183 preamble-instr, 1 early-preamble\n";
  const auto s = parse_ir3_statistics(text);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->registers, 48);
  EXPECT_EQ(s->spills, 2);
  EXPECT_EQ(s->workgroup_bytes, 8192);
  EXPECT_EQ(s->room, 1024);
  EXPECT_EQ(s->instructions, 960);
  EXPECT_EQ(s->code_bytes, 1696 * 4);
  // Half registers take the place of full ones.
  std::string halves = text;
  halves.replace(halves.find("0 half"), 6, "30 half");
  EXPECT_EQ(parse_ir3_statistics(halves)->registers, 60);
  EXPECT_FALSE(parse_ir3_statistics("MESA: info: NIR (final form) for CL shader (null):\n"));
}

TEST(ShaderStatistics, WhatIsNotPrintedIsNotKnown) {
  const auto s = parse_radv_statistics("*** SHADER STATS ***\nVGPRs: many\n");
  ASSERT_TRUE(s);
  EXPECT_FALSE(s->registers);
  EXPECT_FALSE(s->instructions);
}

TEST(ShaderStatistics, GoThroughJson) {
  const ShaderStatistics all{.registers = 1,
                             .spills = 2,
                             .register_spills = 3,
                             .workgroup_bytes = 4,
                             .room = 5,
                             .instructions = 6,
                             .code_bytes = 7};
  const std::string text = to_json(all).text();
  EXPECT_EQ(to_json(shader_statistics(*Json::read(text))).text(), text);
  EXPECT_EQ(to_json(ShaderStatistics{}).text(), "{}");
  EXPECT_FALSE(shader_statistics(*Json::read("{\"registers\": null}")).registers);
}

}  // namespace
}  // namespace rlx::measure

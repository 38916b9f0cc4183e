--- gpu_snippets.lua -- single PTX instructions for gpu_spec.lua: the software GPU's parser accepts and refuses what ptxas does.
-- Out: {header(target, version), list}. Registers of every type are declared by the header, %b is a byte, %h a half.

local M = {}

--- Versions of PTX by the targets for which every snippet is tried.
M.targets = { { 75, "6.3" }, { 80, "7.0" }, { 90, "7.8" } }

function M.text(target, version, body)
  return ([[
.version %s
.target sm_%d
.address_size 64
.extern .shared .align 16 .b8 dyn[];
.global .align 16 .b8 glob[64];
.const .align 4 .b32 cst[4] = {1, 2, 3, 4};
.visible .entry k(.param .u64 p0, .param .u32 p1, .param .f32 p2)
{
.reg .pred %%p<8>;
.reg .b8 %%b<4>;
.reg .b16 %%h<8>;
.reg .u16 %%hu<4>;
.reg .s16 %%hs<4>;
.reg .f16 %%hf<4>;
.reg .b32 %%r<16>;
.reg .u32 %%ru<4>;
.reg .s32 %%rs<4>;
.reg .f16x2 %%hh<4>;
.reg .f32 %%f<8>;
.reg .b64 %%rd<8>;
.reg .u64 %%du<4>;
.reg .s64 %%ds<4>;
.reg .f64 %%d<8>;
.shared .align 16 .b8 sh[256];
.local .align 16 .b8 loc[64];
%s
L: ret;
}
]]):format(version, target, body)
end

M.list = {
  "add.u32 %r1, %r2, %r3;", "add.s32 %rs1, %ru2, 7;", "add.u32 %f1, %r2, %r3;", "add.u16 %h1, %h2, %h3;", "add.u16 %r1, %h2, %h3;",
  "add.s64 %rd1, %rd2, -1;", "add.u32 %rd1, %r2, %r3;", "add.sat.s32 %r1, %r2, %r3;", "add.sat.u32 %r1, %r2, %r3;",
  "add.f32 %f1, %f2, %f3;", "add.rn.f32 %f1, %f2, 0f3f800000;", "add.rn.f32 %f1, %f2, 1;", "add.rn.f32 %f1, %f2, 1.5;",
  "add.rn.f32 %r1, %r2, %r3;", "add.rn.f32 %ru1, %f2, %f3;", "add.rz.ftz.sat.f32 %f1, %f2, %f3;", "add.ftz.rz.f32 %f1, %f2, %f3;",
  "add.rm.f64 %d1, %d2, %d3;", "add.ftz.f64 %d1, %d2, %d3;", "add.sat.f64 %d1, %d2, %d3;", "add.f16 %h1, %h2, %h3;", "add.f16 %hf1, %hf2, %hf3;",
  "add.rz.f16 %h1, %h2, %h3;", "add.rn.f16x2 %r1, %r2, %r3;", "add.f16x2 %hh1, %r2, %hh3;", "add.bf16 %h1, %h2, %h3;",
  "add.rn.bf16x2 %r1, %r2, %r3;", "add.cc.u32 %r1, %r2, %r3;", "addc.cc.u32 %r1, %r2, %r3;", "addc.u32 %r1, %r2, %r3;", "add.cc.u64 %rd1, %rd2, %rd3;",
  "add.u8 %b1, %b2, %b3;", "add.b32 %r1, %r2, %r3;", "add.u32 %r1, %r2;", "add.u32 %r1, %r2, %r3, %r4;", "add.u32 %r1, %r2, 0f3f800000;",
  "sub.s32 %r1, %r2, %r3;", "sub.sat.s32 %r1, %r2, %r3;", "sub.cc.u32 %r1, %r2, %r3;", "subc.u32 %r1, %r2, %r3;", "sub.rn.f32 %f1, %f2, %f3;",
  "sub.rp.f64 %d1, %d2, %d3;", "sub.rn.ftz.f16 %h1, %h2, %h3;", "sub.bf16 %h1, %h2, %h3;",
  "mul.lo.u32 %r1, %r2, %r3;", "mul.u32 %r1, %r2, %r3;", "mul.hi.s64 %rd1, %rd2, %rd3;", "mul.wide.u32 %rd1, %r2, %r3;",
  "mul.wide.u64 %rd1, %rd2, %rd3;", "mul.wide.s16 %r1, %h2, %h3;", "mul.wide.s32 %r1, %r2, %r3;", "mul.lo.u16 %h1, %h2, %h3;",
  "mul.rn.f32 %f1, %f2, %f3;", "mul.rn.sat.f32 %f1, %f2, %f3;", "mul.f64 %d1, %d2, %d3;", "mul.rn.f16 %h1, %h2, %h3;", "mul.bf16x2 %r1, %r2, %r3;",
  "mul24.lo.u32 %r1, %r2, %r3;", "mad24.lo.s32 %r1, %r2, %r3, %r4;", "mad.lo.s32 %r1, %r2, %r3, %r4;", "mad.lo.u64 %rd1, %rd2, %rd3, %rd4;",
  "mad.wide.u32 %rd1, %r2, %r3, %rd4;", "mad.wide.u32 %rd1, %r2, %r3, %r4;", "mad.hi.s32 %r1, %r2, %r3, %r4;", "mad.hi.sat.s32 %r1, %r2, %r3, %r4;",
  "mad.lo.cc.u32 %r1, %r2, %r3, %r4;", "madc.hi.cc.u32 %r1, %r2, %r3, %r4;", "mad.rn.f32 %f1, %f2, %f3, %f4;", "mad.f32 %f1, %f2, %f3, %f4;",
  "fma.rn.f32 %f1, %f2, %f3, %f4;", "fma.f32 %f1, %f2, %f3, %f4;", "fma.rz.ftz.sat.f32 %f1, %f2, %f3, %f4;", "fma.rp.f64 %d1, %d2, %d3, %d4;",
  "fma.rn.f16 %h1, %h2, %h3, %h4;", "fma.rn.relu.f16 %h1, %h2, %h3, %h4;", "fma.rn.bf16 %h1, %h2, %h3, %h4;", "fma.rn.relu.bf16x2 %r1, %r2, %r3, %r4;",
  "fma.rz.f16 %h1, %h2, %h3, %h4;", "div.u32 %r1, %r2, %r3;", "div.s64 %rd1, %rd2, 3;", "div.s16 %h1, %h2, %h3;", "div.rn.f32 %f1, %f2, %f3;", "div.f32 %f1, %f2, %f3;",
  "div.rz.f64 %d1, %d2, %d3;", "rem.u32 %r1, %r2, %r3;", "rem.s16 %h1, %h2, %h3;", "sqrt.rn.f32 %f1, %f2;", "sqrt.f32 %f1, %f2;", "sqrt.rn.f64 %d1, %d2;",
  "rcp.rn.f32 %f1, %f2;", "rcp.rn.ftz.f32 %f1, %f2;", "rcp.rz.f64 %d1, %d2;", "min.u32 %r1, %r2, %r3;", "min.s16 %h1, %h2, %h3;", "min.f32 %f1, %f2, %f3;", "min.NaN.f32 %f1, %f2, %f3;",
  "max.NaN.f64 %d1, %d2, %d3;", "max.f64 %d1, %d2, %d3;", "max.ftz.f32 %f1, %f2, %f3;", "max.ftz.NaN.f32 %f1, %f2, %f3;", "max.f16 %h1, %h2, %h3;",
  "max.NaN.f16x2 %r1, %r2, %r3;", "max.bf16 %h1, %h2, %h3;", "abs.s32 %r1, %r2;", "abs.u32 %r1, %r2;", "abs.f32 %f1, %f2;", "abs.f64 %d1, %d2;", "abs.f16 %h1, %h2;", "abs.bf16 %h1, %h2;",
  "neg.s64 %rd1, %rd2;", "neg.f32 %f1, %f2;", "neg.f16x2 %r1, %r2;", "neg.bf16 %h1, %h2;", "neg.ftz.f64 %d1, %d2;", "sad.u32 %r1, %r2, %r3, %r4;",
  "and.b32 %r1, %r2, %r3;", "and.b32 %f1, %f2, %r3;", "and.u32 %r1, %r2, %r3;", "or.b64 %rd1, %rd2, 15;", "xor.b16 %h1, %h2, 3;", "not.b32 %r1, %r2;", "cnot.b32 %r1, %r2;",
  "and.pred %p1, %p2, %p3;", "or.pred %p1, %p2, !%p3;", "xor.pred %p1, %p2, %p3;", "not.pred %p1, %p2;", "and.b8 %b1, %b2, %b3;",
  "shl.b32 %r1, %r2, 3;", "shl.b64 %rd1, %rd2, %r3;", "shl.b64 %rd1, %rd2, %rd3;", "shl.u32 %r1, %r2, 3;", "shr.u32 %r1, %r2, %r3;", "shr.s16 %h1, %h2, %r3;", "shr.b64 %rd1, %rd2, 70;",
  "shf.l.wrap.b32 %r1, %r2, %r3, %r4;", "shf.r.clamp.b32 %r1, %r2, %r3, 8;", "shf.l.b32 %r1, %r2, %r3, %r4;", "popc.b32 %r1, %r2;", "popc.b64 %r1, %rd2;", "popc.b64 %rd1, %rd2;",
  "clz.b32 %r1, %r2;", "clz.b64 %r1, %rd2;", "brev.b64 %rd1, %rd2;", "bfind.u32 %r1, %r2;", "bfind.shiftamt.s64 %r1, %rd2;", "bfe.u32 %r1, %r2, 4, 5;", "bfe.s64 %rd1, %rd2, %r3, %r4;",
  "bfi.b32 %r1, %r2, %r3, 4, 5;", "bfi.b64 %rd1, %rd2, %rd3, %r4, %r5;", "prmt.b32 %r1, %r2, %r3, 0x5410;", "prmt.b32.f4e %r1, %r2, %r3, %r4;", "lop3.b32 %r1, %r2, %r3, %r4, 0x96;", "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
  "dp4a.u32.u32 %r1, %r2, %r3, %r4;", "dp4a.s32.u32 %r1, %r2, %r3, %r4;", "setp.lt.s32 %p1, %r2, %r3;", "setp.lt.s32 %p1|%p2, %r2, %r3;", "setp.lt.and.s32 %p1, %r2, %r3, %p3;", "setp.lt.and.s32 %p1|%p2, %r2, %r3, !%p3;",
  "setp.lo.u32 %p1, %r2, %r3;", "setp.lo.s32 %p1, %r2, %r3;", "setp.eq.b32 %p1, %r2, %r3;", "setp.lt.b32 %p1, %r2, %r3;", "setp.ltu.f32 %p1, %f2, %f3;", "setp.num.ftz.f32 %p1, %f2, %f3;", "setp.nan.f64 %p1, %d2, %d3;", "setp.equ.s32 %p1, %r2, %r3;",
  "setp.lt.f16 %p1, %h2, %h3;", "setp.lt.f16x2 %p1|%p2, %r2, %r3;", "setp.gt.bf16 %p1, %h2, %h3;", "setp.eq.u16 %p1, %h2, 5;", "setp.ne.s64 %p1, %rd2, 0;", "setp.ne.s64 %r1, %rd2, 0;",
  "set.lt.u32.s32 %r1, %r2, %r3;", "set.gt.f32.f32 %f1, %f2, %f3;", "set.eq.and.s32.u16 %r1, %h2, %h3, %p1;", "selp.b32 %r1, %r2, %r3, %p1;", "selp.f32 %f1, %f2, 0f00000000, %p1;", "selp.f16 %h1, %h2, %h3, %p1;", "selp.b32 %r1, %r2, %r3, !%p1;",
  "selp.u64 %rd1, %rd2, 0, %p1;", "slct.u32.s32 %r1, %r2, %r3, %r4;", "slct.f32.f32 %f1, %f2, %f3, %f4;", "testp.finite.f32 %p1, %f2;", "testp.subnormal.f64 %p1, %d2;", "copysign.f32 %f1, %f2, %f3;", "copysign.f64 %d1, %d2, %d3;",
  "mov.u32 %r1, %r2;", "mov.b32 %r1, %f2;", "mov.f32 %f1, 0f3f800000;", "mov.f32 %f1, 1;", "mov.u32 %r1, %tid.x;", "mov.u32 %r1, %laneid;", "mov.u16 %h1, %tid.x;", "mov.u64 %rd1, %clock64;", "mov.u64 %rd1, glob;", "mov.u32 %r1, sh;", "mov.u64 %rd1, sh;", "mov.u64 %rd1, glob+16;",
  "mov.u32 %r1, glob;", "mov.b64 %rd1, {%r1, %r2};", "mov.b64 {%r1, %r2}, %rd1;", "mov.b32 %r1, {%h1, %h2};", "mov.b32 {%h1, %h2}, %r1;", "mov.b64 {%h1, %h2, %h3, %h4}, %rd1;", "mov.b64 {%r1, _}, %rd1;", "mov.u64 %rd1, {%r1, %r2};", "mov.pred %p1, %p2;", "mov.pred %p1, 1;", "mov.pred %p1, !%p2;", "mov.u32 %r1, WARP_SZ;", "mov.b16 %h1, 0x3c00;", "mov.u32 %r1, p1;",
  "mov.u32 %r1, -1;", "mov.u32 %r1, 4294967295;", "mov.u32 %r1, 0xFFFFFFFF;", "mov.u16 %h1, 70000;", "mov.u32 %r1, 5000000000;", "mov.f64 %d1, 0d3ff0000000000000;", "mov.f64 %d1, 0f3f800000;", "mov.f32 %f1, 0d3ff0000000000000;", "mov.b32 %r1, 0f3f800000;", "mov.u32 %r1, 0f3f800000;", "mov.b32 %r1, %b1;", "mov.s32 %f1, %r2;",
  "mad.lo.s32 %r1, %ctaid.x, %ntid.x, %tid.x;", "add.u32 %r1, %tid.x, 1;", "cvt.u64.u32 %rd1, %tid.x;", "setp.eq.u32 %p1, %tid.x, 0;",
  "cvt.u32.u16 %r1, %h1;", "cvt.s32.s8 %r1, %r2;", "cvt.s32.s8 %r1, %b2;", "cvt.u8.u32 %r1, %r2;", "cvt.u8.u32 %b1, %r2;", "cvt.u16.u32 %h1, %r2;", "cvt.u16.u32 %r1, %r2;", "cvt.sat.u8.s32 %r1, %r2;", "cvt.sat.s32.s64 %r1, %rd2;", "cvt.u32.u32 %r1, %r2;", "cvt.f32.s32 %f1, %r2;", "cvt.rn.f32.s32 %f1, %r2;", "cvt.rzi.s32.f32 %r1, %f2;", "cvt.s32.f32 %r1, %f2;",
  "cvt.rz.s32.f32 %r1, %f2;", "cvt.rni.sat.u8.f32 %r1, %f2;", "cvt.rni.u8.f32 %h1, %f2;", "cvt.rn.f32.f64 %f1, %d2;", "cvt.f32.f64 %f1, %d2;", "cvt.f64.f32 %d1, %f2;", "cvt.rn.f64.f32 %d1, %f2;", "cvt.rni.f32.f32 %f1, %f2;", "cvt.rzi.f64.f64 %d1, %d2;", "cvt.sat.f32.f32 %f1, %f2;", "cvt.ftz.f32.f32 %f1, %f2;", "cvt.f32.f32 %f1, %f2;", "cvt.rn.f16.f32 %h1, %f2;", "cvt.f16.f32 %h1, %f2;",
  "cvt.rz.f16.f32 %h1, %f2;", "cvt.rp.f16.f32 %h1, %f2;", "cvt.f32.f16 %f1, %h2;", "cvt.f64.f16 %d1, %h2;", "cvt.rn.f16.f64 %h1, %d2;", "cvt.rn.f16.s32 %h1, %r2;", "cvt.rzi.s32.f16 %r1, %h2;", "cvt.rni.f16.f16 %h1, %h2;", "cvt.rn.bf16.f32 %h1, %f2;", "cvt.rz.bf16.f32 %h1, %f2;", "cvt.rm.bf16.f32 %h1, %f2;", "cvt.rn.relu.bf16.f32 %h1, %f2;", "cvt.rn.relu.f16.f32 %h1, %f2;", "cvt.f32.bf16 %f1, %h2;", "cvt.rn.bf16.s32 %h1, %r2;",
  "cvt.rzi.s32.bf16 %r1, %h2;", "cvt.rn.bf16.f64 %h1, %d2;", "cvt.rn.bf16.f16 %h1, %h2;", "cvt.rn.f16x2.f32 %r1, %f1, %f2;", "cvt.rn.bf16x2.f32 %r1, %f1, %f2;", "cvt.rz.relu.bf16x2.f32 %r1, %f1, %f2;", "cvt.rna.tf32.f32 %r1, %f2;", "cvt.rna.tf32.f32 %f1, %f2;", "cvt.rn.tf32.f32 %r1, %f2;", "cvt.rn.f32.u64 %f1, %rd2;", "cvt.rmi.s64.f64 %rd1, %d2;", "cvt.rzi.u64.f32 %rd1, %f2;", "cvt.rn.f64.s32 %d1, %r2;", "cvt.f64.s32 %d1, %r2;", "cvt.rn.f64.s64 %d1, %rd2;", "cvt.u64.u16 %rd1, %h2;", "cvt.s64.s32 %rd1, %r2;", "cvt.u32.u64 %r1, %rd2;", "cvt.rzi.ftz.s32.f32 %r1, %f2;", "cvt.rni.s32.s32 %r1, %r2;",
  "ld.global.f32 %f1, [%rd1];", "ld.global.f32 %f1, [%rd1+16];", "ld.global.f32 %f1, [%rd1+-16];", "ld.global.f32 %f1, [%rd1-16];", "ld.global.f32 %f1, [%r1];", "ld.global.f32 %r1, [%rd1];", "ld.global.u32 %f1, [%rd1];", "ld.global.b32 %f1, [%rd1];", "ld.global.u8 %r1, [%rd1];", "ld.global.s8 %h1, [%rd1];", "ld.global.u8 %b1, [%rd1];", "ld.global.u16 %r1, [%rd1];", "ld.global.s16 %rd1, [%rd2];", "ld.global.u32 %rd1, [%rd2];", "ld.global.f32 %rd1, [%rd2];", "ld.global.f32 %d1, [%rd2];", "ld.global.f16 %h1, [%rd1];",
  "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", "ld.global.v4.f32 {%f1, %f2, _, %f4}, [%rd1];", "ld.global.v2.f64 {%d1, %d2}, [%rd1];", "ld.global.v4.f64 {%d1, %d2, %d3, %d4}, [%rd1];", "ld.global.v2.f32 {%f1, %f2, %f3}, [%rd1];", "ld.global.f32 {%f1, %f2}, [%rd1];", "ld.global.nc.f32 %f1, [%rd1];", "ld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];", "ld.nc.f32 %f1, [%rd1];", "ld.shared.nc.f32 %f1, [%r1];", "ld.global.ca.f32 %f1, [%rd1];", "ld.global.cs.b32 %r1, [%rd1];", "ld.global.lu.b32 %r1, [%rd1];", "ld.global.L1::no_allocate.b32 %r1, [%rd1];", "ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];",
  "ld.volatile.global.u32 %r1, [%rd1];", "ld.relaxed.gpu.global.u32 %r1, [%rd1];", "ld.acquire.sys.u32 %r1, [%rd1];", "ld.relaxed.global.u32 %r1, [%rd1];", "ld.weak.global.u32 %r1, [%rd1];", "ld.shared.f32 %f1, [%r1];", "ld.shared.f32 %f1, [%rd1];", "ld.shared.f32 %f1, [sh];", "ld.shared.f32 %f1, [sh+4];", "ld.shared.f32 %f1, [dyn+4];", "ld.shared.f32 %f1, [glob];", "ld.global.f32 %f1, [glob+4];", "ld.f32 %f1, [%rd1];", "ld.f32 %f1, [%r1];", "ld.f32 %f1, [glob];", "ld.const.u32 %r1, [cst+4];", "ld.const.u32 %r1, [%rd1];", "ld.local.u32 %r1, [loc];", "ld.param.u64 %rd1, [p0];", "ld.param.u32 %r1, [p0+4];", "ld.param.f32 %f1, [p2];", "ld.param.u32 %r1, [nope];", "ld.param.v2.u32 {%r1, %r2}, [p0];",
  "st.global.f32 [%rd1], %f1;", "st.global.f32 [%rd1], 0f3f800000;", "st.global.u32 [%rd1], 5;", "st.global.f32 [%rd1], 5;", "st.global.u8 [%rd1], %r1;", "st.global.u8 [%rd1], %b1;", "st.global.u16 [%rd1], %r1;", "st.global.b16 [%rd1], %h1;", "st.global.u32 [%rd1], %f1;", "st.global.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};", "st.global.v2.b64 [%rd1], {%rd1, %rd2};", "st.global.cs.f32 [%rd1], %f1;", "st.global.wt.f32 [%rd1], %f1;", "st.global.nc.f32 [%rd1], %f1;", "st.shared.f32 [%r1], %f1;", "st.shared.v2.f32 [sh+8], {%f1, %f2};", "st.const.u32 [cst], %r1;", "st.local.u32 [loc+4], %r1;", "st.u32 [%rd1], %r1;", "st.release.gpu.global.u32 [%rd1], %r1;", "st.volatile.shared.u32 [%r1], %r2;", "st.global.u32 [%rd1], %rd2;",
  "prefetch.global.L1 [%rd1];", "prefetch.L2 [%rd1];", "cvta.global.u64 %rd1, %rd2;", "cvta.to.global.u64 %rd1, %rd2;", "cvta.shared.u64 %rd1, sh;", "cvta.to.shared.u64 %rd1, %rd2;", "cvta.local.u64 %rd1, loc;", "cvta.to.shared.u32 %r1, %r2;", "isspacep.shared %p1, %rd1;", "atom.global.add.u32 %r1, [%rd1], %r2;", "atom.global.add.s64 %rd1, [%rd2], %rd3;", "atom.global.add.u64 %rd1, [%rd2], %rd3;", "atom.add.f32 %f1, [%rd1], %f2;", "atom.global.add.f64 %d1, [%rd1], %d2;", "atom.shared.min.s32 %r1, [%r2], %r3;", "atom.global.max.u64 %rd1, [%rd2], %rd3;", "atom.global.and.b32 %r1, [%rd1], %r2;", "atom.global.and.u32 %r1, [%rd1], %r2;", "atom.global.exch.b64 %rd1, [%rd2], %rd3;", "atom.global.cas.b32 %r1, [%rd1], %r2, %r3;", "atom.cas.b64 %rd1, [%rd2], %rd3, %rd4;", "atom.global.inc.u32 %r1, [%rd1], 31;", "atom.relaxed.gpu.global.add.u32 %r1, [%rd1], %r2;", "atom.acq_rel.cta.shared.add.u32 %r1, [%r2], 1;", "atom.global.add.u32 _, [%rd1], %r2;", "atom.global.sub.u32 %r1, [%rd1], %r2;", "red.global.add.u32 [%rd1], %r2;", "red.shared.add.f32 [%r1], %f2;", "red.global.max.s32 [%rd1], %r2;", "red.release.gpu.global.add.u32 [%rd1], 1;",
  "bar.sync 0;", "bar.sync %r1;", "bar.sync 1, 64;", "bar.sync;", "bar.sync 16;", "bar.arrive 1, 64;", "bar.arrive 1;", "bar.red.popc.u32 %r1, 0, %p1;", "bar.red.and.pred %p1, 0, %p2;", "bar.red.or.pred %p1, 0, 64, !%p2;", "barrier.sync 0;", "barrier.sync.aligned 0;", "barrier.cta.sync 0;", "bar.warp.sync 0xffffffff;", "bar.warp.sync %r1;", "membar.gl;", "membar.cta;", "fence.acq_rel.gpu;", "fence.sc.sys;", "fence.cta;",
  "shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;", "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;", "shfl.sync.idx.b32 %f1, %f2, %r3, 0x1f, %r4;", "shfl.sync.up.b32 %r1, %r2, 1, 0, -1;", "shfl.sync.b32 %r1, %r2, 1, 31, -1;", "shfl.sync.down.u32 %r1, %r2, 1, 31, -1;", "shfl.sync.down.b64 %rd1, %rd2, 1, 31, -1;", "shfl.down.b32 %r1, %r2, 1, 31;", "vote.sync.all.pred %p1, %p2, -1;", "vote.sync.ballot.b32 %r1, !%p2, %r3;", "vote.sync.uni.pred %p1, %p2, -1;", "vote.ballot.b32 %r1, %p2;", "match.any.sync.b32 %r1, %r2, -1;", "match.all.sync.b64 %r1|%p1, %rd2, -1;", "activemask.b32 %r1;", "redux.sync.add.s32 %r1, %r2, -1;", "redux.sync.and.b32 %r1, %r2, -1;", "redux.sync.add.b32 %r1, %r2, -1;", "elect.sync %r1|%p1, -1;", "elect.sync _|%p1, -1;",
  "cp.async.ca.shared.global [%r1], [%rd1], 4;", "cp.async.ca.shared.global [%r1], [%rd1], 16;", "cp.async.cg.shared.global [%r1], [%rd1], 16;", "cp.async.cg.shared.global [%r1], [%rd1], 8;", "cp.async.ca.shared.global [%r1], [%rd1], 2;", "cp.async.cg.shared.global [sh+16], [%rd1+32], 16, %r2;", "cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;", "cp.async.ca.shared.global [%r1], [%rd1], 4, 0;", "cp.async.cg.shared.global [%r1], [%rd1], 16, %p1;", "cp.async.commit_group;", "cp.async.wait_group 2;", "cp.async.wait_group %r1;", "cp.async.wait_all;",
  "bra L;", "bra.uni L;", "@%p1 bra L;", "@!%p1 bra.uni L;", "bra M;", "@%r1 bra L;", "exit;", "@%p1 exit;", "ret;", "ret.uni;", "trap;", "@%p1 trap;", "nanosleep.u32 100;", "nanosleep.u32 %r1;", "tanh.f32 %f1, %f2;", "foo.u32 %r1, %r2;", "add.u32 %r1, %r2, %zz;", "add.u32 %r99, %r2, %r3;", "st.global.v4.u8 [%rd1], {%h1, %h2, %h3, %h4};", "ld.global.v4.u8 {%r1, %r2, %r3, %r4}, [%rd1];", "ld.global.v2.u16 {%h1, %h2}, [%rd1];", "ld.global.v2.b16 {%h1, %h2}, [%rd1];",
  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f4,%f5,%f6,%f7};",
  "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4}, {%f4,%f5,%f6,%f7};",
  "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, %r4, {%f4,%f5,%f6,%f7};",
  "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r8,%r9}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6,%r7};",
  "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f4,%f5,%f6,%f7};",
  "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f4,%f5,%f6,%f7};",
  "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4}, {%f4,%f5,%f6,%f7};",
  "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f4,%f5,%f6,%f7};",
  "mma.sync.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f4,%f5,%f6,%f7};",
  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4,%r5}, {%f4,%f5,%f6,%f7};",
  "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0,%r1,%r2,%r3}, [%r4];", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0,%r1}, [%r4+64];",
  "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%rd1];", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [%r1];", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0}, [%r1];",
}

return M

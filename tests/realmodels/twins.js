#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Holds TensorFlow Lite models against the ONNX files of the same name beside them:
//   twins.js --hone BINARY --kit DIR --models DIR
// Both are given the same seeded numbers, in every batch the two allow; each output must differ by at most 1e-4 of the
// greatest number in it. The same holds of the .hone file made from the TensorFlow Lite one, bit for bit. Exit status 1
// if any failed.
'use strict';
const fs = require('fs'), path = require('path'), os = require('os'), { spawnSync } = require('child_process');

const args = process.argv.slice(2);
const option = name => {
  const i = args.indexOf('--' + name);
  return i < 0 ? '' : args.splice(i, 2)[1];
};
const hone = option('hone'), kit = option('kit'), models = option('models');
if (!hone || !kit || !models) {
  console.error('usage: twins.js --hone BINARY --kit DIR --models DIR');
  process.exit(2);
}
const lib = require(path.resolve(kit, 'tools/lib.js'));
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'hone-twins-'));

function call(...given) {
  const r = spawnSync(hone, given, { encoding: 'utf8' });
  if (r.status !== 0) throw new Error((r.stderr || r.stdout || String(r.error || r.signal)).trim().split('\n').pop());
  return r.stdout;
}

// The only input of a model: its name, and its extents as numbers or names.
function inputOf(file) {
  const lines = call('inspect', file).split('\n').filter(l => /^ *input /.test(l));
  const found = lines.length === 1 && /^ *input +(\S+) +f32 +\[(.*)\]/.exec(lines[0]);
  if (!found) throw new Error(`${file}: has not one input of f32`);
  return { name: found[1], extents: found[2].split(',').map(s => (/^\d+$/.test(s.trim()) ? Number(s) : s.trim())) };
}

function readFloats(file) {
  const bytes = fs.readFileSync(file), length = bytes.readUInt16LE(8), head = bytes.toString('latin1', 10, 10 + length);
  if (!head.includes("'<f4'")) throw new Error(`${file}: not f32`);
  return { shape: /'shape': \(([^)]*)\)/.exec(head)[1], data: new Float32Array(new Uint8Array(bytes.subarray(10 + length)).buffer) };
}

// Left out, and why.
const LEFT_OUT = { 'hey_rhasspy_v0.1.tflite': 'its ONNX file has half as many weights: another model' };

let runs = 0;
function run(file, input, tensor) {
  const dir = path.join(work, `${runs++}`);
  fs.mkdirSync(dir);
  lib.writeNpy(path.join(dir, 'in.npy'), tensor);
  call('run', file, '--input', `${input}=${path.join(dir, 'in.npy')}`, '--output-dir', path.join(dir, 'out'), '--threads', '2');
  return fs.readdirSync(path.join(dir, 'out')).sort().map(f => readFloats(path.join(dir, 'out', f)));
}

// Free extents: the first is the batch, others are samples of sound.
const shapesFor = extents => (extents.some(e => typeof e === 'string') ? [1, 3] : [1]).map(batch =>
  extents.map((e, axis) => (typeof e === 'number' ? e : axis === 0 ? batch : 4000 * batch)));

function difference(got, want) {
  if (got.data.length !== want.data.length) return `shape (${got.shape}), expected (${want.shape})`;
  let worst = 0, most = 0;
  want.data.forEach((v, i) => {
    worst = Math.max(worst, Number.isFinite(got.data[i]) ? Math.abs(got.data[i] - v) : Infinity);
    most = Math.max(most, Math.abs(v));
  });
  return { text: `differs by ${worst.toExponential(1)} of ${most.toExponential(1)}`, ok: worst <= 1e-4 * most };
}

let passed = 0, failed = 0;
for (const file of fs.readdirSync(models).filter(f => f.endsWith('.tflite')).sort()) {
  const lite = path.join(models, file), onnx = lite.replace(/tflite$/, 'onnx');
  if (!fs.existsSync(onnx) || file in LEFT_OUT) continue;
  try {
    const from = inputOf(lite), to = inputOf(onnx), saved = path.join(work, file + '.hone');
    call('convert', lite, '-o', saved);
    for (const shape of shapesFor(from.extents)) {
      const next = lib.rng(7), scale = shape.length === 2 ? 3000 : 5;  // sound, or features of it
      const data = Float32Array.from({ length: lib.prod(shape) }, () => scale * (2 * next() - 1));
      const tensor = lib.tensor('float32', shape, data);
      const got = run(lite, from.name, tensor), want = run(onnx, to.name, tensor), again = run(saved, from.name, tensor);
      const results = got.map((g, i) => difference(g, want[i]));
      const same = got.every((g, i) => Buffer.compare(Buffer.from(g.data.buffer), Buffer.from(again[i].data.buffer)) === 0);
      const ok = got.length === want.length && results.every(r => r.ok) && same;
      ok ? passed++ : failed++;
      console.log(`${ok ? 'ok    ' : 'FAILED'} ${file} [${shape}]: ${results.map(r => r.text || r)}${same ? '' : '; another result as .hone'}`);
    }
  } catch (e) {
    failed++;
    console.log(`FAILED ${file}: ${String(e.message).slice(0, 600)}`);
  }
}
fs.rmSync(work, { recursive: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);

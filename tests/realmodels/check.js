#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Runs the `hone` command on pretrained models and compares with what ONNX Runtime gave:
//   check.js --hone BINARY --finetune BINARY --kit DIR --models DIR [--work DIR] [--only a,b]
// The kit (see README.md) has cases.js (the inputs of each model), expected.json, tools/lib.js, inputs/. Where a case
// needs another model's outputs, Hone makes them. One line a case; the last line counts. Exit status 1 if any failed.
'use strict';
const fs = require('fs'), path = require('path'), { spawnSync } = require('child_process');

const args = process.argv.slice(2);
const option = (name, fallback) => {
  const i = args.indexOf('--' + name);
  return i < 0 ? fallback : args.splice(i, 2)[1];
};
const hone = option('hone'), finetune = option('finetune'), kit = option('kit'), models = option('models');
const work = option('work', fs.mkdtempSync(path.join(require('os').tmpdir(), 'hone-realmodels-')));
const only = option('only', '').split(',').filter(Boolean);
if (!hone || !kit || !models) {
  console.error('usage: check.js --hone BINARY --finetune BINARY --kit DIR --models DIR [--work DIR] [--only a,b]');
  process.exit(2);
}
const lib = require(path.resolve(kit, 'tools/lib.js'));
const cases = require(path.resolve(kit, 'cases.js'))(lib, path.resolve(kit, 'inputs'));
const expected = JSON.parse(fs.readFileSync(path.join(kit, 'expected.json')));

const ARRAYS = { '<f4': Float32Array, '<f8': Float64Array, '<i4': Int32Array, '<i8': BigInt64Array, '|u1': Uint8Array, '|i1': Int8Array, '|b1': Uint8Array };
const NAMES = { '<f4': 'float32', '<f8': 'float64', '<i4': 'int32', '<i8': 'int64', '|u1': 'uint8', '|i1': 'int8', '|b1': 'bool' };

function readNpy(file) {
  const bytes = fs.readFileSync(file), length = bytes[6] === 1 ? bytes.readUInt16LE(8) : bytes.readUInt32LE(8);
  const start = (bytes[6] === 1 ? 10 : 12) + length, head = bytes.toString('latin1', start - length, start);
  const descr = /'descr': '([^']+)'/.exec(head)[1];
  const shape = /'shape': \(([^)]*)\)/.exec(head)[1].split(',').map(s => s.trim()).filter(Boolean).map(Number);
  const data = new Uint8Array(bytes.subarray(start)).buffer;
  return { dtype: NAMES[descr], shape, data: new ARRAYS[descr](data) };
}

let runs = 0;
function run(name, feeds, file = path.join(models, name, 'model.onnx')) {
  const dir = path.join(work, `${runs++}`), given = [];
  fs.mkdirSync(dir, { recursive: true });
  Object.keys(feeds).forEach((input, i) => {
    const npy = path.join(dir, `input_${i}.npy`);
    lib.writeNpy(npy, feeds[input]);
    given.push('--input', `${input}=${npy}`);
  });
  const r = spawnSync(hone, ['run', file, ...given, '--output-dir', path.join(dir, 'out'), '--threads', '2'], { encoding: 'utf8' });
  if (r.status !== 0) throw new Error((r.stderr || r.stdout || String(r.error)).trim().split('\n').pop());
  const outputs = {};
  for (const f of fs.readdirSync(path.join(dir, 'out'))) outputs[f.slice(0, -4)] = readNpy(path.join(dir, 'out', f));
  const byName = new Proxy(outputs, { get: (o, k) => o[String(k).replace(/[^A-Za-z0-9._-]/g, '_')] ?? o[k] });
  return { outputs: byName, dir };
}

// |got - want| <= 1e-4 + r absmax, r = max(1e-3, 10 spread); see the kit's README.
function compare(got, want, spread, name) {
  if (!got) return `output '${name}' is missing`;
  if (String(got.shape) !== String(want.shape)) return `output '${name}' is [${got.shape}], expected [${want.shape}]`;
  const r = name === 'output' && spread === null ? 2e-2 : Math.max(1e-3, 10 * spread), allowed = 1e-4 + r * want.absmax;
  let worst = 0, mean = 0;
  for (const [i, v] of want.samples) worst = Math.max(worst, Math.abs(Number(got.data[i]) - v) || 0);
  for (const v of got.data) mean += Number(v) / got.data.length;
  if (![...want.samples].every(([i, v]) => Math.abs(Number(got.data[i]) - v) <= allowed))
    return `output '${name}': off by ${worst.toExponential(1)}, allowed ${allowed.toExponential(1)}`;
  if (!(Math.abs((got.data.length ? mean : 0) - want.mean) <= allowed)) return `output '${name}': mean ${mean}, expected ${want.mean}`;
  return '';
}

(async () => {
  let passed = 0, failed = 0;
  const tell = (ok, text) => { ok ? passed++ : failed++; console.log((ok ? 'ok    ' : 'FAILED') + ' ' + text); };
  for (const name of Object.keys(expected)) {
    const model = path.join(models, name, 'model.onnx');
    if ((only.length && !only.includes(name)) || !fs.existsSync(model)) continue;
    for (const kind of ['seeded', 'real']) {
      if (!cases[name][kind] || !expected[name][kind]) continue;
      const want = expected[name][kind], spread = name.endsWith('_int8') ? null : want.ort_spread;
      try {
        const feeds = await cases[name][kind]((other, f) => run(other, f).outputs), first = run(name, feeds);
        const problems = Object.keys(want.outputs).map(o => compare(first.outputs[o], want.outputs[o], spread, o)).filter(Boolean);
        tell(!problems.length, `${name} ${kind}: ${problems.join('; ') || Object.keys(want.outputs).length + ' outputs'}`);
        if (kind !== 'seeded' && cases[name].seeded) continue;
        const saved = path.join(first.dir, 'model.hone'), exported = path.join(first.dir, 'export.onnx');
        for (const command of [['convert', model, '-o', saved], ['export', saved, '-o', exported]]) {
          const r = spawnSync(hone, command, { encoding: 'utf8' });
          if (r.status !== 0) throw new Error(`${command[0]}: ${(r.stderr || r.stdout).trim().split('\n').pop()}`);
        }
        for (const [how, file] of [['as .hone', saved], ['exported and imported again', exported]]) {
          const again = run(name, feeds, file).outputs;
          const differ = Object.keys(want.outputs).filter(o => Buffer.compare(Buffer.from(again[o].data.buffer), Buffer.from(first.outputs[o].data.buffer)));
          const wrong = how === 'as .hone' ? differ : differ.filter(o => compare(again[o], want.outputs[o], spread, o));
          tell(!wrong.length, `${name} ${how}: ${wrong.length ? 'other numbers for ' + wrong : differ.length ? 'within the tolerance' : 'the same bits'}`);
        }
        if (!finetune || name.endsWith('_int8')) continue;
        const given = Object.keys(feeds).map((input, i) => `${input}=${path.join(first.dir, `input_${i}.npy`)}`);
        const r = spawnSync(finetune, [model, ...given], { encoding: 'utf8' });
        tell(r.status === 0, `${name} fine-tuned: ${(r.status === 0 ? r.stdout : r.stderr || String(r.error || r.signal)).trim().split('\n').pop()}`);
      } catch (e) {
        tell(false, `${name} ${kind}: ${String(e.message).slice(0, 600)}`);
      }
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed || !passed ? 1 : 0);
})();

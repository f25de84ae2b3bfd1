// The tour that every TypeScript client takes: the same steps, in the same order, against any server. See tour.py.
//
// A client program hands over a peer, which hides how its SDK spells a call. (Its `cancel` cancels a call when the
// server says that the call has begun, and then makes another call. If an SDK reads a call together with its cancel, it
// may go on with the call.) The tour writes down everything it saw: answers, and what it heard from the server
// meanwhile. What differs between any two runs (ids, times) is not in it.

import { existsSync, realpathSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** What a client says when it is asked. */
export const answers = (name, sampled, roots) => ({
  sample: { role: 'assistant', content: { type: 'text', text: sampled }, model: 'tour', stopReason: 'endTurn' },
  elicited: { action: 'accept', content: { name } },
  roots: roots.map((uri) => ({ uri, name: uri.slice(-3) })),
});
export const PERSON = answers('Ada', 'a sample', ['file:///tour/one', 'file:///tour/two']);
export const CAPABILITIES = { sampling: {}, elicitation: {}, roots: { listChanged: true } };
// A line separator and a paragraph separator are ordinary characters in JSON, and a line ends in 0x0A alone.
export const ODD_TEXT = 'line\u2028separator \u2029 "quoted" \\ tab\t end\r\n\u{1f680} \u0000';
export const LONG_TEXT = 'nostray '.repeat(30_000);
// Longer than `--hibernate 1s`: nothing is in flight, so the server may go to sleep.
const PAUSE = Number(process.env.TOUR_PAUSE ?? '1.5') * 1000;
// A folder in which the test, which sees the server sleep, says when a pause is over; without it, a pause takes its
// time.
const GATE = process.env.TOUR_GATE;
let pauses = 0;

/** How long an answer may take on a busy machine: the SDK itself has a minute for it. */
export const PATIENT = { timeout: 240_000 };

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Nothing is under way, until the server has gone to sleep if it may. */
async function pause() {
  if (GATE === undefined) return sleep(PAUSE);
  const number = ++pauses;
  writeFileSync(`${GATE}/waits-${number}`, '');
  // The test that was to say so may be gone, and nothing else ends this process.
  const deadline = Date.now() + PATIENT.timeout;
  while (!existsSync(`${GATE}/on-${number}`)) {
    if (Date.now() > deadline) throw new Error(`pause ${number} does not end`);
    await sleep(50);
  }
}

/** The SDK drops a progress that arrives in one read with the answer; so it gets each message in a moment of its own. */
export function oneAtATime(transport) {
  const deliver = transport.onmessage;
  let last = Promise.resolve();
  transport.onmessage = (...message) => {
    last = last.then(() => new Promise(setImmediate)).then(() => deliver(...message));
  };
}

/** Whether this file is the program. */
export const isRun = (url) => fileURLToPath(url) === realpathSync(process.argv[1]);

/** What was seen, step by step. */
export class Diary {
  constructor(peer, quiet = () => false) {
    Object.assign(this, { peer, quiet, steps: [] });
  }

  /** Does one thing, and waits until as much was heard as a server says about it. */
  async step(name, act, expect = 0) {
    let answer;
    try {
      answer = (await act()) ?? null;
    } catch (error) {
      answer = { refused: [error.code ?? null, error.message] };
    }
    const deadline = Date.now() + 10_000;
    while (this.loud().length < expect && Date.now() < deadline) await sleep(10);
    this.steps.push({ step: name, answer, heard: this.loud() });
    this.peer.heard.length = 0;
  }

  loud() {
    return this.peer.heard.filter((note) => !this.quiet(note));
  }
}

const sorted = (value) =>
  value === null || typeof value !== 'object'
    ? value
    : Array.isArray(value)
      ? value.map(sorted)
      : Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));

/** The tour, chosen by who the server says it is. */
export async function take(peer, about) {
  const everythings = about.server === 'mcp-servers/everything';
  const diary = new Diary(peer, everythings ? chatter : undefined);
  await (everythings ? everything : ownServer)(peer, diary);
  await print({ about, steps: diary.steps });
}

/** One line, written before the process ends, however long it is. */
export const print = (document) =>
  new Promise((resolve) => process.stdout.write(`${JSON.stringify(sorted(document))}\n`, resolve));

const call = (peer, name, args, progress = false) => () => peer.call(name, args, progress);

/** Against one of the servers of this folder. */
async function ownServer(peer, diary) {
  const step = diary.step.bind(diary);
  const does = (...words) => call(peer, ...words);
  const touch = does('touch', { uri: 'test://greeting' });
  for (const what of ['tools', 'resources', 'templates', 'prompts']) await step(`list ${what}`, () => peer.list(what));
  await step('add', does('add', { a: 2, b: 3 }));
  await step('echo', does('echo', { text: ODD_TEXT }));
  await step('echo much', does('echo', { text: LONG_TEXT }));
  await step('progress', does('work', { steps: 3 }, true), 3);
  await step('cancel', () => peer.cancel('wait', { seconds: 60 }, does('echo', { text: 'after' })));
  await step('was cancelled', () => until(peer, 'cancelled', '1'));
  await step('sample', does('sample', { prompt: 'a haiku' }), 1);
  await step('elicit', does('ask', { question: 'Who are you?' }), 1);
  await step('roots', does('roots', {}), 1);
  await step('level', () => peer.setLevel('warning'));
  await step('log', does('log', {}), 2);
  await step('subscribe', () => peer.subscribe('test://greeting'));
  await step('touch', touch, 1);
  await step('touch another', does('touch', { uri: 'test://farewell' }));
  await step('complete', () => peer.complete({ type: 'ref/prompt', name: 'greet' }, { name: 'name', value: 'a' }));
  await step('prompt', () => peer.prompt('greet', { name: 'Ada' }));

  await pause();
  await step('add after a pause', does('add', { a: 20, b: 30 }));
  await step('log after a pause', does('log', {}), 2);
  await step('touch after a pause', touch, 1);
  await step('sample after a pause', does('sample', { prompt: 'again' }), 1);

  await pause();
  await step('read after a pause', () => peer.read('test://greeting'));
  await step('read a template', () => peer.read('test://items/7'));
  await step('touch after two pauses', touch, 1);
  await step('elicit after two pauses', does('ask', { question: 'Still there?' }), 1);
  await step('progress after two pauses', does('work', { steps: 2 }, true), 2);
  await step('roots after two pauses', does('roots', {}), 1);
  await step('announce', does('announce', {}), 1);
  await step('unsubscribe', () => peer.unsubscribe('test://greeting'));
  await step('touch unheard', touch);
  await step('many at once', () => atOnce(peer, 'echo', (n) => ({ text: `number ${n}` })));
  await step('no such tool', does('nothing', {}));
  await step('no such resource', () => peer.read('test://nothing'));
}

/** A third of a second after its start server-everything asks for the roots, and says so. */
const isAboutTheStart = ([what, said]) => what === 'notifications/message' && said.data?.startsWith?.('Roots updated');

/** What server-everything says as often as it likes, or so late that an SDK may drop it. */
export const chatter = ([what, ...rest]) =>
  // After every start, which may be one after a sleep: it announces its tools, and asks for the roots.
  what === 'notifications/tools/list_changed' ||
  what === 'roots/list' ||
  isAboutTheStart([what, ...rest]) ||
  // The last progress, in one breath with the answer.
  (what === 'progress' && rest[0] === rest[1]);

/** Waits until the server has said this. */
async function heard(peer, isThis) {
  const deadline = Date.now() + 10_000;
  let note;
  while (!(note = peer.heard.find(isThis)) && Date.now() < deadline) await sleep(10);
  return note;
}

/** Against @modelcontextprotocol/server-everything. */
async function everything(peer, diary) {
  const step = diary.step.bind(diary);
  const does = (...words) => call(peer, ...words);
  const document = 'demo://resource/static/document/features.md';
  const toggle = does('toggle-subscriber-updates', {});
  const work = 'trigger-long-running-operation';
  await step('start', () => heard(peer, isAboutTheStart));
  for (const what of ['tools', 'resources', 'templates', 'prompts']) await step(`list ${what}`, () => peer.list(what));
  await step('add', does('get-sum', { a: 2, b: 3 }));
  await step('echo', does('echo', { message: ODD_TEXT }));
  await step('echo much', does('echo', { message: LONG_TEXT }));
  await step('structured', does('get-structured-content', { location: 'Chicago' }));
  await step('image', does('get-tiny-image', {}));
  await step('progress', does(work, { duration: 0.3, steps: 3 }, true), 2);
  // It works on, unheard; a pause later that is over.
  await step('cancel', () => peer.cancel(work, { duration: 4, steps: 20 }, does('echo', { message: 'after' })));
  await step('sample', does('trigger-sampling-request', { prompt: 'a haiku', maxTokens: 20 }), 1);
  await step('elicit', does('trigger-elicitation-request', {}), 1);
  await step('roots', does('get-roots-list', {}));
  await step('level', () => peer.setLevel('info'));
  await step('subscribe', () => peer.subscribe(document), 1);
  await step('level again', () => peer.setLevel('error'));
  await step('updates on', toggle, 1);
  await step('updates off', toggle);
  const team = { type: 'ref/prompt', name: 'completable-prompt' };
  await step('complete', () => peer.complete(team, { name: 'department', value: 'S' }));
  await step('prompt', () => peer.prompt('args-prompt', { city: 'Paris' }));

  await pause();
  await step('add after a pause', does('get-sum', { a: 20, b: 30 }));
  await step('updates on after a pause', toggle, 1);
  await step('updates off after a pause', toggle);
  await step('sample after a pause', does('trigger-sampling-request', { prompt: 'more' }), 1);
  // Until it has asked for the roots: the next pause should be quiet.
  await step('progress after a pause', does(work, { duration: 0.8, steps: 2 }, true), 1);

  await pause();
  await step('read after a pause', () => peer.read(document));
  await step('elicit after two pauses', does('trigger-elicitation-request', {}), 1);
  // Again: an SDK may stumble over a question that comes while it leaves.
  await step('progress after two pauses', does(work, { duration: 0.8, steps: 2 }, true), 1);
  // At level `error`, it does not tell that it unsubscribes.
  await step('unsubscribe', () => peer.unsubscribe(document));
  await step('updates unheard', toggle);
  await step('many at once', () => atOnce(peer, 'echo', (n) => ({ message: `number ${n}` })));
  await step('no such tool', does('nothing', {}));
  await step('no such resource', () => peer.read('demo://nothing'));
}

/** Calls a tool until it says this: what it tells about is on its way. */
export async function until(peer, tool, text) {
  const deadline = Date.now() + 10_000;
  for (;;) {
    const answer = await peer.call(tool, {});
    if (answer.content[0].text === text || Date.now() > deadline) return answer;
    await sleep(20);
  }
}

/** Calls that are all in flight together. */
export const atOnce = (peer, tool, args) => Promise.all(Array.from({ length: 20 }, (_, n) => peer.call(tool, args(n))));

// A party: several clients of one server at the same time. party.mjs ORDERS SERVER ARGUMENTS...
//
// Each guest has a connection of its own, started by the server's command line, and writes down what it saw, as on a tour.
// All that it says bears its name, so that it would notice what is meant for another. Guests, also those of other programs,
// wait for each other in a folder before each step: they count their requests alike, so the same ids and progress tokens
// are in flight at the same time. A guest that is alone does not wait, and must have seen the same in the end.
//
// ORDERS is JSON: `sdk` (1 or 2), `mode` (of sdk 2), `guests` (each with `name` and `number`), `of` (how many there are in
// all), `meet` (the folder), `parts` (what is done, in this order), `without` (capabilities that they do not have).

import { mkdir, readdir, writeFile } from 'node:fs/promises';

import { answers, atOnce, chatter, Diary, LONG_TEXT, ODD_TEXT, print, sleep, until } from './tour.mjs';

const [text, ...server] = process.argv.slice(2);
const orders = JSON.parse(text);
const { connect } = await import(`./client${orders.sdk}.mjs`);
// As the Python SDKs say it: who says something else gets a server of its own.
const CAPABILITIES = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };

/** How the servers of this folder are called. */
const ofOwnServer = (name, isOdd) => ({
  isEverything: false,
  add: ['add', { a: 2, b: isOdd ? 3 : 4 }],
  echo: (text) => ['echo', { text }],
  work: (steps) => ['work', { steps }],
  wait: ['wait', { seconds: 60 }],
  sample: ['sample', { prompt: `a haiku for ${name}` }],
  ask: ['ask', { question: `Are you ${name}?` }],
  roots: ['roots', {}],
  own: `test://items/${name}`,
  common: 'test://greeting',
  touch: (uri) => ['touch', { uri }],
  page: `test://items/${name}`,
  levels: ['warning', 'error'],
  prompt: ['greet', { name }],
  complete: [{ type: 'ref/prompt', name: 'greet' }, { name: 'name', value: isOdd ? 'b' : 'a' }],
});

/** How server-everything is. */
const ofEverything = (name, isOdd) => ({
  isEverything: true,
  add: ['get-sum', { a: 2, b: isOdd ? 3 : 4 }],
  echo: (message) => ['echo', { message }],
  work: (steps) => ['trigger-long-running-operation', { duration: steps * 0.05, steps }],
  wait: ['trigger-long-running-operation', { duration: 4, steps: 20 }],
  sample: ['trigger-sampling-request', { prompt: `a haiku for ${name}`, maxTokens: 20 }],
  ask: ['trigger-elicitation-request', {}],
  roots: ['get-roots-list', {}],
  own: `demo://resource/${name}`,
  common: 'demo://resource/common',
  touch: () => ['toggle-subscriber-updates', {}],
  page: `demo://resource/static/document/${isOdd ? 'features' : 'startup'}.md`,
  levels: ['info', 'error'],
  prompt: ['args-prompt', { city: name }],
  complete: [{ type: 'ref/prompt', name: 'completable-prompt' }, { name: 'department', value: isOdd ? 'S' : 'E' }],
});

class Guest {
  constructor({ name, number }, { peer, about }) {
    const isEverything = about.server === 'mcp-servers/everything';
    Object.assign(this, { name, number, peer, about });
    this.isOdd = number % 2 === 1;
    this.words = (isEverything ? ofEverything : ofOwnServer)(name, this.isOdd);
    this.diary = new Diary(peer, isEverything ? chatter : undefined);
  }

  /** Waits until all are here. */
  async meet(point) {
    if (orders.of === 1) return;
    const folder = `${orders.meet}/${point}`;
    await mkdir(folder, { recursive: true });
    await writeFile(`${folder}/${this.name}`, '');
    const deadline = Date.now() + 240_000;
    while ((await readdir(folder)).length < orders.of) {
      if (Date.now() > deadline) throw new Error(`${this.name} is alone at '${point}'`);
      await sleep(5);
    }
  }

  call([name, args], progress = false) {
    return this.peer.call(name, args, progress);
  }

  /** When this is answered, all that the server has said before has arrived. */
  flush() {
    return this.call(this.words.echo('flush'));
  }

  /** All do it at the same time. */
  async step(name, act, expect = 0) {
    await this.meet(name);
    await this.diary.step(name, act, expect);
  }

  /** The same, and what it has others hear belongs to it. */
  async together(name, act, expect = 0) {
    const andOthers = async () => {
      const answer = await act();
      await this.meet(`${name}, done`);
      await this.flush();
      return answer;
    };
    await this.step(name, andOthers, expect);
  }

  /** Only one does it, and all hear of it. */
  common(name, by, act, expect = 0) {
    const isUpToUs = orders.of === 1 || this.number === by;
    return this.together(name, async () => void (await (isUpToUs ? act() : this.flush())), expect);
  }

  /** Calls, each for itself. */
  async calls() {
    const { peer, words, isOdd } = this;
    for (const what of ['tools', 'resources', 'templates', 'prompts']) {
      await this.step(`list ${what}`, () => peer.list(what));
    }
    await this.step('add', () => this.call(words.add));
    await this.step('echo', () => this.call(words.echo(`${this.name} ${ODD_TEXT}`)));
    await this.step('echo much', () => this.call(words.echo(`${this.name} ${LONG_TEXT}`)));
    const steps = isOdd ? 3 : 4;
    // The last one of server-everything is chatter.
    await this.step('progress', () => this.call(words.work(steps), true), words.isEverything ? steps - 1 : steps);
    await this.step('complete', () => peer.complete(...words.complete));
    await this.step('prompt', () => peer.prompt(...words.prompt));
    await this.step('read', () => peer.read(words.page));
    const [tool] = words.echo('');
    await this.step('many at once', () => atOnce(peer, tool, (n) => words.echo(`${this.name} ${n}`)[1]));
    await this.step('no such tool', () => peer.call('nothing', {}));
    await this.step('no such resource', () => peer.read(`${words.common}/nothing`));
  }

  /** Fewer of them, for a crowd. */
  async few() {
    const { peer, words } = this;
    await this.diary.step('list tools', () => peer.list('tools'));
    for (const n of [1, 2, 3]) await this.diary.step(`echo ${n}`, () => this.call(words.echo(`${this.name} ${n}`)));
    await this.diary.step('progress', () => this.call(words.work(2), true), words.isEverything ? 1 : 2);
    await this.diary.step('prompt', () => peer.prompt(...words.prompt));
    await this.diary.step('complete', () => peer.complete(...words.complete));
    await this.diary.step('read', () => peer.read(words.page));
    const [tool] = words.echo('');
    await this.diary.step('many at once', () => atOnce(peer, tool, (n) => words.echo(`${this.name} ${n}`)[1]));
  }

  /** Half of them cancel a call, while the others have one in flight with the same id; and the other way round. */
  async cancel() {
    const { peer, words } = this;
    for (const odd of [false, true]) {
      const name = `${odd ? 'odd' : 'even'} ones cancel`;
      if (this.isOdd === odd) {
        await this.step(name, () => peer.cancel(...words.wait, () => this.flush()));
      } else {
        await this.step(name, () => this.call(words.work(8), true), words.isEverything ? 7 : 8);
        // As many requests as the cancelling guests have made.
        await this.flush();
      }
    }
    // What was cancelled goes on there, unheard, and an SDK may stumble over what comes while it leaves: until the same is over that
    // began later.
    if (words.isEverything) await this.step('not cancelled', () => this.call(words.wait));
  }

  /** How many calls the server itself has seen cancelled. */
  async tally() {
    const { content } = await until(this.peer, 'cancelled', String(orders.of === 1 ? 1 : orders.of));
    this.cancelled = content[0].text;
  }

  /** How much each wants to be told. */
  async levels() {
    const { peer, words, isOdd } = this;
    await this.together('level', () => peer.setLevel(words.levels[isOdd ? 1 : 0]));
    // Server-everything logs each subscription.
    if (!words.isEverything) {
      await this.together('log', () => peer.call('log', { name: this.name }), isOdd ? 1 : 2);
    }
  }

  /** Each subscribes to something of its own, and all to something. */
  async updates() {
    const { peer, words, number } = this;
    const last = orders.of - 1;
    await this.together('subscribe', () => peer.subscribe(words.own));
    await this.together('subscribe to what all do', () => peer.subscribe(words.common));
    // Server-everything logs the subscriptions that it is told of; it is told of an end only when the last guest
    // unsubscribes.
    if (words.isEverything) await this.together('level again', () => peer.setLevel('error'));
    const touch = () => this.call(words.touch(words.common));
    if (words.isEverything) {
      await this.common('updates on', 0, touch, 2);
      await this.common('updates off', 0, touch);
    } else {
      await this.together('touch', () => this.call(words.touch(words.own)), 1);
      await this.common('touch what all want', 0, touch, 1);
    }
    await this.together('one unsubscribes', () => (number === 0 ? peer.unsubscribe(words.common) : this.flush()));
    if (words.isEverything) {
      await this.common('updates on again', last, touch, number === 0 ? 1 : 2);
      await this.common('updates off again', last, touch);
    } else {
      await this.common('touch what all but one want', last, touch, number === 0 ? 0 : 1);
    }
    await this.together('unsubscribe', () => peer.unsubscribe(words.own));
    if (!words.isEverything) await this.together('touch unheard', () => this.call(words.touch(words.own)));
  }

  /** A list has changed, and all hear of it. */
  async announce() {
    await this.common('announce', 0, () => this.peer.call('announce', {}), 1);
  }

  /** Has the server ask something that the router cannot assign to a session; it takes turns from then on. */
  async provoke() {
    if (orders.of === 1) return;
    await this.meet('provoke');
    let answer;
    if (this.number === 0) {
      // Long enough for all of the others to ask meanwhile on a busy machine.
      const [tool, args] = this.words.work(200);
      answer = this.peer.call(tool, args, true);
      const deadline = Date.now() + 10_000;
      while (!this.peer.heard.some(([what]) => what === 'progress') && Date.now() < deadline) await sleep(5);
    }
    await this.meet('provoke, begun');
    try {
      this.provoked = await (answer ?? this.call(this.words.sample));
    } catch (error) {
      this.provoked = { refused: error.message };
    }
    await this.meet('provoked');
    this.peer.heard.length = 0;
  }

  /** What the server asks of its client. */
  async questions() {
    const { words } = this;
    await this.step('sample', () => this.call(words.sample), 1);
    await this.step('elicit', () => this.call(words.ask), 1);
    await this.step('roots', () => this.call(words.roots), words.isEverything ? 0 : 1);
    const calls = [words.work(2), words.sample, words.ask, ...[1, 2, 3].map((n) => words.echo(`${this.name} ${n}`))];
    const all = () => Promise.all(calls.map((call) => this.call(call, true)));
    await this.step('all at once', all, words.isEverything ? 3 : 4);
  }

  /** The same, one guest after the other: no need to be careful. */
  async orderly() {
    const { words } = this;
    for (let turn = 0; turn < orders.of; turn++) {
      await this.meet(`turn ${turn}`);
      if (orders.of > 1 && turn !== this.number) continue;
      await this.diary.step('sample in turn', () => this.call(words.sample));
      await this.diary.step('elicit in turn', () => this.call(words.ask));
      await this.diary.step('roots in turn', () => this.call(words.roots));
    }
  }

  /** What came and was not for any step. */
  leftovers() {
    return this.together('leftovers', () => this.flush());
  }
}

const connections = await Promise.all(
  orders.guests.map(async (guest) => {
    const roots = orders.roots ?? [`file:///${guest.name}/one`, `file:///${guest.name}/two`];
    const person = answers(guest.name, `a sample of ${guest.name}`, roots);
    const capabilities = { ...CAPABILITIES };
    for (const missing of orders.without ?? []) delete capabilities[missing];
    const command = orders.sdk === 2 ? [orders.mode, ...server] : server;
    const connected = await connect(command, person, capabilities);
    return { guest: new Guest(guest, connected), close: connected.close };
  }),
);
await Promise.all(
  connections.map(async ({ guest }) => {
    await guest.meet('here');
    for (const part of orders.parts) await guest[part]();
    await guest.meet('end');
  }),
);
const document = ({ about, diary: { steps }, provoked, cancelled }) => ({ about, steps, provoked, cancelled });
await print(Object.fromEntries(connections.map(({ guest }) => [guest.name, document(guest)])));
await Promise.all(connections.map(({ close }) => close()));

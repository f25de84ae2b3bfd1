// What every server of the tour offers: the same in every SDK, so that any client can take the tour anywhere.

export const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
export const LOGGED = ['debug', 'info', 'warning', 'error'];
export const NAME_SCHEMA = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };

const tool = (name, properties = {}) => ({
  name,
  description: `The tool ${name} of the tour.`,
  inputSchema: {
    type: 'object',
    properties: Object.fromEntries(Object.entries(properties).map(([each, type]) => [each, { type }])),
  },
});

export const TOOLS = [
  tool('add', { a: 'integer', b: 'integer' }),
  tool('echo', { text: 'string' }),
  tool('work', { steps: 'integer' }),
  tool('wait', { seconds: 'integer' }),
  tool('cancelled'),
  tool('sample', { prompt: 'string' }),
  tool('ask', { question: 'string' }),
  tool('roots'),
  tool('log'),
  tool('touch', { uri: 'string' }),
  tool('announce'),
  tool('die'),
];
export const RESOURCES = [
  { uri: 'test://greeting', name: 'greeting', mimeType: 'text/plain' },
  { uri: 'test://farewell', name: 'farewell', mimeType: 'text/plain' },
];
export const TEMPLATES = [{ uriTemplate: 'test://items/{id}', name: 'item', mimeType: 'text/plain' }];
export const PROMPTS = [
  { name: 'greet', description: 'A greeting.', arguments: [{ name: 'name', required: true }] },
];
export const CAPABILITIES = {
  tools: { listChanged: true },
  resources: { subscribe: true },
  prompts: {},
  logging: {},
  completions: {},
};

export const text = (what) => ({ content: [{ type: 'text', text: String(what) }] });
export const sampling = (prompt) => ({
  messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
  maxTokens: 50,
});
export const question = (message) => ({ mode: 'form', message, requestedSchema: NAME_SCHEMA });

/** What the tool `log` says. Who shares a server says for whom. */
export const logged = (level, { name }) => `this is ${level}${name === undefined ? '' : ` for ${name}`}`;

export function resource(uri) {
  const texts = { 'test://greeting': 'hello', 'test://farewell': 'goodbye' };
  const found = uri.startsWith('test://items/') ? `item ${uri.split('/').pop()}` : texts[uri];
  return found === undefined ? undefined : { contents: [{ uri, mimeType: 'text/plain', text: found }] };
}

export const greeting = (args) => ({
  messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${args?.name}.` } }],
});

export function completion(value) {
  const values = ['alice', 'anna', 'bob'].filter((name) => name.startsWith(value));
  return { completion: { values, total: values.length, hasMore: false } };
}

/** Says that it has begun, and waits, unless it is told to stop: then it says so. */
export async function wait(seconds, signal, begin, onStop) {
  await begin();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(text('waited')), seconds * 1000);
    const stop = () => {
      clearTimeout(timer);
      onStop();
      reject(new Error('stopped'));
    };
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop);
  });
}

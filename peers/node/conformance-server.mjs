// The server that the conformance suite asks for, on stdio: each tool, resource and prompt as its scenarios describe it.

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';

const text = (what) => ({ content: [{ type: 'text', text: what }] });
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
const options = (...names) => names.map((name, n) => ({ const: name, title: `${['First', 'Second', 'Third'][n]} Option` }));

const server = new Server(
  { name: 'conformance-on-stdio', version: '1.0.0' },
  {
    capabilities: {
      tools: {},
      resources: { subscribe: true },
      prompts: {},
      logging: {},
      completions: {},
    },
  },
);

const elicit = async (message, properties, required) => {
  const { action, content } = await server.elicitInput({
    message,
    requestedSchema: { type: 'object', properties, ...(required && { required }) },
  });
  return { action, content: JSON.stringify(content ?? {}) };
};

const tools = {
  test_simple_text: () => text('This is a simple text response for testing.'),
  test_image_content: () => ({ content: [image] }),
  test_audio_content: () => ({ content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] }),
  test_embedded_resource: () => ({
    content: [
      {
        type: 'resource',
        resource: {
          uri: 'test://embedded-resource',
          mimeType: 'text/plain',
          text: 'This is an embedded resource content.',
        },
      },
    ],
  }),
  test_multiple_content_types: () => ({
    content: [
      { type: 'text', text: 'Multiple content types test:' },
      image,
      {
        type: 'resource',
        resource: {
          uri: 'test://mixed-content-resource',
          mimeType: 'application/json',
          text: JSON.stringify({ test: 'data', value: 123 }),
        },
      },
    ],
  }),
  test_tool_with_logging: async () => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await server.sendLoggingMessage({ level: 'info', data });
      await pause();
    }
    return text('Tool with logging executed');
  },
  test_error_handling: () => ({
    ...text('This tool intentionally returns an error for testing'),
    isError: true,
  }),
  test_tool_with_progress: async (_args, { _meta, sendNotification }) => {
    for (const progress of [0, 50, 100]) {
      const progressToken = _meta?.progressToken;
      if (progressToken !== undefined) {
        await sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
      }
      await pause();
    }
    return text('Tool with progress executed');
  },
  test_sampling: async ({ prompt }) => {
    const { content } = await server.createMessage({
      messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
      maxTokens: 100,
    });
    return text(`LLM response: ${content.text}`);
  },
  test_elicitation: async ({ message }) => {
    const properties = {
      username: { type: 'string', description: "User's response" },
      email: { type: 'string', description: "User's email address" },
    };
    const { action, content } = await elicit(message, properties, ['username', 'email']);
    return text(`User response: action: ${action}, content: ${content}`);
  },
  test_elicitation_sep1034_defaults: async () => {
    const { action, content } = await elicit('Please review and update the form', {
      name: { type: 'string', description: 'User name', default: 'John Doe' },
      age: { type: 'integer', description: 'User age', default: 30 },
      score: { type: 'number', description: 'User score', default: 95.5 },
      status: { type: 'string', description: 'User status', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', description: 'Verification status', default: true },
    });
    return text(`Elicitation completed: action=${action}, content=${content}`);
  },
  test_elicitation_sep1330_enums: async () => {
    const { action, content } = await elicit('Please select options from the enum fields', {
      untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
      titledSingle: { type: 'string', oneOf: options('value1', 'value2', 'value3') },
      legacyEnum: {
        type: 'string',
        enum: ['opt1', 'opt2', 'opt3'],
        enumNames: ['Option One', 'Option Two', 'Option Three'],
      },
      untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
      titledMulti: { type: 'array', items: { anyOf: options('value1', 'value2', 'value3') } },
    });
    return text(`Elicitation completed: action=${action}, content=${content}`);
  },
  json_schema_2020_12_tool: () => text('called'),
};
const schemas = {
  test_sampling: { type: 'object', properties: { prompt: { type: 'string' } }, required: ['prompt'] },
  test_elicitation: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  json_schema_2020_12_tool: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } },
    },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
    additionalProperties: false,
  },
};

const resources = {
  'test://static-text': {
    mimeType: 'text/plain',
    text: 'This is the content of the static text resource.',
  },
  'test://static-binary': { mimeType: 'image/png', blob: PNG },
  'test://watched-resource': { mimeType: 'text/plain', text: 'Watched.' },
};

const asked = (content) => ({ role: 'user', content });
const prompts = {
  test_simple_prompt: {
    build: () => [asked({ type: 'text', text: 'This is a simple prompt for testing.' })],
  },
  test_prompt_with_arguments: {
    arguments: ['arg1', 'arg2'],
    build: ({ arg1, arg2 }) => [
      asked({ type: 'text', text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` }),
    ],
  },
  test_prompt_with_embedded_resource: {
    arguments: ['resourceUri'],
    build: ({ resourceUri }) => [
      asked({
        type: 'resource',
        resource: { uri: resourceUri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' },
      }),
      asked({ type: 'text', text: 'Please process the embedded resource above.' }),
    ],
  },
  test_prompt_with_image: {
    build: () => [asked(image), asked({ type: 'text', text: 'Please analyze the image above.' })],
  },
};

const on = (schema, handler) => server.setRequestHandler(schema, handler);
on(types.ListToolsRequestSchema, () => ({
  tools: Object.keys(tools).map((name) => ({
    name,
    description: `The tool ${name}`,
    inputSchema: schemas[name] ?? { type: 'object', properties: {} },
  })),
}));
on(types.CallToolRequestSchema, ({ params }, extra) => {
  const tool = tools[params.name];
  if (tool === undefined) throw new types.McpError(types.ErrorCode.InvalidParams, `no tool '${params.name}'`);
  return tool(params.arguments ?? {}, { ...extra, _meta: params._meta });
});
on(types.ListResourcesRequestSchema, () => ({
  resources: Object.entries(resources).map(([uri, { mimeType }]) => ({
    uri,
    name: uri.slice('test://'.length),
    description: `The resource ${uri}`,
    mimeType,
  })),
}));
on(types.ListResourceTemplatesRequestSchema, () => ({
  resourceTemplates: [
    { uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json', description: 'By id' },
  ],
}));
on(types.ReadResourceRequestSchema, ({ params: { uri } }) => {
  const [, id] = /^test:\/\/template\/(.+)\/data$/.exec(uri) ?? [];
  const filled = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
  const found = id ? { mimeType: 'application/json', text: filled } : resources[uri];
  if (found === undefined) throw new types.McpError(-32002, `no resource '${uri}'`);
  return { contents: [{ uri, ...found }] };
});
on(types.SubscribeRequestSchema, () => ({}));
on(types.UnsubscribeRequestSchema, () => ({}));
on(types.ListPromptsRequestSchema, () => ({
  prompts: Object.entries(prompts).map(([name, prompt]) => ({
    name,
    description: `The prompt ${name}`,
    arguments: prompt.arguments?.map((each) => ({ name: each, description: each, required: true })),
  })),
}));
on(types.GetPromptRequestSchema, ({ params }) => ({ messages: prompts[params.name].build(params.arguments ?? {}) }));
on(types.CompleteRequestSchema, ({ params }) => {
  const values = ['paris', 'park', 'party'].filter((word) => word.startsWith(params.argument.value));
  return { completion: { values, total: values.length, hasMore: false } };
});

await server.connect(new StdioServerTransport());

/** The OpenAPI document of the service: the protocol's routes, with the schemas that it publishes, and the others. */
import { DATATYPES } from '../protocol/datatypes.js';

type Json = Readonly<Record<string, unknown>>;

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: Json): Json => ({ 'application/json': { schema } });
const answer = (description: string, schema?: Json): Json => ({
  description,
  ...(schema && { content: json(schema) }),
});
const refused = (description: string): Json => answer(description, ref('error'));
const binary = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };

const parameter = (
  place: 'path' | 'query' | 'header',
  name: string,
  description: string,
  schema: Json,
): Json => ({
  ...{ in: place, name, description, required: place === 'path', schema },
});
const MODEL = parameter('path', 'model', 'The name of a model.', { type: 'string' });
const VERSION = parameter('path', 'version', 'A version of it. Without one the highest is taken.', {
  type: 'string',
});
const TIMEOUT = parameter(
  'header',
  'X-Request-Timeout-Ms',
  'Milliseconds after which nobody wants the answer.',
  {
    type: 'number',
  },
);

/** An operation on a model, on a version of it and without one. */
function onModel(
  end: string,
  method: 'get' | 'post',
  operation: Json & { readonly operationId: string },
): Json {
  const { operationId, parameters = [], ...rest } = operation;
  const own = parameters as readonly Json[];
  return {
    [`/v2/models/{model}${end}`]: { [method]: { ...rest, operationId, parameters: [MODEL, ...own] } },
    [`/v2/models/{model}/versions/{version}${end}`]: {
      [method]: { ...rest, operationId: `${operationId}Version`, parameters: [MODEL, VERSION, ...own] },
    },
  };
}

const REFUSALS = {
  400: refused('The request is wrong; the text says what.'),
  401: refused('The API key is missing or unknown.'),
  404: refused('There is no such model.'),
  413: refused('The body or the image is too large.'),
  429: refused('Too many requests wait. Retry-After says when to try again.'),
  503: refused('The model cannot answer now.'),
  504: refused('The deadline passed before the model could answer.'),
};

const paths = {
  '/v2': {
    get: {
      operationId: 'serverMetadata',
      summary: 'The server and its extensions',
      responses: { 200: answer('OK', ref('metadata_server_response')) },
    },
  },
  '/v2/health/live': {
    get: {
      operationId: 'serverLive',
      summary: 'Whether the process answers',
      responses: { 200: answer('It does.') },
    },
  },
  '/v2/health/ready': {
    get: {
      operationId: 'serverReady',
      summary: 'Whether every loaded model can answer',
      responses: { 200: answer('They can.'), 503: answer('They cannot yet, or the service is ending.') },
    },
  },
  ...onModel('', 'get', {
    operationId: 'modelMetadata',
    summary: 'The inputs and outputs of a model',
    responses: { 200: answer('OK', ref('metadata_model_response')), 404: REFUSALS[404] },
  }),
  ...onModel('/ready', 'get', {
    operationId: 'modelReady',
    summary: 'Whether a model can answer',
    responses: { 200: answer('It can.'), 404: REFUSALS[404], 503: answer('It cannot.') },
  }),
  ...onModel('/infer', 'post', {
    operationId: 'infer',
    summary: 'The outputs of a model',
    description:
      'JSON, or by the binary data extension JSON of Inference-Header-Content-Length bytes with the elements of tensors behind it, ' +
      'each of the size that its parameter binary_data_size says.',
    parameters: [
      parameter(
        'header',
        'Inference-Header-Content-Length',
        'The length of the JSON, if binary data follow.',
        {
          type: 'integer',
        },
      ),
      TIMEOUT,
    ],
    requestBody: { required: true, content: { ...json(ref('inference_request')), ...binary } },
    responses: {
      200: { description: 'OK', content: { ...json(ref('inference_response')), ...binary } },
      ...REFUSALS,
    },
  }),
  '/v2/repository/index': {
    post: {
      operationId: 'repositoryIndex',
      summary: 'The models of the folder, and their states',
      requestBody: { content: json({ type: 'object', properties: { ready: { type: 'boolean' } } }) },
      responses: { 200: answer('OK', { type: 'array', items: ref('repository_entry') }), 400: REFUSALS[400] },
    },
  },
  ...Object.fromEntries(
    (['load', 'unload'] as const).map((action) => [
      `/v2/repository/models/{model}/${action}`,
      {
        post: {
          operationId: `repository${action === 'load' ? 'Load' : 'Unload'}`,
          summary: action === 'load' ? 'Load a model as its folder is now' : 'Unload a model',
          parameters: [MODEL],
          responses: {
            200: answer('It is done.'),
            400: REFUSALS[400],
            403: refused('The key is none of an administrator.'),
            404: REFUSALS[404],
          },
        },
      },
    ]),
  ),
  '/v1/models': {
    get: {
      operationId: 'listModels',
      summary: 'The loaded models, and whether they classify images',
      responses: {
        200: answer('OK', {
          type: 'object',
          required: ['models'],
          properties: { models: { type: 'array', items: { type: 'object' } } },
        }),
      },
    },
  },
  '/v1/models/{model}/classify': {
    post: {
      operationId: 'classify',
      summary: 'The likeliest classes of an image',
      parameters: [
        MODEL,
        parameter('query', 'top', 'How many classes.', {
          type: 'integer',
          minimum: 1,
          maximum: 1000,
          default: 5,
        }),
        parameter('query', 'gradcam', 'Whether to draw where the model looks.', {
          type: 'boolean',
          default: false,
        }),
        parameter('query', 'version', 'A version of the model.', { type: 'string' }),
        TIMEOUT,
      ],
      requestBody: {
        required: true,
        content: Object.fromEntries(
          ['image/jpeg', 'image/png', 'image/webp', 'application/octet-stream'].map((type) => [
            type,
            { schema: { type: 'string', format: 'binary' } },
          ]),
        ),
      },
      responses: {
        200: answer('OK', ref('classification')),
        ...REFUSALS,
        415: refused('The body is no JPEG, PNG or WebP.'),
        501: refused('The model cannot be looked into.'),
      },
    },
  },
  '/metrics': {
    get: {
      operationId: 'metrics',
      summary: 'Figures for Prometheus',
      responses: { 200: { description: 'OK', content: { 'text/plain': { schema: { type: 'string' } } } } },
    },
  },
};

const object = (required: readonly string[], properties: Json): Json => ({
  type: 'object',
  required,
  properties,
});
const list = (items: Json): Json => ({ type: 'array', items });
const string = { type: 'string' };
const tensor = {
  name: string,
  shape: list({ type: 'integer' }),
  datatype: { type: 'string', enum: [...Object.keys(DATATYPES), 'BYTES'] },
};
const data = { parameters: ref('parameters'), data: ref('tensor_data') };

/** The schemas of the protocol, by the names that it gives them. */
const schemas = {
  error: object(['error'], { error: string }),
  metadata_server_response: object(['name', 'version', 'extensions'], {
    name: string,
    version: string,
    extensions: list(string),
  }),
  metadata_model_response: object(['name', 'platform'], {
    ...{ name: string, versions: list(string), platform: string },
    ...{ inputs: list(ref('metadata_tensor')), outputs: list(ref('metadata_tensor')) },
  }),
  metadata_tensor: object(['name', 'datatype', 'shape'], tensor),
  parameters: { type: 'object' },
  tensor_data: list({
    anyOf: [ref('tensor_data'), { type: 'number' }, { type: 'string' }, { type: 'boolean' }],
  }),
  // Without data where it is binary.
  request_input: object(['name', 'shape', 'datatype'], { ...tensor, ...data }),
  request_output: object(['name'], { name: string, parameters: ref('parameters') }),
  response_output: object(['name', 'shape', 'datatype'], { ...tensor, ...data }),
  inference_request: object(['inputs'], {
    ...{ id: string, parameters: ref('parameters') },
    ...{ inputs: list(ref('request_input')), outputs: list(ref('request_output')) },
  }),
  inference_response: object(['model_name', 'outputs'], {
    ...{ model_name: string, model_version: string, id: string, parameters: ref('parameters') },
    outputs: list(ref('response_output')),
  }),
  repository_entry: object(['name', 'version', 'state', 'reason'], {
    ...{ name: string, version: string, reason: string },
    state: { type: 'string', enum: ['READY', 'LOADING', 'UNLOADING', 'UNAVAILABLE'] },
  }),
  classification: object(['model_name', 'model_version', 'classes'], {
    ...{ model_name: string, model_version: string },
    classes: list(
      object(['index', 'label', 'confidence'], {
        index: { type: 'integer' },
        label: string,
        confidence: { type: 'number' },
      }),
    ),
    gradcam: object(['layer', 'target', 'image'], {
      layer: string,
      target: { type: 'integer' },
      image: string,
    }),
  }),
};

export const openApi: Json = {
  openapi: '3.0.3',
  info: {
    title: 'Heddle',
    version: '2.0',
    description: 'The Open Inference Protocol v2, and the classification of images.',
    license: { name: 'MIT' },
  },
  paths,
  components: {
    schemas,
    securitySchemes: {
      key: { type: 'http', scheme: 'bearer' },
      header: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
    },
  },
  security: [{}, { key: [] }, { header: [] }],
};

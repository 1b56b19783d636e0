/** A client made of an OpenAPI document: what it sends and what it gets has to be as the document says. */
import assert from 'node:assert/strict';
import { Ajv } from 'ajv';

interface Parameter {
  readonly in: string;
  readonly name: string;
}
interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: object }>>;
}
interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

/** As much of a document as the client looks at. */
export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation | readonly Parameter[]>>>>;
  readonly components: {
    readonly schemas: Readonly<
      Record<string, { readonly required?: readonly string[]; readonly properties?: object }>
    >;
  };
}

interface Answer {
  readonly status: number;
  /** A JSON value where the document has a schema for it, otherwise the text. */
  readonly value: unknown;
}

export class DocumentClient {
  /** The operations that were called, by their ids. */
  readonly called = new Set<string>();
  readonly #document: OpenApiDocument;
  readonly #url: string;
  readonly #ajv: Ajv;

  constructor(document: OpenApiDocument, url: string) {
    this.#document = document;
    this.#url = url;
    this.#ajv = new Ajv({ strict: false }).addSchema({ $id: 'openapi', ...document });
  }

  /** The ids of all operations. */
  get operations(): readonly string[] {
    return [...this.#operations()].map(({ own }) => own.operationId);
  }

  /** Call an operation by its id, with parameters by their names. */
  async call(
    id: string,
    parameters: Readonly<Record<string, string>> = {},
    body?: object | Uint8Array,
  ): Promise<Answer> {
    this.called.add(id);
    const found = [...this.#operations()].find(({ own }) => own.operationId === id);
    if (!found) throw new Error(`the document has no operation ${id}`);
    const { path, method, own, known } = found;
    const headers: Record<string, string> = {};
    const query = new URLSearchParams();
    let target = path;
    for (const [name, value] of Object.entries(parameters)) {
      const place = known.find((parameter) => parameter.name === name)?.in;
      // The published document writes them as ${name}.
      if (place === 'path')
        target = target.replace(new RegExp(`\\$?\\{${name}\\}`), encodeURIComponent(value));
      else if (place === 'query') query.set(name, value);
      else if (place === 'header') headers[name] = value;
      else throw new Error(`${id} has no parameter ${name}`);
    }
    const isBinary = body instanceof Uint8Array;
    if (body !== undefined && !isBinary)
      this.#require(own.requestBody!.content!['application/json']!.schema, body, `the request of ${id}`);
    const response = await fetch(`${this.#url}${target}${query.size > 0 ? `?${query}` : ''}`, {
      ...{ method: method.toUpperCase(), headers },
      ...(body !== undefined && { body: isBinary ? (body as BodyInit) : JSON.stringify(body) }),
    });
    const described = own.responses[response.status];
    assert.ok(described, `${id} answered ${response.status}, which the document does not have`);
    const text = await response.text();
    const schema = described.content?.['application/json']?.schema;
    if (!schema) return { status: response.status, value: text };
    const value: unknown = JSON.parse(text);
    this.#require(schema, value, `the answer ${response.status} of ${id}`);
    return { status: response.status, value };
  }

  *#operations(): Generator<{
    readonly path: string;
    readonly method: string;
    readonly own: Operation;
    readonly known: readonly Parameter[];
  }> {
    for (const [path, { parameters = [], ...methods }] of Object.entries(this.#document.paths))
      for (const [method, operation] of Object.entries(methods)) {
        const own = operation as Operation;
        const known = [...(parameters as readonly Parameter[]), ...(own.parameters ?? [])];
        yield { path, method, own, known };
      }
  }

  #require(schema: object, value: unknown, what: string): void {
    const text = JSON.stringify(schema).replaceAll('"#/', '"openapi#/');
    const validate = this.#ajv.compile(JSON.parse(text) as object);
    assert.ok(
      validate(value),
      `${what}: ${this.#ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`,
    );
  }
}

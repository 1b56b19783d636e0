/** What TypeDoc's plugin writes, made shorter: headings are names, and a table says what its signature does not. */

/** Sections of a docstring, which become bold lines. */
const SECTIONS =
  /^#{2,6} (Parameters|Returns|Throws|Examples?|Type Declaration|Extends|Implements|Default Value|Remarks|See|Call Signature|Properties|Union Members|Indexable|Deprecated|Accessors|Get Signature|Set Signature)$/gm;

/** Sections that repeat what stands elsewhere, to the next heading. */
const REPEATED =
  /^#{2,6} (?:Type Parameters?|Overrides|Implementation of|Inherited from|Extended by|Implemented by|Constructors|Methods)\n+(?:(?!#)[^\n]*\n+)*/gm;

/**
 * @param {string} text of a page
 * @param {(name: string) => string} imported what stands below the heading of an export
 * @returns {string}
 */
export function tidied(text, imported) {
  return text
    .replace(/\n\*\*\*\n/g, '\n')
    .replace(/^<a id="([^"]*)"><\/a>\n+(#+ .*)$/gm, '$2 {#$1}')
    .replace(REPEATED, '')
    .replace(/^Defined in: .*$\n+/gm, '')
    .replace(/^(#+) (.*?)\\<.*\\>(\(\))?( \{.*\})?$/gm, '$1 $2$3$4')
    .replace(/^(?:\|.*\|\n)+/gm, shortTable)
    .replace(
      /^(#+ Returns)\n+([^\n]+)\n(?:\n(?![#*|])([^\n]+(?:\n[^\n#]+)*)\n)?/gm,
      (_, heading, _type, said) => (said ? `${heading}\n\n${said}\n` : ''),
    )
    .replace(/^#+ Parameters\n+(?!\|)/gm, '')
    .replace(SECTIONS, '**$1**')
    .replace(/^#{3,6} /gm, '### ')
    .split(/^(?=## )/m)
    .map((part) => withName(part, imported))
    .join('')
    .replace(/^\*\*(Throws|Returns|Default Value)\*\*\n+(?=[^\s*|#])/gm, '**$1:** ')
    .replace(/\n{3,}/g, '\n\n');
}

/** @param {string} part of a page, from one heading of an export to the next @param {(name: string) => string} imported */
function withName(part, imported) {
  const name = /^## (\w+)/.exec(part)?.[1];
  if (!name) return part;
  return part
    .replace(/^### Constructor$/gm, `### new ${name}()`)
    .replace(/^(## .*)$/m, `$1\n\n${imported(name)}`);
}

/** A table without the columns and rows that its signature has; none if nothing is left. @param {string} table */
function shortTable(table) {
  const [head = [], rule = [], ...rows] = table
    .trimEnd()
    .split('\n')
    .map((line) =>
      line
        .replaceAll('\\|', '\u0001')
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const dropped = new Set(['Modifier', 'Defined in']);
  const kept = head.flatMap((title, i) => (dropped.has(title) ? [] : [i]));
  const parameters = head[0] === 'Parameter';
  const wanted = rows.filter((row) => row[0] !== '`this`');
  const said = head.includes('Description') && wanted.some((row) => row[head.indexOf('Description')] !== '-');
  if (parameters && !said && !wanted.some(([, type = '']) => type.includes('Options'))) return '';
  const line = (/** @type {string[]} */ row) =>
    `| ${kept.map((i) => (row[i] === '-' ? '' : row[i])).join(' | ')} |\n`;
  const separator = `| ${kept.map((i) => (rule[i] ? '---' : '---')).join(' | ')} |\n`;
  return [line(head), separator, ...wanted.map(line)].join('').replaceAll('\u0001', '\\|');
}

/**
 * The methods of a class below the sections that its source has: `// ── reductions ──`.
 * @param {string} text of a page @param {string} source of the class @returns {string}
 */
export function withSections(text, source) {
  /** @type {Map<string, string>} */
  const sectionOf = new Map();
  let section = '';
  for (const line of source.split('\n')) {
    section = /^ {2}\/\/ ── (.*?) ─+$/.exec(line)?.[1] ?? section;
    const name = /^ {2}(?:get |async )?([a-z]\w*)[<(]/.exec(line)?.[1];
    if (name && section && !sectionOf.has(name)) sectionOf.set(name, section);
  }
  const [before = '', ...methods] = text.split(/^(?=#{2,3} )/m);
  /** @type {Map<string, string[]>} */
  const bySection = new Map();
  const rest = [];
  let inClass = false;
  for (const method of methods) {
    if (method.startsWith('## ')) inClass = bySection.size === 0 && method.startsWith('## Tensor ');
    const of = inClass ? sectionOf.get(/^### (\w+)/.exec(method)?.[1] ?? '') : undefined;
    if (of) bySection.set(of, [...(bySection.get(of) ?? []), method.replace('### ', '#### ')]);
    else rest.push(method);
  }
  const [own = '', ...others] = rest;
  const sections = [...bySection].map(([title, of]) => {
    const links = of
      .map((method) => /^#### (\w+)/.exec(method)?.[1])
      .map((name) => `[\`${name}\`](#${name?.toLowerCase()})`);
    return `### ${title[0]?.toUpperCase()}${title.slice(1)}\n\n${links.join(' · ')}\n\n${of.join('')}`;
  });
  return [before, own, ...sections, ...others].join('');
}

/** HTML, written as text: what is not made by these functions is escaped by them. */
import { PICTURE } from '../palette.js';

/** Text within HTML. */
export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** A part of a page, with its heading. */
export interface Section {
  readonly id: string;
  readonly title: string;
  readonly html: string;
  /** Half as wide as the page, where there is room for two. */
  readonly half?: boolean;
}

/** Names and values. */
export const list = (rows: readonly (readonly [name: string, value: string])[]): string =>
  `<dl>${rows.map(([name, value]) => `<div><dt>${escaped(name)}</dt><dd>${escaped(value)}</dd></div>`).join('')}</dl>`;

/** A table whose first column names its rows; it scrolls for itself where it is too wide. */
export const table = (
  caption: string,
  header: readonly string[],
  rows: readonly (readonly string[])[],
): string =>
  scrolling(
    caption,
    `<table><caption>${escaped(caption)}</caption><thead><tr>${header.map((cell) => (cell === '' ? '<td></td>' : `<th scope="col">${escaped(cell)}</th>`)).join('')}</tr></thead><tbody>${rows
      .map(
        ([first, ...cells]) =>
          `<tr><th scope="row">${escaped(first!)}</th>${cells.map((cell) => `<td>${escaped(cell)}</td>`).join('')}</tr>`,
      )
      .join('')}</tbody></table>`,
  );

/** Lines of text as they are. */
export const preformatted = (label: string, text: string): string =>
  scrolling(label, `<pre>${escaped(text)}</pre>`);

const scrolling = (label: string, html: string): string =>
  `<div class="scroll" role="region" tabindex="0" aria-label="${escaped(label)}">${html}</div>`;

/** Pictures beside one another. Their names of clip paths become this page's. */
export const pictures = (svgs: readonly string[], prefix: string): string =>
  `<div class="pictures">${svgs
    .map((svg, i) =>
      svg
        .replace(/<style>.*?<\/style>\n/s, '')
        .replaceAll('"h-', `"${prefix}${i}-`)
        .replaceAll('#h-', `#${prefix}${i}-`)
        .replace('<svg ', '<figure><svg ')
        .replace('</svg>', '</svg></figure>'),
    )
    .join('')}</div>`;

/** A page that needs nothing else: a browser may load nothing for it. */
export function page(title: string, subtitle: string, style: string, sections: readonly Section[]): string {
  const links = sections.map(({ id, title }) => `<a href="#${id}">${escaped(title)}</a>`).join(' ');
  const parts = sections.map(
    ({ id, title, html, half }) =>
      `<section${half ? ' class="half"' : ''} aria-labelledby="${id}"><h2 id="${id}">${escaped(title)}</h2>${html}</section>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<header><h1>${escaped(title)}</h1><p>${escaped(subtitle)}</p></header>
<nav aria-label="Sections">${links}</nav>
<main>
${parts.join('\n')}
</main>
<footer><p>Written by <code>heddle look</code>.</p></footer>
</body>
</html>
`;
}

/** What pictures look like on a page. */
export const PICTURE_STYLE = `.${PICTURE}{display:block;width:100%;height:auto;max-width:520px}`;
